"""Heads as rows of the batch."""

from __future__ import annotations

from typing import Any

from keras import ops


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
