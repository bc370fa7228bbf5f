"""Dropout with few random numbers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

_BITS = (np.uint32(1) << np.arange(32, dtype=np.uint32)).view(np.int32)


def dropout(x: Any, rate: float, seed: Any) -> Any:
    """Set entries to zero with probability `rate` and divide the others by `1 - rate`.

    Args:
        x: Tensor with one or more axes.
        rate: Rate in (0, 1).
        seed: A `keras.random.SeedGenerator`.

    Returns:
        A tensor with the shape and dtype of `x`.
    """
    return ops.where(dropout_mask(ops.shape(x), rate, seed), x * (1 / (1 - rate)), 0.0)


def seed_of_part(seed: int | None, part: int) -> int | None:
    """Return a seed for a numbered part of a layer, such as a block; part 0 has the layer's seed.

    Args:
        seed: Seed of the layer, or None, which is returned.
        part: Number of the part.

    Example:
        >>> from relation_tf.layers.dropout import seed_of_part
        >>> seed_of_part(3, 0), seed_of_part(3, 1), seed_of_part(None, 1)
        (3, 228595140, None)
    """
    if seed is None or part == 0:
        return seed
    mixed = np.random.SeedSequence((seed % 2**32, part)).generate_state(1)[0]
    return int(mixed >> 1)  # Keras's seeds are signed on some backends.


def seed_of_copy(seed: int | None, copy: int) -> int | None:
    """Return a seed for a copy of a layer, such as in another block; copy 0 has the layer's seed.

    It differs from the seeds of all parts.

    Example:
        >>> seed_of_copy(3, 0), seed_of_copy(3, 1) == seed_of_part(3, 1)
        (3, False)
    """
    return seed_of_part(seed, copy and 2**31 + copy)


def second_seed(seed: int | None) -> int | None:
    """Return the seed of a second dropout inside a layer; it differs from those of all blocks."""
    return seed_of_part(seed, 2**32 - 1)


def dropout_mask(shape: tuple[Any, ...], rate: float, seed: Any) -> Any:
    """Return a random boolean tensor, True with probability `1 - rate`.

    At rate 0.5 a random integer decides 32 entries: to draw a number for each entry takes longer
    than the computations around a dropout.

    Args:
        shape: Shape of the tensor, at least one axis.
        rate: Rate in (0, 1).
        seed: A `keras.random.SeedGenerator`.
    """
    if rate != 0.5:  # half precision has too few numbers near 0
        return keras.random.uniform(shape, dtype="float32", seed=seed) >= rate
    *outer, size = shape
    words = (size + 31) // 32
    drawn = keras.random.randint((*outer, words, 1), -(2**31), 2**31 - 1, "int32", seed=seed)
    bits = ops.not_equal(ops.bitwise_and(drawn, _BITS), 0)
    return ops.reshape(bits, (*outer, 32 * words))[..., :size]
