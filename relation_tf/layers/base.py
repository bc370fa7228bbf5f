"""Base classes of the layers: masks, configuration and weights."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import keras

from relation_tf.errors import did_you_mean
from relation_tf.layers.arguments import check_width
from relation_tf.layers.masking import as_floats

_OF_KERAS = ("name", "dtype", "trainable", "activity_regularizer", "autocast")
_REFUSED_LATER = ("causal", "input_shape", "input_dim")  # with other errors, or accepted by Keras


class BaseLayer(keras.layers.Layer):
    """Keras layer with mask support and an automatic `get_config`.

    A subclass stores each constructor argument in an attribute of the same name, and `get_config`
    collects them. The output has the mask of the input unless `compute_mask` is overridden.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Create the layer; raise a TypeError that names this class for wrong arguments."""
        known = [*_argument_names(cls), *_OF_KERAS]
        takes_any = next(own for own, each in _parameters(cls) if each.kind is each.VAR_KEYWORD)
        # A class of the user may take other names from its **kwargs.
        checked = kwargs if takes_any.__module__.startswith("relation_tf.") else {}
        for name, value in checked.items():
            if name not in known and name not in _REFUSED_LATER:
                hint = did_you_mean(name, known)
                raise TypeError(
                    f"{cls.__name__} has no argument {name!r}.{hint} Received: {name}={value!r:.80}"
                )
        try:
            inspect.signature(cls.__init__).bind(None, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}: {error}") from None
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {**super().get_config(), **constructor_arguments(self)}

    def as_tokens(self, x: Any, name: str = "x") -> Any:
        """Return an input `(batch, tokens, width)` as floats; raise for another width.

        `build` stores the width in the attribute `width`.
        """
        self.checked_shape(x.shape, name)
        return as_floats(x, self.compute_dtype)

    def checked_shape(self, shape: Any, name: str = "x") -> tuple[int | None, ...]:
        """Return a shape, or raise if the layer was built for another width."""
        if self.built:
            check_width(name, shape, self.width)
        return tuple(shape)


class WeightedLayer(BaseLayer):
    """Layer with configurable initializers and regularizers.

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
        """Return the initializers and regularizers for a child, such as a Dense layer.

        Initializers are cloned: matrices with the same initializer instance start with equal
        values, because an initializer draws its seed when it is created.
        """
        return {
            "kernel_initializer": cloned(self.kernel_initializer),
            "bias_initializer": cloned(self.bias_initializer),
            "kernel_regularizer": self.kernel_regularizer,
            "bias_regularizer": self.bias_regularizer,
        }

    def add_kernel(self, name: str, rows: int, columns: int) -> Any:
        """Add a `(rows, columns)` matrix."""
        initializer, regularizer = cloned(self.kernel_initializer), self.kernel_regularizer
        return self.add_weight(
            shape=(rows, columns), initializer=initializer, regularizer=regularizer, name=name
        )

    def add_bias(self, name: str, width: int, autocast: bool = True) -> Any:
        """Add a `(width,)` bias, for `autocast=False` in the dtype of variables."""
        return self.add_weight(
            shape=(width,),
            initializer=cloned(self.bias_initializer),
            regularizer=self.bias_regularizer,
            name=name,
            autocast=autocast,
        )


def cloned(initializer: Any) -> Any:
    """Return an initializer with its own seed; a function has none and is returned."""
    return initializer.clone() if hasattr(initializer, "clone") else initializer


def built_child(
    parent: Any, make: Any, name: str, width: int | None, *arguments: Any, **more: Any
) -> Any:
    """Create a child layer with its parent's dtype policy and build it for `width` features."""
    child = make(*arguments, **{"dtype": parent.dtype_policy, "name": name, **more})
    child.build((None, None, width))
    return child


def constructor_arguments(layer: Any) -> dict[str, Any]:
    """Return the serialized constructor arguments of a layer, read from attributes of that name.

    Includes arguments of the class and of its bases up to the first class of Keras.
    """
    named = _argument_names(type(layer))
    arguments = {name: getattr(layer, name) for name in named if hasattr(layer, name)}
    return {
        name: keras.activations.serialize(value)
        if name == "activation"
        else keras.saving.serialize_keras_object(value)
        for name, value in arguments.items()
    }


def _argument_names(layer_class: type) -> list[str]:
    """Return the constructor arguments of a class and of its bases up to the first of Keras."""
    return [
        each.name
        for _, each in _parameters(layer_class)
        if each.name != "self" and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]


def _parameters(layer_class: type) -> list[tuple[type, inspect.Parameter]]:
    """Return each parameter of these constructors, with its class."""
    own = itertools.takewhile(lambda c: not c.__module__.startswith("keras."), layer_class.__mro__)
    return [
        (cls, parameter)
        for cls in own
        if "__init__" in vars(cls)
        for parameter in inspect.signature(vars(cls)["__init__"]).parameters.values()
    ]
