"""Layers whose weights are not trained."""

from __future__ import annotations

from typing import Any, Self

import keras

from relation_tf.layers.base import BaseLayer


@keras.saving.register_keras_serializable(package="relation_tf")
class Frozen(BaseLayer):
    """Wrapper that freezes a layer and always calls it in inference mode.

    A functional network passes its own `training` argument to each of its layers; only this
    wrapper calls the inner layer.

    Args:
        layer: The layer to freeze; its call takes `mask` and `training`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Input of the layer.
        mask: Boolean, `(batch, tokens)`, or None.

    Returns:
        The output of the layer.
    """

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layer = layer
        self.layer.supports_masking = True

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Build the layer before freezing it; weights created later would be trainable."""
        if not self.layer.built:  # A loaded layer is already built.
            self.layer.build(x_shape)
        self.trainable = False
        # On TensorFlow, Keras ignores this assignment if the loaded layer has the value False.
        for variable in self.layer.variables:
            variable.trainable = False
        self.built = True

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> Any:
        """Return the shape of the layer's output: on JAX, it cannot be found by a call."""
        return self.layer.compute_output_shape(x_shape)

    def call(self, x: Any, mask: Any = None) -> Any:
        """Return the layer's output without dropout."""
        return self.layer(x, mask=mask, training=False)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Create the layer from its configuration."""
        return cls(**keras.saving.deserialize_keras_object(config))
