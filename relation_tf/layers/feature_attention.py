"""Attention of features to features."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer, width_of
from relation_tf.layers.base import WeightedLayer
from relation_tf.layers.masking import boolean, to_float32, zero_masked


@keras.saving.register_keras_serializable(package="relation_tf")
class FeatureAttention(WeightedLayer):
    """One vector for a sequence, from how its features go together.

    `relu((R W_q)^T (R W_k) / sqrt(units)) W_f`: equation 9 of the FCSR preprint, read so that its
    shapes agree. The product sums over tokens, features stand against features, and `W_f` weighs
    the second ones.

    Args:
        units: Number of features compared, and width of the output.
        **kwargs: As in `WeightedLayer`, where there are no biases.

    Call arguments:
        r: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens are not in the sums.

    Returns:
        Tensor of shape `(batch, units)`; zero where no token is kept.

    Raises:
        ValueError: `units` is no positive integer, or `r` of another shape.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import FeatureAttention
        >>> FeatureAttention(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 8)
        True

    References:
        - The FCSR preprint, equation 9.
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = positive_integer("units", units)

    def build(self, r_shape: tuple[int | None, ...]) -> None:
        """W_q, W_k, W_f."""
        width = width_of("r", r_shape)
        self.query_kernel = self.add_kernel("query_kernel", width, self.units)
        self.key_kernel = self.add_kernel("key_kernel", width, self.units)
        self.feature_kernel = self.add_kernel("feature_kernel", self.units, 1)
        self.built = True

    def call(self, r: Any, mask: Any = None) -> Any:
        """Equation 9."""
        r = zero_masked(r, boolean(mask))
        q = to_float32(ops.matmul(r, self.query_kernel) * self.units**-0.5)
        k = to_float32(ops.matmul(r, self.key_kernel))
        related = ops.relu(ops.matmul(ops.transpose(q, (0, 2, 1)), k))  # (batch, units, units)
        output = ops.matmul(related, to_float32(ops.convert_to_tensor(self.feature_kernel)))
        return ops.cast(ops.squeeze(output, axis=-1), r.dtype)

    def compute_mask(self, r: Any, previous_mask: Any = None) -> None:
        """The mask ends here: there are no tokens any more."""
        return None

    def compute_output_shape(self, r_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """`(batch, units)`."""
        return (r_shape[0], self.units)
