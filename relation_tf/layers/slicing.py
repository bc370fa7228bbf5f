"""Slices of tensors."""

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
