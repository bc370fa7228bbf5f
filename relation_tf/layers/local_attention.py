"""Local attention: each query attends to a window of tokens and to a few global tokens."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import keras
from keras import ops

from relation_tf.layers.arguments import non_negative_integer, positive_integer
from relation_tf.layers.averages import masked_softmax, softmax_over
from relation_tf.layers.masking import (
    aligned,
    close_up,
    join_chunks,
    kept_before,
    part,
    split_tokens,
    spread_out,
    tokens_at,
    transposed,
)
from relation_tf.layers.token_mixer import CausalMixer, affine

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


@keras.saving.register_keras_serializable(package="relation_tf")
class LocalAttention(CausalMixer):
    """Single-head attention in a sliding window, with global tokens.

    `softmax(Q K^T / sqrt(units)) V` with `Q = query W_Q`, `K = value W_K`, `V = value W_V`, over
    the tokens that a query sees: those at a distance below `window` on each side, and the first
    `global_tokens` tokens of `value`. The first `global_tokens` queries see all tokens.

    The position of a query is the number of unmasked tokens of `value` before it. Global queries
    are the first unmasked ones. Time and memory are linear in the number of tokens: blocks of
    `window` queries (fewer for a shorter text, at least 32) attend to the tokens of the same block
    and of the two next to it.

    With `causal=True` query i sees only tokens 1 to i of those; global tokens see no more than
    others. The state of `step` is `(keys, values, global keys, global values, count)`: the last
    `window` and the first `global_tokens` keys and values, of shape `(batch, tokens, units)`, and
    the number of tokens so far, `(batch, 1)`.

    Args:
        units: Width of queries, keys, values and output.
        window: A query sees tokens at distances 0 to `window - 1` on each side.
        global_tokens: Number of global tokens. The mechanism "local-attention" of networks has one.
            Networks read its output, and it sees all tokens, so `window` has no effect in a single
            layer: use an encoder of several blocks.
        use_bias: If True, the three projections have biases. Default: False.
        dropout: Dropout rate in [0, 1), on the attention weights and before the output projection.
            Default: 0, or 0.5 for the released code.
        **kwargs: As in `CausalMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens get no weight and do not count as
            positions.

    Returns:
        Tensor of shape `(batch, queries, units)`; zero if a query sees no token.

    Raises:
        ValueError: If `window` is not a positive integer or `global_tokens` not a non-negative one.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import LocalAttention
        >>> layer = LocalAttention(units=8, window=3, global_tokens=1)
        >>> layer(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Beltagy, Peters, Cohan 2020, "Longformer: The Long-Document Transformer",
          arXiv 2004.05150, section 3.1, with the same projections for global tokens.
    """

    def __init__(self, units: int, window: int = 32, global_tokens: int = 0, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.window = positive_integer("window", window)
        self.global_tokens = non_negative_integer("global_tokens", global_tokens)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_Q, W_K and W_V."""
        self.add_query_key_value(query_width, value_width)

    def mix_masked(
        self, query: Any, value: Any, query_mask: Any, value_mask: Any, training: bool
    ) -> Any:
        """Compute attention in windows, and of the global queries to all tokens."""
        if query is value:
            x = query if query_mask is None else close_up(query, query_mask)
            place = ops.arange(ops.shape(x)[1], dtype="int32")[None]
            tokens = self._tokens(x, query_mask, place if self.causal else None)
            output = self._mixed(self._queries(x), None, tokens, place, training, in_order=True)
            return output if query_mask is None else spread_out(output, query_mask)
        if self.causal:
            value, value_mask = aligned(query, value, value_mask)
        if value_mask is None:
            value_mask = ops.ones(ops.shape(value)[:2], "bool")
        place = kept_before(ops.shape(query)[1], value_mask)
        last = place - 1 + ops.cast(value_mask, "int32") if self.causal else None
        tokens = self._tokens(close_up(value, value_mask), value_mask, last)
        q = self._queries(query)
        return self._mixed(q, query_mask, tokens, place, training, in_order=False)

    def _queries(self, query: Any) -> Any:
        return affine(query, self.query_kernel, self.query_bias) * self.units**-0.5

    def _tokens(self, value: Any, mask: Any, last: Any) -> Tokens:
        if mask is None:
            count = ops.reshape(ops.shape(value)[1], (1, 1))
        else:
            count = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
        keys = affine(value, self.key_kernel, self.key_bias)
        values = affine(value, self.value_kernel, self.value_bias)
        return Tokens(keys, values, count, count - 1 if last is None else last)

    def _mixed(
        self, q: Any, mask: Any, tokens: Tokens, place: Any, training: bool, in_order: bool
    ) -> Any:
        """Compute all outputs; if `in_order`, query i is at place i."""
        some_global = self.global_tokens > 0 and not self.causal
        if some_global and q.shape[1] is not None and q.shape[1] <= self.global_tokens:
            return self._to_all(q, tokens, training)
        output = self._in_windows(q, tokens, place, training, in_order)
        if not some_global:
            return output
        first = (q if mask is None else close_up(q, mask))[:, : self.global_tokens]
        first = self._to_all(first, tokens, training)
        if mask is None:
            return ops.concatenate([first, output[:, self.global_tokens :]], axis=1)
        number = ops.cumsum(ops.cast(mask, "int32"), axis=1)
        index = ops.clip(number - 1, 0, ops.shape(first)[1] - 1)
        is_global = ops.logical_and(mask, number <= self.global_tokens)[..., None]
        return ops.where(is_global, tokens_at(first, index), output)

    def _in_windows(
        self, q: Any, tokens: Tokens, place: Any, training: bool, in_order: bool
    ) -> Any:
        """Compute the outputs by blocks of queries, as if no query were global.

        Args:
            q: Queries, `(batch, queries, units)`.
            tokens: The tokens.
            place: Number of unmasked tokens before each query, `(batch, queries)` or
                `(1, queries)`.
            training: If True, dropout is applied.
            in_order: If True, query i is at place i.

        Returns:
            Tensor of shape `(batch, queries, units)`.
        """
        length, size = ops.shape(q)[1], block_size(self.window, ops.shape(tokens.keys)[1])
        num_blocks = abs(length - 1) // size + 1  # At least one, for zero tokens too.
        around = 2 if self.causal else 3  # blocks of tokens for a block of queries
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
        seen = ops.logical_and(distance < self.window, rank[:, :, None] >= 0)
        if self.global_tokens:
            first = slice(0, self.global_tokens)
            keys, values = (
                ops.concatenate([x, all_tokens[:, None, first] + 0 * x[:, :, :1]], axis=2)
                for x, all_tokens in ((keys, tokens.keys), (values, tokens.values))
            )
            number = ops.arange(ops.shape(tokens.keys[:, first])[1], dtype="int32")
            rank = ops.concatenate([rank, number + 0 * rank[:, :, :1]], axis=-1)
            far = ops.abs(place[..., None] - number) >= self.window  # Others are in the window.
            seen = ops.concatenate([seen, far], axis=-1)
        seen = ops.logical_and(seen, rank[:, :, None] <= last[..., None])
        weights = softmax_over(ops.matmul(q, transposed(keys)), seen)
        return join_chunks(ops.matmul(self.drop(weights, training), values), length)

    def _to_all(self, q: Any, tokens: Tokens, training: bool) -> Any:
        """Compute the outputs of global queries."""
        kept = ops.arange(ops.shape(tokens.keys)[1], dtype="int32") < tokens.count
        weights = masked_softmax(ops.matmul(q, transposed(tokens.keys)), kept)
        return ops.matmul(self.drop(weights, training), tokens.values)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return empty buffers of keys and values, and the number of tokens."""
        window, first = (
            ops.zeros((batch_size, number, self.units), self.compute_dtype)
            for number in (self.window, self.global_tokens)
        )
        return window, window, first, first, ops.zeros((batch_size, 1), "int32")

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the buffers and compute its attention."""
        *buffers, count = state
        new = (
            affine(x, self.key_kernel, self.key_bias),
            affine(x, self.value_kernel, self.value_bias),
        )
        is_first = ops.arange(self.global_tokens, dtype="int32") == count
        is_first = ops.logical_and(is_first, mask)[..., None]
        buffers = [
            ops.where(mask[..., None], ops.concatenate([buffer[:, 1:], row], axis=1), buffer)
            for buffer, row in zip(buffers[:2], new, strict=True)
        ] + [ops.where(is_first, row, buffer) for buffer, row in zip(buffers[2:], new, strict=True)]
        buffers = [ops.cast(x, self.compute_dtype) for x in buffers]
        count = count + ops.cast(mask, "int32")
        in_window = ops.arange(self.window, 0, -1, dtype="int32") <= count
        before = ops.arange(self.global_tokens, dtype="int32") < count - self.window
        keys, values = (ops.concatenate(pair, axis=1) for pair in (buffers[::2], buffers[1::2]))
        seen = ops.concatenate([in_window, before], axis=1)
        scores = ops.matmul(self._queries(x), transposed(keys))
        return ops.matmul(masked_softmax(scores, seen), values), (*buffers, count)


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
