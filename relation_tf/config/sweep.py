"""Sweeps: settings tuned for each task and method before the runs. Does not import Keras."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from relation_tf.config.method import NAME_PATTERN, TRANSFERRED, Method, value_name
from relation_tf.config.training import TrainingSettings
from relation_tf.errors import did_you_mean, join_names
from relation_tf.faults import fault_line, without_alternatives

if TYPE_CHECKING:
    from relation_tf.config.suite import Suite

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

_WITHOUT_RATE = "PiecewiseConstantDecay"  # a schedule of Keras without an initial learning rate

_USED = {
    "adversary_weight": "sharing",
    "orthogonality_weight": "sharing",
    "reversal_weight": "feature_projection",
}
"""Settings without effect on most methods, and the key that gives them an effect."""


class Tuned(BaseModel):
    """Settings of one method on one task, which replace those of the suite.

    Attributes:
        task: The task.
        method: The method.
        settings: Keys of `SWEPT`, or options such as `options.num_heads`, and their values.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    task: str
    method: str
    settings: dict[str, Any]

    @field_validator("settings", mode="before")
    @classmethod
    def _flat(cls, settings: Any) -> Any:
        return flat(settings) if isinstance(settings, dict) else settings

    @model_validator(mode="after")
    def _has_known_settings(self) -> Self:
        for key, value in self.settings.items():
            _check_setting(key, value)
        return self


class Sweep(BaseModel):
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

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)

    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)] = [
        1001,
        1002,
    ]

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, values: Any) -> Any:
        return flat(values) if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _has_values(self) -> Self:
        if not self.values:
            raise ValueError(f"one or more of {join_names(_KNOWN)}, each with a list of values")
        for key, values in self.values.items():
            _check_key(key)
            if inside := [other for other in self.values if other.startswith(f"{key}.")]:
                raise ValueError(f"either {key!r} or {inside[0]!r}, not both")
            if not isinstance(values, list) or len(values) < 2:
                raise ValueError(f"a list of two or more values of {key!r}, not {values!r:.80}")
            for value in values:
                _check_setting(key, value)
                parts = value if isinstance(value, list) and key.startswith(OPTIONS) else [value]
                if not all(isinstance(part, str | int | float) for part in parts):
                    raise ValueError(f"texts or numbers for {key!r}, not {value!r:.80}")
            if any(value in values[:place] for place, value in enumerate(values)):
                raise ValueError(f"different values of {key!r}, not {values!r:.80}")
        if len({*self.seeds}) < len(self.seeds):
            raise ValueError(f"different seeds, not {self.seeds!r:.80}")
        return self

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
    found: dict[str, Any] = {}
    for key, value in settings.items():
        path = f"{start}{key}"
        inside = isinstance(value, dict) and value and f"{path}.".startswith(OPTIONS)
        own = flat(value, f"{path}.") if inside else {path: value}
        if twice := own.keys() & found.keys():
            raise ValueError(f"different keys, not {min(twice)!r} twice")
        found |= own
    return found


def _check_key(key: str) -> None:
    if key in SWEPT or (key.startswith(OPTIONS) and all(key.split("."))):
        return
    hint = did_you_mean(key, [*_KNOWN, "seeds"]).strip()
    if key == OPTIONS[:-1]:
        hint = "Name the option, such as options.num_heads = [1, 4]"
    elif key in {*Method.model_fields, *TrainingSettings.model_fields}:
        hint = "This key cannot be tuned"
    elif not hint:
        hint = f"An option of a layer is written {OPTIONS}{key}"
    raise ValueError(f"keys among {join_names(_KNOWN)}, not {key!r} ({hint})")


def _check_setting(key: str, value: Any) -> None:
    _check_key(key)
    if key.startswith(OPTIONS):  # the layer checks them
        return
    if key == "units" and isinstance(value, list):
        raise ValueError(f"one number for {key!r}, not {value!r:.80}")
    try:
        if key in Method.model_fields:
            Method.model_validate({"mechanism": "baseline", key: value})
        else:
            TrainingSettings(**{key: value})
    except ValidationError as error:
        reason = without_alternatives(error.errors())[0]["msg"]
        raise ValueError(f"values that {key!r} allows, not {value!r:.80} ({reason})") from error


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
    own = {key: value for key, value in settings.items() if _of_method(key)}
    if not own:
        return method
    values = method.model_dump()
    for key, value in own.items():
        *tables, name = key.split(".")
        table = values
        for each in tables:
            inside = table.get(each)
            table[each] = dict(inside) if isinstance(inside, dict) else {}
            table = table[each]
        table[name] = value
    try:
        return Method.model_validate(values)
    except ValidationError as error:
        fault = without_alternatives(error.errors())[0]
        raise ValueError(fault_line(fault, Method)) from error


def _of_method(key: str) -> bool:
    return key in Method.model_fields or key.startswith(OPTIONS)


def _own_value(method: Method, key: str) -> Any:
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


def check_sweep(suite: Suite, max_runs: int) -> None:
    """Check the sweep of a suite, if it has one.

    Args:
        suite: The suite.
        max_runs: Maximum number of runs.

    Raises:
        ValueError: For the first fault, with the key, the value and the allowed values.
    """
    sweep, methods = suite.sweep, suite.methods()
    if sweep is None:
        return
    for found in map(suite.find_task, suite.tasks):
        if found.members and not found.metrics:
            raise ValueError(
                f"key 'sweep': the tasks of group {found.name} must have a common metric, by which "
                f"settings are chosen. Received: {', '.join(each.name for each in found.members)}"
            )
    if both := {*sweep.seeds} & {*suite.seeds}:
        raise ValueError(
            "key 'sweep.seeds': must differ from the seeds of the suite. "
            f"Received: {min(both)} in both"
        )
    schedules = {suite.settings_of(each)["learning_rate_schedule"] for each in methods}
    if "learning_rate" in sweep.values and _WITHOUT_RATE in schedules:
        raise ValueError(
            f"key 'sweep': learning_rate has no effect with {_WITHOUT_RATE}, whose rates are in "
            "'schedule_options'"
        )
    for key, other in _USED.items():
        used = other in sweep.values or any(_own_value(each, other) for each in methods)
        if key in sweep.values and not used:
            raise ValueError(f"key 'sweep': {key} has no effect on the methods of the suite")
    combinations = [combination_name(each) for each in sweep.combinations()]
    if same := [name for name, times in Counter(combinations).items() if times > 1]:
        raise ValueError(
            "key 'sweep': values must differ in more than capital letters, because they name "
            f"folders. Received: {same[0]!r} twice"
        )
    names = [f"{method.name}-{end}" for method in methods for end in combinations]
    for name in (*names, f"{suite.name}-sweep"):
        if not re.fullmatch(NAME_PATTERN, name):
            raise ValueError(
                "key 'sweep': must give names of at most 80 letters, digits, '.', '_' and '-'. "
                f"Received: {name!r}"
            )
    runs = len(suite.tasks) * len(names) * len(sweep.seeds)
    if runs > max_runs:
        raise ValueError(f"key 'sweep': must have at most {max_runs:,} runs. Received: {runs:,}")
    if transfers := {*sweep.values.get("sharing", ())} & {*TRANSFERRED}:
        raise ValueError(
            f"key 'sweep.sharing': must not contain {min(transfers)!r}, whose runs train several "
            "networks"
        )
    for key, values in sweep.values.items():
        for method in methods if _of_method(key) else ():
            _check_method(method, key, values)
        for place, own in suite.overrides.items():
            if getattr(own, key, None) is not None:
                raise ValueError(
                    f"key 'overrides.{place}.{key}': must not be set with sweep.{key}, which tunes "
                    f"it. Received: {getattr(own, key)!r:.80}"
                )


def _check_method(method: Method, key: str, values: Sequence[Any]) -> None:
    """Refuse a key of a sweep that a method sets or cannot have."""
    own = _own_value(method, key)
    if own is not None:
        raise ValueError(
            f"key {key!r} of method {method.name}: must not be set with sweep.{key}, which tunes "
            f"it. Received: {own!r:.80}"
        )
    if key == "units" and method.size is not None and method.sized_by in ("units", "width"):
        raise ValueError(
            f"key 'size' of method {method.name}: must not be set with sweep.units, because the "
            f"size determines the units. Received: {method.size}"
        )
    for value in values:
        try:
            tuned_method(method, {key: value})
        except ValueError as error:
            raise ValueError(f"key 'sweep.{key}': {error} (method {method.name})") from error
