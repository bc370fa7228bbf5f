"""Suites: methods x tasks x seeds, from files, names and Python. Does not import Keras."""

from __future__ import annotations

import contextlib
import re
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, TypeGuard

import tomli_w
from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeFloat, ValidationError

from relation_tf.config.method import Method, Sweep, Tuned, tuned_method
from relation_tf.config.rules import MAX_RUNS, broken_rules
from relation_tf.config.run import (
    EncoderWeights,
    Margin,
    Override,
    RunConfig,
    Seed,
    TrainingSettings,
    name_in,
)
from relation_tf.config.user_code import Plugin, load_plugins, shaping_plugins
from relation_tf.errors import (
    OptionError,
    SuiteError,
    UnknownNameError,
    did_you_mean,
    in_one_line,
    join_names,
    reason_of,
)
from relation_tf.files import expand_home, read_bytes, refuse_device
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.registry import PROCEDURES
from relation_tf.settings import Settings, faults_of, first_fault, shortened
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
        lower_bound: Method to show next to the others without comparing it, such as `baseline-64`,
            which reads no context: no test, verdict or mean rank includes it.
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
    lower_bound: str | None = None
    families: Annotated[str | list[list[str]] | None, BeforeValidator(_key_or_lists)] = None
    sweep: Sweep | None = None
    tuned: list[Tuned] = Field(default_factory=list)
    published: Annotated[str, AfterValidator(_exists)] | None = None
    save_models: bool = False

    def _faults(self) -> Iterator[str]:
        return broken_rules(self)

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
                tasks = [self._custom_task(str(task)) or task for task in group.tasks]
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


_FAULTS_SHOWN = 10
_LARGEST = 2**24  # bytes of a suite


def list_suites() -> list[str]:
    """Return the names of the suites of this package."""
    files = SUITES.iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load_suite(
    suite: str | Path | Suite,
    settings: Mapping[str, Any] | None = None,
    plugins: Sequence[str] = (),
    *,
    import_plugins: bool = True,
) -> Suite:
    """Load a suite by its name or from a file, or change keys of a `Suite`.

    The plugins of the suite are imported first: only load a suite that you trust.

    Args:
        suite: A name of `list_suites()`, a TOML file, or a `Suite`.
        settings: Keys to replace, also in the overrides of single tasks. If `method` is replaced,
            a reference or control that is not among the new methods no longer applies, nor does
            its margin.
        plugins: Modules to import in addition to the suite's own.
        import_plugins: If False, import only `plugins`, and refuse a suite with others: a plugin
            can run any code.

    Raises:
        UnknownNameError: If there is no suite of this name.
        SuiteError: If the suite cannot be read or has faults, or a plugin cannot be imported.

    Example:
        >>> load_suite("demo").name
        'demo'
    """
    folder = None
    if isinstance(suite, Suite):
        where, values = "suite", suite.model_dump()
    elif suite in list_suites():
        file = SUITES / f"{suite}.toml"
        where, values = f"suite {suite}", tomllib.loads(file.read_text(encoding="utf-8"))
    elif str(suite).endswith(".toml"):
        path = expand_home(suite)
        where, values, folder = str(suite), _read(path), path.parent
    else:
        files = [str(file) for file in Path(suite).parent.glob("*.toml")]
        known = [*list_suites(), *files]
        raise UnknownNameError(
            "suite", str(suite), known, "a file must end in .toml", "relation-tf suites"
        )
    _replace(values, settings or {})
    listed = values.get("plugins", [])
    if plugins and _are_names(listed):
        values["plugins"] = [*dict.fromkeys([*listed, *plugins])]
    if folder is not None and values.get("published") is not None:
        with contextlib.suppress(OSError, ValueError):  # invalid file names
            published = folder / str(values["published"])
            if published.is_file():
                values["published"] = str(published)
    if not import_plugins and _are_names(listed):
        load_plugins(plugins, folder)
        if others := [name for name in listed if name not in sys.modules]:
            options = " ".join(f"--plugin {name}" for name in others)
            raise SuiteError(
                f"{where}: its plugin {join_names(others)} is not imported, because it can run any "
                f"code. If you trust it, add {options}"
            )
    if settings and "method" in settings:
        drop_other_methods(where, values, settings, folder)
    return make_suite(where, values, folder)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = read_bytes(path, _LARGEST).decode()
    except (OSError, ValueError) as error:
        others = {file.name for file in path.parent.glob("*.toml")} - {path.name}
        hint = did_you_mean(path.name, others)
        reason = reason_of(error) + (hint and f".{hint}")
        raise SuiteError(f"{path}: cannot be read: {reason}") from error
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SuiteError(_toml_fault(path, error)) from error


def _toml_fault(path: Path, error: Exception) -> str:
    """Describe a fault of TOML, with its line and column if they are known."""
    place = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error), re.DOTALL)
    if place is None:
        return f"{path}: invalid TOML: {shortened(str(error))}"
    return f"{path}:{place[2]}:{place[3]}: invalid TOML: {shortened(place[1])}"


def _replace(values: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Replace keys of a suite and remove them from its overrides, its sweep and tuned settings.

    Overrides and tuned settings of tasks that are replaced are removed.
    """
    values |= settings
    tasks = settings.get("tasks")
    with contextlib.suppress(AttributeError, KeyError, TypeError):  # `Suite` names wrong types
        if "overrides" not in settings and "overrides" in values:
            values["overrides"] = {
                task: _without(override, settings)
                for task, override in values["overrides"].items()
                if tasks is None or task in tasks
            }
        if "sweep" not in settings and (sweep := values.get("sweep")):
            kept = _without(sweep, settings.keys() - {"seeds"})
            if kept != sweep:
                values["sweep"] = kept if kept.keys() - {"seeds"} else None
        values["tuned"] = [
            {**choice, "settings": _without(choice["settings"], settings)}
            for choice in values.get("tuned", [])
            if tasks is None or "tuned" in settings or choice["task"] in tasks
        ]


def _without(table: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}


def drop_other_methods(
    where: str, values: dict[str, Any], kept: Collection[str], folder: Path | None = None
) -> None:
    """Remove what names methods that are not among the new ones of a suite.

    These are title and question, tuned settings, the reference and the control. Without both, the
    margin does not apply either. With families, both are names of mechanisms and stay.

    Args:
        where: Name or file of the suite, for messages.
        values: Keys of the suite, changed in place.
        kept: Keys that were given with the methods; they stay.
        folder: As for `make_suite`.

    Raises:
        SuiteError: If a plugin cannot be imported.
    """
    _load_plugins(where, values, folder)
    values |= {key: "" for key in ("title", "question") if key not in kept}
    # `Suite` names wrong values.
    with contextlib.suppress(AttributeError, KeyError, TypeError, ValidationError):
        in_names = "units" not in (values.get("sweep") or {})
        methods = [Method.model_validate(method) for method in values["method"]]
        names = [one.name for method in methods for one in method.expand(units_in_name=in_names)]
        if "tuned" not in kept:
            values["tuned"] = [
                table for table in values.get("tuned", []) if table["method"] in names
            ]
        if "lower_bound" not in kept and values.get("lower_bound") not in names:
            values["lower_bound"] = None
        judges = [key for key in ("reference", "control") if values.get(key) is not None]
        if values.get("families") or not judges:
            return
        values |= {key: None for key in judges if key not in kept and values[key] not in names}
        if not any(values[key] for key in judges) and "margin" not in kept:
            overrides = values.get("overrides", {}).items()
            values["overrides"] = {task: {**table, "margin": None} for task, table in overrides}
            values["margin"] = None


def make_suite(where: str, values: Mapping[str, Any], folder: Path | None = None) -> Suite:
    """Import the plugins of a suite, check its values and return it.

    Args:
        where: Name or file of the suite, for messages.
        values: Keys of the suite.
        folder: Folder to search for plugins, in addition to the current one.

    Raises:
        SuiteError: One line per fault with the key, the value and the allowed values.
    """
    _load_plugins(where, values, folder)
    try:
        return Suite.model_validate(dict(values))
    except ValidationError as error:
        faults = faults_of(error, Suite)
        more = len(faults) - _FAULTS_SHOWN
        shown = faults[:_FAULTS_SHOWN]
        if more > 0:
            shown.append(f"and {more:,} more fault{'s' * (more > 1)}")
        raise SuiteError("\n".join(f"{where}: {fault}" for fault in shown)) from error


def _load_plugins(where: str, values: Mapping[str, Any], folder: Path | None) -> None:
    plugins = values.get("plugins")
    try:
        load_plugins(plugins if _are_names(plugins) else [], folder)  # `Suite` checks the list
    except SuiteError as error:
        raise SuiteError(f"{where}: {error}") from error


def _are_names(plugins: Any) -> TypeGuard[list[str]]:
    return isinstance(plugins, list) and all(isinstance(name, str) for name in plugins)


def select(
    suite: Suite,
    tasks: str | Iterable[str] | None = None,
    methods: str | Iterable[str] | None = None,
    seeds: int | Iterable[int] | None = None,
) -> list[RunConfig]:
    """Return the runs of some tasks, methods and seeds.

    Args:
        suite: The suite.
        tasks: Names of tasks, by default all.
        methods: Names of methods or mechanisms, see `Suite.find_methods`; by default all.
        seeds: Seeds, by default all.

    Raises:
        SuiteError: If the suite does not have the name or seed.
    """
    runs = suite.runs()
    if methods is not None:
        with in_one_line(f"suite {suite.name}"):
            methods = suite.find_methods(methods)
    for key, chosen in (("task", tasks), ("method", methods), ("seed", seeds)):
        if chosen is None:
            continue
        there = list(dict.fromkeys(getattr(run, key) for run in runs))
        wanted = [chosen] if isinstance(chosen, str | int) else list(chosen)
        if not wanted:
            raise OptionError(
                f"{key}s", f"must have one or more of {join_names([*map(str, there)])}"
            )
        for value in wanted:
            if value not in there:
                hint = "" if key == "seed" else did_you_mean(value, there)
                more = "; change them with --set seeds=N" if key == "seed" else ""
                raise SuiteError(
                    f"suite {suite.name}: unknown {key} {value!r}.{hint} Must be one of "
                    f"{', '.join(map(str, there))}{more}"
                )
        runs = [run for run in runs if getattr(run, key) in wanted]
    return runs
