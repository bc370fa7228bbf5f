"""Causal convolution of each feature over a few tokens."""

from __future__ import annotations

from typing import Any

import keras

from relation_tf.layers.arguments import positive_integer, true_or_false, width_of
from relation_tf.layers.base import WeightedLayer
from relation_tf.layers.masking import boolean, zero_masked
from relation_tf.layers.recurrent_mixer import short_convolution


@keras.saving.register_keras_serializable(package="relation_tf")
class ShortConvolution(WeightedLayer):
    """Convolution of each feature over a token and the few before it.

    `y_t = phi(b + sum_s w_s * x_{t - s})` for each feature, with s from 0 to `filter_width - 1`,
    over the unmasked tokens; x is zero before the first one. A building block: recurrent mechanisms
    such as Mamba2 and DeltaNet apply it to their projections, to compare neighbours.

    Args:
        filter_width: Number of tokens.
        activation: Activation function `phi`; None for the identity.
        use_bias: If True, there is a bias b.
        kernel_initializer: Initializer of the filters, `(filter_width, width)`: the last row is for
            the token itself, the first one for the earliest token. By default outputs have the
            variance of the inputs.
        kernel_regularizer: Regularizer of the filters.
        **kwargs: As in `WeightedLayer`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens are absent, their outputs are zero.

    Returns:
        Tensor with the shape of `x`.

    Raises:
        ValueError: If `filter_width` is not a positive integer, or `x` has another shape or
            another width than in `build`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import ShortConvolution
        >>> layer = ShortConvolution(filter_width=2, kernel_initializer="ones")
        >>> layer(np.array([[[1.0], [2.0], [4.0]]], "float32")).numpy().ravel().tolist()
        [1.0, 3.0, 6.0]

    References:
        - Dao, Gu 2024, arXiv 2405.21060, section 7, for its use in Mamba-2.
    """

    def __init__(
        self,
        filter_width: int = 4,
        activation: Any = None,
        use_bias: bool = True,
        *,
        kernel_initializer: Any = "lecun_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(kernel_initializer=kernel_initializer, **kwargs)
        self.filter_width = positive_integer("filter_width", filter_width)
        self.activation = keras.activations.get(activation)
        self.use_bias = true_or_false("use_bias", use_bias)

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the filters, the last row for the token itself, and the bias."""
        self.width = width_of("x", x_shape)
        self.kernel = self.add_kernel("kernel", self.filter_width, self.width)
        self.bias = self.add_bias("bias", self.width) if self.use_bias else 0.0
        self.built = True

    def call(self, x: Any, mask: Any = None) -> Any:
        """Compute the convolution."""
        x = self.as_tokens(x)
        mask = boolean(mask, x)
        y = short_convolution(zero_masked(x, mask), self.kernel, self.bias, mask)
        return zero_masked(self.activation(y), mask)

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of `x`."""
        return self.checked_shape(x_shape)
