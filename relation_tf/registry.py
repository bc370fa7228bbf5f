"""Registries of mechanisms, tasks and other parts: decorators to register, functions to make them.

Suites, plans and reports read the declaration of a part from its registry. Custom modules are named
by `plugins` in a suite, or by `--plugin`.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Generic, Literal, TypeVar, get_args

from relation_tf.errors import SuiteError, UnknownNameError, in_one_line, join_names

T = TypeVar("T")
# Modules of the bases of all layers, whose arguments are not options.
_BASES = ("builtins", "keras.src.layers.layer", "keras.src.ops.operation")


class Registry(Mapping[str, T], Generic[T]):
    """Names and entries of one kind of part.

    The modules with the parts of the package are imported at the first look-up.

    Args:
        kind: The kind of part, for messages, such as `"metric"`.
        builtin: Modules that register the parts of the package.
        shapes_runs: If False, such parts do not change the results of runs.
        listed_by: Command that lists the names, for messages.

    Example:
        >>> colors: Registry[int] = Registry("color")
        >>> colors.add("red", 1)
        >>> colors["red"], list(colors)
        (1, ['red'])
        >>> colors.find("rde")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        relation_tf.errors.UnknownNameError: unknown color 'rde'. Did you mean 'red'? ...
    """

    def __init__(
        self, kind: str, *builtin: str, shapes_runs: bool = True, listed_by: str = ""
    ) -> None:
        self.kind, self.listed_by, self.shapes_runs = kind, listed_by, shapes_runs
        self._builtin = [*builtin]
        self._entries: dict[str, T] = {}
        self._origins: dict[str, str] = {}

    def add(self, name: str, entry: T, origin: str = "") -> None:
        """Register an entry.

        Args:
            name: Name of the entry.
            entry: The entry.
            origin: The module that registers it; imported again, it may replace its entries.

        Raises:
            SuiteError: If the name cannot name files, or another module has registered it.
        """
        if not name or not name.isprintable() or {*name} & {*",/\\"}:  # of lists and folders
            rule = "printable text without , / \\"
            raise SuiteError(f"{self.kind}: a name must be {rule}. Received: {name!r:.80}")
        # Load the parts of the package first, so that their names are reserved.
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
            or_else: Other allowed values, for the message.

        Raises:
            UnknownNameError: If the name is unknown; the message suggests the nearest one.
        """
        if name not in self:
            raise UnknownNameError(self.kind, name, self, or_else, self.listed_by)
        return self._entries[name]

    def remove(self, name: str) -> T:
        """Remove and return an entry, for tests and notebooks; `UnknownNameError` if unknown."""
        entry = self.find(name)
        del self._entries[name], self._origins[name]
        return entry

    def origin(self, name: str) -> str:
        """Return the module that registered a name."""
        self._load()
        return self._origins[name]

    def is_of_user(self, name: str) -> bool:
        """Return True for an entry from outside of the package. Loads nothing."""
        return not self._origins.get(name, "relation_tf.").startswith("relation_tf.")

    def of_user(self) -> dict[str, str]:
        """Return the names from outside of the package, with their modules. Loads nothing."""
        names = filter(self.is_of_user, self._origins)
        return {name: self._origins[name] for name in names}

    def __getitem__(self, name: str) -> T:
        return self._load()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())

    def _load(self) -> dict[str, T]:
        while self._builtin:
            module = self._builtin.pop(0)
            try:
                importlib.import_module(module)
            except BaseException:  # an interrupt: the next look-up imports it again
                self._builtin.insert(0, module)
                raise
        return self._entries


def _decorator(registry: Registry[T], name: str, make: Callable[[Any], T]) -> Callable[[Any], Any]:
    """Return a decorator that registers an object and returns it unchanged."""

    def register(target: Any) -> Any:
        registry.add(name, make(target), _module_of_caller())
        return target

    return register


def _module_of_caller() -> str:
    """Return the module that called the caller of this function."""
    return str(sys._getframe(2).f_globals.get("__name__", ""))


Head = Literal["first", "vector", "feature-attention", "feature-products", "additive-attention"]
Positions = Literal["sine", "softmax"]


@dataclass(frozen=True)
class Mechanism:
    """A token-mixing mechanism and its place in a network.

    Attributes:
        factory: The layer's class, a function that makes a layer, or its path
            `"package.module:attribute"`, imported when a layer is made.
        output_type: `"tokens"` for outputs `(batch, tokens, width)`, `"vector"` for
            `(batch, width)`, `"sequence"` for an encoder-decoder, a complete network.
        head: Sentence vector: the `"first"` token, the `"vector"` that the layer returns, or
            `"feature-attention"`, `"feature-products"` or `"additive-attention"` over the tokens.
        positions: Position encoding of the input: `"sine"` is added, `"softmax"` is multiplied;
            None for a mechanism that encodes or ignores the order of tokens.
        size: The layer's argument for the network's `units`, or None.
        options: Default options of the layer.
        block_options: Further default options inside the blocks of encoders, language models and
            encoder-decoders; not with `variant="released_code"`.
        pretrainable: If True, it can start from an encoder that was pre-trained on plain text.
    """

    factory: str | Callable[..., Any]
    output_type: Literal["tokens", "vector", "sequence"] = "tokens"
    head: Head = "first"
    positions: Positions | None = "sine"
    size: str | None = "units"
    options: Mapping[str, Any] = field(default_factory=dict)
    block_options: Mapping[str, Any] = field(default_factory=dict)
    pretrainable: bool = False

    def __post_init__(self) -> None:
        for key, allowed in (("head", get_args(Head)), ("positions", (*get_args(Positions), None))):
            if (value := getattr(self, key)) not in allowed:
                names = join_names([*map(repr, allowed)])
                raise SuiteError(f"mechanism: {key} must be one of {names}. Received: {value!r}")


MECHANISMS: Registry[Mechanism] = Registry("mechanism", "relation_tf.networks.mechanisms")


def register_mechanism(name: str, **declaration: Any) -> Callable[[Any], Any]:
    """Register a Keras layer class, or a function that makes a layer, as a mechanism.

    Args:
        name: Name in suites.
        **declaration: Fields of `Mechanism` other than `factory`.

    Raises:
        SuiteError: If `head` or `positions` is not allowed.

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
        function: Function of predictions and labels, arrays `(rows,)`, that returns a number. None
            for a metric that the trainer computes.
        label: Name in tables.
        low: Minimum, or None.
        high: Maximum, or None.
        higher_is_better: If False, lower values are better.
        points: Factor for tables: 100 for fractions, 1 for other units.
        target: `"labels"` for classes, `"scores"` for regressions, `"sequences"` for the texts of
            sequence tasks, `"tokens"` for token classification.
        positive: The positive label, which a task must have; None for any task.
        weighted: Function of predictions (runs, rows), labels (rows,) and weights of the rows
            (draws, rows) that returns the metric of each run and weighting, (runs, draws). It makes
            bootstraps fast; None computes `function` for each.
    """

    function: Callable[[Any, Any], float] | None
    label: str
    low: float | None = 0.0
    high: float | None = 1.0
    higher_is_better: bool = True
    points: float = 100.0
    target: Literal["labels", "scores", "sequences", "tokens"] = "labels"
    positive: str | None = None
    weighted: Callable[[Any, Any, Any], Any] | None = None


METRICS: Registry[Metric] = Registry("metric", "relation_tf.tasks.metrics")


def register_metric(name: str, label: str = "", **declaration: Any) -> Callable[[Any], Any]:
    """Register a function of predictions and labels as a metric.

    Args:
        name: Name in suites and files.
        label: Name in tables, by default `name`.
        **declaration: Fields of `Metric` other than `function` and `label`.

    Example:
        >>> @register_metric("doc-error", "error", higher_is_better=False)
        ... def error_rate(predictions, labels):
        ...     return float((predictions != labels).mean())
        >>> METRICS.remove("doc-error").label
        'error'
    """
    return _decorator(METRICS, name, lambda of: Metric(of, label or name, **declaration))


@dataclass(frozen=True)
class StoppingRuleEntry:
    """A stopping rule: the end of a run, and the weights that it keeps.

    Attributes:
        factory: A class like `relation_tf.training.stopping.StoppingRule`. Its constructor takes
            `keys` and the suite's `stopping_options` by name, and optionally `higher_is_better`.
        keys: Suite keys for the constructor.
        column: Column to monitor (or a function of the settings): `loss`, `val_loss`, `val_METRIC`;
            with `metrics=("accuracy",)` also `accuracy` and `running_accuracy`.
        fewest_epochs: Function of the settings that returns the minimum number of epochs.
        description: One line for plans and reports.
        metrics: Metrics that every task must have.
        target: Function of the settings that returns the target in words, such as `"validation
            accuracy above 0.8"`, or None. With a target, reports show the time to reach it.
    """

    factory: Callable[..., Any]
    keys: Sequence[str] = ()
    column: str | Callable[[Any], str] = "val_loss"
    fewest_epochs: Callable[[Any], int] = lambda settings: 1
    description: str = ""
    metrics: Sequence[str] = ()
    target: Callable[[Any], str] | None = None


STOPPING_RULES: Registry[StoppingRuleEntry] = Registry(
    "stopping rule", "relation_tf.training.stopping"
)


def register_stopping_rule(name: str, **declaration: Any) -> Callable[[Any], Any]:
    """Register a class as a stopping rule: `stopping = "<name>"` in a suite.

    Args:
        name: Name in suites.
        **declaration: Fields of `StoppingRuleEntry` other than `factory`.
    """
    return _decorator(STOPPING_RULES, name, lambda cls: StoppingRuleEntry(cls, **declaration))


OPTIMIZERS: Registry[Callable[..., Any]] = Registry("optimizer", "relation_tf.training.optimizing")
SCHEDULES: Registry[Callable[..., Any]] = Registry(
    "learning-rate schedule", "relation_tf.training.optimizing"
)


def register_optimizer(name: str) -> Callable[[Any], Any]:
    """Register a factory of Keras optimizers: `optimizer = "<name>"` in a suite.

    The factory takes `learning_rate` and the suite's `optimizer_options` by name. Classes of
    `keras.optimizers` need no registration.
    """
    return _decorator(OPTIMIZERS, name, lambda factory: factory)


def register_schedule(name: str) -> Callable[[Any], Any]:
    """Register a learning-rate schedule: `learning_rate_schedule = "<name>"` in a suite.

    The factory takes `learning_rate`, `epochs`, `steps_per_epoch` and the suite's
    `schedule_options` by name. Classes of `keras.optimizers.schedules` need no registration.
    """
    return _decorator(SCHEDULES, name, lambda factory: factory)


@dataclass(frozen=True)
class Procedure:
    """A statistical procedure that compares methods.

    Attributes:
        function: The test. `"all-pairs"`: of `{method: scores}`; `"against-control"`: also
            `control=`; `"over-tasks"`: of `{task: {method: scores}}`. All take `alpha=` and
            `higher_is_better=`. The result is that of `relation_tf.stats.pairwise_result`; over
            tasks, its `pairs()` has the columns `a`, `b`, `statistic`, `pvalue`, `significant`
            and `better`.
        compares: Compared methods or tasks.
        title: Name in sentences and tables, such as `"Steel-Dwass"`.
        symbol: Symbol of its statistic, such as `"W*"`.
        attainable_pvalue: Function of the numbers of methods and seeds, or over tasks of methods,
            tasks and seeds, that returns the smallest possible p-value without ties, or None.
        equal_spread: If True, the test assumes equal SDs; results warn of ratios above 3:1.
        needs_control: If True, a test over tasks also takes `control=`.
        least_methods: Smallest number of methods.
        paired: If True, the scores at the same place are those of one fold or item, and NaN where a
            method has none.
    """

    function: Callable[..., Any]
    compares: Literal["all-pairs", "against-control", "over-tasks"]
    title: str
    symbol: str
    attainable_pvalue: Callable[..., float] | None = None
    equal_spread: bool = False
    needs_control: bool = False
    least_methods: int = 2
    paired: bool = False

    @property
    def against_control(self) -> bool:
        """If True, the function takes `control=`."""
        return self.compares == "against-control" or self.needs_control

    @property
    def unit(self) -> Literal["seed", "task"]:
        """Unit of the samples: the seeds of a task, or the tasks."""
        return "task" if self.compares == "over-tasks" else "seed"


PROCEDURES: Registry[Procedure] = Registry(
    "test", "relation_tf.stats.procedures", shapes_runs=False
)


def register_procedure(name: str, **declaration: Any) -> Callable[[Any], Any]:
    """Register a function as a statistical procedure: `test = "<name>"` in a suite.

    Args:
        name: Name in suites.
        **declaration: Fields of `Procedure` other than `function`.
    """
    return _decorator(PROCEDURES, name, lambda function: Procedure(function, **declaration))


SECTIONS: Registry[Any] = Registry(
    "report section", "relation_tf.report.sections", shapes_runs=False
)


def register_section(name: str) -> Callable[[Any], Any]:
    """Register a subclass of `relation_tf.report.blocks.Section`; the name is its anchor."""
    return _decorator(SECTIONS, name, lambda section: section)


TASKS: Registry[Any] = Registry(
    "task", "relation_tf.tasks.catalogue", listed_by="relation-tf tasks"
)


def register_task(task: Any, **declaration: Any) -> None:
    """Register a task for use in suites.

    Args:
        task: Name of the task, with the keys of a suite's `[[task]]` table as keyword arguments; or
            a `relation_tf.tasks.Dataset` with custom file layouts and a custom reader.
        **declaration: The keys, see `relation_tf.tasks.CustomTask`.

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
        reads: Folders of the user that it reads, of `--data` and `--tfds`.
        tasks: Names of the only tasks that it has; empty if it may have any task.
        artificial: If True, its text is generated: its scores and predictions are none of GLUE's.
    """

    find: Callable[[Any, Any], Any]
    reads: Collection[str] = ("data", "tfds")
    tasks: Sequence[str] = ()
    artificial: bool = False


SOURCES: Registry[DataSource] = Registry("data source", "relation_tf.tasks.catalogue")


def register_source(name: str, **declaration: Any) -> Callable[[Any], Any]:
    """Register a function that finds the text of a task: `source = "<name>"` in a suite.

    The function takes a `relation_tf.tasks.Dataset` and the user's `relation_tf.tasks.Folders`. It
    returns a `relation_tf.tasks.TaskSource`, a `relation_tf.tasks.Missing` or None.

    Args:
        name: Name in suites.
        **declaration: Fields of `DataSource` other than `find`.

    Example:
        >>> @register_source("mirror", reads=())  # doctest: +SKIP
        ... def find(dataset, folders):
        ...     from relation_tf.tasks import search
        ...     return search(dataset, "mirror", [Path("/mirror")])
    """
    return _decorator(SOURCES, name, lambda find: DataSource(find, **declaration))


def make_part(
    kind: str,
    name: str,
    factory: Callable[..., Any],
    arguments: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Any:
    """Create a part of a run; errors are one line.

    Args:
        kind: Kind of the part for messages, such as `"optimizer"`.
        name: Its name in the suite.
        factory: Function or class that creates it.
        arguments: Arguments that other keys of the suite give.
        options: Other arguments, by name; they replace those of the same name.

    Raises:
        SuiteError: If the factory does not take an option, or refuses a value.

    Example:
        >>> make_part("schedule", "fixed", lambda rate: rate, {"rate": 0.1}, {"every": 2})
        Traceback (most recent call last):
        relation_tf.errors.SuiteError: schedule 'fixed': has no options. Received: 'every'
    """
    with in_one_line(f"{kind} {name!r}"):
        try:
            return factory(**{**arguments, **options})
        except (TypeError, ValueError) as error:
            known = [argument for argument in options_of(factory) if argument not in arguments]
            for option in options:
                if option not in known and f"'{option}'" in str(error):
                    if not known:
                        raise ValueError(f"has no options. Received: {option!r}") from error
                    raise UnknownNameError("option", option, known) from error
            if missing := _required(factory) - {*arguments, *options}:
                names = ", ".join(repr(argument) for argument in sorted(missing))
                raise ValueError(f"also needs the options {names}") from error
            raise


def _required(factory: Callable[..., Any]) -> set[str]:
    """Return the arguments without a default."""
    return {
        name
        for name, parameter in inspect.signature(factory).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def options_of(factory: Any) -> list[str]:
    """Return the options that a function, a class and its bases declare, without Keras's Layer."""
    functions = [factory]
    if inspect.isclass(factory):
        bases = [base for base in factory.__mro__ if base.__module__ not in _BASES]
        functions = [vars(base)["__init__"] for base in bases if "__init__" in vars(base)]
    parameters = chain.from_iterable(inspect.signature(f).parameters.values() for f in functions)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = dict.fromkeys(p.name for p in parameters if p.kind not in variable)
    return [name for name in names if name not in ("self", "name", "dtype")]
