"""Linear attention."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import check_equal_widths, number_of_heads, one_of
from relation_tf.layers.averages import join_heads, softmax, split_heads
from relation_tf.layers.masking import (
    aligned,
    causal_mask,
    join_chunks,
    part,
    split_tokens,
    to_float32,
    transposed,
)
from relation_tf.layers.token_mixer import (
    CausalMixer,
    affine,
    dropout_mask,
    presets_with,
    rms_normalize,
)

_FEATURE_MAPS = ("elu", "relu", "softmax", "identity", "hedgehog")
_NORMALIZATIONS = ("none", "sum", "rms", "released_code")
# Tokens of a chunk, unless there are more features.
_CHUNK = 128


@keras.saving.register_keras_serializable(package="relation_tf")
class LinearAttention(CausalMixer):
    """Linear attention: attention with a feature map, in linear time.

    With a feature map t, and `Q`, `K`, `V` as in `Attention`, split into heads:

    - `normalization="none"`: `t(Q) (t(K)^T V)`, equation 5 of the Relation paper; outputs grow with
      the number of tokens;
    - `normalization="sum"`: `t(Q) (t(K)^T V) / (t(Q) sum_j t(K_j))`, as in the literature;
    - `normalization="rms"`: `t(Q) (t(K)^T V)`, scaled to mean square 1 over the features of a head;
    - `normalization="released_code"`: as in that paper's released code, `q A / m` with
      `q = t(Q) / sqrt(width)`, `A = dropout(softmax(t(K))^T V)`, softmax over features, and `m`
      the mean over features of `t(query W_K)` at the position of the query.

    The feature maps:

    - `"elu"`: `t(x) = elu(x) + 1`, the map of the Relation paper;
    - `"relu"`: `t(x) = max(x, 0)`;
    - `"softmax"`: softmax over the features of the head, the exponential map without overflow;
    - `"identity"`: `t(x) = x`, only with `normalization="none"` or `"rms"`: the denominator of
      `"sum"` could be zero;
    - `"hedgehog"`: softmax over `[x W, -x W]`. Each head has two learned square matrices W, one for
      queries and one for keys, initialized to the identity.

    With `normalization="sum"`, the output is zero if all products of features are, or if they
    underflow. Masked keys are set to zero after the feature map. Sums over tokens are accumulated
    in float32 or wider. Time and memory are linear in the number of tokens.

    All algorithms compute the same output:

    - `"direct"` forms V and `t(K)^T V`.
    - `"factored"` does not form V: `t(K)^T V = (t(K)^T value) W_V`. `"auto"` selects it if there
      are at least as many tokens as input features.
    - `"scores"` forms a score for each query and token, `((t(Q) t(K)^T) value) W_V`. `"auto"`
      selects it for at most `units / num_heads` queries, such as a readout of one token, without
      dropout.

    For one query and one head with dropout, `"direct"` and `"factored"` do not form `t(K)^T V`
    either.

    With `causal=True` the sums of query i include tokens 1 to i. `"scores"` then sets the scores of
    later tokens to zero. `"direct"` and `"factored"` hold one `t(K)^T V` per chunk of tokens: time
    and memory, also of the gradient, are linear in the number of tokens. `"auto"` selects
    `"scores"` if all tokens fit in one chunk. The state of `step` is `(t(K)^T V, sum_j t(K_j))` in
    float32 or wider, of shapes `(batch, num_heads, features, width)` and
    `(batch, num_heads, 1, features)`.

    Args:
        units: Width of queries, keys, values and output.
        normalization: `"none"`, `"sum"`, `"rms"` or `"released_code"`. Default: `"none"`, or
            `"released_code"` for the released code. With `"none"`, outputs grow with the number of
            tokens and can exceed float16: use bfloat16. In blocks of encoders, language models and
            encoder-decoders, the mechanism "linear-attention" with `variant="equations"` has the
            default `"sum"`.
        feature_map: `"elu"`, `"relu"`, `"softmax"`, `"identity"` or `"hedgehog"`.
        num_heads: Number of heads, a divisor of `units`. With several, `"factored"` is the same as
            `"direct"`.
        variant: `"equations"` or `"released_code"`; sets the defaults of `normalization`,
            `dropout` and `output_projection`.
        use_bias: If True, the three projections have biases. Default: False.
        dropout: Dropout rate in [0, 1), on `t(K)^T V` and before the output projection. Default: 0,
            or 0.5 for the released code.
        algorithm: `"direct"`, `"factored"`, `"scores"` or `"auto"`.
        **kwargs: As in `CausalMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens are ignored.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If `normalization` or `feature_map` is unknown, if `normalization`,
            `feature_map` and `num_heads` cannot be combined, if `num_heads` does not divide
            `units`, or if dropout is combined with `algorithm="scores"` or `causal=True`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import LinearAttention
        >>> LinearAttention(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Katharopoulos et al. 2020, "Transformers are RNNs", arXiv 2006.16236.
        - Qin et al. 2022, "The Devil in Linear Transformer", arXiv 2210.10340, for "rms".
        - Zhang et al. 2024, "The Hedgehog & the Porcupine", arXiv 2402.04347, for "hedgehog".
        - Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, equations 5-6.
    """

    algorithms = ("direct", "factored", "scores")
    presets = presets_with({"normalization": "released_code"}, normalization="none")

    def __init__(
        self,
        units: int,
        normalization: str | None = None,
        feature_map: str = "elu",
        num_heads: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        if self.dropout > 0 and (self.causal or self.algorithm == "scores"):
            raise ValueError(
                "dropout on t(K)^T V needs causal=False and another algorithm than 'scores'. "
                f"Received: dropout={self.dropout}, causal={self.causal}, "
                f"algorithm={self.algorithm!r}"
            )
        normalization = self.preset("normalization", normalization)
        self.normalization = one_of("normalization", normalization, _NORMALIZATIONS)
        self.feature_map = one_of("feature_map", feature_map, _FEATURE_MAPS)
        self.num_heads = number_of_heads(num_heads, self.units)
        self._check_combination()

    def _check_combination(self) -> None:
        if self.normalization == "sum" and self.feature_map == "identity":
            raise ValueError(
                "feature_map='identity' needs normalization='none' or 'rms', because sums of its "
                "values can be zero. Received: normalization='sum'"
            )
        released = self.normalization == "released_code"
        if released and (self.feature_map != "elu" or self.num_heads > 1):
            raise ValueError(
                "normalization='released_code' has one head and feature_map='elu'. "
                f"Received: num_heads={self.num_heads}, feature_map={self.feature_map!r}"
            )

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_Q, W_K and W_V."""
        if self.normalization == "released_code":
            reason = "normalization='released_code' applies W_K to the query too"
            check_equal_widths(query_width, value_width, reason)
        self.add_query_key_value(query_width, value_width)
        self.query_map = self.key_map = None
        if self.feature_map == "hedgehog":
            width = self.units // self.num_heads
            self.query_map, self.key_map = (
                self.add_weight(
                    shape=(self.num_heads, width, width),
                    initializer=identities,
                    regularizer=self.kernel_regularizer,
                    name=name,
                )
                for name in ("query_map", "key_map")
            )

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute equations 5-6."""
        if self.causal:
            value, value_mask = aligned(query, value, value_mask)
        q, keys = self._features(query, value, value_mask)
        algorithm = self._choose(query.shape[1], value.shape[1], training)
        by_features = self.num_heads == 1 and algorithm != "direct"
        if not by_features:
            value = affine(value, self.value_kernel, self.value_bias)
        q, keys, x = (split_heads(part, self.num_heads) for part in (q, keys, to_float32(value)))
        key_sum = ops.cumsum(keys, axis=1) if self.causal else ops.sum(keys, 1, keepdims=True)
        weight = ops.sum(q * key_sum, axis=-1, keepdims=True)

        def projected(mixed: Any, bias_weight: Any) -> Any:
            """Apply W_V and its bias to mixed tokens that are not projected."""
            if not by_features:
                return mixed
            mixed = ops.matmul(mixed, to_float32(self.value_kernel))
            if self.value_bias is None:
                return mixed
            return mixed + bias_weight * to_float32(self.value_bias)

        if self.causal:
            attend = causal_scores if algorithm == "scores" else causal_linear_attention
            output = projected(attend(q, keys, x), weight)
        elif algorithm == "scores":
            output = projected(ops.matmul(ops.matmul(q, transposed(keys)), x), weight)
        elif self.num_heads == 1 and self.drops(training) and query.shape[1] == 1:
            left, right = keys, x
            if by_features:
                left, right = ops.matmul(transposed(x), keys), to_float32(self.value_kernel)
                if self.value_bias is not None:
                    left = ops.concatenate([left, key_sum], axis=1)
                    bias = to_float32(self.value_bias)[None]
                    right = ops.concatenate([right, bias], axis=0)
            shape = (ops.shape(q)[0], q.shape[2], self.units)
            mask = dropout_mask(shape, self.dropout, self.seed_generator)
            output = dropped_for_one(q, left, right, mask, self.dropout)
        else:
            state = projected(ops.matmul(transposed(keys), x), transposed(key_sum))
            output = ops.matmul(q, self.drop(state, training))
        return join_heads(self._normalized(output, query, weight), self.num_heads)

    def _features(self, query: Any, value: Any, value_mask: Any) -> tuple[Any, Any]:
        """Return `t(Q)` and `t(K)` (zero at masked tokens) in float32 or wider."""
        q = affine(query, self.query_kernel, self.query_bias)
        keys = affine(value, self.key_kernel, self.key_bias)
        q, keys = self._mapped(q, self.query_map), self._mapped(keys, self.key_map)
        if self.normalization == "released_code":
            q = q * query.shape[-1] ** -0.5
            keys = softmax(keys)
        if value_mask is not None:
            # Faster than `where`; masked tokens of `value` are zero, so that all keys are finite.
            keys = keys * ops.cast(value_mask, keys.dtype)[..., None]
        return q, keys

    def _mapped(self, x: Any, matrix: Any) -> Any:
        """Return `t(x)` in float32 or wider, `(batch, tokens, num_heads * features)`."""
        x = to_float32(x)
        if self.feature_map == "elu":
            # elu(x) + 1 loses digits for negative x. The gradient at 0 is 1.
            return ops.where(x > 0, x + 1.0, ops.exp(ops.where(x > 0, 0.0, x)))
        if self.feature_map == "relu":
            return ops.relu(x)
        if self.feature_map == "identity":
            return x
        batch, tokens = ops.shape(x)[:2]
        heads = ops.reshape(x, (batch, tokens, self.num_heads, self.units // self.num_heads))
        if self.feature_map == "hedgehog":
            heads = ops.einsum("bthd,hde->bthe", heads, ops.cast(matrix, x.dtype))
            heads = ops.concatenate([heads, -heads], axis=-1)
        return ops.reshape(softmax(heads), (batch, tokens, self.num_heads * heads.shape[-1]))

    def _normalized(self, output: Any, query: Any, weight: Any) -> Any:
        """Normalize and cast to the query's dtype; `weight` is `t(Q) sum_j t(K_j)`."""
        if self.normalization == "released_code":
            k = self._mapped(affine(query, self.key_kernel, self.key_bias), self.key_map)
            mean = ops.mean(k, axis=-1, keepdims=True)  # 0 if all keys are below -17 in float32
            output = output / ops.where(mean > 0, mean, 1.0)
        elif self.normalization == "sum":
            # The weight is zero without unmasked tokens, and if all features are (relu).
            output = output / ops.where(weight > 0, weight, 1.0)
        elif self.normalization == "rms":
            output = rms_normalize(output)
        return ops.cast(output, query.dtype)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return both sums at zero."""
        width = self.units // self.num_heads
        features = 2 * width if self.feature_map == "hedgehog" else width
        shape = (batch_size, self.num_heads)
        return self.zeros(*shape, features, width), self.zeros(*shape, 1, features)

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the sums and compute equations 5-6."""
        total, key_sum = state
        values = to_float32(affine(x, self.value_kernel, self.value_bias))
        q, keys, values = (
            ops.reshape(part, (-1, self.num_heads, 1, part.shape[2] // self.num_heads))
            for part in (*self._features(x, x, mask), values)
        )
        total = total + ops.matmul(ops.transpose(keys, (0, 1, 3, 2)), values)
        key_sum = key_sum + keys
        weight = ops.sum(q * key_sum, axis=-1, keepdims=True)
        output = self._normalized(ops.matmul(q, total), x[:, None], weight)
        return ops.reshape(output, (-1, 1, self.units)), (total, key_sum)

    def _choose(self, num_queries: int | None, num_tokens: int | None, training: bool) -> str:
        if self.algorithm != "auto":
            return self.algorithm
        units = self.units // self.num_heads
        if self.causal:
            features = 2 * units if self.feature_map == "hedgehog" else units
            short = num_queries is not None and num_queries <= chunk_of(features)
            by_features = self.value_width < self.units
        else:
            short = num_queries is not None and num_queries <= units and not self.drops(training)
            by_features = num_tokens is not None and num_tokens >= self.value_width
        if short:
            return "scores"
        return "factored" if by_features else "direct"


def identities(shape: tuple[int, ...], dtype: Any = None) -> Any:
    """Return an identity matrix for each head, the initial matrices of `"hedgehog"`."""
    return ops.tile(ops.eye(shape[-1], dtype=dtype)[None], (shape[0], 1, 1))


def dropped_for_one(q: Any, left: Any, right: Any, mask: Any, rate: float) -> Any:
    """Return `q dropout(L^T R)` for one query without forming `L^T R`.

    With the random mask M, `(q (M * L^T R))_b = sum_c ((q * L) M)_cb R_cb`. M has no gradient:
    two products with it, forward and backward, replace three.

    Args:
        q: `t(Q)`, `(batch, 1, features)`.
        left: Factor L of `t(K)^T V = L^T R`, `(batch, inner, features)`.
        right: Factor R, `(batch, inner, units)` or `(inner, units)`.
        mask: The random mask M of zeros and ones, `(batch, features, units)`.
        rate: Dropout rate.
    """
    mixed = ops.matmul(q * (1 / (1 - rate)) * left, ops.cast(mask, q.dtype))
    return ops.sum(mixed * right, axis=1, keepdims=True)


def causal_scores(q: Any, keys: Any, values: Any) -> Any:
    """Compute `(t(Q) t(K)^T, later tokens zero) V`."""
    scores = ops.matmul(q, transposed(keys))
    return ops.matmul(ops.where(causal_mask(ops.shape(keys)[1]), scores, 0.0), values)


def causal_linear_attention(queries: Any, keys: Any, values: Any) -> Any:
    """Compute `y_i = sum over j <= i of (q_i . k_j) v_j` in chunks of tokens.

    Tokens of the same chunk are scored separately; earlier chunks are summed in one matrix:
    `y = (q k^T, later tokens zero) v + q (sum of k^T v over earlier chunks)`. The maximum size of
    a chunk is at least the number of features, so that `k^T v` is not larger than its keys and
    values.

    Args:
        queries: Tensor of shape `(batch, tokens, features)`.
        keys: Tensor of shape `(batch, tokens, features)`, zero at masked tokens.
        values: Tensor of shape `(batch, tokens, width)`.

    Returns:
        Tensor of shape `(batch, tokens, width)`.

    References:
        - Hua et al. 2022, "Transformer Quality in Linear Time", for linear attention by chunks.
    """
    length = ops.shape(keys)[1]
    most = chunk_of(keys.shape[-1])
    num_chunks = length // (most + 1) + 1  # At least one, for zero tokens too.
    size = (length + num_chunks - 1) // num_chunks
    queries, keys, values = (split_tokens(x, num_chunks, size) for x in (queries, keys, values))
    scores = ops.where(causal_mask(size), ops.matmul(queries, transposed(keys)), 0.0)
    states = ops.cumsum(ops.matmul(transposed(keys), values), axis=1)
    before = ops.pad(part(states, 0, num_chunks - 1), ((0, 0), (1, 0), (0, 0), (0, 0)))
    return join_chunks(ops.matmul(scores, values) + ops.matmul(queries, before), length)


def chunk_of(features: int) -> int:
    """Return the approximate maximum number of tokens of a chunk."""
    return max(_CHUNK, features)
