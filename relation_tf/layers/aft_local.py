"""AFT-local: an attention-free mean of the values with position biases in a window."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer
from relation_tf.layers.masking import LOWEST, close_up, kept_before, to_float32
from relation_tf.layers.slicing import part, tokens_at
from relation_tf.layers.token_mixer import TokenMixer, Variant, affine

_BLOCK = 64  # largest window with blocks of a constant size


@keras.saving.register_keras_serializable(package="relation_tf")
class AFTLocal(TokenMixer):
    """AFT-local of the Attention Free Transformer: tokens in a window have position biases.

    `Y_t = sigmoid(Q_t) * (sum_j exp(K_j + w_tj) * V_j) / (sum_j exp(K_j + w_tj))`, the paper's
    equation 2, with `Q = query W_Q`, `K = value W_K`, `V = value W_V`. The bias `w_tj` depends on
    the distance `t - j`: a learned number for distances below `window`, zero for others, so that
    all tokens are seen. Positions count the unmasked tokens of `value`. Sums use float32 or wider.
    Time grows with tokens times `window`, memory with tokens.

    This layer has no causal form; `AFTSimple` has one.

    Args:
        units: Width of queries, keys, values and output.
        window: Number of distances with a bias on each side, including zero.
        variant: `"equations"`, or `"released_code"` for the defaults of the Relation paper's code;
            sets the defaults of the next three arguments.
        use_bias: If True, the three projections have biases. Default: False.
        dropout: Dropout rate in [0, 1), on Y and before the output projection. Default: 0, or 0.5
            for the released code.
        output_projection: If True, the layer ends with `dropout(relu(y)) W_output`. Default: True
            for the released code, else False.
        algorithm: `"direct"` or `"auto"`, which are the same.
        seed: Random seed of the dropout.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases, also of `w`.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases, also of `w`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens get no weight and do not count as
            positions.

    Returns:
        Tensor of shape `(batch, queries, units)`; zero if all tokens are masked.

    Raises:
        ValueError: If `window` is not a positive integer, or with `causal=True`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import AFTLocal
        >>> AFTLocal(units=8, window=3)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Zhai et al. 2021, "An Attention Free Transformer", arXiv 2105.14103, "AFT-local".
    """

    def __init__(
        self,
        units: int,
        window: int = 32,
        *,
        variant: Variant = "equations",
        use_bias: bool | None = None,
        dropout: float | None = None,
        output_projection: bool | None = None,
        algorithm: str = "auto",
        seed: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            units,
            variant=variant,
            use_bias=use_bias,
            dropout=dropout,
            output_projection=output_projection,
            algorithm=algorithm,
            seed=seed,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            **kwargs,
        )
        self.window = positive_integer("window", window)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_Q, W_K, W_V and w, for distances from `1 - window` to `window - 1`."""
        self.add_query_key_value(query_width, value_width)
        self.position_bias = self.add_bias("position_bias", 2 * self.window - 1)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute the means of the values, gated by the queries."""
        place = None
        if query is not value or value_mask is not None:
            if value_mask is None:
                value_mask = ops.ones(ops.shape(value)[:2], "bool")
            place = kept_before(ops.shape(query)[1], value_mask)
            value = close_up(value, value_mask)
        terms = self._terms(value, value_mask)
        sums = self._sums(terms)  # (batch, tokens + 1, 2 * units)
        sums = part(sums, 0, ops.shape(query)[1]) if place is None else tokens_at(sums, place)
        weight, total = ops.split(sums, 2, axis=-1)
        mean = total / ops.where(weight > 0, weight, 1.0)
        gate = ops.sigmoid(affine(query, self.query_kernel, self.query_bias))
        return self.drop(gate * ops.cast(mean, gate.dtype), training)

    def _terms(self, value: Any, mask: Any) -> Any:
        """Return `exp(K)` and `exp(K) * V` of tokens in order, and zeros after the last.

        They are relative to the sum of `exp(K)`, which has no effect on their ratio.
        """
        keys = to_float32(affine(value, self.key_kernel, self.key_bias))
        values = to_float32(affine(value, self.value_kernel, self.value_bias))
        if mask is not None:
            count = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
            # Unmasked tokens are first.
            first = ops.arange(ops.shape(mask)[1], dtype="int32") < count
            keys = ops.where(first[..., None], keys, 2 * LOWEST)
        after = ((0, 0), (0, 1), (0, 0))
        keys, values = ops.pad(keys, after, constant_values=2 * LOWEST), ops.pad(values, after)
        # `ops.max` refuses an empty batch; with `initial` it fails on a GPU with PyTorch.
        peak = ops.logsumexp(keys, axis=1, keepdims=True)
        peak = ops.stop_gradient(ops.maximum(peak, LOWEST))
        weights = ops.exp(keys - peak)
        return ops.concatenate([weights, weights * values], axis=-1)

    def _sums(self, terms: Any) -> Any:
        """Sum the terms with their biases, for each token.

        A block of `window` tokens has a matrix of weights for itself and its two neighbours; the
        sums of further blocks are added. A total minus the window would lose digits.
        """
        batch, length = ops.shape(terms)[0], ops.shape(terms)[1]
        size, width = self._block_size(length), terms.shape[2]
        num_blocks = (length + size - 1) // size
        around = ((size, (num_blocks + 1) * size - length), (0, 0), (0, 0))
        # Tokens first: few products of large matrices.
        blocks = ops.pad(ops.transpose(terms, (1, 0, 2)), around)
        blocks = ops.reshape(blocks, (num_blocks + 2, size, batch * width))
        three = ops.concatenate([part(blocks, i, num_blocks, axis=0) for i in range(3)], axis=1)
        totals = ops.sum(blocks, axis=1, keepdims=True)
        far = _earlier(totals) + ops.flip(_earlier(ops.flip(totals, axis=0)), axis=0)
        weights, outside = self._weights(size)
        sums = ops.matmul(weights, three) + outside * far
        sums = part(ops.reshape(sums, (num_blocks * size, batch, width)), 0, length, axis=0)
        return ops.transpose(sums, (1, 0, 2))

    def _block_size(self, length: Any) -> Any:
        """Return the number of tokens of a block: the window, or all tokens if they are fewer."""
        if self.window <= _BLOCK:
            return self.window
        if isinstance(length, int):
            return min(self.window, length)
        return ops.minimum(self.window, length)

    def _weights(self, size: Any) -> tuple[Any, Any]:
        """Return the factors `exp(w)` between tokens of a block and of three, and that of `w = 0`.

        They are relative to the largest one, which has no effect on the ratio of sums.
        """
        bias = to_float32(self.position_bias)
        largest = ops.stop_gradient(ops.maximum(ops.max(bias), 0.0))
        outside = ops.exp(-largest)
        tokens, others = (ops.arange(count * size, dtype="int32") for count in (1, 3))
        distance = size + tokens[:, None] - others
        index = ops.clip(distance, 1 - self.window, self.window - 1) + self.window - 1
        weights = ops.take(ops.exp(bias - largest), index, axis=0)
        return ops.where(ops.abs(distance) < self.window, weights, outside), outside


def _earlier(totals: Any) -> Any:
    """Return for each inner block the sum of the blocks before its left neighbour."""
    sums = part(ops.cumsum(totals, axis=0), 0, ops.shape(totals)[0] - 3, axis=0)
    return ops.pad(sums, ((1, 0), (0, 0), (0, 0)))
