"""Multi-head attention as a token mixer."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer, positive_integer_or_none
from relation_tf.layers.dropout import second_seed
from relation_tf.layers.token_mixer import TokenMixer, Variant


@keras.saving.register_keras_serializable(package="relation_tf")
class MultiHeadSelfAttention(TokenMixer):
    """Keras's multi-head attention with the call arguments and masks of a token mixer.

    `[head_1, ..., head_n] W_O`, `head_i = softmax(Q_i K_i^T / sqrt(key_dim)) V_i`, where `Q_i`,
    `K_i`, `V_i` are projections to `key_dim` features. The output is zero if all tokens are masked.

    Args:
        units: Width of the output.
        num_heads: Number of heads; a divisor of `units` unless `key_dim` is set.
        dropout: Dropout rate in [0, 1), on the attention weights and before the output projection.
        use_bias: If True, the four projections have biases.
        variant: `"equations"` or `"released_code"`; sets the default of `output_projection`.
        output_projection: If True, the layer ends with `dropout(relu(y)) W_output`. Default: True
            for the released code, else False.
        key_dim: Width of the queries, keys and values of each head. Default: `units / num_heads`.
        algorithm: `"direct"` or `"auto"`, which are the same.
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
        ValueError: If `units` is not divisible by `num_heads` and `key_dim` is None.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.multi_head_attention import MultiHeadSelfAttention
        >>> MultiHeadSelfAttention(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2.
    """

    def __init__(
        self,
        units: int,
        num_heads: int = 4,
        dropout: float = 0.0,
        use_bias: bool = True,
        *,
        variant: Variant = "equations",
        output_projection: bool | None = None,
        key_dim: int | None = None,
        algorithm: str = "auto",
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
            seed=seed,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            **kwargs,
        )
        self.num_heads = positive_integer("num_heads", num_heads)
        self.key_dim = positive_integer_or_none("key_dim", key_dim)
        if key_dim is None and units % num_heads:
            raise ValueError(
                "`units` must be divisible by `num_heads` unless `key_dim` is set. "
                f"Received: units={units}, num_heads={num_heads}"
            )

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create Keras's layer."""
        self.attention = keras.layers.MultiHeadAttention(
            self.num_heads,
            key_dim=self.key_dim or self.units // self.num_heads,
            dropout=self.dropout,
            use_bias=self.use_bias,
            output_shape=self.units,
            seed=second_seed(self.seed),
            dtype=self.dtype_policy,
            name="attention",
            **self.weight_arguments(),
        )
        self.attention.build((None, None, query_width), (None, None, value_width))

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Apply all attention heads."""
        if value_mask is None:
            return self.attention(query, value, training=training)
        some = ops.any(value_mask, axis=1, keepdims=True)
        # Softmax over no tokens depends on the backend: attend to all tokens, then return zero.
        seen = ops.logical_or(value_mask, ops.logical_not(some))[:, None, :]
        mixed = self.attention(query, value, attention_mask=seen, training=training)
        return ops.where(some[..., None], mixed, ops.zeros_like(mixed))
