"""The mechanisms that are known by name. Nothing here loads Keras before a layer is made."""

from __future__ import annotations

import difflib
import importlib
import inspect
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Mechanism:
    """How a network makes and reads a mechanism.

    Attributes:
        factory: Where the layer's class is, `"module:attribute"`, or the class itself.
        gives: `"tokens"` for an output `(batch, tokens, units)`, `"vector"` for `(batch, units)`.
        head: What makes the sentence vector: the `"first"` token, or the `"vector"` that is there.
        options: Default options; those of a method come on top. `form="original"` calls the class's
            `original`, `form="paper"` the class.
    """

    factory: str | type
    gives: Literal["tokens", "vector"] = "tokens"
    head: Literal["first", "vector"] = "first"
    options: Mapping[str, Any] = field(default_factory=lambda: _NO_OPTIONS)

    def make(self, units: int, dropout: float, options: Mapping[str, Any] | None = None) -> Any:
        """Make the layer.

        Args:
            units: Width of its output.
            dropout: Rate for the forms that have dropout by default (`form="original"`).
            options: Further arguments of the layer, and `form`.

        Returns:
            A Keras layer called "mechanism".

        Raises:
            ValueError: Where the class does not take the options.
        """
        arguments = {**self.options, **(options or {})}
        form = arguments.pop("form", "paper")
        cls = load(self.factory) if isinstance(self.factory, str) else self.factory
        if form == "original" and hasattr(cls, "original"):
            factory = cls.original
            arguments.setdefault("dropout", dropout)
        elif form == "paper":
            factory = cls
        else:
            allowed = "'paper' or 'original'" if hasattr(cls, "original") else "'paper'"
            raise ValueError(
                f"option 'form' of {cls.__name__} must be {allowed}. Received: {form!r}"
            )
        try:
            return factory(units=units, name="mechanism", **arguments)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{cls.__name__} cannot be made with units={units} and options {arguments}: {error}"
            ) from error


_ORIGINAL: Mapping[str, Any] = MappingProxyType({"form": "original"})

MECHANISMS: dict[str, Mechanism] = {
    "baseline": Mechanism("relation_tf.layers:PointwiseMLP", options=_ORIGINAL),
    "attention": Mechanism("relation_tf.layers:Attention", options=_ORIGINAL),
    "linear-attention": Mechanism("relation_tf.layers:LinearAttention", options=_ORIGINAL),
    "relation": Mechanism("relation_tf.layers:Relation", options=_ORIGINAL),
}


def find_mechanism(name: str) -> Mechanism:
    """The entry of a name, or one made for `"package.module:Name"`.

    Raises:
        ValueError: For a name that is not known.

    Example:
        >>> find_mechanism("relation").factory
        'relation_tf.layers:Relation'
        >>> find_mechanism("my_package.my_module:MyLayer").factory
        'my_package.my_module:MyLayer'
    """
    if name in MECHANISMS:
        return MECHANISMS[name]
    if ":" in name:
        return Mechanism(name)
    near = difflib.get_close_matches(name, MECHANISMS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"unknown mechanism {name!r}: expected one of {', '.join(MECHANISMS)}, "
        f"or 'package.module:Name' for a layer of your own.{hint}"
    )


def load(path: str) -> Any:
    """Import what `"package.module:Name"` names.

    Raises:
        ValueError: Where there is no such module or name.
    """
    module_name, _, attribute = path.partition(":")
    try:
        return operator.attrgetter(attribute)(importlib.import_module(module_name))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot import mechanism {path!r}: {error}") from error


def accepts(layer: Any, argument: str) -> bool:
    """Whether the layer's call takes an argument of that name."""
    return argument in inspect.signature(layer.call).parameters
