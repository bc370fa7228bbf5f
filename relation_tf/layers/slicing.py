"""Parts of tensors."""

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
