"""Linear recurrences over tokens in chunks, and the base classes of mixers with a recurrence.

Also what several recurrent mechanisms share: short convolutions and decays of learned step sizes.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from relation_tf.layers.arguments import number_of_heads
from relation_tf.layers.base import CausalMixer
from relation_tf.layers.masking import (
    aligned,
    causal_mask,
    close_up,
    join_chunks,
    pad_tokens,
    part,
    reversed_tokens,
    split_tokens,
    spread_out,
    to_float32,
)

# Maximum number of tokens of a chunk.
CHUNK = 64
# Maximum number of tokens of a chunk with a decay for each feature: a power of two.
_VECTOR_CHUNK = 32
# Its minimum number of tokens in a TensorFlow graph with unknown length: a power of two.
_SHORTEST_CHUNK = 8


class Terms(NamedTuple):
    """Terms of a recurrence for each token, in float32 or wider.

    Attributes:
        keys: Tensor of shape `(batch, tokens, heads, features)`, zero at masked tokens; None in a
            recurrence without keys.
        values: Tensor of shape `(batch, tokens, heads, width)`.
        log_decays: Tensor of shape `(batch, tokens, heads)` or, with a decay for each feature, of
            the shape of `keys`; zero at masked tokens.
        skip: Summand of the output, with the shape of `values` and zero at masked tokens, or None.
        log_inputs: Logarithms of an input gate, with the shape of `log_decays`, or None.
    """

    keys: Any
    values: Any
    log_decays: Any
    skip: Any = None
    log_inputs: Any = None


class RecurrentMixer(CausalMixer):
    """Token mixer with a linear recurrence over the tokens of `value`.

    With `causal=True`, query t reads the state after the tokens 1 to t of `value`. Otherwise it
    also reads the state of the same recurrence over the reversed tokens, from the last one to t,
    with the same weights. The output is the sum of both; token t counts in each. Queries, keys,
    values and decays are computed once for both directions. Masked tokens are absent: they change
    neither states nor distances.

    A subclass computes the recurrence's input in `queries` and `terms`, the recurrence in
    `recurred` and the output in `finish`.

    Args:
        units: Width of the output, at least 1.
        **kwargs: As in `CausalMixer`.
    """

    def queries(self, query: Any, query_mask: Any) -> Any:
        """Return queries of shape `(batch, queries, heads, features)`, in float32 or wider."""
        raise NotImplementedError

    def terms(self, value: Any, value_mask: Any) -> Terms:
        """Return the terms of the tokens."""
        raise NotImplementedError

    def recurred(self, queries: Any, terms: Terms, mask: Any) -> Any:
        """Compute the recurrence over the tokens in their order."""
        raise NotImplementedError

    def finish(self, output: Any, query: Any, training: bool) -> Any:
        """Compute `(batch, queries, units)` from `(batch, queries, heads, width)`."""
        raise NotImplementedError

    def mix_masked(
        self, query: Any, value: Any, query_mask: Any, value_mask: Any, training: bool
    ) -> Any:
        """Compute the recurrence in one or both directions."""
        queries = self.queries(query, query_mask)
        if query is not value:
            if not self.causal:
                queries = pad_tokens(queries, ops.shape(value)[1] - ops.shape(queries)[1])
            value, value_mask = aligned(queries, value, value_mask)
        terms = self.terms(value, value_mask)
        count = None if query is value else ops.shape(query)[1]
        skip, terms = _first(count, terms.skip), terms._replace(skip=None)
        # The states that queries read do not depend on tokens after the last query.
        output = self.recurred(*(_first(count, each) for each in (queries, terms, value_mask)))
        if not self.causal:
            reverse = (
                reversed_tokens(queries),
                Terms(*map(reversed_tokens, terms)),
                reversed_tokens(value_mask),
            )
            output = output + _first(count, reversed_tokens(self.recurred(*reverse)))
        if skip is not None:
            output = output + skip
        return self.finish(output, query, training)


class MatrixStateMixer(RecurrentMixer):
    """Recurrence with the state `S_t = a_t S_{t-1} + k_t v_t^T` and the output `q_t^T S_t`.

    The decay a is a number for each head, or a vector with an entry for each feature of the key.

    A subclass may replace the recurrence in `recurred`.

    Args:
        units: Width of the output, a multiple of `num_heads`.
        num_heads: Number of heads, each with its own state.
        **kwargs: As in `CausalMixer`.
    """

    def __init__(self, units: int, num_heads: int = 1, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.num_heads = number_of_heads(num_heads, self.units)

    def recurred(self, queries: Any, terms: Terms, mask: Any) -> Any:
        """Compute the recurrence over the tokens in their order."""
        return chunked_recurrence(queries, terms.keys, terms.values, terms.log_decays)

    def add_per_head(self, name: str, initializer: Any) -> Any:
        """Add one number for each head, which keeps its precision under mixed policies."""
        # In half precision, step sizes and decays would be too coarse.
        return self.add_weight(
            shape=(self.num_heads,), initializer=initializer, autocast=False, name=name
        )

    def add_filters(self, name: str, filter_width: int, width: int) -> Any:
        """Add the filters of a short convolution."""
        # Uniform in +-1 / sqrt(filter_width), as in the authors' code.
        uniform = keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")
        return self.add_weight(shape=(filter_width, width), initializer=uniform, name=name)

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the state, for a layer whose `start` returns only S."""
        terms = self.terms(x, mask)
        output, next_state = recurrence_step(
            self.queries(x, mask), terms.keys, terms.values, terms.log_decays, state[0]
        )
        return self.finish(output, x, training=False), (next_state,)

    def heads(self, x: Any) -> Any:
        """Reshape `(batch, tokens, width)` to heads, in float32 or wider."""
        width = x.shape[-1] // self.num_heads
        return ops.reshape(to_float32(x), (*ops.shape(x)[:2], self.num_heads, width))


def _first(count: Any, x: Any) -> Any:
    """Return the first `count` tokens of a tensor or of terms; all if it is None."""
    if isinstance(x, Terms):
        return Terms(*(_first(count, each) for each in x))
    return x if x is None or count is None else part(x, 0, count)


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


def decays_between(log_decays: Any) -> Any:
    """Return the product of the decays after token j up to token i, zero for later tokens.

    Each logarithm is summed separately: a difference of two sums over the chunk would lose the
    decays of few tokens after a large one.

    Args:
        log_decays: Tensor of shape `(chunks, batch, heads, size, 1)`.

    Returns:
        Tensor of shape `(chunks, batch, heads, size, size)`.
    """
    seen = causal_mask(ops.shape(log_decays)[3])
    later = ops.logical_not(ops.transpose(seen))
    return ops.where(seen, ops.exp(ops.cumsum(ops.where(later, log_decays, 0.0), axis=3)), 0.0)


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


def pairs_of_blocks(x: Any, block: int) -> Any:
    """Split the tokens into pairs of blocks: two tensors of shape `(pairs, block, width)`."""
    # The gradient of slices would be several times slower on a CPU.
    return ops.unstack(ops.reshape(x, (-1, 2, block, x.shape[-1])), 2, axis=1)


def number_and_size(length: Any) -> tuple[Any, Any]:
    """Return the number of chunks of a sequence, and the number of tokens of each."""
    num_chunks = length // CHUNK + 1
    return num_chunks, length // num_chunks + 1  # At least one token, for zero tokens too.


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


def short_convolution(x: Any, filters: Any, bias: Any, mask: Any) -> Any:
    """Compute `y_t = b + sum over s < width of w_s * x_{t - width + 1 + s}` over unmasked tokens.

    Args:
        x: Tensor of shape `(batch, tokens, features)`.
        filters: The weights w, of shape `(width, features)`. Before the first token, x is zero.
        bias: The bias b, of shape `(features,)`, or 0.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.

    Returns:
        Tensor with the shape of `x`, undefined at masked tokens.
    """
    width, length = filters.shape[0], ops.shape(x)[1]
    if mask is not None:
        x = close_up(x, mask)
    x = ops.pad(x, ((0, 0), (width - 1, 0), (0, 0)))
    y = bias + sum(filters[s] * part(x, s, length) for s in range(width))
    return y if mask is None else spread_out(y, mask)


def convolution_step(x: Any, filters: Any, bias: Any, state: Any, mask: Any) -> tuple[Any, Any]:
    """Return the output of `short_convolution` for one token, and the next state.

    The state holds the last `width - 1` kept inputs, in the shape `(batch, width - 1, features)`.
    """
    inputs = ops.concatenate([state, ops.cast(x, state.dtype)], axis=1)
    y = bias + ops.sum(filters * inputs, axis=1, keepdims=True)
    return ops.cast(y, x.dtype), ops.where(mask[..., None], inputs[:, 1:], state)


def step_sizes(value: Any, kernel: Any, offset: Any) -> Any:
    """Return dt, the softplus of a projection and an offset, in float32 or wider."""
    dt = to_float32(ops.matmul(value, kernel))
    return ops.softplus(dt + ops.cast(offset, dt.dtype))


def decays_of_steps(dt: Any, a_log: Any) -> Any:
    """Return the logarithms A dt of decays, with `A = -exp(a_log)`."""
    return -ops.exp(ops.cast(a_log, dt.dtype)) * dt


def initial_dt_offset(shape: tuple[int, ...], dtype: Any = None) -> Any:
    """Return offsets with `softplus(offset)` log-uniform in [0.001, 0.1]."""
    dt = ops.exp(keras.random.uniform(shape, -6.907755, -2.302585, dtype="float32"))
    return ops.cast(dt + ops.log(-ops.expm1(-dt)), dtype)


def initial_a_log(shape: tuple[int, ...], dtype: Any = None) -> Any:
    """Return logarithms of numbers uniform in [1, 16]."""
    return ops.cast(ops.log(keras.random.uniform(shape, 1, 16, dtype="float32")), dtype)
