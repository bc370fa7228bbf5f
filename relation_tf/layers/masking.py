"""Masks (True keeps a token), order and parts of the tokens of a batch."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.arguments import differ

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


def tokens_at(x: Any, positions: Any) -> Any:
    """Return the tokens of each sequence at its positions.

    It equals `ops.take_along_axis(x, positions[..., None], axis=1)`, which gathers each feature of
    a token on its own on TensorFlow and is several times slower.

    Args:
        x: Tensor of shape `(batch, tokens, width)`.
        positions: Integers in `[0, tokens)`, of shape `(batch, positions)`.

    Returns:
        Tensor of shape `(batch, positions, width)`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers.masking import tokens_at
        >>> x = np.array([[[1.0], [2.0]], [[3.0], [4.0]]])
        >>> tokens_at(x, np.array([[1], [0]])).numpy().tolist()
        [[[2.0]], [[3.0]]]
    """
    (batch, length), count = ops.shape(x)[:2], ops.shape(positions)[1]
    first = length * ops.arange(batch, dtype="int32")[:, None]
    rows = ops.reshape(first + ops.cast(positions, "int32"), (batch * count,))
    tokens = ops.take(ops.reshape(x, (batch * length, x.shape[2])), rows, axis=0)
    return ops.reshape(tokens, (batch, count, x.shape[2]))


def part(x: Any, start: Any, length: Any, axis: int = 1) -> Any:
    """Return `length` entries of an axis, from `start` on.

    It equals `x[:, start : start + length]` for `axis=1`. On TensorFlow on a CPU, the gradient of
    that expression is several times slower.

    Args:
        x: Tensor.
        start: First entry, at least 0.
        length: Number of entries; `x` must have them.
        axis: The axis.

    Returns:
        Tensor with `length` entries in this axis.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers.masking import part
        >>> part(np.arange(4.0), 1, 2, axis=0).numpy().tolist()
        [1.0, 2.0]
    """
    starts, lengths = [0] * len(x.shape), [*ops.shape(x)]
    starts[axis], lengths[axis] = start, length
    return ops.slice(x, starts, lengths)


def pad_tokens(x: Any, missing: Any) -> Any:
    """Add zeros after the tokens of `(batch, tokens, ...)`, if their number is positive."""
    missing = max(missing, 0) if isinstance(missing, int) else ops.maximum(missing, 0)
    return ops.pad(x, ((0, 0), (0, missing), *[(0, 0)] * (len(x.shape) - 2)))


def split_tokens(x: Any, count: Any, size: Any, rows: Any = 0) -> Any:
    """Split tokens into chunks, with zeros at the end of the last one.

    Args:
        x: Tensor of shape `(batch, tokens, ...)`.
        count: Number of chunks.
        size: Number of tokens of a chunk; `count * size` must be at least the number of tokens.
        rows: Number of rows of zeros to add to the batch.

    Returns:
        Tensor of shape `(batch + rows, count, size, ...)`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers.masking import split_tokens
        >>> split_tokens(np.ones((1, 3)), 2, 2).numpy().tolist()
        [[[1.0, 1.0], [1.0, 0.0]]]
    """
    batch, length = ops.shape(x)[:2]
    after = (rows, count * size - length, *[0] * (len(x.shape) - 2))
    x = ops.pad(x, [(0, number) for number in after])
    return ops.reshape(x, (batch + rows, count, size, *x.shape[2:]))


def join_chunks(chunks: Any, length: Any, batch: Any = None) -> Any:
    """Reverse `split_tokens`: return the first `length` tokens, of the first `batch` rows."""
    (rows, count, size), rest = ops.shape(chunks)[:3], chunks.shape[3:]
    tokens = ops.reshape(chunks, (rows, count * size, *rest))
    lengths = (rows if batch is None else batch, length, *rest)
    return ops.slice(tokens, [0] * len(tokens.shape), lengths)


def reversed_tokens(x: Any) -> Any:
    """Return the tokens from the last to the first; None stays None."""
    return None if x is None else ops.flip(x, axis=1)


def transposed(x: Any) -> Any:
    """Swap the last two axes."""
    return ops.swapaxes(x, -1, -2)


def causal_mask(num_tokens: Any) -> Any:
    """Return the causal mask `(tokens, tokens)`: True if column <= row."""
    positions = ops.arange(num_tokens, dtype="int32")
    return positions[:, None] >= positions


def aligned(query: Any, value: Any, value_mask: Any) -> tuple[Any, Any]:
    """Truncate or pad `value` and its mask to the length of `query`.

    No query sees the tokens after the last query. Padded tokens are masked.
    """
    if query is value or query.shape[1] == value.shape[1] is not None:
        return value, value_mask
    length = ops.shape(query)[1]
    if value_mask is None:
        value_mask = ops.ones(ops.shape(value)[:2], "bool")
    value, value_mask = value[:, :length], value_mask[:, :length]
    missing = length - ops.shape(value)[1]
    value_mask = ops.pad(ops.cast(value_mask, "int32"), ((0, 0), (0, missing)))
    return ops.pad(value, ((0, 0), (0, missing), (0, 0))), ops.cast(value_mask, "bool")
