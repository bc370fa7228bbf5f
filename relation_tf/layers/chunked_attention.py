"""Attention in memory that is linear in the number of tokens."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import keras
from keras import ops

from relation_tf.layers.masking import softmax, to_float32

# The most queries whose weights are held at a time (one more where they do not divide).
_CHUNK = 512
# Of so many parts, a causal sequence computes 5/8 of all weights; of many, it would be half.
_PARTS = 4


def chunked_attention(
    queries: Any,
    keys: Any,
    values: Any,
    mask: Any = None,
    dropout: float = 0.0,
    seed_generator: Any = None,
    first: Any = None,
) -> Any:
    """`dropout(softmax(queries keys^T)) values`, one chunk of the queries after another.

    The weights of one chunk are held at a time. The gradient computes them again, with the same
    dropout, and sums chunk by chunk what goes to keys and values; left to a backend, it would keep
    the weights of all chunks. Only those of the last chunk are kept, so that a short sequence,
    which is one chunk, takes no more time than by the formula.

    Args:
        queries: Tensor of shape `(batch, queries, width)`, scaled.
        keys: Tensor of shape `(batch, tokens, width)`, zero at masked tokens.
        values: Tensor of shape `(batch, tokens, width)`, of the same width, zero at masked tokens.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.
        dropout: Rate in [0, 1), on the weights; met to 2^-17.
        seed_generator: A `keras.random.SeedGenerator`, where the rate is above 0.
        first: Position of the first query, where queries see the tokens up to their own position;
            None where they see all.

    Returns:
        Tensor of shape `(batch, queries, width)`; zero where no token is kept. Softmax and the
        gradients' sums are in float32 or wider.

    References:
        - Dao et al. 2022, "FlashAttention: Fast and Memory-Efficient Exact Attention with
          IO-Awareness", appendix B.
    """
    rate = _drawn(dropout)
    scale = 1 / (1 - rate)
    num_queries = ops.shape(queries)[1]
    num_chunks = num_queries // (_CHUNK + 1) + 1  # One for no query at all, too.
    size = (num_queries + num_chunks - 1) // num_chunks
    last = num_chunks - 1

    def split(x: Any) -> Any:
        """`(batch, queries, width)` to `(chunks, batch, size, width)`."""
        x = ops.pad(x, ((0, 0), (0, num_chunks * size - num_queries), (0, 0)))
        x = ops.reshape(x, (ops.shape(x)[0], num_chunks, size, x.shape[2]))
        return ops.transpose(x, (1, 0, 2, 3))

    def up_to_own(start: Any, scores: Any) -> Any:
        """The scores of a chunk whose queries start at a position, without later tokens'."""
        own = start + ops.arange(size, dtype="int32")[:, None]
        later = ops.arange(ops.shape(scores)[2], dtype="int32") > own
        # Lower than masked tokens: a query that sees only such must not turn to later ones.
        return ops.where(later, float("-inf"), scores)

    def joined(chunks: Any) -> Any:
        """The way back."""
        x = ops.transpose(chunks, (1, 0, 2, 3))
        x = ops.reshape(x, (ops.shape(x)[0], num_chunks * size, x.shape[3]))
        return x[:, :num_queries]

    @ops.custom_gradient
    def attend(queries: Any, keys: Any, values: Any, *others: Any) -> tuple[Any, Any]:
        given = iter(others)
        hidden = None if mask is None else next(given)
        seeds = None if rate == 0 else next(given)

        def weigh(i: Any, chunk: Any) -> tuple[Any, Callable[[Any], Any]]:
            """The weights of a chunk, and the function that drops some of what has their shape."""
            scores = to_float32(ops.matmul(chunk, _transposed(keys)))
            scores = scores if hidden is None else scores + hidden
            weights = softmax(scores if first is None else up_to_own(first + i * size, scores))
            if seeds is None:
                return weights, lambda x: x
            kept = _kept(ops.shape(weights), rate, seeds[i])
            return weights, lambda x: ops.where(kept, x, 0.0)

        def forward(i: Any, buffer: Any, weighed: Any = None) -> Any:
            weights, drop = weigh(i, buffer[i]) if weighed is None else weighed
            output = ops.matmul(ops.cast(drop(weights), values.dtype), values) * scale
            return _put(buffer, i, output)

        # Results replace the chunks they come from, so that each chunk waits for the one before.
        chunks = split(queries)
        # A causal sequence comes in several calls, each of which would keep its last.
        weighed_last = weigh(last, chunks[last]) if first is None else None
        outputs = forward(last, ops.fori_loop(0, last, forward, chunks), weighed_last)

        def gradient(*arguments: Any, upstream: Any = None) -> Any:
            upstream = split(arguments[0] if upstream is None else upstream)
            # What softmax takes off the gradient of each weight: sum of weights * for_weights.
            offsets = ops.sum(to_float32(upstream) * to_float32(outputs), axis=-1, keepdims=True)
            upstream = upstream * scale

            def backward(i: Any, state: Any, weighed: Any = None) -> Any:
                buffer, for_keys, for_values = state
                i = _after(i, for_keys, for_values)
                chunk, above = buffer[i], upstream[i]
                weights, drop = weigh(i, chunk) if weighed is None else weighed
                for_weights = drop(to_float32(ops.matmul(above, _transposed(values))))
                for_scores = ops.cast(weights * (for_weights - offsets[i]), keys.dtype)
                dropped = ops.cast(drop(weights), values.dtype)
                return (
                    _put(buffer, i, ops.matmul(for_scores, keys)),
                    for_keys + to_float32(ops.matmul(_transposed(for_scores), chunk)),
                    for_values + to_float32(ops.matmul(_transposed(dropped), above)),
                )

            state = (chunks, ops.zeros_like(to_float32(keys)), ops.zeros_like(to_float32(values)))
            # The last one first, so that its weights are gone before others come.
            state = ops.fori_loop(0, last, backward, backward(last, state, weighed_last))
            for_queries, for_keys, for_values = state
            return (
                joined(for_queries),
                ops.cast(for_keys, keys.dtype),
                ops.cast(for_values, values.dtype),
                *(None for _ in others),
            )

        return joined(outputs), gradient

    # All tensors are arguments: JAX cannot batch a function with a gradient that captures others.
    others = []
    if mask is not None:
        zeros = ops.zeros_like(to_float32(keys[..., 0]))
        others.append(ops.where(mask, zeros, -1e30)[:, None, :])
    if rate > 0:
        shape, dtype = (num_chunks, 2), seed_generator.state.dtype
        others.append(keras.random.randint(shape, 0, 2**31 - 1, dtype, seed=seed_generator))
    return attend(queries, keys, values, *others)


def causal_chunked_attention(
    queries: Any, keys: Any, values: Any, mask: Any = None, **dropout: Any
) -> Any:
    """`chunked_attention` where query i sees the tokens up to i.

    The queries come in a few parts, each with the tokens up to its end, which leaves out most of
    what no query sees.

    Args:
        queries: Tensor of shape `(batch, tokens, width)`, scaled.
        keys: Tensor of shape `(batch, tokens, width)`, zero at masked tokens.
        values: Tensor of shape `(batch, tokens, width)`, zero at masked tokens.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.
        **dropout: `dropout` and `seed_generator`.

    Returns:
        Tensor of shape `(batch, tokens, width)`; zero where no token up to the own is kept.
    """
    length = ops.shape(queries)[1]
    ends = [length * part // _PARTS for part in range(_PARTS + 1)]
    outputs = [
        chunked_attention(
            queries[:, start:end],
            keys[:, :end],
            values[:, :end],
            None if mask is None else mask[:, :end],
            first=start,
            **dropout,
        )
        for start, end in pairwise(ends)
    ]
    return ops.concatenate(outputs, axis=1)


class _Seed(keras.random.SeedGenerator):
    """Gives keras.random one seed for ever, where a generator's next would be another."""

    def __init__(self, seed: Any) -> None:
        # No call of the base's, which would create a variable.
        self.seed = seed

    def next(self, ordered: bool = True) -> Any:
        """The seed."""
        return self.seed


def _drawn(rate: float) -> float:
    """The rate to 16 binary places, as `_kept` draws it, and below one."""
    return min(round(rate * 2**16), 2**16 - 1) / 2**16


def _kept(shape: tuple[Any, ...], rate: float, seed: Any) -> Any:
    """True at random with probability `1 - rate`, the same for the same seed.

    Random numbers take more time than a product, and each chunk needs its own twice: so each of
    them decides for two places, by its upper and its lower half.
    """
    batch, queries, tokens = shape
    draws = (batch, queries, (tokens + 1) // 2)
    both = keras.random.randint(draws, -(2**31), 2**31 - 1, "int32", seed=_Seed(seed))
    halves = [ops.right_shift(both, 16), ops.right_shift(ops.left_shift(both, 16), 16)]
    least = int(rate * 2**16) - 2**15
    return ops.concatenate([half >= least for half in halves], axis=-1)[..., :tokens]


def _after(i: Any, *tensors: Any) -> Any:
    """`i`, once the tensors are there.

    TensorFlow works on ten steps of a loop at once as far as none needs another's results, and
    would hold the weights of several chunks.
    """
    for x in tensors:
        more = ops.any(x[:1, :1, :1] > float("inf"))  # Never, and no compiler knows.
        i = i + ops.cast(more, "int32")
    return i


def _put(buffer: Any, i: Any, chunk: Any) -> Any:
    """The buffer with another chunk i; TensorFlow scatters nothing into an empty batch's."""
    places = ops.arange(ops.shape(buffer)[0], dtype="int32")
    return ops.where((places == i)[:, None, None, None], chunk, buffer)


def _transposed(x: Any) -> Any:
    return ops.transpose(x, (0, 2, 1))
