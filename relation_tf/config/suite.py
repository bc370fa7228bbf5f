"""Suites: methods x tasks x seeds, and published figures. Does not import Keras."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeFloat, ValidationError

from relation_tf.config.method import Method, Sweep, Tuned, tuned_method
from relation_tf.config.rules import MAX_RUNS, faults_of
from relation_tf.config.run import (
    EncoderWeights,
    Margin,
    Override,
    RunConfig,
    Seed,
    TrainingSettings,
    name_in,
)
from relation_tf.config.user_code import Plugin, shaping_plugins
from relation_tf.errors import UnknownNameError
from relation_tf.files import refuse_device
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.registry import PROCEDURES
from relation_tf.settings import Settings, first_fault
from relation_tf.tasks.catalogue import Entry, find_task
from relation_tf.tasks.custom import CustomTask, Name, TaskGroup
from relation_tf.tasks.task import MeasuredTask, Task, Timed

SUITES = resources.files("relation_tf") / "suites"
"""Folder of the suites of this package."""


class PublishedFigure(Settings, strict=False):
    """One published figure.

    Attributes:
        method: Name of a method or mechanism, or the paper's name of another method.
        units: Width of the method, if the paper has several.
        task: Name of the scored task, or of an average.
        metric: The metric, `"score"` for an average, `"seconds"` (to the target of a stopping
            rule), `"seconds per epoch"` or `"milliseconds per batch"`.
        value: As published: points for scores.
        sd: Published standard deviation, if any.
    """

    method: str
    units: Annotated[int, Field(ge=1)] | None = None
    task: str
    metric: str = "accuracy"
    value: float
    sd: NonNegativeFloat | None = None

    @property
    def name(self) -> str:
        """The method with its width."""
        return self.method if self.units is None else f"{self.method}-{self.units}"


class PublishedClaims(Settings, strict=False):
    """Pairs of methods that a paper calls significantly different: all combinations of the lists.

    Attributes:
        better: The methods that are called better.
        than: The methods that they are compared with.
        tasks: The tasks of the claims.
        metrics: The metrics of the claims; by default the only one of each task.
        units: The widths of the claims; empty if figures have no widths.
    """

    better: Annotated[list[str], Field(min_length=1)]
    than: Annotated[list[str], Field(min_length=1)]
    tasks: Annotated[list[str], Field(min_length=1)]
    metrics: list[str] = Field(default_factory=list)
    units: list[int] = Field(default_factory=list)


class Published(Settings, strict=False):
    """The figures of one table or figure of a paper.

    Attributes:
        source: The paper, and the table or figure.
        split: The split on which the figures were measured.
        vectors: Width of the paper's word vectors; None for random embeddings.
        seeds: Number of seeds of each mean, if there are standard deviations.
        missing: Omitted figures of the paper, and the reason.
        figure: The figures.
        claim: The paper's claims of significance.
    """

    source: str
    split: str = "test"
    vectors: Annotated[int, Field(ge=1)] | None = None
    seeds: Annotated[int, Field(ge=2)] | None = None
    missing: str = ""
    figure: list[PublishedFigure] = Field(default_factory=list)
    claim: list[PublishedClaims] = Field(default_factory=list)


def load_published(name: str) -> Published:
    """Read published figures by name, or from a file.

    Raises:
        ValueError: If there is no such name or file, or it has faults.

    Example:
        >>> load_published("relation-table1").figure[0].value
        43.6
    """
    inside = SUITES / "published" / f"{name}.toml"
    try:
        file = inside if inside.is_file() else Path(name)
        if isinstance(file, Path):
            refuse_device(file)
        return Published.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        reason = "no such name or file" if isinstance(error, FileNotFoundError) else error.strerror
        raise ValueError(f"published figures {name!r}: {reason or error}") from error
    except ValidationError as error:
        raise ValueError(f"published figures {name!r}: {first_fault(error, Published)}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"published figures {name!r}: invalid TOML: {error}") from error


# Keys of runs that each method has; of the training settings, methods have only overrides.
_OF_METHODS = {*Method.model_fields} & {*RunConfig.model_fields} - {
    *TrainingSettings.model_fields,
    "encoder_weights",
}


def _exists(published: str) -> str:
    load_published(published)
    return published


def _count_to_seeds(seeds: Any) -> Any:
    if type(seeds) is int:
        if seeds > MAX_RUNS:
            raise ValueError(f"at most {MAX_RUNS:,} seeds")
        seeds = list(range(1, seeds + 1))
    if not isinstance(seeds, list) or not seeds:
        raise ValueError("a number of seeds (1 or more), or a list of seeds")
    return seeds


def _key_or_lists(families: Any) -> Any:
    lists = isinstance(families, list) and all(isinstance(family, list) for family in families)
    if families is not None and not isinstance(families, str) and not (families and lists):
        raise ValueError("a key, such as 'units', or lists of methods")
    return families


class Suite(TrainingSettings):
    """Methods x tasks x seeds, and training settings.

    Attributes:
        name: Name of the suite.
        title: Title of one line.
        question: Research question of the suite.
        task: Custom tasks, for use in `tasks`.
        group: Groups of tasks for multi-task training, for use in `tasks`.
        tasks: Names of tasks and groups.
        seeds: List of seeds, or their number (then 1, 2, ...).
        method: Methods; one with several widths, sizes or a grid is expanded to several.
        overrides: Settings of single tasks, each a table of `batch_size`, `start_token`,
            `vocabulary_size`, `max_length`, `validation_split`, `epochs`, `time_limit`, `margin` or
            `metrics`.
        alpha: Level of the tests, in (0, 0.5).
        plugins: Modules that register custom parts, such as `["my_module"]`, see
            `relation_tf.registry`; searched in the current folder, next to the suite's file and
            among installed packages.
        control: Compare all methods only with this one; by default all pairs are compared. Choose
            it before training: fewer comparisons have more statistical power.
        test: Statistical procedure, a name of `relation_tf.registry.PROCEDURES`; by default
            Steel-Dwass, or Steel's test with a control.
        test_over_tasks: Procedure over all tasks together; by default `stratified-steel-dwass`, or
            `stratified-steel` with a control. Others: `friedman-nemenyi`; `wilcoxon-holm` (with a
            control).
        families: Blocks of methods that are compared only within themselves: `"units"`,
            `"mechanism"`, `"size"` or an option of the methods, for one family per value; or lists
            of names of methods. Smaller families have more statistical power. `control` and
            `reference` are then also names of mechanisms, found in each family. Choose it before
            training; by default all methods are one family.
        reference: Method to judge all others against: the report opens with their verdicts (better,
            no worse, worse, inconclusive). By default the control.
        margin: Largest acceptable score decrease from the reference, in the unit of the tables,
            such as points. Choose it before training.
        sweep: Settings to tune for each task and method before the runs, with other seeds, see
            `relation_tf.config.method.Sweep`.
        tuned: Settings of a method on a task, which replace all others; a sweep writes them.
        published: Published figures to show next to the scores: a name of the package, or a TOML
            file next to the suite's file.
        save_models: If True, keep the model of each run, with the weights that its scores come
            from, in the run's folder, see `relation_tf.load`. Does not change a run's results.
    """

    name: Name
    title: str = ""
    question: str = ""
    task: list[CustomTask] = Field(default_factory=list)
    group: list[TaskGroup] = Field(default_factory=list)
    tasks: Annotated[list[str], Field(min_length=1)]
    seeds: Annotated[list[Seed], BeforeValidator(_count_to_seeds)] = Field(default=[1, 2, 3, 4, 5])
    method: Annotated[list[Method], Field(min_length=1)]
    overrides: dict[str, Override] = Field(default_factory=dict)
    plugins: list[Plugin] = Field(default_factory=list)
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    control: str | None = None
    test: Annotated[str, name_in(PROCEDURES)] | None = None
    test_over_tasks: Annotated[str, name_in(PROCEDURES)] | None = None
    reference: str | None = None
    margin: Margin | None = None
    families: Annotated[str | list[list[str]] | None, BeforeValidator(_key_or_lists)] = None
    sweep: Sweep | None = None
    tuned: list[Tuned] = Field(default_factory=list)
    published: Annotated[str, AfterValidator(_exists)] | None = None
    save_models: bool = False

    def _faults(self) -> Iterator[str]:
        return faults_of(self)

    def entry(self, name: str) -> Entry:
        """Return a task for `find_source`: a name, with or without metrics, or a definition."""
        if definition := self._custom_task(name) or self._group(name):
            return definition
        metrics = self._override(name).get("metrics")
        return MeasuredTask(name, tuple(metrics)) if metrics else name

    def _custom_task(self, name: str) -> CustomTask | None:
        return next((task for task in self.task if task.name == name), None)

    def _group(self, name: str) -> TaskGroup | None:
        """Return a group; names of custom tasks are replaced by the tasks."""
        for group in self.group:
            if group.name == name:
                tasks = [self._custom_task(str(each)) or each for each in group.tasks]
                return group.model_copy(update={"tasks": tasks})
        return None

    def find_task(self, name: str) -> Task:
        """Find a task by name."""
        return find_task(self.entry(name))

    @property
    def timed(self) -> Timed:
        """Kind of the timed tasks, which train nothing; empty for other suites, see `Task`."""
        (kind, *others) = {task.timed for task in self.learned()}
        return "" if others else kind

    def learned(self) -> list[Task]:
        """Return all tasks; groups are replaced by their tasks."""
        return [task for name in self.tasks for task in self.find_task(name).each()]

    def methods(self) -> list[Method]:
        """Return all methods, one per width, size and combination of a grid."""
        return [method for entry in self.method for method in self._expanded(entry)]

    def _expanded(self, entry: Method) -> list[Method]:
        swept = () if self.sweep is None else self.sweep.values
        return entry.expand(units_in_name="units" not in swept)

    def find_methods(self, names: str | Iterable[str]) -> list[str]:
        """Return the methods that names mean, in the order of the suite.

        A mechanism means all methods with this mechanism. The name of a `[[method]]` table with
        several widths, sizes or a grid selects all its methods. The exact name of a method means
        only this method.

        Args:
            names: One or several names.

        Raises:
            UnknownNameError: If a name means no method; the message suggests the nearest name.

        Example:
            >>> from relation_tf.config import load_suite
            >>> load_suite("glue").find_methods(["relation", "attention-64"])
            ['attention-64', 'relation-64', 'relation-128', 'relation-256']
        """
        by_name: dict[str, set[str]] = {}
        for entry in self.method:
            names_of_entry = [str(method.name) for method in self._expanded(entry)]
            for name in (entry.mechanism, entry.stem):
                by_name.setdefault(name, set()).update(names_of_entry)
        methods = [str(method.name) for method in self.methods()]
        by_name |= {name: {name} for name in methods}
        meant: set[str] = set()
        for name in [names] if isinstance(names, str) else names:
            if name not in by_name:
                raise UnknownNameError("method", name, by_name)
            meant |= by_name[name]
        return [name for name in methods if name in meant]

    def runs(self) -> list[RunConfig]:
        """Return all runs, ordered by task, method and seed."""
        plugins, methods = shaping_plugins(self.plugins), self.methods()
        return [
            RunConfig(
                **settings,
                **{key: getattr(tuned, key) for key in _OF_METHODS},
                task=task,
                custom_task=self._custom_task(task),
                group=self._group(task),
                metrics=self._override(task).get("metrics"),
                method=str(method.name),
                encoder_weights=self.encoder_weights(tuned),
                plugins=plugins,
                seed=seed,
            )
            for task in self.tasks
            for method in methods
            for settings, tuned in [(self.settings_of(method, task), self._tuned(method, task))]
            for seed in self.seeds
        ]

    def encoder_weights(self, method: Method) -> EncoderWeights:
        """Return the initial weights of a method's network."""
        if self.pretrained is None:
            return method.encoder_weights or "random"
        return method.encoder_weights or (
            "pretrained" if find_mechanism(method.mechanism).pretrainable else "frozen"
        )

    def settings_of(self, method: Method, task: str | None = None) -> dict[str, Any]:
        """Return the training settings of a method, on a task if it is given."""
        training = {name: getattr(self, name) for name in TrainingSettings.model_fields}
        override = self._override(task) if task is not None else {}
        tuned = self.tuned_settings(task, str(method.name))
        for changes in (override, self._tuned(method, task).overrides, tuned):
            training |= {key: value for key, value in changes.items() if key in training}
        return training

    def _tuned(self, method: Method, task: str | None) -> Method:
        return tuned_method(method, self.tuned_settings(task, str(method.name)))

    def tuned_settings(self, task: str | None, method: str) -> dict[str, Any]:
        """Return the settings that a sweep chose for a method on a task; empty if it has none."""
        settings = (
            choice.settings
            for choice in self.tuned
            if (choice.task, choice.method) == (task, method)
        )
        return next(settings, {})

    def _override(self, task: str) -> dict[str, Any]:
        override = self.overrides.get(task)
        return override.model_dump(exclude_none=True) if override else {}

    def setting(self, task: str, key: str) -> Any:
        """Return a training setting or the margin of a task."""
        return self._override(task).get(key, getattr(self, key))

    def to_toml(self) -> str:
        """Return the suite as TOML."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))
