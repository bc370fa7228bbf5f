"""Functions to create and call mechanisms of any kind."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from relation_tf.layers import TwoDirections
from relation_tf.layers.arguments import true_or_false
from relation_tf.layers.base import seed_of_copy, seed_of_part
from relation_tf.layers.masking import zero_masked
from relation_tf.layers.two_directions import Merge
from relation_tf.networks.mechanisms import (
    accepts,
    factory_of,
    find_mechanism,
    in_blocks,
    make_layer,
)
from relation_tf.registry import Mechanism, options_of


def entry_of(mechanism: Any) -> Mechanism:
    """Return the registry entry of a mechanism; a custom layer gets the default entry.

    Raises:
        ValueError: If the argument is not a mechanism.
    """
    if isinstance(mechanism, str):
        return find_mechanism(mechanism)
    if is_layer(mechanism) or (
        isinstance(mechanism, type) and issubclass(mechanism, keras.layers.Layer)
    ):
        return Mechanism(mechanism)
    raise ValueError(
        "`mechanism` must be a name, a Keras layer class, an instance or 'package.module:Name'. "
        f"Received: mechanism={mechanism!r}"
    )


def is_layer(mechanism: Any) -> bool:
    """Return True if the mechanism is a layer instance: a template."""
    return isinstance(mechanism, keras.layers.Layer)


def is_custom(entry: Mechanism, mechanism: Any) -> bool:
    """Return True for a custom class, whose output must have the requested width."""
    return entry.factory == mechanism and not is_layer(mechanism)


def refuse_options(mechanism: Any, options: Mapping[str, Any] | None) -> None:
    """Raise a ValueError if options are given for a template."""
    if options and is_layer(mechanism):
        raise ValueError(
            "`options` cannot change a layer instance. Pass its class, or create the layer with "
            f"these options. Received: options={dict(options)}"
        )


def copy_of(template: Any, **changes: Any) -> Any:
    """Return a copy of a layer with a changed configuration and new weights."""
    return type(template).from_config({**_unshared(template.get_config()), **changes})


def _unshared(config: Any) -> Any:
    """Return a configuration without Keras's ids of shared objects: copies share no layer."""
    if isinstance(config, Mapping):
        return {k: _unshared(value) for k, value in config.items() if k != "shared_object_id"}
    return type(config)(map(_unshared, config)) if isinstance(config, list | tuple) else config


def mix_all(layer: Any, x: Any, mask: Any) -> Any:
    """Call the layer on all tokens, with the masks and values that its `call` takes."""
    if not accepts(layer, "value"):
        return layer(x, **accepted(layer, {"mask": mask}))
    needs_value = inspect.signature(layer.call).parameters["value"].default is not None
    value = {"value": x} if needs_value else {}
    return layer(x, **value, **accepted(layer, {"query_mask": mask, "value_mask": mask}))


def first_token(x: Any) -> Any:
    """Return the first token, `(batch, 1, width)`, with a static length of 1."""
    return ops.expand_dims(x[:, 0], axis=1)


def last_token(x: Any, mask: Any) -> Any:
    """Return the last unmasked token, `(batch, 1, width)`; zero if all tokens are masked."""
    count = ops.cumsum(ops.cast(mask, "int32"), axis=1)
    last = ops.logical_and(mask, ops.equal(count, count[:, -1:]))
    return ops.sum(zero_masked(x, last), axis=1, keepdims=True)


def mix_for_first(layer: Any, x: Any, mask: Any) -> Any:
    """Call a layer that takes `value` for the first token only."""
    masks = {"query_mask": first_token(mask), "value_mask": mask}
    return layer(first_token(x), value=x, **accepted(layer, masks))


def accepted(layer: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are not None and that the layer's `call` takes."""
    return {
        name: value
        for name, value in arguments.items()
        if value is not None and accepts(layer, name)
    }


@dataclass(frozen=True)
class MixerFactory:
    """Factory of the mixing layers of the blocks of an `Encoder`.

    Attributes:
        mechanism: As in `Encoder`.
        num_heads: As in `Encoder`.
        options: As in `Encoder`.
        causal: As in `Encoder`.
    """

    mechanism: Any
    num_heads: int | None
    options: Mapping[str, Any] | None
    causal: bool

    def __post_init__(self) -> None:
        true_or_false("causal", self.causal)
        entry_of(self.mechanism)
        heads = (self.options or {}).get("num_heads")
        if None not in (heads, self.num_heads) and heads != self.num_heads:
            raise ValueError(
                "`num_heads` must not differ from options['num_heads']. "
                f"Received: num_heads={self.num_heads}, options={dict(self.options or {})}"
            )
        if self.causal and not self._options.get("causal", True):
            raise ValueError(
                "`causal` must not differ from options['causal']. "
                f"Received: causal=True, options={dict(self._options)}"
            )
        refuse_options(self.mechanism, self._options)
        if self.causal and is_layer(self.mechanism) and not self.is_causal:
            raise ValueError(
                f"`causal` cannot change a layer instance. Create {self.mechanism.name!r} with "
                "causal=True, or pass its class. Received: causal=True"
            )

    @property
    def _options(self) -> dict[str, Any]:
        """Options including the number of heads."""
        heads = {} if self.num_heads is None else {"num_heads": self.num_heads}
        return {**(self.options or {}), **heads}

    @property
    def is_causal(self) -> bool:
        """True if the mechanism declares that tokens do not see later tokens."""
        if is_layer(self.mechanism):
            return bool(getattr(self.mechanism, "causal", False))
        return self.causal or _is_causal(self.mechanism, self._options)

    def make(self, i: int, units: int, dropout: float, seed: int | None, dtype: Any) -> Any:
        """Return the mixing layer of block i."""
        if is_layer(self.mechanism):
            config = self.mechanism.get_config()
            seeds = {"seed": _block_seed(config["seed"], i, seed)} if "seed" in config else {}
            dtype = keras.saving.serialize_keras_object(dtype)
            return copy_of(self.mechanism, **seeds, name="mixer", dtype=dtype)
        entry = entry_of(self.mechanism)
        allowed = options_of(factory_of(entry))
        causal = {"causal": True} if self.causal and "causal" in allowed else {}
        options = {"dtype": dtype, **causal, **in_blocks(entry, self._options, self.causal)}
        inner = options.get("options") if "mechanism" in entry.options else None
        own_seed = options.get("seed", inner.get("seed") if isinstance(inner, Mapping) else None)
        seed = _block_seed(own_seed, i, seed)
        if seed is not None and "seed" in allowed:
            options["seed"] = seed
        layer = make_layer(entry, units, dropout, options, name="mixer")
        if self.causal and not getattr(layer, "causal", False):
            name = type(layer).__name__
            raise ValueError(f"{name} has no causal form: it does not set `self.causal = True`")
        return layer

    def get_config(self) -> dict[str, Any]:
        """Return the arguments, with a class as its path."""
        serialize = keras.saving.serialize_keras_object
        return {
            "mechanism": serialize(_as_path(self.mechanism)),
            "num_heads": self.num_heads,
            "options": None if self.options is None else serialize(_as_path(self.options)),
            "causal": self.causal,
        }


def _as_path(value: Any) -> Any:
    """Return a mechanism, or options with mechanisms, with each class as its path."""
    if isinstance(value, Mapping):
        return {name: _as_path(x) for name, x in value.items()}
    return f"{value.__module__}:{value.__qualname__}" if isinstance(value, type) else value


def _is_causal(mechanism: Any, options: Mapping[str, Any]) -> bool:
    """Return True if the options of a mechanism, or of an encoder inside, say that it is causal."""
    if options.get("causal", False):
        return True
    inner = options.get("options")
    if "mechanism" not in entry_of(mechanism).options or not isinstance(inner, Mapping):
        return False
    return _is_causal(options.get("mechanism", mechanism), inner)


def _block_seed(own_seed: int | None, i: int, seed: int | None) -> int | None:
    """Return the mechanism's seed in block i, from its own or else that of the stack."""
    # Even parts of the stack's seed are those of the dropouts after the mechanisms.
    return seed_of_part(seed, 2 * i + 1) if own_seed is None else seed_of_copy(own_seed, i)


def two_directions(
    units: int = 64,
    mechanism: Any = "mamba2",
    merge: Merge = "sum",
    options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    *,
    name: str | None = None,
    dtype: Any = None,
) -> TwoDirections:
    """Build a `TwoDirections` layer around a mechanism of this package.

    Args:
        units: Width of the output; with `merge="concatenate"`, an odd number is rounded up.
        mechanism: Name of a mechanism with a causal form.
        merge: `"sum"`, or `"concatenate"` with half of the units for each direction.
        options: Further arguments of the mechanism.
        seed: Random seed of the dropout, default: that in `options`.
        name: Name of the layer.
        dtype: Dtype policy of both directions and of the sum.

    Raises:
        ValueError: If the mechanism has no causal form or rejects an option.

    Example:
        >>> from relation_tf.networks.mixing import two_directions
        >>> layer = two_directions(units=8, mechanism="relation", merge="concatenate")
        >>> layer.units, layer.layer.units
        (8, 4)
    """
    if is_layer(mechanism):
        raise ValueError(
            "`mechanism` must be a name or a class; for a layer, use TwoDirections(layer). "
            f"Received: {type(mechanism).__name__}"
        )
    if merge == "concatenate":
        units = (units + 1) // 2
    entry = entry_of(mechanism)
    arguments = {"dtype": dtype, **in_blocks(entry, options, equations=True), "causal": True}
    arguments |= {} if seed is None else {"seed": seed}
    forward = make_layer(entry, units, 0.0, arguments, name="forward")
    return TwoDirections(forward, merge, name=name, dtype=dtype)


def refuse_in_safe_mode(what: str) -> None:
    """Raise an error if Keras loads a file in safe mode (the default).

    Args:
        what: Code or model required by the file.

    Raises:
        ValueError: If Keras is in safe mode.
    """
    # Keras has no public API for this. If the import fails, loading fails too, which is safe.
    from keras.src.saving.serialization_lib import in_safe_mode

    if in_safe_mode():
        raise ValueError(
            f"the file requires {what}, which can run any code. If you trust it, "
            "pass safe_mode=False (on the command line, --unsafe)."
        )


def refuse_imports(config: Mapping[str, Any]) -> None:
    """Raise an error in safe mode if a mechanism in a configuration is `"package.module:Name"`.

    Args:
        config: Arguments of a layer, with the options of its mechanism and of those inside it.

    Raises:
        ValueError: If Keras is in safe mode and such a mechanism is found.
    """
    for name in _mechanism_names(config):
        if ":" in name:
            refuse_in_safe_mode(f"mechanism={name!r}")


def _mechanism_names(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Return the names of mechanisms in arguments and in the options inside them."""
    for key, value in arguments.items():
        if isinstance(value, Mapping):
            yield from _mechanism_names(value)
        elif key.endswith("mechanism") and isinstance(value, str):
            yield value
