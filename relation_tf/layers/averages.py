"""Averages over the unmasked tokens: means, softmax, and heads as rows of the batch."""

from __future__ import annotations

from typing import Any

from keras import ops

from relation_tf.layers.masking import LOWEST, causal_mask, to_float32


def masked_mean(x: Any, mask: Any) -> Any:
    """Compute the mean over the unmasked tokens, accumulated in float32 or wider.

    Args:
        x: Tensor of shape `(batch, tokens, width)`, zero at masked tokens.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.

    Returns:
        Tensor of shape `(batch, width)`; zero if all tokens are masked.
    """
    total = ops.sum(to_float32(x), axis=1)
    if mask is None:
        count = ops.cast(ops.shape(x)[1], total.dtype)
    else:
        count = ops.sum(ops.cast(mask, total.dtype), axis=1)[:, None]
    return ops.cast(total / ops.maximum(count, 1.0), x.dtype)


def running_mean(x: Any, mask: Any) -> tuple[Any, Any]:
    """Return the mean over the unmasked tokens up to each position, summed in float32 or wider.

    Args:
        x: Tensor of shape `(batch, tokens, width)`, zero at masked tokens.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.

    Returns:
        Tensor with the shape and dtype of `x`, zero before the first unmasked token; and a boolean
        tensor of shape `(batch, tokens, 1)`, True from the first unmasked token on (None if `mask`
        is None).
    """
    total = ops.cumsum(to_float32(x), axis=1)
    if mask is None:
        count = ops.arange(1, ops.shape(x)[1] + 1, dtype=total.dtype)[:, None]
        return ops.cast(total / count, x.dtype), None
    count = ops.cumsum(ops.cast(mask, total.dtype), axis=1)[..., None]
    return ops.cast(total / ops.maximum(count, 1.0), x.dtype), count > 0


def mean_step(x: Any, state: tuple[Any, Any], mask: Any) -> tuple[Any, tuple[Any, Any]]:
    """Add a token to a running mean.

    Args:
        x: Tensor of shape `(batch, 1, width)`, zero at masked tokens.
        state: Sum and number of the unmasked tokens before it, `(batch, 1, width)` and
            `(batch, 1, 1)`.
        mask: Boolean tensor of shape `(batch, 1)`.

    Returns:
        The mean, with the shape and dtype of `x`; zero without unmasked tokens. The next state.
    """
    total, count = state
    total = total + to_float32(x)
    count = count + ops.cast(mask[..., None], count.dtype)
    return ops.cast(total / ops.maximum(count, 1.0), x.dtype), (total, count)


def softmax(x: Any) -> Any:
    """Compute softmax over the last axis."""
    # Keras warns about softmax over one entry; here that is a sequence of one token.
    return ops.ones_like(x) if x.shape[-1] == 1 else ops.softmax(x, axis=-1)


def masked_softmax(scores: Any, mask: Any) -> Any:
    """Compute softmax over the last axis in float32 or wider, with zero weight on masked tokens.

    Args:
        scores: Tensor of shape `(batch, queries, tokens)`.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.

    Returns:
        Weights with the shape and dtype of `scores`; all zero if all tokens are masked.
    """
    if mask is None:
        return ops.cast(softmax(to_float32(scores)), scores.dtype)
    return softmax_over(scores, mask[:, None, :])


def softmax_over(scores: Any, kept: Any) -> Any:
    """Compute softmax over the last axis in float32 or wider, with zero weight if not kept."""
    weights = softmax(ops.where(kept, to_float32(scores), LOWEST))
    return ops.cast(ops.where(kept, weights, 0.0), scores.dtype)


def causal_softmax(scores: Any, mask: Any) -> Any:
    """Apply `masked_softmax` to `(batch, tokens, tokens)` with zero weight on later tokens."""
    kept = causal_mask(ops.shape(scores)[1])
    return softmax_over(scores, kept if mask is None else ops.logical_and(kept, mask[:, None, :]))


def split_heads(x: Any, num_heads: int) -> Any:
    """Reshape `(batch, tokens, num_heads * width)` to `(batch * num_heads, tokens, width)`."""
    if num_heads == 1:
        return x
    batch, length, width = ops.shape(x)[0], ops.shape(x)[1], x.shape[2] // num_heads
    x = ops.transpose(ops.reshape(x, (batch, length, num_heads, width)), (0, 2, 1, 3))
    return ops.reshape(x, (batch * num_heads, length, width))


def join_heads(x: Any, num_heads: int) -> Any:
    """Reverse `split_heads`."""
    if num_heads == 1:
        return x
    batch, length, width = ops.shape(x)[0] // num_heads, ops.shape(x)[1], x.shape[2]
    x = ops.transpose(ops.reshape(x, (batch, num_heads, length, width)), (0, 2, 1, 3))
    return ops.reshape(x, (batch, length, num_heads * width))


def mask_of_heads(mask: Any, num_heads: int) -> Any:
    """Return a mask `(batch, tokens)` for the rows of `split_heads`; None stays None."""
    return mask if mask is None or num_heads == 1 else ops.repeat(mask, num_heads, axis=0)
