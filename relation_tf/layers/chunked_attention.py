"""Exact attention with memory linear in the number of tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import keras
from keras import ops

from relation_tf.layers.dropout import dropout_mask
from relation_tf.layers.masking import LOWEST, softmax, to_float32
from relation_tf.layers.slicing import join_chunks, part, split_tokens, transposed

# Approximate maximum number of queries with weights in memory at a time.
_CHUNK = 512
# With 4 parts, causal attention computes 5/8 of all weights; with many parts, half of them.
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
    """Compute `dropout(softmax(queries keys^T)) values` in chunks of queries.

    Only the weights of one chunk are in memory at a time. The gradient recomputes them with the
    same dropout; automatic differentiation would store the weights of all chunks. The weights of
    the last chunk are stored, so that a sequence of one chunk takes no additional time.

    Args:
        queries: Tensor of shape `(batch, queries, width)`, scaled.
        keys: Tensor of shape `(batch, tokens, width)`, zero at masked tokens.
        values: Tensor of shape `(batch, tokens, width)`, of the same width, zero at masked tokens.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.
        dropout: Rate in [0, 1), on the weights; exact to 2^-17.
        seed_generator: A `keras.random.SeedGenerator`, required if the rate is above 0.
        first: Position of the first query for causal attention; None if queries see all tokens.

    Returns:
        Tensor of shape `(batch, queries, width)`; zero if all tokens are masked. Softmax and sums
        of gradients are in float32 or wider.

    References:
        - Dao et al. 2022, "FlashAttention: Fast and Memory-Efficient Exact Attention with
          IO-Awareness", appendix B.
    """
    rate = _drawn(dropout)
    chunks = _Chunks(ops.shape(queries)[1])

    @ops.custom_gradient
    def attend(queries: Any, keys: Any, values: Any, *others: Any) -> tuple[Any, Any]:
        given = iter(others)
        hidden = None if mask is None else next(given)
        seeds = None if rate == 0 else next(given)
        step = _Step(keys, values, hidden, first, chunks.size, rate, seeds)
        last = chunks.count - 1

        def compute() -> tuple[Any, Any, Any]:
            parts = chunks.split(queries)
            # Causal attention makes several calls, and each would store the weights of a chunk.
            weighed = step.weigh(last, parts[last]) if first is None else None
            # Outputs overwrite their queries in the buffer, which forces sequential chunks.
            outputs = step.forward(last, ops.fori_loop(0, last, step.forward, parts), weighed)
            return parts, weighed, outputs

        computed = compute()

        def gradient(*arguments: Any, upstream: Any = None) -> Any:
            parts, weighed, outputs = compute() if _records_gradient() else computed
            upstream = chunks.split(arguments[0] if upstream is None else upstream)
            # Gradient of softmax: subtract the sum over tokens of weights * for_weights.
            offsets = ops.sum(to_float32(upstream) * to_float32(outputs), axis=-1, keepdims=True)
            backward = partial(step.backward, upstream=upstream * step.scale, offsets=offsets)
            state = (parts, ops.zeros_like(to_float32(keys)), ops.zeros_like(to_float32(values)))
            # The last chunk comes first to free its stored weights.
            state = ops.fori_loop(0, last, backward, backward(last, state, weighed=weighed))
            for_queries, for_keys, for_values = state
            return (
                chunks.joined(for_queries),
                ops.cast(for_keys, keys.dtype),
                ops.cast(for_values, values.dtype),
                *(None for _ in others),
            )

        return chunks.joined(computed[2]), gradient

    # All tensors are arguments: JAX cannot vmap a custom gradient that captures tensors.
    others = []
    if mask is not None:
        zeros = ops.zeros_like(to_float32(keys[..., 0]))
        others.append(ops.where(mask, zeros, LOWEST)[:, None, :])
    if rate > 0:
        shape, dtype = (chunks.count, 2), seed_generator.state.dtype
        others.append(keras.random.randint(shape, 0, 2**31 - 1, dtype, seed=seed_generator))
    return attend(queries, keys, values, *others)


def causal_chunked_attention(
    queries: Any, keys: Any, values: Any, mask: Any = None, **dropout: Any
) -> Any:
    """Apply `chunked_attention` causally: query i sees tokens 1 to i.

    The queries are split into 4 parts. Each part gets only the tokens up to its end, which skips
    most of the hidden tokens.

    Args:
        queries: Tensor of shape `(batch, tokens, width)`, scaled.
        keys: Tensor of shape `(batch, tokens, width)`, zero at masked tokens.
        values: Tensor of shape `(batch, tokens, width)`, zero at masked tokens.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.
        **dropout: `dropout` and `seed_generator`.

    Returns:
        Tensor of shape `(batch, tokens, width)`; zero if all tokens up to a query are masked.
    """
    length = ops.shape(queries)[1]
    ends = [length * i // _PARTS for i in range(_PARTS + 1)]
    outputs = [
        chunked_attention(
            part(queries, start, end - start),
            part(keys, 0, end),
            part(values, 0, end),
            None if mask is None else mask[:, :end],
            first=start,
            **dropout,
        )
        for start, end in pairwise(ends)
    ]
    return ops.concatenate(outputs, axis=1)


class _Chunks:
    """Division of queries into chunks of equal size; the last one is padded with zeros."""

    def __init__(self, num_queries: Any) -> None:
        self.num_queries = num_queries
        self.count = num_queries // (_CHUNK + 1) + 1  # At least one, for zero queries too.
        self.size = (num_queries + self.count - 1) // self.count

    def split(self, x: Any) -> Any:
        """Reshape `(batch, queries, width)` to `(chunks, batch, size, width)`."""
        return ops.transpose(split_tokens(x, self.count, self.size), (1, 0, 2, 3))

    def joined(self, chunks: Any) -> Any:
        """Invert `split`."""
        return join_chunks(ops.transpose(chunks, (1, 0, 2, 3)), self.num_queries)


@dataclass(frozen=True, eq=False)  # JAX hashes the functions of its loops, not their tensors.
class _Step:
    """Attention of one chunk of queries, and its gradient.

    Attributes:
        keys: As in `chunked_attention`.
        values: As in `chunked_attention`.
        hidden: -1e30 at masked tokens, else 0, `(batch, 1, tokens)`; None without a mask.
        first: As in `chunked_attention`.
        size: Number of queries of a chunk.
        rate: Dropout rate, from `_drawn`.
        seeds: A seed for each chunk, `(chunks, 2)`; None without dropout.
    """

    keys: Any
    values: Any
    hidden: Any
    first: Any
    size: Any
    rate: float
    seeds: Any

    @property
    def scale(self) -> float:
        """Factor of the kept weights."""
        return 1 / (1 - self.rate)

    def weigh(self, i: Any, chunk: Any) -> tuple[Any, Callable[[Any], Any]]:
        """Return the weights of chunk i and the function that applies its dropout."""
        scores = to_float32(ops.matmul(chunk, transposed(self.keys)))
        scores = scores if self.hidden is None else scores + self.hidden
        if self.first is not None:
            scores = self._without_later(self.first + i * self.size, scores)
        weights = softmax(scores)
        if self.seeds is None:
            return weights, lambda x: x
        drawn = _dropout_mask(ops.shape(weights), self.rate, self.seeds[i])
        return weights, lambda x: ops.where(drawn, x, 0.0)

    def _without_later(self, start: Any, scores: Any) -> Any:
        """Set the scores of later tokens to -inf; `start` is the position of the first query."""
        own = start + ops.arange(self.size, dtype="int32")[:, None]
        later = ops.arange(ops.shape(scores)[2], dtype="int32") > own
        # Lower than masked tokens (-1e30): a query with only masked tokens must not see later ones.
        return ops.where(later, float("-inf"), scores)

    def forward(self, i: Any, buffer: Any, weighed: Any = None) -> Any:
        """Replace chunk i of the queries by its output; `weighed` is the result of `weigh`."""
        weights, drop = self.weigh(i, buffer[i]) if weighed is None else weighed
        dropped = ops.cast(drop(weights), self.values.dtype)
        return _put(buffer, i, ops.matmul(dropped, self.values) * self.scale)

    def backward(
        self, i: Any, state: Any, upstream: Any, offsets: Any, weighed: Any = None
    ) -> tuple[Any, Any, Any]:
        """Replace chunk i of the queries by its gradient, and add to those of keys and values."""
        buffer, for_keys, for_values = state
        i = _after(i, for_keys, for_values)
        chunk, above = buffer[i], upstream[i]
        weights, drop = self.weigh(i, chunk) if weighed is None else weighed
        for_weights = drop(to_float32(ops.matmul(above, transposed(self.values))))
        for_scores = ops.cast(weights * (for_weights - offsets[i]), self.keys.dtype)
        dropped = ops.cast(drop(weights), self.values.dtype)
        return (
            _put(buffer, i, ops.matmul(for_scores, self.keys)),
            for_keys + to_float32(ops.matmul(transposed(for_scores), chunk)),
            for_values + to_float32(ops.matmul(transposed(dropped), above)),
        )


class _Seed(keras.random.SeedGenerator):
    """Seed generator that always returns the same seed."""

    def __init__(self, seed: Any) -> None:
        # No call of super().__init__(): it would create a variable.
        self.seed = seed

    def next(self, ordered: bool = True) -> Any:
        """Return the seed."""
        return self.seed


def _drawn(rate: float) -> float:
    """Round a rate to 16 binary places, below one, as `_dropout_mask` needs it."""
    return min(round(rate * 2**16), 2**16 - 1) / 2**16


def _dropout_mask(shape: tuple[Any, ...], rate: float, seed: Any) -> Any:
    """Return a random boolean tensor, True with probability `1 - rate`; equal for equal seeds.

    At rates other than 0.5 each random integer decides two entries, by its upper and lower 16 bits,
    because drawing random numbers takes longer than a matrix product.
    """
    if rate == 0.5:
        return dropout_mask(shape, rate, _Seed(seed))
    batch, queries, tokens = shape
    draws = (batch, queries, (tokens + 1) // 2)
    both = keras.random.randint(draws, -(2**31), 2**31 - 1, "int32", seed=_Seed(seed))
    halves = [ops.right_shift(both, 16), ops.right_shift(ops.left_shift(both, 16), 16)]
    least = int(rate * 2**16) - 2**15
    return ops.concatenate([half >= least for half in halves], axis=-1)[..., :tokens]


def _records_gradient() -> bool:
    """Return True if PyTorch will differentiate a gradient, whose forward pass had no graph."""
    if keras.backend.backend() != "torch":
        return False
    import torch

    return torch.is_grad_enabled()


def _after(i: Any, *tensors: Any) -> Any:
    """Return `i` with a data dependency on the tensors.

    TensorFlow otherwise runs ten independent steps of a loop in parallel, with the weights of ten
    chunks in memory.
    """
    if isinstance(i, int):  # on PyTorch, where a tensor would be copied from the GPU
        return i
    for x in tensors:
        more = ops.any(x[:1, :1, :1] > float("inf"))  # Always False; compilers cannot know.
        i = i + ops.cast(more, "int32")
    return i


def _put(buffer: Any, i: Any, chunk: Any) -> Any:
    """Replace chunk i of the buffer; TensorFlow cannot scatter into an empty batch."""
    places = ops.arange(ops.shape(buffer)[0], dtype="int32")
    return ops.where((places == i)[:, None, None, None], chunk, buffer)
