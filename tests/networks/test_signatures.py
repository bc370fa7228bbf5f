"""Constructors name all their options, for completion in editors and for the reference pages."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import keras
import pytest

from relation_tf import layers
from relation_tf.networks import mechanisms
from relation_tf.registry import MECHANISMS

OF_KERAS = {"name", "trainable", "dtype"}
FIXED = {"mechanism"}  # by `transformer`


def public() -> dict[str, Callable[..., Any]]:
    """Return the layers of the package and what makes the layer of each mechanism."""
    made = {name: getattr(layers, name) for name in layers.__all__}
    for name, entry in MECHANISMS.items():
        if MECHANISMS.origin(name) == mechanisms.__name__:
            factory = mechanisms.load(str(entry.factory))
            made[factory.__name__] = factory
    return made


PUBLIC = public()


def options(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the named parameters of a signature."""
    parameters = inspect.signature(function).parameters
    return {
        name: each
        for name, each in parameters.items()
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    }


def accepted(cls: type) -> set[str]:
    """Return the options of a class and of its bases up to the first class of Keras."""
    names: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.startswith("keras."):
            break
        names |= options(vars(base)["__init__"]).keys() if "__init__" in vars(base) else set()
    return names - {"self"}


@pytest.mark.parametrize("name", PUBLIC)
def test_signature_names_every_option(name: str) -> None:
    make = PUBLIC[name]
    kinds = {each.kind for each in inspect.signature(make).parameters.values()}
    assert inspect.Parameter.VAR_POSITIONAL not in kinds
    hidden = inspect.Parameter.VAR_KEYWORD in kinds
    cls = make if isinstance(make, type) else get_type_hints(make)["return"]
    if hidden:
        assert not accepted(cls) - options(make).keys() - (FIXED if cls is not make else set())


@pytest.mark.parametrize("name", layers.__all__)
def test_configuration_is_the_signature(name: str) -> None:
    size = {"units": 4, "rank": 4, "max_length": 4, "layer": layers.Relation(4, causal=True)}
    make = PUBLIC[name]
    layer = make(**{key: size[key] for key in options(make).keys() & size.keys()})
    assert layer.get_config().keys() - OF_KERAS == options(make).keys() - OF_KERAS
    assert isinstance(layer, keras.layers.Layer)
