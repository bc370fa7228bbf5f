"""A recurrence as a layer for suites: `mechanism = "moving_average:MovingAverage"`.

It runs on TensorFlow, JAX and PyTorch. Networks do not know the number of tokens, so a Python loop
over tokens cannot be used. Check it in this folder:
`relation-tf check-layer moving_average:MovingAverage`.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="moving_average")
class MovingAverage(keras.layers.Layer):
    """Gated moving average: h_t = f_t * h_(t-1) + (1 - f_t) * v_t."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.causal = True  # each token sees only earlier tokens
        self.gate = keras.layers.Dense(units, activation="sigmoid")
        self.value = keras.layers.Dense(units)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Create the weights."""
        self.gate.build(input_shape)
        self.value.build(input_shape)
        self.built = True

    def call(self, x: Any, mask: Any = None) -> Any:
        """Return the state after each token."""
        if mask is None:
            mask = ops.ones_like(x[..., 0], "bool")
        mask = ops.cast(mask, "bool")[..., None]
        x = ops.where(mask, x, 0)
        # Masked tokens keep the state. After the Dense layers, because trained biases make gates
        # and values nonzero. `check-layer` cannot detect a missing mask of a causal layer.
        f = ops.where(mask, self.gate(x), 1)
        v = ops.where(mask, self.value(x), 0)
        # One tensor: on TensorFlow (Keras 3.15) scan fails with several inputs of unknown length.
        inputs = ops.swapaxes(ops.concatenate([f, (1 - f) * v], axis=-1), 0, 1)

        def step(h: Any, inputs: Any) -> tuple[Any, Any]:
            f, v = ops.split(inputs, 2, axis=-1)
            h = f * h + v
            return h, h

        _, states = ops.scan(step, ops.zeros_like(v[:, 0]), inputs)
        return ops.swapaxes(states, 0, 1)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {**super().get_config(), "units": self.units}
