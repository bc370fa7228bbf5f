"""Attention to the tokens in a window around each query, in blocks of queries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from keras import ops

from relation_tf.layers.masking import softmax_over
from relation_tf.layers.slicing import join_chunks, part, split_tokens, tokens_at, transposed

_BLOCK = 32  # queries of a block, unless the window is larger


class Tokens(NamedTuple):
    """Tokens with the unmasked ones first.

    Attributes:
        keys: Tensor of shape `(batch, tokens, units)`.
        values: Tensor of shape `(batch, tokens, units)`.
        count: Number of unmasked tokens, `(batch, 1)` or `(1, 1)`.
        last: The last token that a query sees, `(batch, queries)` or with axes of length one.
    """

    keys: Any
    values: Any
    count: Any
    last: Any


class Window(NamedTuple):
    """The tokens that a query sees.

    Attributes:
        size: Those at a distance below it, on each side.
        global_tokens: Number of first tokens that all queries see.
        causal: If True, no later tokens.
    """

    size: int
    global_tokens: int
    causal: bool


def attend_in_windows(
    q: Any,
    tokens: Tokens,
    place: Any,
    window: Window,
    in_order: bool,
    dropped: Callable[[Any], Any],
) -> Any:
    """Compute the outputs by blocks of queries, as if no query were global.

    Args:
        q: Queries, `(batch, queries, units)`.
        tokens: The tokens.
        place: Number of unmasked tokens before each query, `(batch, queries)` or `(1, queries)`.
        window: The tokens that a query sees.
        in_order: If True, query i is at place i.
        dropped: Function of the weights that applies the dropout.

    Returns:
        Tensor of shape `(batch, queries, units)`.
    """
    length, size = ops.shape(q)[1], block_size(window.size, ops.shape(tokens.keys)[1])
    num_blocks = abs(length - 1) // size + 1  # At least one, for zero tokens too.
    around = 2 if window.causal else 3  # blocks of tokens for a block of queries
    last = tokens.last + ops.zeros_like(place)
    q, place, last = (split_tokens(x, num_blocks, size) for x in (q, place, last))
    rank = place[:, :, :1] - size + ops.arange(around * size, dtype="int32")
    near = (
        partial(_neighbours, num_blocks=num_blocks, size=size, around=around)
        if in_order
        else partial(_taken, rank=rank)
    )
    keys, values = near(tokens.keys), near(tokens.values)
    distance = ops.abs(place[..., None] - rank[:, :, None])
    seen = ops.logical_and(distance < window.size, rank[:, :, None] >= 0)
    if window.global_tokens:
        first = slice(0, window.global_tokens)
        keys, values = (
            ops.concatenate([x, every[:, None, first] + 0 * x[:, :, :1]], axis=2)
            for x, every in ((keys, tokens.keys), (values, tokens.values))
        )
        number = ops.arange(ops.shape(tokens.keys[:, first])[1], dtype="int32")
        rank = ops.concatenate([rank, number + 0 * rank[:, :, :1]], axis=-1)
        far = ops.abs(place[..., None] - number) >= window.size  # Others are in the window.
        seen = ops.concatenate([seen, far], axis=-1)
    seen = ops.logical_and(seen, rank[:, :, None] <= last[..., None])
    weights = softmax_over(ops.matmul(q, transposed(keys)), seen)
    return join_chunks(ops.matmul(dropped(weights), values), length)


def block_size(window: int, num_tokens: Any) -> Any:
    """Return the number of queries of a block: the window, or all tokens if they are fewer."""
    if window <= _BLOCK:
        return _BLOCK
    if isinstance(num_tokens, int):
        return max(_BLOCK, min(window, num_tokens))
    return ops.maximum(_BLOCK, ops.minimum(window, num_tokens))


def _neighbours(x: Any, num_blocks: Any, size: int, around: int) -> Any:
    """Return for each block the tokens of the block before it, its own and perhaps the next."""
    missing = (num_blocks + around - 2) * size - ops.shape(x)[1]
    x = ops.pad(x, ((0, 0), (size, missing), (0, 0)))
    x = ops.reshape(x, (-1, num_blocks + around - 1, size, x.shape[-1]))
    return ops.concatenate([part(x, i, num_blocks) for i in range(around)], axis=2)


def _taken(x: Any, rank: Any) -> Any:
    """Return the tokens of the ranks, `(batch, blocks, ranks, width)`; others are undefined."""
    index = ops.clip(rank, 0, ops.shape(x)[1])
    x = ops.pad(x, ((0, 0), (0, 1), (0, 0)))  # for zero tokens
    batch, num_blocks, size = ops.shape(rank)  # no -1: the batch may be empty
    taken = tokens_at(x, ops.reshape(index, (batch, num_blocks * size)))
    return ops.reshape(taken, (batch, num_blocks, size, x.shape[-1]))
