"""Multi-scale retention."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.arguments import true_or_false
from relation_tf.layers.masking import zero_masked
from relation_tf.layers.recurrence import recurrence_step
from relation_tf.layers.recurrent_mixer import MatrixStateMixer, Terms
from relation_tf.layers.token_mixer import affine, standardize


@keras.saving.register_keras_serializable(package="relation_tf")
class Retention(MatrixStateMixer):
    """Multi-scale retention of RetNet: linear attention with a fixed decay for each head.

    With `Q = query W_Q`, `K = value W_K`, `V = value W_V`, split into heads of width d:

    - state: `S_t = gamma S_{t-1} + R_t(K_t) V_t^T`, `gamma = 1 - 2^(-5 - h)` for head h = 0, 1, ...
    - output of a head: `Y_t = GroupNorm(R_t(Q_t)^T S_t / sqrt(d))`, with mean 0 and variance 1
      over the features of the head, without scale and offset
    - output: `(swish(query W_G) * Y) W_O`

    `R_t` rotates pairs of features by t times angles from 1 to 1e-4, as rotary position encodings
    do; of an odd number of features the last one is not rotated. So scores depend on distances
    between unmasked tokens, and the layer needs no other positions. The sums use float32 or wider.
    Time and memory are linear in the number of tokens.

    With `causal=True` query i sees tokens 1 to i; the state of `step` is S, shape
    `(batch, num_heads, d, d)`, and the number of tokens, `(batch, 1)`. Otherwise the output of a
    head is normalized after the sum of both directions, in each of which token t counts once. The
    backward direction counts t from the last token: so a later token at a distance of n unmasked
    tokens is rotated, relative to the query, as an earlier one at this distance is, not by the
    opposite angle as with rotary position encodings of attention.

    Args:
        units: Width of queries, keys, values and output, a multiple of `num_heads`.
        num_heads: Number of heads. More heads have slower decays; the paper uses `units / 256`. A
            head of one feature is always zero after GroupNorm.
        gated: If True, the heads are multiplied by `swish(query W_G)`.
        use_bias: If True, the projections have biases. Default: False.
        dropout: Dropout rate in [0, 1), before W_O and before the output projection. Default: 0,
            or 0.5 for the released code.
        **kwargs: As in `MatrixStateMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens are absent.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If `num_heads` does not divide `units`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import Retention
        >>> Retention(units=8, num_heads=2)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Sun et al. 2023, "Retentive Network: A Successor to Transformer for Large Language
          Models", arXiv 2307.08621, equations 5-8.
    """

    def __init__(
        self, units: int, num_heads: int = 1, *, gated: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(units, num_heads, **kwargs)
        self.gated = true_or_false("gated", gated)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_Q, W_K, W_V, W_G and W_O."""
        self.add_query_key_value(query_width, value_width)
        if self.gated:
            self.gate_kernel, self.gate_bias = self.add_projection("gate", query_width)
        self.out_kernel, self.out_bias = self.add_projection("out", self.units)

    def queries(self, query: Any, query_mask: Any) -> Any:
        """Return the queries before their rotation."""
        queries = self.heads(affine(query, self.query_kernel, self.query_bias))
        return queries * queries.shape[-1] ** -0.5

    def terms(self, value: Any, value_mask: Any) -> Terms:
        """Return the keys before their rotation, the values and the decays."""
        keys = zero_masked(affine(value, self.key_kernel, self.key_bias), value_mask)
        values = self.heads(affine(value, self.value_kernel, self.value_bias))
        log_gamma = ops.convert_to_tensor(
            np.log1p(-(2.0 ** -(5.0 + np.arange(self.num_heads)))), values.dtype
        )
        log_decays = zero_masked(ops.ones_like(values[..., 0]) * log_gamma, value_mask)
        return Terms(self.heads(keys), values, log_decays)

    def recurred(self, queries: Any, terms: Terms, mask: Any) -> Any:
        """Rotate by the number of unmasked tokens up to each, then compute the recurrence."""
        one = ops.ones_like(terms.values[..., 0, 0])
        count = ops.cumsum(one if mask is None else ops.cast(mask, one.dtype), axis=1)
        terms = terms._replace(keys=_rotated(terms.keys, count))
        return super().recurred(_rotated(queries, count), terms, mask)

    def finish(self, output: Any, query: Any, training: bool) -> Any:
        """Normalize the heads and apply W_G and W_O."""
        y = ops.cast(standardize(output), query.dtype)
        y = ops.reshape(y, (*ops.shape(query)[:2], self.units))
        if self.gated:
            gate = affine(query, self.gate_kernel, self.gate_bias)
            y = ops.cast(y, gate.dtype) * ops.silu(gate)
        return affine(self.drop(y, training), self.out_kernel, self.out_bias)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the state and the number of tokens at zero."""
        width = self.units // self.num_heads
        return self.zeros(batch_size, self.num_heads, width, width), self.zeros(batch_size, 1)

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the state."""
        state, count = state
        count = count + ops.cast(mask, count.dtype)
        terms = self.terms(x, mask)
        keys, queries = _rotated(terms.keys, count), _rotated(self.queries(x, mask), count)
        output, state = recurrence_step(queries, keys, terms.values, terms.log_decays, state)
        return self.finish(output, x, training=False), (state, count)


def _rotated(x: Any, positions: Any) -> Any:
    """Rotate pairs of features of each head; `positions` have the shape `(batch, tokens)`."""
    pairs = x.shape[-1] // 2
    frequencies = ops.convert_to_tensor(10_000.0 ** -np.linspace(0, 1, pairs), x.dtype)
    angles = (positions[..., None] * frequencies)[:, :, None]
    cos, sin = ops.cos(angles), ops.sin(angles)
    one, two, rest = ops.split(x, [pairs, 2 * pairs], axis=-1)
    return ops.concatenate([one * cos - two * sin, one * sin + two * cos, rest], axis=-1)
