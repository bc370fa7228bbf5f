"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import keras
from keras import ops

from relation_tf.layers.arguments import number_of_heads, positive_integer
from relation_tf.layers.causal import CausalMixer, aligned, causal_softmax, up_to_own
from relation_tf.layers.chunked_attention import causal_chunked_attention, chunked_attention
from relation_tf.layers.heads import join_heads, mask_of_heads, split_heads
from relation_tf.layers.masking import masked_softmax, zero_masked
from relation_tf.layers.token_mixer import Variant, affine

# With at most this many queries or tokens, all weights fit in one chunk.
_FEW = 512


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
      attention with a mask.

    With `causal=True` query i attends to tokens 1 to i. The state of `step` is `(keys, values,
    kept, position)`: keys and values of shape `(batch, max_length, units)`, their mask of shape
    `(batch, max_length)`, and the number of steps. After `max_length` steps outputs are NaN.

    Args:
        units: Width of queries, keys, values and output.
        num_heads: Number of heads, a divisor of `units`.
        variant: `"equations"` or `"released_code"`; sets the defaults of the next three arguments.
        use_bias: If True, the three projections have biases. Default: False.
        dropout: Dropout rate in [0, 1), on the attention weights and before the output projection.
            Default: 0, or 0.5 for the released code.
        output_projection: If True, the layer ends with `dropout(relu(y)) W_output`. Default: True
            for the released code, else False.
        algorithm: `"direct"`, `"factored"`, `"chunked"`, `"fused"` or `"auto"`.
        causal: If True, query i attends to tokens 1 to i only.
        seed: Random seed of the dropout.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

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

    algorithms: ClassVar[tuple[str, ...]] = ("direct", "factored", "chunked", "fused")

    def __init__(
        self,
        units: int,
        num_heads: int = 1,
        *,
        variant: Variant = "equations",
        use_bias: bool | None = None,
        dropout: float | None = None,
        output_projection: bool | None = None,
        algorithm: str = "auto",
        causal: bool = False,
        seed: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            units,
            variant=variant,
            use_bias=use_bias,
            dropout=dropout,
            output_projection=output_projection,
            algorithm=algorithm,
            causal=causal,
            seed=seed,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            **kwargs,
        )
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
        algorithm = self._algorithm(num_queries, num_tokens, value.shape[2], unfusible)
        if self.num_heads > 1 or algorithm == "direct":
            return self._mix_heads(algorithm, q, value, value_mask, training)
        if algorithm == "factored":
            return self._factored(q, value, value_mask, training)
        return self._attend_with(
            self._attend(algorithm, value_mask, training), q, value, value_mask
        )

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
        if algorithm in ("direct", "factored"):
            output = ops.matmul(self._weights(_scores(q, keys), mask, training), values)
        else:
            attend = self._attend(algorithm, mask, training)
            output = attend(q, zero_masked(keys, mask), zero_masked(values, mask))
        return join_heads(output, self.num_heads)

    def _algorithm(
        self, num_queries: int | None, num_tokens: int | None, width: int, unfusible: bool
    ) -> str:
        if self.algorithm != "auto":
            return self.algorithm
        # Only PyTorch's kernel is faster than the formula on a CPU.
        fused = keras.backend.backend() == "torch" and not unfusible
        if all(length is None or length > _FEW for length in (num_queries, num_tokens)):
            return "fused" if fused else "chunked"
        more, saved = width - self.units, width * self.units
        few = more <= 0 or (num_queries is not None and num_queries * more <= saved)
        if few and self.num_heads == 1:
            return "factored"
        return "fused" if fused else "direct"

    def _factored(self, q: Any, value: Any, value_mask: Any, training: bool) -> Any:
        scores = _scores(ops.matmul(q, ops.transpose(self.key_kernel)), value)
        if self.key_bias is not None:
            # Softmax cancels this constant, but Keras expects a gradient for the bias.
            scores = scores + ops.matmul(q, self.key_bias[:, None])
        weights = self._weights(scores, value_mask, training)
        mixed = ops.matmul(ops.matmul(weights, value), self.value_kernel)
        if self.value_bias is None:
            return mixed
        # With dropout or without unmasked tokens, the weights do not sum to one.
        return mixed + ops.sum(weights, axis=-1, keepdims=True) * self.value_bias

    def _attend(self, algorithm: str, mask: Any, training: bool) -> Callable[..., Any]:
        """Return "chunked" or "fused" as a function of queries, keys and values."""
        if algorithm == "fused":
            return partial(_fused_attention, mask=mask, causal=self.causal)
        drops = self.drops(training)
        return partial(
            causal_chunked_attention if self.causal else chunked_attention,
            mask=mask,
            dropout=self.dropout if drops else 0.0,
            seed_generator=self.seed_generator if drops else None,
        )

    def _attend_with(self, attend: Callable[..., Any], q: Any, value: Any, value_mask: Any) -> Any:
        """Compute the equations with `attend(queries, keys, values)`."""
        key_kernel, value_kernel = self.key_kernel, self.value_kernel
        if self.use_bias:
            # A column of ones (zero at masked tokens) multiplies the biases.
            ones = zero_masked(ops.ones_like(value[..., :1]), value_mask)
            value = ops.concatenate([value, ones], axis=-1)
            # Softmax cancels the bias of the keys, but Keras expects a gradient for it.
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
        """Return empty buffers of keys and values."""
        if max_length is None:
            raise ValueError(
                "`max_length` must be a positive integer: the state of attention holds all tokens. "
                "Received: max_length=None"
            )
        max_length = positive_integer("max_length", max_length)
        empty = ops.zeros((batch_size, max_length, self.units), self.compute_dtype)
        return empty, empty, ops.zeros((batch_size, max_length), "bool"), ops.zeros((), "int32")

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add the key and value of one token and compute equations 1-4."""
        keys, values, kept, position = state
        own = ops.arange(keys.shape[1], dtype="int32") == position  # (max_length,)

        def put(buffer: Any, row: Any) -> Any:
            return ops.where(own[:, None], ops.cast(row, buffer.dtype), buffer)

        keys = put(keys, affine(x, self.key_kernel, self.key_bias))
        values = put(values, affine(x, self.value_kernel, self.value_bias))
        kept = ops.where(own, mask, kept)
        q, own_keys, own_values = (
            split_heads(part, self.num_heads) for part in (self._queries(x), keys, values)
        )
        weights = masked_softmax(_scores(q, own_keys), mask_of_heads(kept, self.num_heads))
        output = join_heads(ops.matmul(weights, own_values), self.num_heads)
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
        seen = ops.logical_and(seen, up_to_own(ops.shape(mask)[1]))
        causal = False
    output = ops.dot_product_attention(*heads, mask=seen, scale=1.0, is_causal=causal)[:, :, 0, :]
    if seen is None or seen.shape[2] == 1:
        return output
    # The kernel averages all tokens for a query that sees no token; its output must be zero.
    return zero_masked(output, ops.any(seen[:, 0], axis=-1))
