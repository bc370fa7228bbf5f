"""Functions for masks: True keeps a token."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.arguments import differ
from relation_tf.layers.slicing import tokens_at

LOWEST = float(np.float32(-1e30))
"""A score of masked tokens, or a maximum over none: finite, and exact in float32."""


def float32_or_wider(dtype: Any) -> str:
    """Return `"float64"` for float64, and `"float32"` for narrower types."""
    # `keras.backend.result_type` has no float64 on JAX and PyTorch.
    return "float64" if keras.backend.standardize_dtype(dtype) == "float64" else "float32"


def to_float32(x: Any) -> Any:
    """Cast to float32 or wider, for sums over tokens."""
    return ops.cast(x, float32_or_wider(x.dtype))


def as_floats(x: Any, dtype: Any) -> Any:
    """Cast integers and booleans to `dtype`; Keras passes them to layers unchanged."""
    is_float = keras.backend.is_float_dtype(keras.backend.standardize_dtype(x.dtype))
    return x if is_float else ops.cast(x, dtype)


def softmax(x: Any) -> Any:
    """Compute softmax over the last axis."""
    # Keras warns about softmax over one entry; here that is a sequence of one token.
    return ops.ones_like(x) if x.shape[-1] == 1 else ops.softmax(x, axis=-1)


def boolean(mask: Any, x: Any, name: str = "mask") -> Any:
    """Cast a mask of the tokens of `x` to boolean; None stays None.

    Raises:
        ValueError: If its shape is not `(batch, tokens)`; it would be broadcast to other tokens.
    """
    if mask is None:
        return None
    mask = ops.cast(mask, "bool")
    if len(mask.shape) != 2 or any(map(differ, mask.shape, x.shape[:2])):
        raise ValueError(
            f"`{name}` must have shape (batch={x.shape[0]}, tokens={x.shape[1]}). "
            f"Received: {name}.shape={tuple(mask.shape)}"
        )
    return mask


def zero_masked(x: Any, mask: Any) -> Any:
    """Replace masked tokens by zero, including NaN and infinities.

    Args:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.

    Returns:
        A tensor with the shape and dtype of `x`. The gradient at masked tokens is zero, never NaN.
    """
    if mask is None:
        return x
    return ops.where(mask[..., None], x, ops.zeros_like(x))


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


def kept_before(num_queries: Any, mask: Any) -> Any:
    """Return the number of unmasked tokens before each query's position, `(batch, queries)`."""
    before = ops.pad(ops.cumsum(ops.cast(mask, "int32"), axis=1), ((0, 0), (1, 0)))
    position = ops.minimum(ops.arange(num_queries, dtype="int32"), ops.shape(mask)[1])
    return ops.take(before, position, axis=1)


def kept_first(mask: Any) -> Any:
    """Return the positions of the unmasked tokens in order, then of the masked tokens."""
    length = ops.shape(mask)[1]
    position = ops.arange(length, dtype="int32")
    # Distinct keys: the order does not depend on the sorting algorithm.
    return ops.argsort(ops.where(mask, position, position + length), axis=1)


def close_up(x: Any, mask: Any) -> Any:
    """Move the unmasked tokens to the start, the masked tokens behind them."""
    return tokens_at(x, kept_first(mask))


def spread_out(x: Any, mask: Any) -> Any:
    """Move the unmasked tokens of `close_up` back to their positions; others are undefined."""
    place = ops.maximum(ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1, 0)
    return tokens_at(x, place)


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
