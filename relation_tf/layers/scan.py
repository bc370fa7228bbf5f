"""Chunks of tokens, the loop over them, and the decays inside."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from keras import ops

from relation_tf.layers.masking import causal_mask, join_chunks, part, split_tokens

CHUNK = 64  # Maximum number of tokens of a chunk.
_LEVELS = 3  # Each halves the steps of a loop over an unknown number of chunks.


def decays_between(log_decays: Any) -> Any:
    """Return the product of the decays after token j up to token i, zero for later tokens.

    Each logarithm is summed separately: a difference of two sums over the chunk would lose the
    decays of few tokens after a large one.

    Args:
        log_decays: Tensor of shape `(chunks, batch, heads, size, 1)`.

    Returns:
        Tensor of shape `(chunks, batch, heads, size, size)`.
    """
    size = ops.shape(log_decays)[3]
    seen = causal_mask(size)
    later = ops.logical_not(ops.transpose(seen))
    # As a matrix product, several times faster than a cumulative sum on a CPU. A decay of zero must
    # not become 0 * -inf.
    logs = ops.where(later, ops.maximum(log_decays, -1e30), 0.0)
    sums = ops.matmul(ops.cast(seen, log_decays.dtype), logs)
    return ops.where(seen, ops.exp(sums), 0.0)


def pairs_of_blocks(x: Any, block: int) -> Any:
    """Split the tokens into pairs of blocks: two tensors of shape `(pairs, block, width)`."""
    # The gradient of slices would be several times slower on a CPU.
    return ops.unstack(ops.reshape(x, (-1, 2, block, x.shape[-1])), 2, axis=1)


def number_and_size(length: Any) -> tuple[Any, Any]:
    """Return the number of chunks of a sequence, and the number of tokens of each."""
    num_chunks = abs(length - 1) // CHUNK + 1  # At least one, for zero tokens too.
    return num_chunks, abs(length - 1) // num_chunks + 1


def split(x: Any, num_chunks: Any, size: Any, rows: Any = 0) -> Any:
    """Split tokens into chunks, and add zeros to the last one.

    Args:
        x: Tensor of shape `(batch, tokens, heads, width)`.
        num_chunks: Number of chunks.
        size: Number of tokens of a chunk.
        rows: Number of rows of zeros to add to the batch.

    Returns:
        Tensor of shape `(chunks, batch + rows, heads, size, width)`.
    """
    return ops.transpose(split_tokens(x, num_chunks, size, rows), (1, 0, 3, 2, 4))


def joined(chunks: Any, length: Any, batch: Any = None) -> Any:
    """Join the chunks of `split` to `(batch, tokens, heads, width)`, with `length` tokens."""
    return join_chunks(ops.transpose(chunks, (1, 0, 3, 2, 4)), length, batch)


def states_before(
    transitions: Any,
    updates: Any,
    apply: Callable[[Any, Any], Any] = operator.mul,
    levels: int = _LEVELS,
) -> Any:
    """Return the state before each chunk, from `S_n = A_n * S_{n-1} + B_n` and `S_0 = 0`.

    Pairs of chunks are joined to chunks of twice the size, and these again, up to one chunk. If
    the number of chunks is unknown, a loop starts after `levels` times.

    Args:
        transitions: The factors A, of shape `(chunks, ...)`, broadcast to the shape of `updates`.
        updates: The summands B, of shape `(chunks, ...)`.
        apply: Associative function of A and S that returns their product; by default of their
            entries.
        levels: Number of times that pairs of an unknown number of chunks are joined.

    Returns:
        The states `S_{n-1}`, with the shape of `updates`.
    """
    count = ops.shape(updates)[0]
    known = isinstance(count, int)
    if known and count <= 1:
        return ops.zeros_like(updates)
    if levels == 0 and not known:
        # Only in TensorFlow graphs; keras.ops.scan fails there.
        import tensorflow as tf

        start = ops.zeros_like(updates[0])
        after = tf.scan(
            lambda state, chunk: apply(chunk[0], state) + chunk[1], (transitions, updates), start
        )
        return ops.concatenate([start[None], part(after, 0, count - 1, axis=0)], axis=0)
    half = abs(count - 1) // 2 + 1  # At least one, for zero chunks too.

    def pairs(x: Any) -> Any:
        x = ops.pad(x, ((0, 2 * half - count), *[(0, 0)] * (len(x.shape) - 1)))
        return ops.unstack(ops.reshape(x, (half, 2, *ops.shape(x)[1:])), 2, axis=1)

    (first, second), (added, more) = pairs(transitions), pairs(updates)
    joined_updates = apply(second, added) + more
    before = states_before(apply(second, first), joined_updates, apply, max(levels - 1, 0))
    states = ops.stack([before, apply(first, before) + added], axis=1)
    return part(ops.reshape(states, (2 * half, *ops.shape(updates)[1:])), 0, count, axis=0)
