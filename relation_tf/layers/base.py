"""Base classes of the layers: their masks, their configuration and their weights."""

from __future__ import annotations

import inspect
from typing import Any

import keras


class BaseLayer(keras.layers.Layer):
    """A layer that takes a mask and keeps each argument under the argument's name.

    `get_config` follows from that: a subclass writes none. Unless a subclass overrides
    `compute_mask`, its output has the mask of its input.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {**super().get_config(), **constructor_arguments(self)}


class WeightedLayer(BaseLayer):
    """A layer whose matrices and biases are initialized and regularized as the user says.

    Args:
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    def __init__(
        self,
        *,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)

    def weight_arguments(self) -> dict[str, Any]:
        """Return the four arguments for a child, such as a Dense layer.

        An initializer without a seed draws one when it is made: matrices that shared it would
        start alike. So each child, and each weight, gets a clone.
        """
        return {
            "kernel_initializer": self.kernel_initializer.clone(),
            "bias_initializer": self.bias_initializer.clone(),
            "kernel_regularizer": self.kernel_regularizer,
            "bias_regularizer": self.bias_regularizer,
        }

    def add_kernel(self, name: str, rows: int, columns: int) -> Any:
        """Add a `(rows, columns)` matrix."""
        initializer, regularizer = self.kernel_initializer.clone(), self.kernel_regularizer
        return self.add_weight(
            shape=(rows, columns), initializer=initializer, regularizer=regularizer, name=name
        )

    def add_bias(self, name: str, width: int) -> Any:
        """Add a `(width,)` bias."""
        initializer, regularizer = self.bias_initializer.clone(), self.bias_regularizer
        return self.add_weight(
            shape=(width,), initializer=initializer, regularizer=regularizer, name=name
        )


def built_child(
    parent: Any, make: Any, name: str, width: int | None, *arguments: Any, **more: Any
) -> Any:
    """Make a child layer with its parent's dtype policy, and build it for inputs of a width."""
    child = make(*arguments, **{"dtype": parent.dtype_policy, "name": name, **more})
    child.build((None, None, width))
    return child


def constructor_arguments(layer: Any) -> dict[str, Any]:
    """Return the arguments of a layer's constructor, serialized, from the attributes of that name.

    The arguments are those of the class and of all its bases above Keras's.
    """
    arguments: dict[str, Any] = {}
    for cls in type(layer).__mro__:
        if cls.__module__.startswith("keras."):
            break
        named = inspect.signature(vars(cls).get("__init__", lambda: None)).parameters
        arguments |= {name: getattr(layer, name) for name in named if hasattr(layer, name)}
    return {
        name: keras.activations.serialize(value)
        if name == "activation"
        else keras.saving.serialize_keras_object(value)
        for name, value in arguments.items()
    }
