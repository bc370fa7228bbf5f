"""Registries: every kind of part that a user can add by name, and the decorators that add it.

A part is registered once, in any module. What it declares there is the single source for suites,
plans, reports and documentation. A module of your own is imported by `plugins = ["my_module"]` in a
suite, by `--plugin my_module`, or as an entry point of the group `relation_tf.plugins`.

This module imports nothing heavy, and of the package only `errors`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from relation_tf.errors import SuiteError, UnknownNameError

T = TypeVar("T")

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Registry(Mapping[str, T], Generic[T]):
    """Names of one kind of part.

    The modules that register what ships with the package are imported at the first look-up.

    Args:
        kind: The kind of part, for messages, such as `"metric"`.
        builtin: Modules that register the package's own parts.
        shapes_runs: If False, such parts do not change what a run computes.

    Example:
        >>> colors: Registry[int] = Registry("color")
        >>> colors.add("red", 1)
        >>> colors["red"], list(colors)
        (1, ['red'])
        >>> colors.find("rde")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        relation_tf.errors.UnknownNameError: unknown color 'rde'. Did you mean 'red'? ...
    """

    def __init__(self, kind: str, *builtin: str, shapes_runs: bool = True) -> None:
        self.kind = kind
        self.shapes_runs = shapes_runs
        self._builtin = [*builtin]
        self._entries: dict[str, T] = {}
        self._origins: dict[str, str] = {}

    def add(self, name: str, entry: T, origin: str = "") -> None:
        """Register an entry.

        Args:
            name: Its name.
            entry: What the name stands for.
            origin: The module that registers it. A module that is imported again, as in a
                notebook, may replace its own entries.

        Raises:
            SuiteError: If the name is empty or another module has registered it.
        """
        if not name or not name.isprintable():
            raise SuiteError(f"{self.kind}: a name must be printable text. Received: {name!r:.80}")
        # What ships is there first, so that nothing can take its names.
        if not origin.startswith("relation_tf."):
            self._load()
        if name in self._entries and (not origin or origin != self._origins[name]):
            by = self._origins[name] or "a script"
            raise SuiteError(f"{self.kind} {name!r} is registered already, by {by}")
        self._entries[name] = entry
        self._origins[name] = origin

    def find(self, name: str, or_else: str = "") -> T:
        """Return the entry of a name.

        Args:
            name: A registered name.
            or_else: What is allowed besides registered names, for the message.

        Raises:
            UnknownNameError: For any other name; the message suggests the nearest one.
        """
        if name not in self:
            raise UnknownNameError(self.kind, name, self, or_else)
        return self._entries[name]

    def remove(self, name: str) -> T:
        """Remove an entry, as a test or a notebook does, and return it.

        Raises:
            UnknownNameError: For a name that is not registered.
        """
        entry = self.find(name)
        del self._entries[name], self._origins[name]
        return entry

    def origin(self, name: str) -> str:
        """Return the module that registered a name."""
        self._load()
        return self._origins[name]

    def origins(self) -> set[str]:
        """Return the modules that have registered something so far."""
        return {*self._origins.values()}

    def __getitem__(self, name: str) -> T:
        self._load()
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._entries)

    def __len__(self) -> int:
        self._load()
        return len(self._entries)

    def _load(self) -> None:
        while self._builtin:
            importlib.import_module(self._builtin.pop(0))


def _decorator(registry: Registry[T], name: str, make: Callable[[Any], T]) -> Callable[[Any], Any]:
    """Return a decorator that registers what it decorates, and returns it as it is."""

    def register(target: Any) -> Any:
        registry.add(name, make(target), _module_of_caller())
        return target

    return register


def _module_of_caller() -> str:
    """Return the module that calls the function of this module which calls this one."""
    return str(sys._getframe(2).f_globals.get("__name__", ""))


Head = Literal["first", "vector", "feature-attention", "additive-attention"]


@dataclass(frozen=True)
class Mechanism:
    """A token-mixing mechanism, and how a network makes and reads it.

    Attributes:
        factory: The layer's class or a function that makes one, or its path
            `"package.module:attribute"`, which is imported when a layer is made.
        output_type: `"tokens"` for an output `(batch, tokens, width)`, `"vector"` for
            `(batch, width)`, `"sequence"` for an encoder-decoder, which is a network by itself.
        head: How the sentence vector is made: the `"first"` token, the `"vector"` that the layer
            returns, `"feature-attention"` or `"additive-attention"` over the tokens.
        positions: Position encoding of the input: `"sine"` positions are added, `"softmax"`
            positions multiplied; None for a mechanism that knows the order or ignores it.
        size: The layer's argument that a network's `units` fills; None where it has none.
        input_type: `"tokens"`, or `"text"` for a sentence encoder that takes strings.
        options: Default options; those of a method override them.
        pretrainable: If True, it can start from an encoder that was pre-trained on plain text.
    """

    factory: str | Callable[..., Any]
    output_type: Literal["tokens", "vector", "sequence"] = "tokens"
    head: Head = "first"
    positions: Literal["sine", "softmax"] | None = "sine"
    size: str | None = "units"
    input_type: Literal["tokens", "text"] = "tokens"
    options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    pretrainable: bool = False


MECHANISMS: Registry[Mechanism] = Registry("mechanism", "relation_tf.networks.mechanisms")


def register_mechanism(name: str, **declaration: Any) -> Callable[[Any], Any]:
    """Register a Keras layer class, or a function that makes a layer, as a mechanism.

    Args:
        name: Its name in suites.
        **declaration: Fields of `Mechanism` other than `factory`.

    Returns:
        A decorator that returns what it decorates.

    Example:
        >>> @register_mechanism("doc-identity", positions=None)
        ... def identity(units, name="mechanism"):
        ...     import keras
        ...     return keras.layers.Identity(name=name)
        >>> MECHANISMS.remove("doc-identity").head
        'first'
    """
    return _decorator(MECHANISMS, name, lambda factory: Mechanism(factory, **declaration))


@dataclass(frozen=True)
class Metric:
    """A metric of predictions.

    Attributes:
        function: From predictions and labels, arrays of shape `(rows,)`, to a number. None for a
            metric that the trained network computes itself.
        label: Its name in tables.
        low: The worst or lowest value it can take, or None.
        high: The highest value it can take, or None.
        higher_is_better: If False, the lowest value is the best.
        points: Factor by which tables multiply it: 100 for fractions, 1 for other units.
        target: `"labels"` for classes, `"scores"` for regressions.
        positive: The label word that it is about, which a task must have; None for any task.
    """

    function: Callable[[Any, Any], float] | None
    label: str
    low: float | None = 0.0
    high: float | None = 1.0
    higher_is_better: bool = True
    points: float = 100.0
    target: Literal["labels", "scores"] = "labels"
    positive: str | None = None

    @property
    def worst(self) -> float:
        """The value of a network that diverged: the worst possible, or NaN where there is none."""
        bound = self.low if self.higher_is_better else self.high
        return float("nan") if bound is None else bound


METRICS: Registry[Metric] = Registry("metric", "relation_tf.tasks.metrics")


def register_metric(name: str, label: str = "", **declaration: Any) -> Callable[[Any], Any]:
    """Register a function of predictions and labels as a metric.

    Args:
        name: Its name in suites and files.
        label: Its name in tables, by default the name.
        **declaration: Fields of `Metric` other than `function` and `label`.

    Returns:
        A decorator that returns what it decorates.

    Example:
        >>> @register_metric("doc-error", "error", higher_is_better=False)
        ... def error_rate(predictions, labels):
        ...     return float((predictions != labels).mean())
        >>> METRICS.remove("doc-error").worst
        1.0
    """
    return _decorator(
        METRICS, name, lambda function: Metric(function, label or name, **declaration)
    )


@dataclass(frozen=True)
class StoppingRule:
    """When a run ends and which weights it keeps.

    Attributes:
        factory: A class like `relation_tf.training.stopping.StoppingRule`. Its constructor
            takes the suite keys below by name, the suite's `stopping_options`, and
            `higher_is_better` where it has such an argument.
        keys: The suite keys that it reads.
        column: The column of the history that it watches; a function takes the settings.
        fewest_epochs: From the settings to the fewest epochs that a run takes.
        description: One line for plans and reports.
        metrics: Metrics that every task must have.
        target: From the settings to the target of a run in words, such as `"validation accuracy
            above 0.8"`; None for a rule whose runs have none. Reports then show the time to it.
    """

    factory: Callable[..., Any]
    keys: Sequence[str] = ()
    column: str | Callable[[Any], str] = "val_loss"
    fewest_epochs: Callable[[Any], int] = lambda settings: 1
    description: str = ""
    metrics: Sequence[str] = ()
    target: Callable[[Any], str] | None = None


STOPPING_RULES: Registry[StoppingRule] = Registry("stopping rule", "relation_tf.training.stopping")


def register_stopping_rule(name: str, **declaration: Any) -> Callable[[Any], Any]:
    """Register a class as a stopping rule: `stopping = "<name>"` in a suite.

    Args:
        name: Its name in suites.
        **declaration: Fields of `StoppingRule` other than `factory`.

    Returns:
        A decorator that returns what it decorates.
    """
    return _decorator(STOPPING_RULES, name, lambda cls: StoppingRule(cls, **declaration))


OPTIMIZERS: Registry[Callable[..., Any]] = Registry("optimizer", "relation_tf.training.optimizing")
SCHEDULES: Registry[Callable[..., Any]] = Registry(
    "learning-rate schedule", "relation_tf.training.optimizing"
)


def register_optimizer(name: str) -> Callable[[Any], Any]:
    """Register a factory of Keras optimizers: `optimizer = "<name>"` in a suite.

    The factory takes `learning_rate` and the suite's `optimizer_options` by name. Classes of
    `keras.optimizers` need no registration.

    Returns:
        A decorator that returns what it decorates.
    """
    return _decorator(OPTIMIZERS, name, lambda factory: factory)


def register_schedule(name: str) -> Callable[[Any], Any]:
    """Register a learning-rate schedule: `learning_rate_schedule = "<name>"` in a suite.

    The factory takes `learning_rate`, `epochs`, `steps_per_epoch` and the suite's
    `schedule_options` by name. Classes of `keras.optimizers.schedules` need no registration.

    Returns:
        A decorator that returns what it decorates.
    """
    return _decorator(SCHEDULES, name, lambda factory: factory)


@dataclass(frozen=True)
class Procedure:
    """A statistical procedure that compares methods.

    Attributes:
        function: The test. `"all-pairs"`: from `{method: scores}`; `"against-control"`: the same
            and `control=`; `"over-tasks"`: from `{task: {method: scores}}`. All take `alpha=` and
            `higher_is_better=`. Reports need `pvalue` of the result and show its `statistic`, if
            any, as SciPy's tests return them: k x k arrays of all pairs, or one number for each
            method other than the control, in the order of the samples.
        compares: What is compared with what.
        title: Its name in sentences and tables, such as `"Steel-Dwass"`.
        symbol: Symbol of its statistic, such as `"W*"`.
        attainable_pvalue: From the numbers of methods and of seeds (or tasks) to the smallest p
            that can come out without ties; None where there is no such bound.
        exact: If True, the function takes `method="asymptotic"`, `"exact"` or `"monte-carlo"` and
            `permutations=`, and a pair counts as significant where both kinds of p are.
    """

    function: Callable[..., Any]
    compares: Literal["all-pairs", "against-control", "over-tasks"]
    title: str
    symbol: str
    attainable_pvalue: Callable[[int, int], float] | None = None
    exact: bool = False

    @property
    def unit(self) -> Literal["seed", "task"]:
        """What the test counts: the seeds of a task, or the tasks."""
        return "task" if self.compares == "over-tasks" else "seed"


PROCEDURES: Registry[Procedure] = Registry(
    "statistical procedure", "relation_tf.stats.procedures", shapes_runs=False
)


def register_procedure(name: str, **declaration: Any) -> Callable[[Any], Any]:
    """Register a function as a statistical procedure: `test = "<name>"` in a suite.

    Args:
        name: Its name in suites.
        **declaration: Fields of `Procedure` other than `function`.

    Returns:
        A decorator that returns what it decorates.
    """
    return _decorator(PROCEDURES, name, lambda function: Procedure(function, **declaration))


SECTIONS: Registry[Any] = Registry(
    "report section", "relation_tf.report.sections", shapes_runs=False
)


def register_section(name: str) -> Callable[[Any], Any]:
    """Register a section of the report, a subclass of `relation_tf.report.blocks.Section`.

    Args:
        name: Its name, and its anchor on the page.

    Returns:
        A decorator that returns what it decorates.
    """
    return _decorator(SECTIONS, name, lambda section: section)


TASKS: Registry[Any] = Registry("task", "relation_tf.tasks.catalogue")


def register_task(task: Any, **declaration: Any) -> None:
    """Register a task, so that suites can name it as they name a built-in one.

    Args:
        task: Its name, with the keys of a suite's `[[task]]` table as further arguments; or a
            `relation_tf.tasks.Dataset`, which has file layouts and a reader of its own.
        **declaration: The keys, see `relation_tf.tasks.CustomTask`; and `read`, a function from the
            path of a file to its rows, each the texts of the inputs and the label word, for files
            that are no tables.

    Raises:
        SuiteError: If a key or value is not allowed, or the name is taken.

    Example:
        >>> register_task(  # doctest: +SKIP
        ...     "tones", inputs=["text"], label="tone", labels=["calm", "loud"],
        ...     files={"train": "tones/train.csv", "test": "tones/test.csv"},
        ... )
    """
    if isinstance(task, str):
        declare = importlib.import_module("relation_tf.tasks.custom").declare_task
        task = declare(task, **declaration)
    TASKS.add(task.task.name, task, _module_of_caller())


@dataclass(frozen=True)
class DataSource:
    """A source of the text of tasks.

    Attributes:
        find: The function that finds the text of a task.
        reads_data: If False, it reads nothing from the folder that `--data` names.
    """

    find: Callable[[Any, Any], Any]
    reads_data: bool = True


SOURCES: Registry[DataSource] = Registry("data source", "relation_tf.tasks.catalogue")


def register_source(name: str, **declaration: Any) -> Callable[[Any], Any]:
    """Register a function that finds the text of a task: `source = "<name>"` in a suite.

    The function takes a `relation_tf.tasks.Dataset` and the `relation_tf.tasks.Folders` that the
    user named. It returns a `relation_tf.tasks.TaskSource`, or a `relation_tf.tasks.Missing` that
    says what is missing, or None.

    Args:
        name: Its name in suites.
        **declaration: Fields of `DataSource` other than `find`.

    Returns:
        A decorator that returns what it decorates.

    Example:
        >>> @register_source("mirror")  # doctest: +SKIP
        ... def find(dataset, folders):
        ...     from pathlib import Path
        ...     from relation_tf.tasks import search
        ...     return search(dataset, "mirror", [Path("/mirror")])
    """
    return _decorator(SOURCES, name, lambda find: DataSource(find, **declaration))


TRACKERS: Registry[Callable[..., Any]] = Registry(
    "tracker", "relation_tf.bench.trackers", shapes_runs=False
)


def register_tracker(name: str) -> Callable[[Any], Any]:
    """Register a factory of trackers: `--track <name>`, see `relation_tf.bench.trackers`.

    Returns:
        A decorator that returns what it decorates.
    """
    return _decorator(TRACKERS, name, lambda factory: factory)


@dataclass(frozen=True)
class Executor:
    """A function that executes runs.

    Attributes:
        execute: The function, see `relation_tf.bench.executors`.
        options: Options of a cluster that it takes: `"address"`, `"run_cpus"`, `"run_gpus"`,
            `"run_memory"`. With other executors they are errors.
        needs: Those of them that it needs.
    """

    execute: Callable[..., Any]
    options: Sequence[str] = ()
    needs: Sequence[str] = ()


EXECUTORS: Registry[Executor] = Registry(
    "executor",
    "relation_tf.bench.executors",
    "relation_tf.bench.ray_cluster",
    shapes_runs=False,
)


def register_executor(name: str, **declaration: Any) -> Callable[[Any], Any]:
    """Register a function that executes runs: `--executor <name>`, see `bench.executors`.

    Args:
        name: Its name on the command line.
        **declaration: Fields of `Executor` other than `execute`.

    Returns:
        A decorator that returns what it decorates.
    """
    return _decorator(EXECUTORS, name, lambda execute: Executor(execute, **declaration))
