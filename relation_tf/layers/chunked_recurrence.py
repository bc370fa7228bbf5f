"""Linear recurrences over tokens, computed in chunks."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from relation_tf.layers.causal import up_to_own

# Maximum number of tokens of a chunk.
CHUNK = 64


def chunked_recurrence(queries: Any, keys: Any, values: Any, log_decays: Any) -> Any:
    """Compute `o_t = q_t^T S_t` with `S_t = a_t S_{t-1} + k_t v_t^T`, for each head.

    Inside a chunk, each query scores the tokens up to its own. The tokens of earlier chunks are in
    the state before the chunk; a loop over chunks computes it. Time and memory are linear in the
    number of tokens.

    A token with the key zero and the log decay zero changes no state, as if it were absent.

    Args:
        queries: Tensor of shape `(batch, tokens, heads, features)`, in float32 or wider. Queries
            and keys may have one head for all heads of the values.
        keys: Tensor of the shape of `queries`.
        values: Tensor of shape `(batch, tokens, heads, width)`.
        log_decays: Logarithms of `a`, at most 0, of shape `(batch, tokens, heads)`.

    Returns:
        Tensor of shape `(batch, tokens, heads, width)`.

    References:
        - Sun et al. 2023, arXiv 2307.08621, equation 7, for the form by chunks.
        - Dao, Gu 2024, arXiv 2405.21060, section 6 and listing 1, for decays of each token.
    """
    length = ops.shape(values)[1]
    tensors = (queries, keys, values, log_decays[..., None])
    queries, keys, values, log_decays = (split(x, *number_and_size(length)) for x in tensors)
    keys = ops.transpose(keys, (0, 1, 2, 4, 3))
    between = decays_between(log_decays)
    outputs = ops.matmul(ops.matmul(queries, keys) * between, values)
    if values.shape[0] != 1:
        since_start = ops.exp(ops.cumsum(log_decays, axis=3))
        to_end = between[:, :, :, -1, :, None]
        updates = ops.matmul(keys, values * to_end)
        before = states_before(since_start[:, :, :, -1:], updates)
        outputs = outputs + ops.matmul(queries, before) * since_start
    return joined(outputs, length)


def recurrence_step(
    queries: Any, keys: Any, values: Any, log_decays: Any, state: Any
) -> tuple[Any, Any]:
    """Return the output of one token, as in `chunked_recurrence`, and the state after it.

    The tensors have one token each; the state has the shape `(batch, heads, features, width)`.
    """
    decays = ops.exp(log_decays[:, 0])[..., None, None]
    state = decays * state + keys[:, 0][..., None] * values[:, 0][..., None, :]
    return ops.matmul(queries[:, 0][..., None, :], state)[:, None, :, 0], state


def number_and_size(length: Any) -> tuple[Any, Any]:
    """Return the number of chunks of a sequence, and the number of tokens of each."""
    num_chunks = length // CHUNK + 1
    return num_chunks, length // num_chunks + 1  # At least one token, for zero tokens too.


def split(x: Any, num_chunks: Any, size: Any) -> Any:
    """Split tokens into chunks, and add zeros to the last one.

    Args:
        x: Tensor of shape `(batch, tokens, heads, width)`.
        num_chunks: Number of chunks.
        size: Number of tokens of a chunk.

    Returns:
        Tensor of shape `(chunks, batch, heads, size, width)`.
    """
    x = ops.pad(x, ((0, 0), (0, num_chunks * size - ops.shape(x)[1]), (0, 0), (0, 0)))
    x = ops.reshape(x, (-1, num_chunks, size, *x.shape[2:]))
    return ops.transpose(x, (1, 0, 3, 2, 4))


def joined(chunks: Any, length: Any) -> Any:
    """Join the chunks of `split` to `(batch, tokens, heads, width)`, with `length` tokens."""
    x = ops.transpose(chunks, (1, 0, 3, 2, 4))
    num_chunks, size = ops.shape(x)[1:3]
    return ops.reshape(x, (-1, num_chunks * size, *x.shape[3:]))[:, :length]


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
        return ops.concatenate([start[None], after[:-1]], axis=0)
    _, before = ops.scan(
        lambda state, chunk: (apply(chunk[0], state) + chunk[1], state),
        start,
        (transitions, updates),
    )
    return before


def decays_between(log_decays: Any) -> Any:
    """Return the product of the decays after token j up to token i, zero for later tokens.

    Each logarithm is summed separately: a difference of two sums over the chunk would lose the
    decays of few tokens after a large one.

    Args:
        log_decays: Tensor of shape `(chunks, batch, heads, size, 1)`.

    Returns:
        Tensor of shape `(chunks, batch, heads, size, size)`.
    """
    seen = up_to_own(ops.shape(log_decays)[3])
    later = ops.logical_not(ops.transpose(seen))
    return ops.where(seen, ops.exp(ops.cumsum(ops.where(later, log_decays, 0.0), axis=3)), 0.0)
