"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import keras
from keras import ops

from relation_tf.layers.causal import CausalMixer, aligned, causal_softmax, up_to_own
from relation_tf.layers.chunked_attention import causal_chunked_attention, chunked_attention
from relation_tf.layers.masking import masked_softmax, zero_masked
from relation_tf.layers.token_mixer import affine

# Up to so many queries or tokens, all weights are no more than one chunk's.
_FEW = 512


@keras.saving.register_keras_serializable(package="relation_tf")
class Attention(CausalMixer):
    """Single-head scaled dot-product attention.

    `softmax(Q K^T / sqrt(units)) V` with `Q = query W_Q`, `K = value W_K`, `V = value W_V`
    (equations 1-4 of the Relation paper). Time grows with queries times tokens.

    The algorithm `"factored"` never forms K and V: it scores `(Q W_K^T) value^T` and projects the
    mixed tokens, `(weights value) W_V`. It is chosen where that is less work: where the input is no
    wider than `units`, and for few queries, as for the read-out of one token.

    `"direct"` and `"factored"` hold a weight for each query and token. `"chunked"` holds those of a
    few hundred queries at a time and computes them again for the gradient, so that memory grows
    with queries plus tokens; it too forms neither K nor V where that is less work. It is chosen
    where there are, or may be, more than 512 queries and tokens. Its dropout meets the rate to
    2^-17. On JAX it has no forward-mode derivative.

    `"fused"` is the backend's own kernel, which has no dropout. It is chosen on PyTorch, in place
    of `"direct"` and `"chunked"`.

    With `causal=True` the weights of query i are those of the tokens up to i, by any algorithm.
    `"chunked"` takes the queries in a few parts and leaves out the tokens after each. `"fused"` is
    not chosen where there is a mask, of which it would need a copy for each query. The state of
    `step` holds keys and values, `(batch, max_length, units)` each, which of them are kept,
    `(batch, max_length)`, and the number of steps; after `max_length` steps outputs are NaN.

    Args:
        units: Width of queries, keys, values and output.
        variant: `"equations"` or `"released_code"`, which differ in the defaults below.
        use_bias: If True, the three projections have biases. By default False.
        dropout: Rate in [0, 1), on the attention weights (and before the closing projection). By
            default 0, for the released code 0.5.
        output_projection: If True, `dropout(relu(y)) W_output` closes the layer. By default for the
            released code only.
        algorithm: `"direct"`, `"factored"`, `"chunked"`, `"fused"` or `"auto"`.
        causal: Whether a query sees the tokens up to its own position only.
        **kwargs: As in `TokenMixer`: initializers, regularizers, `seed`, `name`, `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens get no weight.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: `algorithm="fused"` with dropout.

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

    algorithms: ClassVar[tuple[str, ...]] = ("direct", "factored", "chunked", "fused")

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        if self.algorithm == "fused" and self.dropout > 0:
            raise ValueError(
                "algorithm='fused' leaves no place for dropout on the weights. "
                f"Received: dropout={self.dropout}"
            )

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """W_Q, W_K, W_V."""
        self.query_kernel, self.query_bias = self.add_projection("query", query_width)
        self.key_kernel, self.key_bias = self.add_projection("key", value_width)
        self.value_kernel, self.value_bias = self.add_projection("value", value_width)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Equations 1-4."""
        if self.causal:
            value, value_mask = aligned(query, value, value_mask)
        q = self._queries(query)
        unfusible = (training and self.dropout > 0) or (self.causal and value_mask is not None)
        num_queries = query.shape[1]
        num_tokens = num_queries if self.causal else value.shape[1]
        attend = {
            "direct": self._direct,
            "factored": self._factored,
            "chunked": self._chunked,
            "fused": self._fused,
        }[self._algorithm(num_queries, num_tokens, value.shape[2], unfusible)]
        return attend(q, value, value_mask, training)

    def _queries(self, query: Any) -> Any:
        return affine(query, self.query_kernel, self.query_bias) * self.units**-0.5

    def _algorithm(
        self, num_queries: int | None, num_tokens: int | None, width: int, unfusible: bool
    ) -> str:
        if self.algorithm != "auto":
            return self.algorithm
        # Of the backends, PyTorch alone has a kernel that beats the formula on a CPU.
        fused = keras.backend.backend() == "torch" and not unfusible
        if all(length is None or length > _FEW for length in (num_queries, num_tokens)):
            return "fused" if fused else "chunked"
        more, saved = width - self.units, width * self.units
        if more <= 0 or (num_queries is not None and num_queries * more <= saved):
            return "factored"
        return "fused" if fused else "direct"

    def _direct(self, q: Any, value: Any, value_mask: Any, training: bool) -> Any:
        keys = affine(value, self.key_kernel, self.key_bias)
        values = affine(value, self.value_kernel, self.value_bias)
        return ops.matmul(self._weights(_scores(q, keys), value_mask, training), values)

    def _factored(self, q: Any, value: Any, value_mask: Any, training: bool) -> Any:
        scores = _scores(ops.matmul(q, ops.transpose(self.key_kernel)), value)
        if self.key_bias is not None:
            # The same for all tokens: softmax does not see it, but Keras wants a gradient.
            scores = scores + ops.matmul(q, self.key_bias[:, None])
        weights = self._weights(scores, value_mask, training)
        mixed = ops.matmul(ops.matmul(weights, value), self.value_kernel)
        if self.value_bias is None:
            return mixed
        # With dropout, or nothing kept, the weights do not sum to one.
        return mixed + ops.sum(weights, axis=-1, keepdims=True) * self.value_bias

    def _chunked(self, q: Any, value: Any, value_mask: Any, training: bool) -> Any:
        drops = training and self.dropout > 0
        attend = partial(
            causal_chunked_attention if self.causal else chunked_attention,
            mask=value_mask,
            dropout=self.dropout if drops else 0.0,
            seed_generator=self.seed_generator if drops else None,
        )
        return self._by(attend, q, value, value_mask)

    def _fused(self, q: Any, value: Any, value_mask: Any, training: bool) -> Any:
        attend = partial(_fused_attention, mask=value_mask, causal=self.causal)
        return self._by(attend, q, value, value_mask)

    def _by(self, attend: Callable[..., Any], q: Any, value: Any, value_mask: Any) -> Any:
        """The equations by a function of queries, keys and values, zero at masked tokens."""
        key_kernel, value_kernel = self.key_kernel, self.value_kernel
        if self.use_bias:
            # A column of ones carries the biases; like the rest, it is zero at masked tokens.
            ones = zero_masked(ops.ones_like(value[..., :1]), value_mask)
            value = ops.concatenate([value, ones], axis=-1)
            # Softmax does not see a bias of the keys, but Keras wants a gradient.
            key_kernel = ops.concatenate([key_kernel, 0 * self.key_bias[None]], axis=0)
            value_kernel = ops.concatenate([value_kernel, self.value_bias[None]], axis=0)
        if value.shape[-1] <= self.units:
            q = ops.matmul(q, ops.transpose(key_kernel))
            return ops.matmul(attend(q, value, value), value_kernel)
        return attend(q, ops.matmul(value, key_kernel), ops.matmul(value, value_kernel))

    def _weights(self, scores: Any, value_mask: Any, training: bool) -> Any:
        weigh = causal_softmax if self.causal else masked_softmax
        return self.drop(weigh(scores, value_mask), training)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Room for keys and values."""
        if max_length is None:
            raise ValueError(
                "the state of attention holds all tokens: `max_length` must say how many. "
                "Received: max_length=None"
            )
        room = ops.zeros((batch_size, max_length, self.units), self.compute_dtype)
        return room, room, ops.zeros((batch_size, max_length), "bool"), ops.zeros((), "int32")

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Equations 1-4, with the key and the value of one more token."""
        keys, values, kept, position = state
        own = ops.arange(keys.shape[1], dtype="int32") == position  # (max_length,)

        def put(buffer: Any, row: Any) -> Any:
            return ops.where(own[:, None], ops.cast(row, buffer.dtype), buffer)

        keys = put(keys, affine(x, self.key_kernel, self.key_bias))
        values = put(values, affine(x, self.value_kernel, self.value_bias))
        kept = ops.where(own, mask, kept)
        weights = masked_softmax(_scores(self._queries(x), keys), kept)
        output = ops.matmul(weights, values)
        output = ops.where(position < keys.shape[1], output, float("nan"))
        return output, (keys, values, kept, position + 1)


def _scores(q: Any, keys: Any) -> Any:
    """`Q K^T`, `(batch, queries, tokens)`."""
    return ops.matmul(q, ops.transpose(keys, (0, 2, 1)))


def _fused_attention(queries: Any, keys: Any, values: Any, mask: Any, causal: bool) -> Any:
    """The backend's own kernel, with one head."""
    heads = [x[:, :, None, :] for x in (queries, keys, values)]
    seen = None if mask is None else mask[:, None, None, :]
    if causal and mask is not None:
        # Not every version of Keras heeds is_causal where there is a mask.
        seen = ops.logical_and(seen, up_to_own(ops.shape(mask)[1]))
        causal = False
    output = ops.dot_product_attention(*heads, mask=seen, scale=1.0, is_causal=causal)[:, :, 0, :]
    if seen is None or seen.shape[2] == 1:
        return output
    # Where no token is seen, the kernel weighs all of them alike, and some are not zero.
    return zero_masked(output, ops.any(seen[:, 0], axis=-1))
