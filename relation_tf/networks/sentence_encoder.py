"""Base class of the sentence encoders."""

from __future__ import annotations

from typing import Any

import keras

from relation_tf.layers.arguments import positive_integer, width_of
from relation_tf.layers.base import WeightedLayer, built_child
from relation_tf.layers.masking import boolean, zero_masked


class SentenceEncoder(WeightedLayer):
    """Base class of layers from the tokens of a sentence to one vector or contextual tokens.

    It checks `units` and applies masks. A subclass creates its weights in `build_encoder` and
    computes its equation in `encode`; `return_sequences` and `output_width` define the output
    shape.

    Args:
        units: Width of the layer, at least 1.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    return_sequences = False

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

    def output_width(self, width: int) -> int:
        """Return the width of the output for an input width."""
        return self.units

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the weights."""
        self.build_encoder(width_of("x", x_shape))
        self.built = True

    def build_encoder(self, width: int) -> None:
        """Create the weights of the encoder."""
        raise NotImplementedError

    def encode(self, x: Any, mask: Any, training: bool) -> Any:
        """Compute the equation; masked tokens of `x` are zero, `mask` is boolean or None."""
        raise NotImplementedError

    def call(self, x: Any, mask: Any = None, training: bool | None = None) -> Any:
        """Encode the sentences.

        Args:
            x: Tensor of shape `(batch, tokens, width)`.
            mask: Boolean tensor of shape `(batch, tokens)`, True for unmasked tokens. Masked tokens
                have no effect on the output.
            training: If True, apply dropout.

        Returns:
            Tensor of shape `(batch, width)`, or `(batch, tokens, width)`, zero at masked tokens.
        """
        mask = boolean(mask, x)
        y = self.encode(zero_masked(x, mask), mask, bool(training))
        return zero_masked(y, mask) if self.return_sequences else y

    def compute_mask(self, x: Any, previous_mask: Any = None) -> Any:
        """Return the mask for token outputs, None for vectors."""
        return previous_mask if self.return_sequences else None

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return `(batch, width)` or `(batch, tokens, width)`."""
        width = self.output_width(width_of("x", x_shape))
        return (*x_shape[: 2 if self.return_sequences else 1], width)

    def add_dense(self, name: str, width: int, units: int, **arguments: Any) -> keras.layers.Dense:
        """Return a built Dense layer from `width` to `units`."""
        arguments = {**self.weight_arguments(), **arguments}
        return built_child(self, keras.layers.Dense, name, width, units, **arguments)
