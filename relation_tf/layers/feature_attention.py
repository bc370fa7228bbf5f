"""Attention between features."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer, width_of
from relation_tf.layers.base import WeightedLayer
from relation_tf.layers.masking import boolean, to_float32, zero_masked


@keras.saving.register_keras_serializable(package="relation_tf")
class FeatureAttention(WeightedLayer):
    """Sequence representation from attention between features.

    `relu((R W_q)^T (R W_k) / sqrt(units)) W_f`: equation 9 of the FCSR preprint, interpreted so
    that its shapes agree. The first product, `(units, units)`, sums over tokens; `W_f` of shape
    `(units, 1)` sums over its columns. The output grows with the square of the input and with the
    number of tokens and can exceed float16: use bfloat16.

    Args:
        units: Number of features, and width of the output.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: No effect: the layer has no biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: No effect.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        r: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens are excluded from the sum.

    Returns:
        Tensor of shape `(batch, units)`; zero if all tokens are masked.

    Raises:
        ValueError: If `units` is not a positive integer or `r` has another shape.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import FeatureAttention
        >>> FeatureAttention(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 8)
        True

    References:
        - The FCSR preprint, equation 9.
    """

    def __init__(
        self,
        units: int,
        *,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            **kwargs,
        )
        self.units = positive_integer("units", units)

    def build(self, r_shape: tuple[int | None, ...]) -> None:
        """Create W_q, W_k and W_f."""
        self.width = width_of("r", r_shape)
        self.query_kernel = self.add_kernel("query_kernel", self.width, self.units)
        self.key_kernel = self.add_kernel("key_kernel", self.width, self.units)
        self.feature_kernel = self.add_kernel("feature_kernel", self.units, 1)
        self.built = True

    def call(self, r: Any, mask: Any = None) -> Any:
        """Compute equation 9."""
        r = self.as_tokens(r, "r")
        r = zero_masked(r, boolean(mask, r))
        q = to_float32(ops.matmul(r, self.query_kernel) * self.units**-0.5)
        k = to_float32(ops.matmul(r, self.key_kernel))
        related = ops.relu(ops.matmul(ops.transpose(q, (0, 2, 1)), k))  # (batch, units, units)
        output = ops.matmul(related, to_float32(ops.convert_to_tensor(self.feature_kernel)))
        return ops.cast(ops.squeeze(output, axis=-1), r.dtype)

    def compute_mask(self, r: Any, previous_mask: Any = None) -> None:
        """Return None: the output has no token axis."""
        return None

    def compute_output_shape(self, r_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return `(batch, units)`."""
        return (self.checked_shape(r_shape, "r")[0], self.units)
