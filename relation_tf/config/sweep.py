"""Sweeps: settings tuned for each task and method before the runs. Does not import Keras."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field, ValidationError, field_validator, model_validator

from relation_tf.config.method import Method, value_name
from relation_tf.config.training import Seed, TrainingSettings
from relation_tf.errors import did_you_mean, join_names
from relation_tf.faults import Settings, first_fault, without_alternatives

SWEPT = (
    "learning_rate", "learning_rate_schedule", "weight_decay", "optimizer", "dropout", "batch_size",
    "batching", "epochs", "patience", "initializer", "hidden_units", "hidden_activation",
    "embedding_dim", "embedding_initializer", "positions", "network",
    "short_convolution", "adversary_weight", "orthogonality_weight", "reversal_weight",
    "units", "sharing", "feature_projection", "encoder_weights", "tokens", "vocabulary_size",
    "embeddings",
)  # fmt: skip
"""Keys of `TrainingSettings` and `Method` that a sweep can vary, next to options of layers.

Not those that change the validation rows or the list of methods, nor `size`, which makes methods
equal.
"""

OPTIONS = "options."
"""Start of the name of a swept option, such as `options.num_heads`."""

_KNOWN = (*SWEPT, f"{OPTIONS}NAME")


class Tuned(Settings):
    """Settings of one method on one task, which replace those of the suite.

    Attributes:
        task: The task.
        method: The method.
        settings: Keys of `SWEPT`, or options such as `options.num_heads`, and their values.
    """

    task: str
    method: str
    settings: dict[str, Any]

    @field_validator("settings", mode="before")
    @classmethod
    def _flat(cls, settings: Any) -> Any:
        return flat(settings) if isinstance(settings, dict) else settings

    def _faults(self) -> Iterator[str]:
        for key, value in self.settings.items():
            yield from _faults_of_setting(key, value)


class Sweep(Settings, extra="allow"):
    """Values to try of settings: `learning_rate = [0.0003, 0.001, 0.003]`, or another of `SWEPT`.

    `options.num_heads = [1, 4]` tries values of an option of the layers, `options.options.NAME` of
    an option of the layer inside an encoder. They are added to the options of each method.

    Each method is trained on each task with each combination of the values and each seed of the
    sweep. The runs of the suite use the combination with the best mean validation score.

    Attributes:
        seeds: Seeds of the sweep, other than those of the suite.

    Example:
        >>> sweep = Sweep(learning_rate=[0.001, 0.01], dropout=[0.0, 0.5])
        >>> [*sweep.combinations()][1]
        {'learning_rate': 0.001, 'dropout': 0.5}
        >>> Sweep(options={"num_heads": [1, 4]}).values
        {'options.num_heads': [1, 4]}
    """

    seeds: list[Seed] = Field(default=[1001, 1002], min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, values: Any) -> Any:
        return flat(values) if isinstance(values, dict) else values

    def _faults(self) -> Iterator[str]:
        if not self.values:
            yield f"one or more of {join_names(_KNOWN)}, each with a list of values"
        for key, values in self.values.items():
            yield from _faults_of_key(key)
            if inside := [other for other in self.values if other.startswith(f"{key}.")]:
                yield f"either {key!r} or {inside[0]!r}, not both"
            if not isinstance(values, list) or len(values) < 2:
                yield f"a list of two or more values of {key!r}, not {values!r:.80}"
            for value in values:
                yield from _faults_of_setting(key, value)
                parts = value if isinstance(value, list) and key.startswith(OPTIONS) else [value]
                if not all(isinstance(part, str | int | float) for part in parts):
                    yield f"texts or numbers for {key!r}, not {value!r:.80}"
            if any(value in values[:place] for place, value in enumerate(values)):
                yield f"different values of {key!r}, not {values!r:.80}"
        if len({*self.seeds}) < len(self.seeds):
            yield f"different seeds, not {self.seeds!r:.80}"

    @property
    def values(self) -> dict[str, list[Any]]:
        """The values of each setting."""
        return dict(self.model_extra or {})

    def combinations(self) -> Iterator[dict[str, Any]]:
        """Iterate over the settings to try."""
        for values in itertools.product(*self.values.values()):
            yield dict(zip(self.values, values, strict=True))


def flat(settings: Mapping[str, Any], start: str = "") -> dict[str, Any]:
    """Return settings with options as keys of one level.

    Args:
        settings: Settings with a table `options`, which may contain tables.
        start: Start of the keys.

    Raises:
        ValueError: If a key occurs twice.

    Example:
        >>> flat({"dropout": 0.1, "options": {"num_layers": 2, "options": {"window": 8}}})
        {'dropout': 0.1, 'options.num_layers': 2, 'options.options.window': 8}
    """
    result: dict[str, Any] = {}
    for key, value in settings.items():
        path = f"{start}{key}"
        inside = isinstance(value, dict) and value and f"{path}.".startswith(OPTIONS)
        inner = flat(value, f"{path}.") if inside else {path: value}
        if twice := inner.keys() & result.keys():
            raise ValueError(f"different keys, not {min(twice)!r} twice")
        result |= inner
    return result


def _faults_of_key(key: str) -> Iterator[str]:
    if key in SWEPT or (key.startswith(OPTIONS) and all(key.split("."))):
        return
    hint = did_you_mean(key, [*_KNOWN, "seeds"])
    yield f"keys among {join_names(_KNOWN)}, not {key!r}.{hint}"


def _faults_of_setting(key: str, value: Any) -> Iterator[str]:
    yield from _faults_of_key(key)
    if key.startswith(OPTIONS):  # the layer checks them
        return
    if key == "units" and isinstance(value, list):
        yield f"one number for {key!r}, not {value!r:.80}"
    try:
        if key in Method.model_fields:
            Method.model_validate({"mechanism": "baseline", key: value})
        else:
            TrainingSettings(**{key: value})
    except ValidationError as error:
        reason = without_alternatives(error.errors())[0]["msg"]
        yield f"values that {key!r} allows, not {value!r:.80} ({reason})"


def tuned_method(method: Method, settings: Mapping[str, Any]) -> Method:
    """Return a method with tuned settings; those of the suite's training have no effect on it.

    Args:
        method: The method.
        settings: Settings as in `Tuned`; options are merged into those of the method.

    Raises:
        ValueError: If the method cannot have these settings; one line.

    Example:
        >>> encoder = Method(mechanism="encoder", options={"mechanism": "relation"})
        >>> tuned_method(encoder, {"units": 32, "options.num_layers": 4}).options
        {'mechanism': 'relation', 'num_layers': 4}
    """
    changes = {key: value for key, value in settings.items() if is_of_method(key)}
    if not changes:
        return method
    values = method.model_dump()
    for key, value in changes.items():
        *tables, name = key.split(".")
        table = values
        for inner in tables:
            inside = table.get(inner)
            table[inner] = dict(inside) if isinstance(inside, dict) else {}
            table = table[inner]
        table[name] = value
    try:
        return Method.model_validate(values)
    except ValidationError as error:
        raise ValueError(first_fault(error, Method)) from error


def is_of_method(key: str) -> bool:
    """Return True for a key or option of methods."""
    return key in Method.model_fields or key.startswith(OPTIONS)


def own_value(method: Method, key: str) -> Any:
    """Return the value of a method's key or option; None if it has only the default."""
    value: Any = method.options
    if not key.startswith(OPTIONS):
        value = getattr(method, key)
        return None if value == Method.model_fields[key].default else value
    for name in key.split(".")[1:]:
        value = value.get(name) if isinstance(value, dict) else value
    return value


def combination_name(settings: dict[str, Any]) -> str:
    """Return settings as the end of a method's name, such as `"0.001-adam"`.

    Example:
        >>> combination_name({"learning_rate": 0.001, "options.num_heads": 4})
        '0.001-heads4'
    """
    names = [
        value_name(key.rpartition(".")[2], value) if key.startswith(OPTIONS) else str(value)
        for key, value in settings.items()
    ]
    return "-".join(names).lower().replace("+", "")
