"""Sums of exponentials over tokens, with a running maximum."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from relation_tf.layers.masking import LOWEST, to_float32
from relation_tf.layers.slicing import part

_BLOCK = 32


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
    there = (ops.arange(ops.shape(sums.peak)[1], dtype="int32") >= steps)[:, None]
    shifted = SoftmaxSums(*(ops.roll(x, steps, axis=1) for x in sums))
    return SoftmaxSums(
        ops.where(there, shifted.peak, LOWEST),
        ops.where(there, shifted.weight, 0.0),
        ops.where(there, shifted.total, 0.0),
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
    whole = (ops.reshape(x, (-1, num_blocks * _BLOCK, width)) for x in merged(before, inside))
    return SoftmaxSums(*(part(x, 0, length) for x in whole))


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
