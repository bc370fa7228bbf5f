"""Scaled dot-product attention, also exact with memory linear in the number of tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import number_of_heads, positive_integer
from relation_tf.layers.averages import (
    causal_softmax,
    join_heads,
    mask_of_heads,
    masked_softmax,
    softmax,
    split_heads,
)
from relation_tf.layers.masking import (
    LOWEST,
    aligned,
    causal_mask,
    join_chunks,
    part,
    split_tokens,
    to_float32,
    transposed,
    zero_masked,
)
from relation_tf.layers.token_mixer import CausalMixer, affine, dropout_mask

# Approximate maximum number of queries with weights in memory at a time.
_CHUNK = 512
# With 4 parts, causal attention computes 5/8 of all weights; with many parts, half of them.
_PARTS = 4


@keras.saving.register_keras_serializable(package="relation_tf")
class Attention(CausalMixer):
    """Scaled dot-product attention.

    `softmax(Q K^T / sqrt(d)) V` with `Q = query W_Q`, `K = value W_K`, `V = value W_V` (equations
    1-4 of the Relation paper), for each head of d features. Time grows with queries times tokens.
    The heads are concatenated; `output_projection` can mix them.

    All algorithms compute the same output:

    - `"direct"` forms K, V and the weights as in the equations.
    - `"factored"` does not form K and V: it scores `(Q W_K^T) value^T` and projects the mixed
      tokens, `(weights value) W_V`. `"auto"` selects it if the input is not wider than `units`,
      and for few queries, such as a readout of one token. With several heads it is the same as
      `"direct"`.
    - `"chunked"` holds the weights of about 512 queries at a time and recomputes them for the
      gradient: memory is linear in queries plus tokens. `"auto"` selects it if the numbers of
      queries and tokens are both above 512 or unknown. Its dropout rate is exact to 2^-17. On JAX
      it has no forward-mode derivative.
    - `"fused"` is the backend's attention kernel, without dropout. `"auto"` selects it on PyTorch
      instead of `"direct"` and `"chunked"`, except with dropout in training and for causal
      attention with a mask. On JAX and a GPU, it is 3 to 5 times as fast as the others in half
      precision.

    With `causal=True` query i attends to tokens 1 to i. The state of `step` is `(keys, values,
    kept, position)`: keys and values of shape `(batch, max_length, units)`, their mask of shape
    `(batch, max_length)`, and the number of steps. After `max_length` steps outputs are NaN.

    Args:
        units: Width of queries, keys, values and output.
        num_heads: Number of heads, a divisor of `units`.
        use_bias: If True, the three projections have biases. Default: False.
        dropout: Dropout rate in [0, 1), on the attention weights and before the output projection.
            Default: 0, or 0.5 for the released code.
        algorithm: `"direct"`, `"factored"`, `"chunked"`, `"fused"` or `"auto"`.
        **kwargs: As in `CausalMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens get no weight.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If `num_heads` does not divide `units`, or if `algorithm="fused"` is combined
            with dropout.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import Attention
        >>> Attention(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Vaswani et al. 2017, "Attention Is All You Need".
        - Dao et al. 2022, "FlashAttention: Fast and Memory-Efficient Exact Attention with
          IO-Awareness".
        - Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, equations 1-4.
    """

    algorithms = ("direct", "factored", "chunked", "fused")

    def __init__(self, units: int, num_heads: int = 1, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.num_heads = number_of_heads(num_heads, self.units)
        if self.algorithm == "fused" and self.dropout > 0:
            raise ValueError(
                "algorithm='fused' does not support dropout on the weights. "
                f"Received: dropout={self.dropout}"
            )

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_Q, W_K and W_V."""
        self.add_query_key_value(query_width, value_width)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute equations 1-4."""
        if self.causal:
            value, value_mask = aligned(query, value, value_mask)
        q = self._queries(query)
        unfusible = self.drops(training) or (self.causal and value_mask is not None)
        num_queries = query.shape[1]
        num_tokens = num_queries if self.causal else value.shape[1]
        algorithm = self._algorithm(num_queries, num_tokens, self.value_width, unfusible)
        forms_keys = algorithm == "direct" or (
            algorithm != "factored" and self.value_width + self.use_bias > self.units
        )
        if self.num_heads > 1 or forms_keys:
            return self._mix_heads(algorithm, q, value, value_mask, training)
        return self._factored(self._attend(algorithm, value_mask, training), q, value, value_mask)

    def _queries(self, query: Any) -> Any:
        width = self.units // self.num_heads
        return affine(query, self.query_kernel, self.query_bias) * width**-0.5

    def _mix_heads(
        self, algorithm: str, q: Any, value: Any, value_mask: Any, training: bool
    ) -> Any:
        """Compute equations 1-4 for each head, with heads as rows of the batch."""
        keys = affine(value, self.key_kernel, self.key_bias)
        values = affine(value, self.value_kernel, self.value_bias)
        q, keys, values = (split_heads(x, self.num_heads) for x in (q, keys, values))
        mask = mask_of_heads(value_mask, self.num_heads)
        if self.use_bias:
            keys, values = zero_masked(keys, mask), zero_masked(values, mask)
        output = self._attend(algorithm, mask, training)(q, keys, values)
        return join_heads(output, self.num_heads)

    def _algorithm(
        self, num_queries: int | None, num_tokens: int | None, width: int, unfusible: bool
    ) -> str:
        if self.algorithm != "auto":
            return self.algorithm
        # Only PyTorch's kernel is faster than the formula on a CPU.
        fused = keras.backend.backend() == "torch" and not unfusible
        if all(length is None or length > _CHUNK for length in (num_queries, num_tokens)):
            return "fused" if fused else "chunked"
        more, saved = width - self.units, width * self.units
        few = more <= 0 or (num_queries is not None and num_queries * more <= saved)
        if few and self.num_heads == 1:
            return "factored"
        return "fused" if fused else "direct"

    def _attend(self, algorithm: str, mask: Any, training: bool) -> Callable[..., Any]:
        """Return an algorithm as a function of queries, keys and values, zero at masked tokens."""
        if algorithm in ("direct", "factored"):
            return partial(self._direct, mask=mask, training=training)
        if algorithm == "fused":
            return partial(_fused_attention, mask=mask, causal=self.causal)
        drops = self.drops(training)
        return partial(
            causal_chunked_attention if self.causal else chunked_attention,
            mask=mask,
            dropout=self.dropout if drops else 0.0,
            seed_generator=self.seed_generator if drops else None,
        )

    def _direct(self, q: Any, keys: Any, values: Any, mask: Any, training: bool) -> Any:
        weigh = causal_softmax if self.causal else masked_softmax
        return ops.matmul(self.drop(weigh(_scores(q, keys), mask), training), values)

    def _factored(self, attend: Callable[..., Any], q: Any, value: Any, value_mask: Any) -> Any:
        """Compute the equations of one head without forming K and V."""
        key_kernel, value_kernel = self.key_kernel, self.value_kernel
        if self.use_bias:
            # A column of ones (zero at masked tokens) multiplies the biases.
            ones = zero_masked(ops.ones_like(value[..., :1]), value_mask)
            value = ops.concatenate([value, ones], axis=-1)
            # Softmax cancels the bias of the keys, but Keras expects a gradient for it.
            key_kernel = ops.concatenate([key_kernel, 0 * self.key_bias[None]], axis=0)
            value_kernel = ops.concatenate([value_kernel, self.value_bias[None]], axis=0)
        q = ops.matmul(q, ops.transpose(key_kernel))
        return ops.matmul(attend(q, value, value), value_kernel)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return empty buffers of keys and values."""
        max_length = positive_integer("max_length", max_length)
        empty = ops.zeros((batch_size, max_length, self.units), self.compute_dtype)
        return empty, empty, ops.zeros((batch_size, max_length), "bool"), ops.zeros((), "int32")

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add the key and value of one token and compute equations 1-4."""
        keys, values, kept, position = state
        is_new = ops.arange(keys.shape[1], dtype="int32") == position  # (max_length,)

        def put(buffer: Any, row: Any) -> Any:
            return ops.where(is_new[:, None], ops.cast(row, buffer.dtype), buffer)

        keys = put(keys, affine(x, self.key_kernel, self.key_bias))
        values = put(values, affine(x, self.value_kernel, self.value_bias))
        kept = ops.where(is_new, mask, kept)
        q, all_keys, all_values = (
            split_heads(part, self.num_heads) for part in (self._queries(x), keys, values)
        )
        weights = masked_softmax(_scores(q, all_keys), mask_of_heads(kept, self.num_heads))
        output = join_heads(ops.matmul(weights, all_values), self.num_heads)
        output = ops.where(position < keys.shape[1], output, float("nan"))
        return output, (keys, values, kept, position + 1)


def _scores(q: Any, keys: Any) -> Any:
    """Return `Q K^T`, shape `(batch, queries, tokens)`."""
    return ops.matmul(q, ops.transpose(keys, (0, 2, 1)))


def _fused_attention(queries: Any, keys: Any, values: Any, mask: Any, causal: bool) -> Any:
    """Call the backend's attention kernel with one head."""
    heads = [x[:, :, None, :] for x in (queries, keys, values)]
    seen = None if mask is None else mask[:, None, None, :]
    if causal and mask is not None:
        # Some versions of Keras ignore is_causal if there is a mask.
        seen = ops.logical_and(seen, causal_mask(ops.shape(mask)[1]))
        causal = False
    # On a GPU, PyTorch can choose a faster kernel than FlashAttention, which Keras requires.
    flash = False if keras.backend.backend() == "torch" else None
    output = ops.dot_product_attention(
        *heads, mask=seen, scale=1.0, is_causal=causal, flash_attention=flash
    )[:, :, 0, :]
    if seen is None or seen.shape[2] == 1:
        return output
    # The kernel averages all tokens for a query that sees no token; its output must be zero.
    return zero_masked(output, ops.any(seen[:, 0], axis=-1))


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
        tensors = iter(others)
        hidden = None if mask is None else next(tensors)
        seeds = None if rate == 0 else next(tensors)
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
        positions = start + ops.arange(self.size, dtype="int32")[:, None]
        later = ops.arange(ops.shape(scores)[2], dtype="int32") > positions
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
