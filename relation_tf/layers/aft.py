"""AFT-simple and AFT-local: attention-free means of the values, gated by the queries."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer
from relation_tf.layers.averages import masked_softmax
from relation_tf.layers.masking import (
    LOWEST,
    aligned,
    close_up,
    kept_before,
    part,
    to_float32,
    tokens_at,
)
from relation_tf.layers.token_mixer import CausalMixer, affine

_BLOCK = 32
_LARGEST_BLOCK = 64  # largest window with blocks of a constant size


@keras.saving.register_keras_serializable(package="relation_tf")
class AFTSimple(CausalMixer):
    """AFT-simple of the Attention Free Transformer: weights per feature, without positions.

    `Y_t = sigmoid(Q_t) * (sum_j exp(K_j) * V_j) / (sum_j exp(K_j))` with `Q = query W_Q`,
    `K = value W_K`, `V = value W_V`: the paper's equation 2 with all position biases zero. The
    sums and the softmax over tokens use float32 or wider. Time and memory are linear in the number
    of tokens.

    With `causal=True` the sums of query i are over the unmasked tokens from 1 to i, relative to
    their maximum key, so that they neither overflow nor vanish. The state of `step` is this maximum
    and both sums, of shape `(batch, 1, units)` each.

    Args:
        units: Width of queries, keys, values and output.
        use_bias: If True, the three projections have biases. Default: False.
        dropout: Dropout rate in [0, 1), on Y and before the output projection. Default: 0, or 0.5
            for the released code.
        **kwargs: As in `CausalMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens get no weight.

    Returns:
        Tensor of shape `(batch, queries, units)`; zero if all tokens are masked.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import AFTSimple
        >>> AFTSimple(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Zhai et al. 2021, "An Attention Free Transformer", arXiv 2105.14103, "AFT-simple".
    """

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_Q, W_K and W_V."""
        self.add_query_key_value(query_width, value_width)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute the means of the values, gated by the queries."""
        if self.causal:
            value, value_mask = aligned(query, value, value_mask)
            mean = running_sums(single_sums(*self._projected(value), value_mask)).mean()
        else:
            keys, values = (ops.transpose(x, (0, 2, 1)) for x in self._projected(value))
            weights = masked_softmax(to_float32(keys), value_mask)  # (batch, units, tokens)
            mean = ops.sum(weights * to_float32(values), axis=-1)[:, None, :]
        return self.drop(self._gated(query, mean), training)

    def _projected(self, value: Any) -> tuple[Any, Any]:
        """Return the keys and the values."""
        keys = affine(value, self.key_kernel, self.key_bias)
        return keys, affine(value, self.value_kernel, self.value_bias)

    def _gated(self, query: Any, mean: Any) -> Any:
        gate = ops.sigmoid(affine(query, self.query_kernel, self.query_bias))
        return gate * ops.cast(mean, gate.dtype)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the sums over no tokens."""
        return tuple(no_sums(self.zeros(batch_size, 1, self.units)))

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the sums."""
        sums = merged(SoftmaxSums(*state), single_sums(*self._projected(x), mask))
        return self._gated(x, sums.mean()), tuple(sums)


@keras.saving.register_keras_serializable(package="relation_tf")
class AFTLocal(AFTSimple):
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
        use_bias: If True, the three projections have biases. Default: False.
        dropout: Dropout rate in [0, 1), on Y and before the output projection. Default: 0, or 0.5
            for the released code.
        bias_initializer: Initializer of the biases, also of `w`.
        bias_regularizer: Regularizer of the biases, also of `w`.
        **kwargs: As in `CausalMixer`.

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

    def __init__(self, units: int, window: int = 32, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.window = positive_integer("window", window)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_Q, W_K, W_V and w.

        The distances of w are those from `1 - window`, or from 0 if causal, to `window - 1`.
        """
        super().build_mechanism(query_width, value_width)
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

    def _projected(self, value: Any) -> tuple[Any, Any]:
        """Return the keys and the values, in float32 or wider."""
        keys, values = super()._projected(value)
        return to_float32(keys), to_float32(values)

    def _causal_sums(self, value: Any, mask: Any) -> SoftmaxSums:
        """Return the sums of each token: those over the earlier tokens, and its own."""
        bias = to_float32(self.position_bias)
        keys, values = self._projected(value)
        current = single_sums(keys + bias[0], values, mask)
        if mask is None:
            return merged(earlier_sums(keys, values, bias), current)
        both = close_up(ops.concatenate([keys, values], axis=-1), mask)
        keys, values = ops.split(both, 2, axis=-1)
        sums = earlier_sums(_without_last(keys, mask), values, bias)
        place = kept_before(ops.shape(mask)[1], mask)
        sums = tokens_at(ops.concatenate(sums, axis=-1), place)
        return merged(SoftmaxSums(*ops.split(sums, 3, axis=-1)), current)

    def _terms(self, value: Any, mask: Any) -> Any:
        """Return `exp(K)` and `exp(K) * V` of tokens in order, and zeros after the last.

        They are relative to the sum of `exp(K)`, which has no effect on their ratio.
        """
        keys, values = self._projected(value)
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
        if self.window <= _LARGEST_BLOCK:
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
        new = self._projected(x)
        after = (
            *merged(SoftmaxSums(*outside), first),
            *(
                ops.concatenate([buffer[:, 1:], row], axis=1)
                for buffer, row in zip((keys, values), new, strict=True)
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


class SoftmaxSums(NamedTuple):
    """Sums over some tokens, per feature, in float32 or wider.

    Attributes:
        peak: Maximum of the keys, or a larger number for sums with biases.
        weight: Sum of `exp(key - peak)`: 0 without unmasked tokens; at least 1 for sums without
            biases.
        total: Sum of `exp(key - peak) * value`.
    """

    peak: Any
    weight: Any
    total: Any

    def mean(self) -> Any:
        """Return `sum exp(key) value / sum exp(key)`; zero without unmasked tokens."""
        return self.total / ops.where(self.weight > 0, self.weight, 1.0)


def single_sums(keys: Any, values: Any, mask: Any) -> SoftmaxSums:
    """Return the sums of each token alone.

    Args:
        keys: Tensor of shape `(batch, tokens, width)`.
        values: Tensor of the same shape.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.
    """
    keys, values = to_float32(keys), to_float32(values)
    peak = ops.stop_gradient(keys)  # A mean does not depend on the peak.
    weight = ops.exp(keys - peak)
    if mask is not None:
        peak = ops.where(mask[..., None], peak, LOWEST)
        weight = weight * ops.cast(mask, weight.dtype)[..., None]
    return SoftmaxSums(peak, weight, weight * values)


def no_sums(zeros: Any) -> SoftmaxSums:
    """Return the sums over no tokens, with the shape of `zeros`."""
    return SoftmaxSums(zeros + LOWEST, zeros, zeros)


def merged(one: SoftmaxSums, other: SoftmaxSums) -> SoftmaxSums:
    """Return the sums over the tokens of both."""
    # The maximum is float32 on PyTorch, also of float64.
    peak = ops.cast(ops.maximum(one.peak, other.peak), one.peak.dtype)
    scale, other_scale = ops.exp(one.peak - peak), ops.exp(other.peak - peak)
    return SoftmaxSums(
        peak,
        scale * one.weight + other_scale * other.weight,
        scale * one.total + other_scale * other.total,
    )


def later(sums: SoftmaxSums, steps: Any) -> SoftmaxSums:
    """Shift tokens `steps` positions to the right; the first positions have no tokens.

    Args:
        sums: Sums of shape `(batch, tokens, width)`.
        steps: Number of positions.
    """
    has_earlier = (ops.arange(ops.shape(sums.peak)[1], dtype="int32") >= steps)[:, None]
    shifted = SoftmaxSums(*(ops.roll(x, steps, axis=1) for x in sums))
    return SoftmaxSums(
        ops.where(has_earlier, shifted.peak, LOWEST),
        ops.where(has_earlier, shifted.weight, 0.0),
        ops.where(has_earlier, shifted.total, 0.0),
    )


def running_sums(sums: SoftmaxSums) -> SoftmaxSums:
    """Return the sums over the tokens up to each position, in linear time.

    Sums inside blocks of tokens are doubled; the sums of whole blocks form a shorter sequence.

    Args:
        sums: Sums of shape `(batch, tokens, width)` for each token alone.
    """
    length = sums.peak.shape[1]
    if length is not None and length <= _BLOCK:
        return _doubled(sums, length)
    length, width = ops.shape(sums.peak)[1], sums.peak.shape[2]
    num_blocks = length // _BLOCK + 1  # At least one, for zero tokens too.
    inside = _doubled(_in_blocks(sums, num_blocks * _BLOCK - length), _BLOCK)
    blocks = SoftmaxSums(*(ops.reshape(x[:, -1], (-1, num_blocks, width)) for x in inside))
    up_to_block = _looped(blocks) if sums.peak.shape[1] is None else running_sums(blocks)
    before = SoftmaxSums(*(ops.reshape(x, (-1, 1, width)) for x in later(up_to_block, 1)))
    padded = (ops.reshape(x, (-1, num_blocks * _BLOCK, width)) for x in merged(before, inside))
    return SoftmaxSums(*(part(x, 0, length) for x in padded))


def _in_blocks(sums: SoftmaxSums, padding: Any) -> SoftmaxSums:
    """Pad with masked tokens and reshape to `(batch * blocks, block, width)`."""
    around = ((0, 0), (0, padding), (0, 0))
    padded = (
        ops.pad(x, around, constant_values=fill)
        for x, fill in zip(sums, (LOWEST, 0.0, 0.0), strict=True)
    )
    return SoftmaxSums(*(ops.reshape(x, (-1, _BLOCK, sums.peak.shape[2])) for x in padded))


def _doubled(sums: SoftmaxSums, length: int) -> SoftmaxSums:
    """Return the sums up to each of `length` positions; each doubling adds as many tokens."""
    span = 1
    while span < length:
        sums = merged(later(sums, span), sums)
        span *= 2
    return sums


def _looped(sums: SoftmaxSums) -> SoftmaxSums:
    """Return the same as `_doubled` if the length is known only at run time."""
    length = ops.shape(sums.peak)[1]

    def double(span: Any, *parts: Any) -> Any:
        sums = SoftmaxSums(*parts)
        return 2 * span, *merged(later(sums, span), sums)

    # XLA needs a maximum to compile the gradient.
    loop = ops.while_loop(lambda span, *_: span < length, double, (1, *sums), maximum_iterations=31)
    return SoftmaxSums(*loop[1:])


def earlier_sums(keys: Any, values: Any, bias: Any) -> SoftmaxSums:
    """Return the sums of `exp(K_j + w_d)` and `exp(K_j + w_d) * V_j` over the tokens j before t.

    The bias w depends on the distance `d = t - j` and is zero outside the window.

    Blocks of 1, 2, 4, ... tokens are joined in pairs: tokens of the second block add those of the
    first by a matrix of `exp(w)`, relative to the largest key of the first block. All tokens of the
    second block see this key, so no sum vanishes because of a later one. Blocks as long as the
    window also add the block before them, and the running sums of the earlier blocks.

    Args:
        keys: Tensor of shape `(batch, tokens, width)` in float32 or wider, `2 * LOWEST` at masked
            tokens.
        values: Tensor of the shape of `keys`.
        bias: Tensor of shape `(window,)`; the first entry, of the distance 0, has no effect.

    Returns:
        Sums of shape `(batch, tokens, width)`.
    """
    (batch, length), width = ops.shape(keys)[:2], keys.shape[2]
    block = _power_of_two(bias.shape[0], keys.shape[1])
    num_blocks = abs(length - 1) // block + 1  # At least one, for zero tokens too.
    after = ((0, 0), (0, 0), (0, num_blocks * block - length))
    # Tokens last: a matrix product for all blocks at once.
    keys = ops.pad(ops.transpose(keys, (0, 2, 1)), after, constant_values=2 * LOWEST)
    values = ops.pad(ops.transpose(values, (0, 2, 1)), after)
    sums, peaks = _sums_in_blocks(keys, values, bias, block)
    if keys.shape[2] is None or keys.shape[2] > block:
        rows = (batch * width, num_blocks, block)
        keys, values = ops.reshape(keys, rows), ops.reshape(values, rows)
        peaks = ops.reshape(peaks, (batch * width, num_blocks, 1))
        terms = _terms(keys, values, peaks)
        neighbour = later(_biased(terms, peaks, bias), 1)
        totals = SoftmaxSums(peaks, *ops.unstack(ops.sum(terms, axis=-1, keepdims=True), 2))
        further = later(running_sums(totals), 2)
        sums = SoftmaxSums(*(ops.reshape(x, rows) for x in sums))
        sums = merged(merged(further, neighbour), sums)
    columns = (batch, width, num_blocks * block)
    return SoftmaxSums(
        *(ops.transpose(part(ops.reshape(x, columns), 0, length, 2), (0, 2, 1)) for x in sums)
    )


def _power_of_two(window: int, length: int | None) -> int:
    """Return the power of two from the window on, or from the length on if it is smaller."""
    size = 1
    while size < (window if length is None else min(window, length)):
        size *= 2
    return size


def _sums_in_blocks(keys: Any, values: Any, bias: Any, block: int) -> tuple[SoftmaxSums, Any]:
    """Return the sums over the earlier tokens of the same block, and the largest key of each block.

    Args:
        keys: Tensor whose last axis has blocks of tokens.
        values: Tensor of the shape of `keys`.
        bias: Biases by distance.
        block: Number of tokens of a block: a power of two.

    Returns:
        Sums of shape `(blocks, block)`, and keys of shape `(blocks, 1)`.
    """
    # The maximum is float32 on PyTorch, also of float64.
    peaks = ops.cast(ops.maximum(ops.stop_gradient(keys), LOWEST), keys.dtype)
    peaks = ops.reshape(peaks, (-1, 1))
    sums, span = no_sums(ops.zeros_like(peaks)), 1
    while span < block:
        peak, other_peak = _pairs(peaks, 1)
        terms = _terms(_pairs(keys, span)[0], _pairs(values, span)[0], peak)
        first, second = zip(*(_pairs(x, span) for x in sums), strict=True)
        second = merged(SoftmaxSums(*second), _biased(terms, peak, bias))
        joined = (ops.stack(pair, axis=1) for pair in zip(first, second, strict=True))
        sums = SoftmaxSums(*(ops.reshape(x, (-1, 2 * span)) for x in joined))
        peaks = ops.cast(ops.maximum(peak, other_peak), keys.dtype)
        span *= 2
    return sums, peaks


def _pairs(x: Any, span: int) -> Any:
    """Split the last axis into pairs of blocks: two tensors of shape `(pairs, span)`."""
    # The gradient of slices would be several times slower on a CPU.
    return ops.unstack(ops.reshape(x, (-1, 2, span)), 2, axis=1)


def _terms(keys: Any, values: Any, peak: Any) -> Any:
    """Return `exp(K - peak)` and `exp(K - peak) * V`, stacked."""
    weights = ops.exp(keys - peak)
    return ops.stack([weights, weights * values])


def _biased(terms: Any, peak: Any, bias: Any) -> SoftmaxSums:
    """Return the sums over a block for each token of the block after it.

    Args:
        terms: Tensor of shape `(2, ..., block)`, relative to `peak`.
        peak: Largest keys of the blocks, `(..., 1)`.
        bias: Biases by distance.

    Returns:
        Sums of shape `(..., block)`, relative to the largest key plus the largest bias.
    """
    size, window = terms.shape[-1], bias.shape[0]
    position = ops.arange(size, dtype="int32")
    distance = size + position - position[:, None]
    bias = ops.take(bias, ops.minimum(distance, window - 1), axis=0)
    bias = ops.where(distance < window, bias, 0.0)
    largest = ops.stop_gradient(ops.max(bias, axis=0))
    weight, total = ops.unstack(ops.matmul(terms, ops.exp(bias - largest)), 2)
    return SoftmaxSums(peak + largest, weight, total)
