"""Chunks of tokens, the loop over them, and the decays inside."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from relation_tf.layers.masking import causal_mask, join_chunks, part, split_tokens

CHUNK = 64  # Maximum number of tokens of a chunk.


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
    transitions: Any, updates: Any, apply: Callable[[Any, Any], Any] = operator.mul
) -> Any:
    """Return the state before each chunk, from `S_n = A_n * S_{n-1} + B_n` and `S_0 = 0`.

    Args:
        transitions: The factors A, of shape `(chunks, ...)`, broadcast to the shape of `updates`.
        updates: The summands B, of shape `(chunks, ...)`.
        apply: Function of A and S that returns their product; by default of their entries.

    Returns:
        The states `S_{n-1}`, with the shape of `updates`.
    """
    start = ops.zeros_like(updates[0])
    if keras.backend.backend() == "tensorflow":
        # keras.ops.scan fails on TensorFlow if the number of chunks is unknown.
        import tensorflow as tf

        after = tf.scan(
            lambda state, chunk: apply(chunk[0], state) + chunk[1], (transitions, updates), start
        )
        before = part(after, 0, ops.shape(after)[0] - 1, axis=0)
        return ops.concatenate([start[None], before], axis=0)
    _, before = ops.scan(_step_with(apply), start, (transitions, updates))
    return before


@functools.cache  # JAX compiles a loop again for another function.
def _step_with(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return the step of a loop: the state after a chunk, and that before it."""

    def step(state: Any, chunk: Any) -> tuple[Any, Any]:
        return apply(chunk[0], state) + chunk[1], state

    return step
