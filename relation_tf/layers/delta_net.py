"""DeltaNet: linear attention that corrects what it stored for a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer
from relation_tf.layers.delta_rule import delta_rule, delta_rule_step
from relation_tf.layers.masking import to_float32, zero_masked
from relation_tf.layers.normalization import rms_normalize
from relation_tf.layers.recurrent_mixer import MatrixStateMixer, Terms
from relation_tf.layers.short_convolution import convolution_step, short_convolution
from relation_tf.layers.token_mixer import TokenMixer, Variant, affine

_KEY_EPSILON = 1e-6  # Of the norm of queries and keys, as in the authors' code.


@keras.saving.register_keras_serializable(package="relation_tf")
class DeltaNet(MatrixStateMixer):
    """DeltaNet: linear attention with the delta rule.

    With `conv`, a causal convolution of each feature over `filter_width` tokens, in heads:

    - `Q = norm(swish(conv(query W_Q)))`, `K = norm(swish(conv(value W_K)))` with norm 1,
      `V = swish(conv(value W_V))`
    - write strength of each head: `b = sigmoid(value W_b)`
    - state of each head: `S_t = S_{t-1} + b_t K_t (V_t - S_{t-1}^T K_t)^T`, which replaces a part
      b of the value stored for the key by V
    - output of each head: `Y_t = RMSNorm(S_t^T Q_t)`, with one scale for all heads
    - output: `Y W_out`

    Masked tokens are absent, also in convolutions. The recurrence uses float32 or wider. Time and
    memory are linear in the number of tokens.

    With `causal=True` query i sees tokens 1 to i. The state of `step` is S, shape
    `(batch, num_heads, units / num_heads, expansion * units / num_heads)`, and the last
    `filter_width - 1` inputs of the convolutions of K and V, and of Q. Otherwise the output of a
    head is normalized after the sum of both directions, with the same Q, K, V and b; so the
    convolutions look back in both.

    Args:
        units: Width of queries, keys and output, a multiple of `num_heads`.
        num_heads: Number of heads. The paper uses heads of 128 features.
        expansion: Width of the values, in multiples of `units`. Default: 1.
        filter_width: Number of tokens of the convolutions.
        variant: `"equations"`, or `"released_code"` for the defaults of the Relation paper's code;
            sets the defaults of the next three arguments.
        use_bias: If True, the projections to Q, K, V and the output have biases. Default: False.
        dropout: Dropout rate in [0, 1), before W_out and before the output projection. Default: 0,
            or 0.5 for the released code.
        output_projection: If True, the layer ends with `dropout(relu(y)) W_output`. Default: True
            for the released code, else False.
        algorithm: `"direct"` or `"auto"`, which are the same.
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
        value_mask: Boolean, `(batch, tokens)`; masked tokens are absent.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If `num_heads` does not divide `units`, or a size is not a positive integer.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import DeltaNet
        >>> DeltaNet(units=8, num_heads=2)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Yang, Wang, Zhang, Shen, Kim 2024, "Parallelizing Linear Transformers with the Delta Rule
          over Sequence Length", arXiv 2406.06484, section 3.
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        variant: {**defaults, "expansion": 1} for variant, defaults in TokenMixer.presets.items()
    }

    convolves_queries: ClassVar[bool] = True

    def __init__(
        self,
        units: int,
        num_heads: int = 1,
        *,
        expansion: int | None = None,
        filter_width: int = 4,
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
            num_heads=num_heads,
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
        self.expansion = positive_integer("expansion", self.preset("expansion", expansion))
        self.filter_width = positive_integer("filter_width", filter_width)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create the matrices, the filters and the scale of the norm."""
        inner = self.expansion * self.units
        self.query_kernel, self.query_bias = self.add_projection("query", query_width)
        self.key_kernel, self.key_bias = self.add_projection("key", value_width)
        self.value_kernel, self.value_bias = self.add_projection("value", value_width, width=inner)
        self.strength_kernel = self.add_kernel("strength_kernel", value_width, self.num_heads)
        self.query_filters = self.add_filters("query_filters", self.filter_width, self.units)
        self.kv_filters = self.add_filters("kv_filters", self.filter_width, self.units + inner)
        self.scale = self.add_weight(
            shape=(inner // self.num_heads,), initializer="ones", name="scale"
        )
        self.out_kernel, self.out_bias = self.add_projection("out", inner)

    def queries(self, query: Any, query_mask: Any) -> Any:
        """Return Q."""
        q = affine(query, self.query_kernel, self.query_bias)
        return self._activated(short_convolution(q, self.query_filters, 0.0, query_mask))

    def terms(self, value: Any, value_mask: Any) -> Terms:
        """Return `sqrt(b) K`, `sqrt(b) V` and the decays."""
        kv = short_convolution(self._kv(value), self.kv_filters, 0.0, value_mask)
        return self._terms(kv, value, value_mask)

    def log_decays(self, value: Any) -> Any:
        """Return the logarithms of the decays, `(batch, tokens, heads)`, or one for all heads."""
        return to_float32(ops.zeros_like(value[..., :1]))

    def gated(self, y: Any, query: Any) -> Any:
        """Apply the gate of the output, if the layer has one."""
        return y

    def recurred(self, queries: Any, terms: Terms, mask: Any) -> Any:
        """Compute the delta rule over the tokens in their order."""
        return delta_rule(queries, terms.keys, terms.values, terms.log_decays)

    def finish(self, output: Any, query: Any, training: bool) -> Any:
        """Apply the norm, the gate and W_out."""
        y = ops.cast(rms_normalize(output), self.compute_dtype) * self.scale
        y = ops.reshape(y, (*ops.shape(query)[:2], self.expansion * self.units))
        return affine(self.drop(self.gated(y, query), training), self.out_kernel, self.out_bias)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the state and the inputs of both convolutions at zero."""
        inner, before = self.expansion * self.units, self.filter_width - 1
        sizes = (self.units // self.num_heads, inner // self.num_heads)
        return (
            self.zeros(batch_size, self.num_heads, *sizes),
            self.zeros(batch_size, before, self.units + inner),
            self.zeros(batch_size, before, self.units),
        )

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the state."""
        state, for_kv, for_q = state
        kv, for_kv = convolution_step(self._kv(x), self.kv_filters, 0.0, for_kv, mask)
        q = affine(x, self.query_kernel, self.query_bias)
        q, for_q = convolution_step(q, self.query_filters, 0.0, for_q, mask)
        terms = self._terms(kv, x, mask)
        output, state = delta_rule_step(
            self._activated(q), terms.keys, terms.values, terms.log_decays, state
        )
        return self.finish(output, x, training=False), (state, for_kv, for_q)

    def _kv(self, value: Any) -> Any:
        """Return the projections to K and V."""
        k = affine(value, self.key_kernel, self.key_bias)
        return ops.concatenate([k, affine(value, self.value_kernel, self.value_bias)], axis=-1)

    def _terms(self, kv: Any, value: Any, value_mask: Any) -> Terms:
        kv = zero_masked(kv, value_mask)
        logits = to_float32(ops.matmul(value, self.strength_kernel))
        root = ops.exp(ops.log_sigmoid(logits) / 2)[..., None]
        k, v = ops.split(kv, [self.units], axis=-1)
        keys, values = root * self._activated(k), root * self.heads(ops.silu(v))
        return Terms(keys, values, zero_masked(self.log_decays(value), value_mask))

    def _activated(self, x: Any) -> Any:
        """Return heads of norm 1 from the output of a convolution."""
        x = self.heads(ops.silu(x))
        return x * ops.rsqrt(ops.sum(ops.square(x), axis=-1, keepdims=True) + _KEY_EPSILON)
