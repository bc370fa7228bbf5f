"""Linear attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from relation_tf.layers.arguments import one_of
from relation_tf.layers.causal import CausalMixer, aligned, up_to_own
from relation_tf.layers.causal_linear_attention import causal_linear_attention, chunk_of
from relation_tf.layers.dropout import kept
from relation_tf.layers.masking import softmax, to_float32
from relation_tf.layers.token_mixer import TokenMixer, Variant, affine

_NORMALIZATIONS = ("none", "sum", "released_code")


@keras.saving.register_keras_serializable(package="relation_tf")
class LinearAttention(CausalMixer):
    """Linear attention: attention with a feature map, in linear time.

    With `t(x) = x + 1 if x > 0 else exp(x)` and `Q`, `K`, `V` as in `Attention`:

    - `normalization="none"`: `t(Q) (t(K)^T V)`, equation 5 of the Relation paper; outputs grow with
      the number of tokens;
    - `normalization="sum"`: `t(Q) (t(K)^T V) / (t(Q) sum_j t(K_j))`, as in the literature;
    - `normalization="released_code"`: as in that paper's released code, `q A / m` with
      `q = t(Q) / sqrt(width)`, `A = dropout(softmax(t(K))^T V)`, softmax over features, and `m`
      the mean over features of `t(query W_K)` at the position of the query.

    Masked keys are set to zero after the feature map. Sums over tokens are accumulated in float32
    or wider. Time and memory are linear in the number of tokens.

    All algorithms compute the same output:

    - `"direct"` forms V and `t(K)^T V`.
    - `"factored"` does not form V: `t(K)^T V = (t(K)^T value) W_V`. `"auto"` selects it if there
      are at least as many tokens as input features.
    - `"scores"` forms a score for each query and token, `((t(Q) t(K)^T) value) W_V`. `"auto"`
      selects it for at most `units` queries, such as a readout of one token, without dropout.

    For one query with dropout, `"direct"` and `"factored"` do not form `t(K)^T V` either.

    With `causal=True` the sums of query i include tokens 1 to i. `"scores"` then sets the scores of
    later tokens to zero. `"direct"` and `"factored"` hold one `t(K)^T V` per chunk of tokens: time
    and memory, also of the gradient, are linear in the number of tokens. `"auto"` selects
    `"scores"` if all tokens fit in one chunk. The state of `step` is `(t(K)^T V, sum_j t(K_j))`, of
    shapes `(batch, units, units)` and `(batch, 1, units)`.

    Args:
        units: Width of queries, keys, values and output.
        variant: `"equations"` or `"released_code"`; sets the defaults of the next four arguments.
        normalization: `"none"`, `"sum"` or `"released_code"`. Default: `"none"`, or
            `"released_code"` for the released code. The mechanism "linear-attention" has the
            default `"sum"` in the blocks of encoders, language models and encoder-decoders.
        use_bias: If True, the three projections have biases. Default: False.
        dropout: Dropout rate in [0, 1), on `t(K)^T V` and before the output projection. Default: 0,
            or 0.5 for the released code.
        output_projection: If True, the layer ends with `dropout(relu(y)) W_output`. Default: True
            for the released code, else False.
        algorithm: `"direct"`, `"factored"`, `"scores"` or `"auto"`.
        causal: If True, query i sees tokens 1 to i only.
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
        value_mask: Boolean, `(batch, tokens)`; masked tokens are ignored.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If `normalization` is unknown, or if dropout is combined with
            `algorithm="scores"` or `causal=True`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import LinearAttention
        >>> LinearAttention(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Katharopoulos et al. 2020, "Transformers are RNNs".
        - Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, equations 5-6.
    """

    algorithms: ClassVar[tuple[str, ...]] = ("direct", "factored", "scores")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "equations": {**TokenMixer.presets["equations"], "normalization": "none"},
        "released_code": {**TokenMixer.presets["released_code"], "normalization": "released_code"},
    }

    def __init__(
        self,
        units: int,
        normalization: str | None = None,
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
        if self.algorithm == "scores" and self.dropout > 0:
            raise ValueError(
                "algorithm='scores' does not support dropout on t(K)^T V. "
                f"Received: dropout={self.dropout}"
            )
        if self.causal and self.dropout > 0:
            raise ValueError(
                "causal=True does not support dropout on t(K)^T V. "
                f"Received: dropout={self.dropout}"
            )
        normalization = self.preset("normalization", normalization)
        self.normalization = one_of("normalization", normalization, _NORMALIZATIONS)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_Q, W_K and W_V."""
        if self.normalization == "released_code" and query_width != value_width:
            raise ValueError(
                "normalization='released_code' applies W_K to the query too: query and value must "
                "have the same width. "
                f"Received: query width {query_width}, value width {value_width}"
            )
        self.query_kernel, self.query_bias = self.add_projection("query", query_width)
        self.key_kernel, self.key_bias = self.add_projection("key", value_width)
        self.value_kernel, self.value_bias = self.add_projection("value", value_width)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute equations 5-6."""
        if self.causal:
            return self._mix_causal(query, *aligned(query, value, value_mask))
        q, keys = self._features(query, value, value_mask)
        key_sum = ops.sum(keys, axis=1)[..., None]  # (batch, units, 1)
        algorithm = self._choose(query.shape[1], value.shape[1], value.shape[2], training)
        if algorithm == "scores":
            output = self._through_scores(q, keys, value)
        else:
            left, right = self._factors(algorithm, keys, value)
            if self.drops(training) and query.shape[1] == 1:
                output = self._dropped_for_one(q, left, right)
            else:
                state = self.drop(ops.matmul(ops.transpose(left, (0, 2, 1)), right), training)
                output = ops.matmul(q, state)
        return self._normalized(output, query, ops.matmul(q, key_sum))

    def _features(self, query: Any, value: Any, value_mask: Any) -> tuple[Any, Any]:
        """Return `t(Q)` and `t(K)` (zero at masked tokens) in float32 or wider."""
        q = _feature_map(affine(query, self.query_kernel, self.query_bias))
        keys = _feature_map(affine(value, self.key_kernel, self.key_bias))
        if self.normalization == "released_code":
            q = q * query.shape[-1] ** -0.5
            keys = softmax(keys)
        if value_mask is not None:
            # Faster than `where`; masked tokens of `value` are zero, so that all keys are finite.
            keys = keys * ops.cast(value_mask, keys.dtype)[..., None]
        return q, keys

    def _normalized(self, output: Any, query: Any, weight: Any) -> Any:
        """Normalize and cast to the query's dtype; `weight` is `t(Q) sum_j t(K_j)`."""
        if self.normalization == "released_code":
            own = _feature_map(affine(query, self.key_kernel, self.key_bias))
            output = output / ops.mean(own, axis=-1, keepdims=True)
        elif self.normalization == "sum":
            # The weight is zero only without kept tokens.
            output = output / ops.where(weight > 0, weight, 1.0)
        return ops.cast(output, query.dtype)

    def _mix_causal(self, query: Any, value: Any, value_mask: Any) -> Any:
        """Compute equations 5-6 with sums up to each query."""
        q, keys = self._features(query, value, value_mask)
        weight = ops.sum(q * ops.cumsum(keys, axis=1), axis=-1, keepdims=True)
        algorithm = self._choose_causal(query.shape[1], value.shape[2])
        if algorithm == "direct":
            values = ops.matmul(value, self.value_kernel)
            output = causal_linear_attention(q, keys, to_float32(values))
        else:
            attend = _causal_scores if algorithm == "scores" else causal_linear_attention
            output = ops.matmul(attend(q, keys, to_float32(value)), to_float32(self.value_kernel))
        if self.value_bias is not None:
            output = output + weight * to_float32(self.value_bias)
        return self._normalized(output, query, weight)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return both sums at zero."""
        return self.zeros(batch_size, self.units, self.units), self.zeros(batch_size, 1, self.units)

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the sums and compute equations 5-6."""
        total, key_sum = state
        q, keys = self._features(x, x, mask)
        values = affine(x, self.value_kernel, self.value_bias)
        total = total + ops.matmul(ops.transpose(keys, (0, 2, 1)), to_float32(values))
        key_sum = key_sum + keys
        weight = ops.sum(q * key_sum, axis=-1, keepdims=True)
        return self._normalized(ops.matmul(q, total), x, weight), (total, key_sum)

    def _factors(self, algorithm: str, keys: Any, value: Any) -> tuple[Any, Any]:
        """Return factors `L` and `R` of `t(K)^T V = L^T R`, in float32 or wider.

        `L` has the shape `(batch, inner, units)` and `R` the shape `(batch, inner, units)` or
        `(inner, units)`; `inner` is the number of tokens or input features.
        """
        if algorithm == "direct":
            return keys, to_float32(affine(value, self.value_kernel, self.value_bias))
        left = ops.matmul(ops.transpose(to_float32(value), (0, 2, 1)), keys)
        right = to_float32(self.value_kernel)
        if self.value_bias is not None:
            left = ops.concatenate([left, ops.sum(keys, axis=1, keepdims=True)], axis=1)
            right = ops.concatenate([right, to_float32(self.value_bias)[None]], axis=0)
        return left, right

    def _dropped_for_one(self, q: Any, left: Any, right: Any) -> Any:
        """Return `q dropout(L^T R)` for one query without forming `L^T R`.

        With the random mask M, `(q (M * L^T R))_b = sum_c ((q * L) M)_cb R_cb`. M has no gradient:
        two products with it, forward and backward, replace three.
        """
        shape = (ops.shape(q)[0], self.units, self.units)
        mask = ops.cast(kept(shape, self.dropout, self.seed_generator), q.dtype)
        mixed = ops.matmul(q * (1 / (1 - self.dropout)) * left, mask)
        return ops.sum(mixed * right, axis=1, keepdims=True)

    def _through_scores(self, q: Any, keys: Any, value: Any) -> Any:
        """Return `(t(Q) t(K)^T) V` in float32 or wider."""
        scores = ops.matmul(q, ops.transpose(keys, (0, 2, 1)))  # (batch, queries, tokens)
        mixed = ops.matmul(scores, to_float32(value))
        output = ops.matmul(mixed, to_float32(self.value_kernel))
        if self.value_bias is None:
            return output
        return output + ops.sum(scores, axis=-1, keepdims=True) * to_float32(self.value_bias)

    def _choose(
        self, num_queries: int | None, num_tokens: int | None, width: int, training: bool
    ) -> str:
        if self.algorithm != "auto":
            return self.algorithm
        few = num_queries is not None and num_queries <= self.units
        if few and not self.drops(training):
            return "scores"
        return "factored" if num_tokens is not None and num_tokens >= width else "direct"

    def _choose_causal(self, num_tokens: int | None, width: int) -> str:
        if self.algorithm != "auto":
            return self.algorithm
        if num_tokens is not None and num_tokens <= chunk_of(self.units):
            return "scores"
        return "factored" if width < self.units else "direct"


def _feature_map(x: Any) -> Any:
    """Return `t(x)` in float32 or wider, for sums over tokens."""
    return ops.elu(to_float32(x)) + 1.0


def _causal_scores(q: Any, keys: Any, values: Any) -> Any:
    """Compute `(t(Q) t(K)^T, later tokens zero) V`."""
    scores = ops.matmul(q, ops.transpose(keys, (0, 2, 1)))
    return ops.matmul(ops.where(up_to_own(ops.shape(keys)[1]), scores, 0.0), values)
