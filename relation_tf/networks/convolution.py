"""Convolutional network for sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer
from relation_tf.layers.base import built_child
from relation_tf.layers.masking import zero_masked
from relation_tf.networks.sentence_encoder import SentenceEncoder


@keras.saving.register_keras_serializable(package="relation_tf")
class ConvolutionalNetwork(SentenceEncoder):
    """Convolutions of several widths with max pooling over the sentence.

    For each width, `num_layers` convolutions `c_k = activation(conv(c_(k-1)))` are followed by the
    maximum over unmasked tokens, and the maxima are concatenated. They are zero if all tokens
    are masked.

    Positions outside the sentence and masked tokens are zero before each convolution, so that
    padding does not change outputs. A masked token inside the sentence keeps its position as a zero
    vector.

    Kim 2014 uses only windows inside the sentence. Here windows extend over both ends, so that a
    sentence may be shorter than a window. The FCSR paper's context window of `w` words in `n`
    layers is `widths=[2 * w + 1], num_layers=n`.

    Args:
        units: Number of feature maps per width.
        widths: Widths of the windows, in tokens.
        num_layers: Number of stacked convolutions.
        activation: Activation of each convolution.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens are zero and excluded from the maximum.

    Returns:
        Tensor of shape `(batch, units * len(widths))`.

    Raises:
        ValueError: If a size is not a positive integer or `widths` is empty.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.convolution import ConvolutionalNetwork
        >>> ConvolutionalNetwork(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 24)
        True

    References:
        - Kim 2014, "Convolutional Neural Networks for Sentence Classification", section 2.
    """

    def __init__(
        self,
        units: int,
        widths: Sequence[int] = (3, 4, 5),
        num_layers: int = 1,
        activation: Any = "relu",
        *,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            units,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            **kwargs,
        )
        if isinstance(widths, str) or not isinstance(widths, Sequence) or not widths:
            raise ValueError(
                f"`widths` must be a list of positive integers. Received: widths={widths!r}"
            )
        self.widths = [positive_integer("widths", width) for width in widths]
        self.num_layers = positive_integer("num_layers", num_layers)
        self.activation = keras.activations.get(activation)

    def output_width(self, width: int) -> int:
        """Return the width of the concatenated maxima."""
        return self.units * len(self.widths)

    def build_encoder(self, width: int) -> None:
        """Create the convolutions, grouped by width."""
        self.convolutions = [
            self._convolution(f"convolution_{i}_{layer}", window, self.units if layer else width)
            for i, window in enumerate(self.widths)
            for layer in range(self.num_layers)
        ]

    def _convolution(self, name: str, window: int, width: int) -> keras.layers.Conv1D:
        arguments = {"padding": "same", "activation": self.activation, **self.weight_arguments()}
        return built_child(self, keras.layers.Conv1D, name, width, self.units, window, **arguments)

    def encode(self, x: Any, mask: Any, training: bool) -> Any:
        """Return the concatenated maxima of all widths."""
        maxima = []
        for first in range(0, len(self.convolutions), self.num_layers):
            y = x
            for convolution in self.convolutions[first : first + self.num_layers]:
                y = convolution(zero_masked(y, mask))
            maxima.append(_masked_max(y, mask))
        return ops.concatenate(maxima, axis=-1)


def _masked_max(y: Any, mask: Any) -> Any:
    """Return the maximum over unmasked tokens, `(batch, width)`; zero if all tokens are masked."""
    if mask is None:
        return ops.max(y, axis=1)
    lowest = ops.cast(float("-inf"), y.dtype)
    largest = ops.max(ops.where(mask[..., None], y, lowest), axis=1)
    return ops.where(ops.any(mask, axis=1, keepdims=True), largest, ops.zeros_like(largest))
