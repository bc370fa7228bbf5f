"""gMLP: an MLP with a spatial gating unit, for texts of limited length."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer
from relation_tf.layers.masking import close_up, kept_before, to_float32, tokens_at, zero_masked
from relation_tf.layers.token_mixer import CausalMixer, affine, standardize


@keras.saving.register_keras_serializable(package="relation_tf")
class GMLP(CausalMixer):
    """gMLP: features are gated by a learned linear combination of all positions.

    With `Z_1 = phi(query U_1)` and `Z_2 = LayerNorm(phi(value U_2))`, each of `expansion * units`
    features, and a learned matrix S and vector b over positions:

    `Y_t = (Z_1t * (sum_j S_tj Z_2j + b_t)) V`

    Positions count the unmasked tokens of `value`. S has a row and a column for each of
    `max_length` positions: tokens after the first `max_length` are ignored, and queries after them
    use the last row. LayerNorm is over features, with scale, offset and epsilon 1e-5; it and the
    sums over tokens use float32 or wider. Time grows with the number of tokens times `max_length`.

    With `causal=True` query i sees tokens 1 to i; entries of S for later tokens have no effect. The
    state of `step` is `(Z_2, count)`: the first `max_length` tokens of Z_2, of shape
    `(batch, max_length, expansion * units)`, and the number of tokens, `(batch, 1)`.

    Args:
        units: Width of the output.
        max_length: Number of positions. A network that reads the output at the first token uses
            only the first row of S and entry of b: use an encoder of several blocks.
        expansion: Width of Z_1 and Z_2, in multiples of `units`.
        activation: Activation function `phi`.
        use_bias: If True, the projections U_1, U_2 and V have biases. Default: False.
        dropout: Dropout rate in [0, 1), before V and before the output projection. Default: 0, or
            0.5 for the released code.
        kernel_initializer: Initializer of all matrices except S, which is initialized uniformly in
            +-0.001 / max_length.
        bias_initializer: Initializer of all biases except b, which is initialized to ones.
        kernel_regularizer: Regularizer of all matrices except S.
        bias_regularizer: Regularizer of all biases except b.
        **kwargs: As in `CausalMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens do not count as positions.

    Returns:
        Tensor of shape `(batch, queries, units)`; `(Z_1t * b_1) V` if all tokens are masked.

    Raises:
        ValueError: If a size is not a positive integer.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import GMLP
        >>> GMLP(units=8, max_length=32)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Liu, Dai, So, Le 2021, "Pay Attention to MLPs", arXiv 2105.08050, section 2.
    """

    def __init__(
        self,
        units: int,
        max_length: int = 128,
        expansion: int = 3,
        activation: Any = "gelu",
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        self.max_length = positive_integer("max_length", max_length)
        self.expansion = positive_integer("expansion", expansion)
        self.activation = keras.activations.get(activation)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create U_1, U_2, S, b, V, and the scale and offset of the norm."""
        inner, length = self.expansion * self.units, self.max_length
        self.query_kernel, self.query_bias = self.add_projection("query", query_width, width=inner)
        self.value_kernel, self.value_bias = self.add_projection("value", value_width, width=inner)
        near_zero = keras.initializers.RandomUniform(-1e-3 / length, 1e-3 / length)
        # Not autocast: LayerNorm and sums over tokens use float32 or wider.
        self.scale, self.offset, self.spatial_weights, self.spatial_offset = (
            self.add_weight(name=name, shape=shape, initializer=initializer, autocast=False)
            for name, shape, initializer in (
                ("scale", (inner,), "ones"),
                ("offset", (inner,), "zeros"),
                ("spatial_weights", (length, length), near_zero),
                ("spatial_offset", (length,), "ones"),
            )
        )
        self.out_kernel, self.out_bias = self.add_projection("out", inner)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute the gated features."""
        rows, sees_own = ops.shape(query)[1], query is value or value_mask is None
        if value_mask is None:
            value_mask = ops.ones(ops.shape(value)[:2], "bool")
        z = close_up(zero_masked(self._gates(value), value_mask), value_mask)[:, : self.max_length]
        count = kept_before(rows + 1, value_mask)
        place = ops.minimum(count[:, :-1], self.max_length - 1)
        mixed = tokens_at(self._sums(z, rows), place)
        if self.causal and not sees_own:  # The token at the place of a query may be a later one.
            before = tokens_at(self._sums(z, rows, -1), place)
            mixed = ops.where((count[:, 1:] > place)[..., None], mixed, before)
        return self._gated(query, mixed, training)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return no tokens."""
        z = self.zeros(batch_size, self.max_length, self.expansion * self.units)
        return z, ops.zeros((batch_size, 1), "int32")

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token and combine the tokens seen."""
        z, count = state
        rank = ops.arange(self.max_length, dtype="int32")
        is_new = ops.logical_and(rank == count, mask)[..., None]
        z = ops.where(is_new, ops.cast(self._gates(x), z.dtype), z)
        seen = count + ops.cast(mask, "int32")
        place = ops.minimum(count, self.max_length - 1)
        weights = ops.take(to_float32(self.spatial_weights), place, axis=0)
        mixed = ops.matmul(ops.where(rank < seen[..., None], weights, 0.0), z)
        mixed = mixed + ops.take(to_float32(self.spatial_offset), place, axis=0)[..., None]
        return self._gated(x, mixed, training=False), (z, seen)

    def _gates(self, value: Any) -> Any:
        """Return Z_2 of each token."""
        z = self.activation(affine(value, self.value_kernel, self.value_bias))
        return standardize(to_float32(z)) * to_float32(self.scale) + to_float32(self.offset)

    def _sums(self, z: Any, rows: Any, last: int = 0) -> Any:
        """Return `sum_j S_tj z_j + b_t` of rows t; with `causal`, up to `j = t + last`."""
        weights = to_float32(self.spatial_weights)[:rows, : ops.shape(z)[1]]
        if self.causal:
            weights = ops.tril(weights, last)
        return ops.matmul(weights, z) + to_float32(self.spatial_offset)[:rows, None]

    def _gated(self, query: Any, mixed: Any, training: bool) -> Any:
        gate = self.activation(affine(query, self.query_kernel, self.query_bias))
        y = self.drop(gate * ops.cast(mixed, gate.dtype), training)
        return affine(y, self.out_kernel, self.out_bias)
