"""The recurrence of a matrix with decays, in chunks of tokens and token by token."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.masking import causal_mask
from relation_tf.layers.scan import (
    decays_between,
    joined,
    number_and_size,
    pairs_of_blocks,
    split,
    states_before,
)

# Maximum number of tokens of a chunk with a decay for each feature: four blocks.
_VECTOR_CHUNK = 32
# Maximum number of tokens of a block of it, and minimum number of tokens of a chunk in a TensorFlow
# graph with unknown length: a power of two.
_BLOCK = 8
# The smallest logarithm of a decay inside a block: the decay is below the type's precision,
# and its inverse over half a block is far from an overflow.
_LOWEST = {"float32": -16.0, "float64": -40.0}


def chunked_recurrence(queries: Any, keys: Any, values: Any, log_decays: Any) -> Any:
    """Compute `o_t = q_t^T S_t` with `S_t = a_t S_{t-1} + k_t v_t^T`, for each head.

    The decay a is a number, or a vector with an entry for each feature of the key.

    Inside a chunk, each query scores the tokens up to its own. The tokens of earlier chunks are in
    the state before the chunk; a loop over chunks computes it. Time and memory are linear in the
    number of tokens.

    A token with the key zero and the log decay zero changes no state, as if it were absent.

    Args:
        queries: Tensor of shape `(batch, tokens, heads, features)`, in float32 or wider. Queries
            and keys may have one head for all heads of the values.
        keys: Tensor of the shape of `queries`.
        values: Tensor of shape `(batch, tokens, heads, width)`.
        log_decays: Logarithms of `a`, at most 0, of shape `(batch, tokens, heads)` or
            `(batch, tokens, heads, features)`.

    Returns:
        Tensor of shape `(batch, tokens, heads, width)`.

    References:
        - Sun et al. 2023, arXiv 2307.08621, equation 7, for the form by chunks.
        - Dao, Gu 2024, arXiv 2405.21060, section 6 and listing 1, for decays of each token.
        - Yang et al. 2024, arXiv 2312.06635, section 4, for decays of each feature.
    """
    batch, length = ops.shape(values)[:2]
    rows = 0
    if len(log_decays.shape) == 4:
        num_chunks = abs(length - 1) // _VECTOR_CHUNK + 1  # At least one, for zero tokens too.
        size, within = _chunk_size(length), _join_blocks
        if not isinstance(size, int):  # `_join_blocks` needs a multiple of `_VECTOR_CHUNK` tokens.
            texts = _VECTOR_CHUNK // size
            rows = (texts - batch % texts) % texts  # in ONNX, -batch % texts is negative
    else:
        log_decays = log_decays[..., None]
        (num_chunks, size), within = number_and_size(length), _score_pairs
    tensors = (queries, keys, values, log_decays)
    queries, keys, values, log_decays = (split(x, num_chunks, size, rows) for x in tensors)
    outputs, since_start, to_end = within(queries, keys, values, log_decays)
    if values.shape[0] != 1:
        updates = ops.matmul(ops.transpose(keys * to_end, (0, 1, 2, 4, 3)), values)
        transitions = ops.transpose(since_start[:, :, :, -1:], (0, 1, 2, 4, 3))
        before = states_before(transitions, updates)
        outputs = outputs + ops.matmul(queries * since_start, before)
    return joined(outputs, length, batch)


def recurrence_step(
    queries: Any, keys: Any, values: Any, log_decays: Any, state: Any
) -> tuple[Any, Any]:
    """Return the output of one token, as in `chunked_recurrence`, and the state after it.

    The tensors have one token each; the state has the shape `(batch, heads, features, width)`.
    """
    if len(log_decays.shape) == 3:
        log_decays = log_decays[..., None]
    decays = ops.exp(log_decays[:, 0])[..., None]
    state = decays * state + keys[:, 0][..., None] * values[:, 0][..., None, :]
    return ops.matmul(queries[:, 0][..., None, :], state)[:, None, :, 0], state


def _score_pairs(queries: Any, keys: Any, values: Any, log_decays: Any) -> tuple[Any, Any, Any]:
    """Compute chunks with one decay for all features, from the scores of all pairs of tokens.

    Returns:
        The outputs without earlier chunks; for each token, the product of the decays from the start
        of the chunk up to it, and of those after it.
    """
    between = decays_between(log_decays)
    scores = ops.matmul(queries, ops.transpose(keys, (0, 1, 2, 4, 3)))
    since_start = ops.exp(ops.cumsum(log_decays, axis=3))
    return ops.matmul(scores * between, values), since_start, between[:, :, :, -1, :, None]


def _join_blocks(queries: Any, keys: Any, values: Any, log_decays: Any) -> tuple[Any, Any, Any]:
    """Compute chunks with a decay for each feature.

    Scores are matrix products if the decay between two tokens is a factor of the query times a
    factor of the key, relative to a common token. Relative to the first token of the chunk, the
    factor of the key may overflow. So blocks of `_BLOCK` tokens are joined in pairs: queries of the
    second block score keys of the first, relative to the border between the blocks, where all
    factors are products of decays, at most 1.

    If the size of chunks is unknown (TensorFlow graphs), the loop always runs up to `_VECTOR_CHUNK`
    tokens. For shorter chunks it also pairs blocks of different heads and texts, without effect.

    Returns:
        As `_score_pairs`.
    """
    size = ops.shape(values)[3]
    unknown = not isinstance(size, int)  # then at least `_BLOCK`
    block = _BLOCK if unknown else min(size, _BLOCK)
    log_decays = ops.maximum(log_decays, -1e30)  # A sum must not contain 0 * -inf.
    flat = [ops.reshape(x, (-1, block, x.shape[-1])) for x in (queries, keys, values, log_decays)]
    outputs = _score_block(*flat)
    while block < (_VECTOR_CHUNK if unknown else size):
        firsts, seconds = zip(*(pairs_of_blocks(x, block) for x in flat), strict=True)
        seen = causal_mask(block)
        keys_1 = firsts[1] * _product(ops.logical_not(seen), firsts[3])
        queries_2 = seconds[0] * _product(seen, seconds[3])
        added = ops.matmul(ops.matmul(queries_2, ops.transpose(keys_1, (0, 2, 1))), firsts[2])
        if unknown:  # The pairs may be of different texts.
            added = ops.where(block < size, added, 0.0)
        first, second = pairs_of_blocks(outputs, block)
        outputs = ops.stack([first, second + added], axis=1)
        block *= 2
    outputs = ops.reshape(outputs, ops.shape(values))
    seen = causal_mask(size)
    return outputs, _product(seen, log_decays), _product(ops.logical_not(seen), log_decays)


def _score_block(queries: Any, keys: Any, values: Any, log_decays: Any) -> Any:
    """Return the outputs of blocks of at most `_BLOCK` tokens, `(blocks, tokens, width)`.

    Factors are relative to the middle of the block. They do not overflow, because logarithms below
    `_LOWEST` are set to it.
    """
    size = values.shape[1]
    seen = np.tri(size)
    dtype = keras.backend.standardize_dtype(log_decays.dtype)
    since_middle = ops.convert_to_tensor(seen - seen[(size - 1) // 2], dtype=dtype)
    logs = ops.matmul(since_middle, ops.maximum(log_decays, _LOWEST[dtype]))
    keys = ops.transpose(keys * ops.exp(-logs), (0, 2, 1))
    scores = ops.matmul(queries * ops.exp(logs), keys)
    return ops.matmul(ops.where(causal_mask(size), scores, 0.0), values)


def _product(factors: Any, log_decays: Any) -> Any:
    """Return the product of the decays of some tokens (columns) for each token (row)."""
    return ops.exp(ops.matmul(ops.cast(factors, log_decays.dtype), log_decays))


def _chunk_size(length: Any) -> Any:
    """Return the smallest power of two that is not below the length, at most `_VECTOR_CHUNK`.

    If the length is unknown, the result is at least `_BLOCK`.
    """
    if isinstance(length, int):
        return min(1 << max(length - 1, 0).bit_length(), _VECTOR_CHUNK)
    half = _VECTOR_CHUNK // 2  # two blocks
    return ops.where(length > half, _VECTOR_CHUNK, ops.where(length > _BLOCK, half, _BLOCK))
