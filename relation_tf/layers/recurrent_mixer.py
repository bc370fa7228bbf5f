"""Base classes of mixers with a recurrence, their short convolutions and learned step sizes."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from relation_tf.layers.arguments import number_of_heads
from relation_tf.layers.masking import (
    aligned,
    close_up,
    pad_tokens,
    part,
    reversed_tokens,
    spread_out,
    to_float32,
)
from relation_tf.layers.recurrence import chunked_recurrence, recurrence_step
from relation_tf.layers.token_mixer import CausalMixer


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
        output = self.recurred(*(_first(count, x) for x in (queries, terms, value_mask)))
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
        return Terms(*(_first(count, term) for term in x))
    return x if x is None or count is None else part(x, 0, count)


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
