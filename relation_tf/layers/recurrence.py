"""The recurrence of a matrix with decays, in chunks of tokens and token by token."""

from __future__ import annotations

from typing import Any

from keras import ops

from relation_tf.layers.scan import (
    decays_between,
    joined,
    number_and_size,
    pairs_of_blocks,
    split,
    states_before,
)

# Maximum number of tokens of a chunk with a decay for each feature: a power of two.
_VECTOR_CHUNK = 32
# Its minimum number of tokens in a TensorFlow graph with unknown length: a power of two.
_SHORTEST_CHUNK = 8


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
    factor of the key may overflow. So blocks of 1, 2, 4, ... tokens are joined in pairs: queries of
    the second block score keys of the first, relative to the border between the blocks. All factors
    are products of decays, at most 1.

    If the size of chunks is unknown (TensorFlow graphs), the loop always runs up to `_VECTOR_CHUNK`
    tokens. For shorter chunks it also pairs blocks of different heads and texts, without effect.

    Returns:
        As `_score_pairs`.
    """
    size = ops.shape(values)[3]
    unknown = not isinstance(size, int)  # then at least `_SHORTEST_CHUNK`
    outputs = ops.sum(queries * keys, axis=-1, keepdims=True) * values
    since_start = total = ops.exp(log_decays)
    to_end = ops.ones_like(total)
    block = 1
    while block < (_VECTOR_CHUNK if unknown else size):
        foreign = unknown and block >= _SHORTEST_CHUNK  # Pairs can be of different texts.
        if foreign:
            total = ops.where(block < size, total, 1.0)
        total_1, total_2 = pairs_of_blocks(total, 1)
        since_1, since_2 = pairs_of_blocks(since_start, block)
        to_end_1, to_end_2 = pairs_of_blocks(to_end, block)
        outputs_1, outputs_2 = pairs_of_blocks(outputs, block)
        keys_1 = pairs_of_blocks(keys, block)[0] * to_end_1
        queries_2 = pairs_of_blocks(queries, block)[1] * since_2
        scores = ops.matmul(queries_2, ops.transpose(keys_1, (0, 2, 1)))
        added = ops.matmul(scores, pairs_of_blocks(values, block)[0])
        outputs_2 = outputs_2 + (ops.where(block < size, added, 0.0) if foreign else added)
        outputs = ops.stack([outputs_1, outputs_2], axis=1)
        since_start = ops.stack([since_1, since_2 * total_1], axis=1)
        to_end = ops.stack([to_end_1 * total_2, to_end_2], axis=1)
        total = total_1 * total_2
        block *= 2
    outputs = ops.reshape(outputs, ops.shape(values))
    since_start, to_end = (ops.reshape(x, ops.shape(keys)) for x in (since_start, to_end))
    return outputs, since_start, to_end


def _chunk_size(length: Any) -> Any:
    """Return the smallest power of two that is not below the length, at most `_VECTOR_CHUNK`.

    If the length is unknown, the result is at least `_SHORTEST_CHUNK`.
    """
    if isinstance(length, int):
        return min(1 << max(length - 1, 0).bit_length(), _VECTOR_CHUNK)
    size, larger = _SHORTEST_CHUNK, 2 * _SHORTEST_CHUNK
    while larger <= _VECTOR_CHUNK:
        size = ops.where(length > larger // 2, larger, size)
        larger *= 2
    return size
