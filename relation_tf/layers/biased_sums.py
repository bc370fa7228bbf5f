"""Softmax sums over earlier tokens, with a bias for each distance in a window."""

from __future__ import annotations

from typing import Any

from keras import ops

from relation_tf.layers.masking import LOWEST
from relation_tf.layers.slicing import part
from relation_tf.layers.softmax_sums import SoftmaxSums, later, merged, no_sums, running_sums


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
    block = _block_size(bias.shape[0], keys.shape[1])
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


def _block_size(window: int, length: int | None) -> int:
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
