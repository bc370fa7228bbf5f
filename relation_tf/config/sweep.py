"""Sweeps: settings tuned for each task and method before the runs. Does not import Keras."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from relation_tf.config.method import NAME_PATTERN, Method
from relation_tf.config.training import TrainingSettings
from relation_tf.errors import did_you_mean, join_names

if TYPE_CHECKING:
    from relation_tf.config.suite import Suite

SWEPT = (
    "learning_rate", "learning_rate_schedule", "weight_decay", "optimizer", "dropout", "batch_size",
    "batching", "epochs", "patience", "initializer", "hidden_units", "hidden_activation",
    "embedding_dim", "embedding_initializer", "embedding_updates", "positions", "network",
    "short_convolution", "adversary_weight", "orthogonality_weight", "reversal_weight",
)  # fmt: skip
"""Keys of `TrainingSettings` that a sweep can vary: not those that change the validation rows."""

_WITHOUT_RATE = "PiecewiseConstantDecay"  # a schedule of Keras without an initial learning rate

_USED: Mapping[str, Callable[[Method], bool]] = {
    "adversary_weight": lambda method: method.sharing != "shared",
    "orthogonality_weight": lambda method: method.sharing != "shared",
    "reversal_weight": lambda method: method.feature_projection,
}
"""Settings without effect on most methods, and functions that find the others."""


class Tuned(BaseModel):
    """Settings of one method on one task, which replace those of the suite.

    Attributes:
        task: The task.
        method: The method.
        settings: Keys of `TrainingSettings` and their values.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    task: str
    method: str
    settings: dict[str, Any]

    @model_validator(mode="after")
    def _has_known_settings(self) -> Self:
        for key, value in self.settings.items():
            _check_setting(key, value)
        return self


class Sweep(BaseModel):
    """Values to try of settings: `learning_rate = [0.0003, 0.001, 0.003]`, or another of `SWEPT`.

    Each method is trained on each task with each combination of the values and each seed of the
    sweep. The runs of the suite use the combination with the best mean validation score.

    Attributes:
        seeds: Seeds of the sweep, other than those of the suite.

    Example:
        >>> sweep = Sweep(learning_rate=[0.001, 0.01], dropout=[0.0, 0.5])
        >>> [*sweep.combinations()][1]
        {'learning_rate': 0.001, 'dropout': 0.5}
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)

    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)] = [
        1001,
        1002,
    ]

    @model_validator(mode="after")
    def _has_values(self) -> Self:
        if not self.values:
            raise ValueError(f"one or more of {join_names(SWEPT)}, each with a list of values")
        for key, values in self.values.items():
            if key in SWEPT and (not isinstance(values, list) or len(values) < 2):
                raise ValueError(f"a list of two or more values of {key!r}, not {values!r:.80}")
            for value in values if key in SWEPT else [None]:
                _check_setting(key, value)
                if not isinstance(value, str | int | float):
                    raise ValueError(f"texts or numbers for {key!r}, not {value!r:.80}")
            if len({*values}) < len(values):
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


def _check_setting(key: str, value: Any) -> None:
    if key not in SWEPT:
        hint = did_you_mean(key, SWEPT).strip()
        raise ValueError(f"keys among {join_names(SWEPT)}, not {key!r}{hint and f' ({hint})'}")
    try:
        TrainingSettings(**{key: value})
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ValueError(f"values that {key!r} allows, not {value!r:.80} ({reason})") from error


def combination_name(settings: dict[str, Any]) -> str:
    """Return settings as the end of a method's name, such as `"0.001-adam"`."""
    return "-".join(str(value).lower() for value in settings.values()).replace("+", "")


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
    for key, has_effect in _USED.items():
        if key in sweep.values and not any(map(has_effect, methods)):
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
    for key in sweep.values:
        for method in methods:
            if key in method.overrides:
                raise ValueError(
                    f"key {key!r} of method {method.name}: must not be set with sweep.{key}, which "
                    f"tunes it. Received: {method.overrides[key]!r:.80}"
                )
        for place, own in suite.overrides.items():
            if getattr(own, key, None) is not None:
                raise ValueError(
                    f"key 'overrides.{place}.{key}': must not be set with sweep.{key}, which tunes "
                    f"it. Received: {getattr(own, key)!r:.80}"
                )
