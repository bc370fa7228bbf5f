"""AFT-local: an attention-free mean of the values with position biases in a window."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer
from relation_tf.layers.biased_sums import earlier_sums
from relation_tf.layers.causal import CausalMixer, aligned
from relation_tf.layers.masking import LOWEST, close_up, kept_before, to_float32
from relation_tf.layers.slicing import part, tokens_at
from relation_tf.layers.softmax_sums import SoftmaxSums, merged, no_sums, single_sums
from relation_tf.layers.token_mixer import Variant, affine

_BLOCK = 64  # largest window with blocks of a constant size


@keras.saving.register_keras_serializable(package="relation_tf")
class AFTLocal(CausalMixer):
    """AFT-local of the Attention Free Transformer: tokens in a window have position biases.

    `Y_t = sigmoid(Q_t) * (sum_j exp(K_j + w_tj) * V_j) / (sum_j exp(K_j + w_tj))`, the paper's
    equation 2, with `Q = query W_Q`, `K = value W_K`, `V = value W_V`. The bias `w_tj` depends on
    the distance `t - j` only: a learned number for distances below `window`, zero for others, so
    that all tokens are seen. In the paper each pair of positions has its own number. Positions
    count the unmasked tokens of `value`. Sums use float32 or wider. Time grows with tokens times
    `window`, memory with tokens. Without `causal`, biases are relative to the largest one, at least
    0: a token gets no weight if its bias is more than 87 below, even if there is no other token.

    With `causal=True` the sums of query i are over the unmasked tokens from 1 to i, relative to
    their maximum key, so that they neither overflow nor vanish. They are inexact only if, in a
    window, a key more than 70 above others has a bias more than 70 below theirs. The state of
    `step` is `(maximum key, sum, weighted sum, keys, values)`: the maximum and both sums of the
    tokens outside the window, of shape `(batch, 1, units)` each, and the last `window` keys and
    values, of shape `(batch, window, units)`.

    Args:
        units: Width of queries, keys, values and output.
        window: Number of distances with a bias on each side, including zero. With `causal=True`
            there is one side.
        variant: `"equations"`, or `"released_code"` for the defaults of the Relation paper's code;
            sets the defaults of the next three arguments.
        use_bias: If True, the three projections have biases. Default: False.
        dropout: Dropout rate in [0, 1), on Y and before the output projection. Default: 0, or 0.5
            for the released code.
        output_projection: If True, the layer ends with `dropout(relu(y)) W_output`. Default: True
            for the released code, else False.
        algorithm: `"direct"` or `"auto"`, which are the same.
        causal: If True, the sums of query i are over tokens 1 to i only.
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
        Tensor of shape `(batch, queries, units)`; zero if a query sees no token.

    Raises:
        ValueError: If `window` is not a positive integer.

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
        causal: bool = False,
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
            causal=causal,
            seed=seed,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            **kwargs,
        )
        self.window = positive_integer("window", window)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_Q, W_K, W_V and w.

        The distances of w are those from `1 - window`, or from 0 if causal, to `window - 1`.
        """
        self.add_query_key_value(query_width, value_width)
        num_distances = self.window if self.causal else 2 * self.window - 1
        # An exponent: in half precision its rounding changes weights by several percent.
        self.position_bias = self.add_bias("position_bias", num_distances, autocast=False)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute the means of the values, gated by the queries."""
        if self.causal:
            mean = self._causal_sums(*aligned(query, value, value_mask)).mean()
            return self.drop(self._gated(query, mean), training)
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
        return self.drop(self._gated(query, mean), training)

    def _gated(self, query: Any, mean: Any) -> Any:
        gate = ops.sigmoid(affine(query, self.query_kernel, self.query_bias))
        return gate * ops.cast(mean, gate.dtype)

    def _keys_and_values(self, value: Any) -> tuple[Any, Any]:
        keys = affine(value, self.key_kernel, self.key_bias)
        values = affine(value, self.value_kernel, self.value_bias)
        return to_float32(keys), to_float32(values)

    def _causal_sums(self, value: Any, mask: Any) -> SoftmaxSums:
        """Return the sums of each token: those over the earlier tokens, and its own."""
        bias = to_float32(self.position_bias)
        keys, values = self._keys_and_values(value)
        own = single_sums(keys + bias[0], values, mask)
        if mask is None:
            return merged(earlier_sums(keys, values, bias), own)
        both = close_up(ops.concatenate([keys, values], axis=-1), mask)
        keys, values = ops.split(both, 2, axis=-1)
        sums = earlier_sums(_without_last(keys, mask), values, bias)
        place = kept_before(ops.shape(mask)[1], mask)
        sums = tokens_at(ops.concatenate(sums, axis=-1), place)
        return merged(SoftmaxSums(*ops.split(sums, 3, axis=-1)), own)

    def _terms(self, value: Any, mask: Any) -> Any:
        """Return `exp(K)` and `exp(K) * V` of tokens in order, and zeros after the last.

        They are relative to the sum of `exp(K)`, which has no effect on their ratio.
        """
        keys, values = self._keys_and_values(value)
        if mask is not None:
            keys = _without_last(keys, mask)
        after = ((0, 0), (0, 1), (0, 0))
        keys, values = ops.pad(keys, after, constant_values=2 * LOWEST), ops.pad(values, after)
        peak = _peak(keys)
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

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the sums over no tokens, and empty buffers of keys and values."""
        sums = no_sums(self.zeros(batch_size, 1, self.units))
        values = self.zeros(batch_size, self.window, self.units)
        return (*sums, values + 2 * LOWEST, values)

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the buffers, and the first token of the buffers to the sums."""
        *outside, keys, values = state
        first = single_sums(keys[:, :1], values[:, :1], None)
        own = self._keys_and_values(x)
        after = (
            *merged(SoftmaxSums(*outside), first),
            *(
                ops.concatenate([buffer[:, 1:], row], axis=1)
                for buffer, row in zip((keys, values), own, strict=True)
            ),
        )
        state = tuple(ops.where(mask[..., None], *pair) for pair in zip(after, state, strict=True))
        *outside, keys, values = state
        keys = keys + ops.flip(to_float32(self.position_bias))[:, None]
        peak = _peak(keys)
        weights = ops.exp(keys - peak)
        sums = (ops.sum(x, axis=1, keepdims=True) for x in (weights, weights * values))
        inside = SoftmaxSums(peak, *sums)
        return self._gated(x, merged(SoftmaxSums(*outside), inside).mean()), state


def _peak(keys: Any) -> Any:
    """Return a number near the largest key of each feature, `(batch, 1, width)`."""
    # `ops.max` refuses an empty batch; with `initial` it fails on a GPU with PyTorch.
    peak = ops.logsumexp(keys, axis=1, keepdims=True)
    # The maximum is float32 on PyTorch, also of float64.
    return ops.cast(ops.stop_gradient(ops.maximum(peak, LOWEST)), keys.dtype)


def _without_last(keys: Any, mask: Any) -> Any:
    """Replace the keys of masked tokens, which are the last ones, by the lowest number."""
    count = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
    first = ops.arange(ops.shape(mask)[1], dtype="int32") < count
    return ops.where(first[..., None], keys, 2 * LOWEST)


def _earlier(totals: Any) -> Any:
    """Return for each inner block the sum of the blocks before its left neighbour."""
    sums = part(ops.cumsum(totals, axis=0), 0, ops.shape(totals)[0] - 3, axis=0)
    return ops.pad(sums, ((1, 0), (0, 0), (0, 0)))
