"""Relation: token mixing by a product with the mean of all tokens."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import number_of_heads
from relation_tf.layers.averages import masked_mean, mean_step, running_mean
from relation_tf.layers.masking import aligned
from relation_tf.layers.token_mixer import CausalMixer, affine, presets_with


@keras.saving.register_keras_serializable(package="relation_tf")
class Relation(CausalMixer):
    """Multiply each token by the mean of all tokens: `R = activation((G * h') W)`.

    `G = query W_G`, `H = value W_H`, `h' = mean over unmasked tokens of H` (equations 7-12 of the
    Relation paper). Cost is linear in the number of tokens. `h'` is computed as `mean(value) W_H`,
    with one projected vector per sequence. With several heads, W is block-diagonal: each head has
    its own square matrix, and the heads are concatenated.

    Both algorithms compute the same output:

    - `"direct"` computes `(G * h') W` for each token.
    - `"folded"` computes one matrix per sequence: `(G * h') W = query (W_G diag(h') W)`. `"auto"`
      selects it for more queries than input features, without dropout. It has no causal form.

    With `causal=True` the mean of query i is over the unmasked tokens from 1 to i. The state of
    `step` is the sum of the unmasked tokens, shape `(batch, 1, width)`, and their number,
    `(batch, 1, 1)`.

    Args:
        units: Width of the output.
        activation: Activation function of the output.
        num_heads: Number of heads, a divisor of `units`. The paper has one.
        use_bias: If True, the projections to G and H have biases (W has none). Default: True for
            the released code, else False.
        dropout: Dropout rate in [0, 1), on `G * h'` and before the output projection. Default: 0,
            or 0.5 for the released code.
        algorithm: `"direct"`, `"folded"` or `"auto"`.
        **kwargs: As in `CausalMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens are excluded from the mean.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If `algorithm="folded"` is combined with dropout, `causal=True` or several
            heads, or if `num_heads` does not divide `units`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import Relation
        >>> Relation(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, equations 7-12.
    """

    algorithms = ("direct", "folded")
    presets = presets_with({"use_bias": True})

    def __init__(
        self, units: int, activation: Any = "relu", num_heads: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(units, **kwargs)
        self.num_heads = number_of_heads(num_heads, self.units)
        if self.algorithm == "folded" and (self.dropout or self.causal or self.num_heads > 1):
            raise ValueError(
                "algorithm='folded' has no dropout, no causal form and one head. Received: "
                f"dropout={self.dropout}, causal={self.causal}, num_heads={self.num_heads}"
            )
        self.activation = keras.activations.get(activation)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_G, W_H and W."""
        self.g_kernel, self.g_bias = self.add_projection("g", query_width)
        self.h_kernel, self.h_bias = self.add_projection("h", value_width)
        width = self.units // self.num_heads
        names = (
            ["kernel"] if self.num_heads == 1 else map("kernel_{}".format, range(self.num_heads))
        )
        self.kernels = [self.add_kernel(name, width, width) for name in names]

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute equations 7-12."""
        if self.causal:
            h = self._h(*running_mean(*aligned(query, value, value_mask)))
            return self._related(query, h, training)
        seen = None if value_mask is None else ops.any(value_mask, axis=1, keepdims=True)
        h = self._h(masked_mean(value, value_mask), seen)[:, None, :]  # (batch, 1, units)
        if not self._folded(query.shape[1:], training):
            return self._related(query, h, training)
        folded = self._w(self.g_kernel * h)  # (batch, width, units)
        related = ops.matmul(query, folded)
        if self.g_bias is not None:
            related = related + self._w(self.g_bias * h)
        return self.activation(related)

    def _h(self, mean: Any, seen: Any) -> Any:
        """Project the mean of the tokens to `h'`; zero if all tokens are masked."""
        h = affine(mean, self.h_kernel, self.h_bias)
        return h if seen is None or self.h_bias is None else h * ops.cast(seen, h.dtype)

    def _related(self, query: Any, h: Any, training: bool) -> Any:
        """Compute `activation((G * h') W)`."""
        g = affine(query, self.g_kernel, self.g_bias)
        return self.activation(self._w(self.drop(g * h, training)))

    def _w(self, x: Any) -> Any:
        """Multiply by W, a matrix for each head."""
        heads = ops.split(x, self.num_heads, axis=-1) if self.num_heads > 1 else [x]
        parts = [ops.matmul(head, kernel) for head, kernel in zip(heads, self.kernels, strict=True)]
        return ops.concatenate(parts, axis=-1) if self.num_heads > 1 else parts[0]

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the sum and the number of tokens at zero."""
        return self.zeros(batch_size, 1, self.h_kernel.shape[0]), self.zeros(batch_size, 1, 1)

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the mean and compute equations 7-12."""
        mean, state = mean_step(x, state, mask)
        return self._related(x, self._h(mean, state[1] > 0), training=False), state

    def _folded(self, query_shape: tuple[int | None, int], training: bool) -> bool:
        if self.algorithm != "auto":
            return self.algorithm == "folded"
        num_queries, width = query_shape
        if self.num_heads > 1 or self.drops(training):
            return False
        return num_queries is not None and num_queries > width
