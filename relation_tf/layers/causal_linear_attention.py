"""Causal linear attention in linear time and memory."""

from __future__ import annotations

from typing import Any

from keras import ops

from relation_tf.layers.causal import up_to_own
from relation_tf.layers.slicing import join_chunks, part, split_tokens, transposed

# Tokens of a chunk, unless there are more features.
_CHUNK = 128


def chunk_of(features: int) -> int:
    """Return the approximate maximum number of tokens of a chunk."""
    return max(_CHUNK, features)


def causal_linear_attention(queries: Any, keys: Any, values: Any) -> Any:
    """Compute `y_i = sum over j <= i of (q_i . k_j) v_j` in chunks of tokens.

    Tokens of the same chunk are scored separately; earlier chunks are summed in one matrix:
    `y = (q k^T, later tokens zero) v + q (sum of k^T v over earlier chunks)`. The maximum size of
    a chunk is at least the number of features, so that `k^T v` is not larger than its keys and
    values.

    Args:
        queries: Tensor of shape `(batch, tokens, features)`.
        keys: Tensor of shape `(batch, tokens, features)`, zero at masked tokens.
        values: Tensor of shape `(batch, tokens, width)`.

    Returns:
        Tensor of shape `(batch, tokens, width)`.

    References:
        - Hua et al. 2022, "Transformer Quality in Linear Time", for linear attention by chunks.
    """
    length = ops.shape(keys)[1]
    most = chunk_of(keys.shape[-1])
    num_chunks = length // (most + 1) + 1  # At least one, for zero tokens too.
    size = (length + num_chunks - 1) // num_chunks
    queries, keys, values = (split_tokens(x, num_chunks, size) for x in (queries, keys, values))
    scores = ops.where(up_to_own(size), ops.matmul(queries, transposed(keys)), 0.0)
    states = ops.cumsum(ops.matmul(transposed(keys), values), axis=1)
    before = ops.pad(part(states, 0, num_chunks - 1), ((0, 0), (1, 0), (0, 0), (0, 0)))
    return join_chunks(ops.matmul(scores, values) + ops.matmul(queries, before), length)
