"""Base classes of the layers: constructor arguments, configuration and weights."""

from __future__ import annotations

import inspect
import re
from typing import Any

import keras
import numpy as np

from relation_tf.layers.arguments import check_width
from relation_tf.layers.masking import as_floats

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
# The section "Args" of a docstring, and its entries.
_SECTION = re.compile(r"(?<=^Args:\n)(?: .*(?:\n|\Z))+", re.MULTILINE)
_ENTRY = re.compile(r"^    \*{0,2}(\w+): .*(?:\n {8}.*)*", re.MULTILINE)


def show_forwarded(function: Any, base: Any) -> None:
    """Show the arguments that a function passes on as `**kwargs` in its signature.

    Args:
        function: A constructor, or a function that makes a layer.
        base: The constructor that gets the arguments.
    """
    declared, inherited = (inspect.signature(x).parameters for x in (function, base))
    if all(parameter.kind != parameter.VAR_KEYWORD for parameter in declared.values()):
        return
    more = [
        parameter.replace(kind=parameter.KEYWORD_ONLY)
        for name, parameter in inherited.items()
        if name not in declared and parameter.default is not parameter.empty
    ]
    shown = sorted([*declared.values(), *more], key=lambda parameter: parameter.kind)
    function.__signature__ = inspect.Signature(shown)


def _document_forwarded(cls: Any) -> None:
    """Add the arguments of the base class to the docstring, in the order of the signature."""
    entries, inherited = _documented(cls), _documented(cls.__mro__[1])
    if "kwargs" in entries:
        entries = {**inherited, **entries, "kwargs": inherited.get("kwargs", entries["kwargs"])}
        names = inspect.signature(cls.__init__).parameters
        section = "".join(f"{entries[name]}\n" for name in names if name in entries)
        cls.__doc__ = _SECTION.sub(lambda _: section, inspect.cleandoc(cls.__doc__), count=1)


def _documented(cls: Any) -> dict[str, str]:
    """Return the descriptions of the arguments in a docstring."""
    section = _SECTION.search(inspect.cleandoc(cls.__doc__ or ""))
    return {entry[1]: entry[0] for entry in _ENTRY.finditer(section[0])} if section else {}


class BaseLayer(keras.layers.Layer):
    """Keras layer with mask support and an automatic `get_config`.

    A subclass stores each constructor argument in an attribute of the same name, and `get_config`
    collects them. Arguments that it passes on as `**kwargs` become part of its signature and its
    docstring. The output has the mask of the input unless `compute_mask` is overridden.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Complete the signature and the docstring of a class."""
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            show_forwarded(vars(cls)["__init__"], super(cls, cls).__init__)
        _document_forwarded(cls)

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
    arguments = {}
    for name, parameter in inspect.signature(type(layer).__init__).parameters.items():
        if name != "self" and parameter.kind in _NAMED and hasattr(layer, name):
            value = getattr(layer, name)
            arguments[name] = (
                keras.activations.serialize(value)
                if name == "activation"
                else keras.saving.serialize_keras_object(value)
            )
    return arguments


def seed_of_part(seed: int | None, part: int) -> int | None:
    """Return a seed for a numbered part of a layer, such as a block; part 0 has the layer's seed.

    Args:
        seed: Seed of the layer, or None, which is returned.
        part: Number of the part.

    Example:
        >>> from relation_tf.layers.base import seed_of_part
        >>> seed_of_part(3, 0), seed_of_part(3, 1), seed_of_part(None, 1)
        (3, 228595140, None)
    """
    if seed is None or part == 0:
        return seed
    mixed = np.random.SeedSequence((seed % 2**32, part)).generate_state(1)[0]
    return int(mixed >> 1)  # Keras's seeds are signed on some backends.


def seed_of_copy(seed: int | None, copy: int) -> int | None:
    """Return a seed for a copy of a layer, such as in another block; copy 0 has the layer's seed.

    It differs from the seeds of all parts.

    Example:
        >>> seed_of_copy(3, 0), seed_of_copy(3, 1) == seed_of_part(3, 1)
        (3, False)
    """
    return seed_of_part(seed, copy and 2**31 + copy)


def second_seed(seed: int | None) -> int | None:
    """Return the seed of a second dropout inside a layer; it differs from those of all blocks."""
    return seed_of_part(seed, 2**32 - 1)
