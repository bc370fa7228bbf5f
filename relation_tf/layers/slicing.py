"""Parts and order of tensors."""

from __future__ import annotations

from typing import Any

from keras import ops


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
        >>> from relation_tf.layers.slicing import part
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
        >>> from relation_tf.layers.slicing import split_tokens
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
        >>> from relation_tf.layers.slicing import tokens_at
        >>> x = np.array([[[1.0], [2.0]], [[3.0], [4.0]]])
        >>> tokens_at(x, np.array([[1], [0]])).numpy().tolist()
        [[[2.0]], [[3.0]]]
    """
    (batch, length), count = ops.shape(x)[:2], ops.shape(positions)[1]
    first = length * ops.arange(batch, dtype="int32")[:, None]
    rows = ops.reshape(first + ops.cast(positions, "int32"), (batch * count,))
    tokens = ops.take(ops.reshape(x, (batch * length, x.shape[2])), rows, axis=0)
    return ops.reshape(tokens, (batch, count, x.shape[2]))
