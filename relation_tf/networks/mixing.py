"""How a network makes a mechanism of any kind and calls it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import keras

from relation_tf.networks.mechanisms import accepts, find_mechanism
from relation_tf.registry import Mechanism


def entry_of(mechanism: Any) -> Mechanism:
    """How a mechanism is made and read; a layer of one's own as the Relation paper's are.

    Raises:
        ValueError: For what is no mechanism.
    """
    if isinstance(mechanism, str):
        return find_mechanism(mechanism)
    if is_layer(mechanism) or (
        isinstance(mechanism, type) and issubclass(mechanism, keras.layers.Layer)
    ):
        return Mechanism(mechanism)
    raise ValueError(
        "`mechanism` must be a name, a Keras layer class, an instance or 'package.module:Name'. "
        f"Received: {mechanism!r}"
    )


def is_layer(mechanism: Any) -> bool:
    """Whether it is a layer that is made already: a template."""
    return isinstance(mechanism, keras.layers.Layer)


def refuse_options(mechanism: Any, options: Mapping[str, Any] | None) -> None:
    """Refuse options for a template.

    Raises:
        ValueError: Where there are some.
    """
    if options and is_layer(mechanism):
        raise ValueError(
            f"`options` have no meaning for a layer that is already made. Received: {dict(options)}"
        )


def copy_of(template: Any, **changes: Any) -> Any:
    """A layer like a template, without its weights."""
    return type(template).from_config({**template.get_config(), **changes})


def mix_all(layer: Any, x: Any, mask: Any) -> Any:
    """What the layer makes of all tokens, with the masks and values that its call takes."""
    if not accepts(layer, "value"):
        return layer(x, **accepted(layer, {"mask": mask}))
    needs_value = inspect.signature(layer.call).parameters["value"].default is not None
    value = {"value": x} if needs_value else {}
    return layer(x, **value, **accepted(layer, {"query_mask": mask, "value_mask": mask}))


def accepted(layer: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that the layer's call takes, and that are there."""
    return {
        name: value
        for name, value in arguments.items()
        if value is not None and accepts(layer, name)
    }
