"""Results and status of the runs of a folder, as tables. Does not import Keras."""

from __future__ import annotations

import re
from collections import ChainMap, Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, NamedTuple

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from glue_submit import TASKS, glue_average, task_score
from relation_tf.bench.run_folder import (
    ERROR,
    RESULT,
    RunFolder,
    damage,
    has_diverged,
    kind_of,
    read_config,
)
from relation_tf.config.run import RunConfig
from relation_tf.config.suite import Suite
from relation_tf.errors import SuiteError, join_names
from relation_tf.files import align, expand_home, read_json
from relation_tf.registry import SOURCES
from relation_tf.settings import first_fault
from relation_tf.tasks.datasets import OFFICIAL_ROWS, counted_once
from relation_tf.tasks.metrics import averaged, find_metric
from relation_tf.tasks.task import Task
from relation_tf.training.pretraining_settings import SETTINGS
from relation_tf.words import GLUE_AVERAGE, MEAN_OF_TASKS, failed_in_words

# A probability; the first three columns are text.
_NOT_FINITE = re.compile(rb"^(?:[^\t\n]*\t){3}(?:[^\n]*\t)?(?:nan|-?inf)\b", re.MULTILINE)

Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Written(BaseModel):
    """Required keys of a file of a run; other keys are allowed."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class _Parameters(_Written):
    total: Count
    embedding: Count
    mechanism: Count


class _Seconds(_Written):
    training: float
    evaluation: float
    total: float
    epoch: Annotated[float, Field(gt=0)]
    compilation: float


class _Result(_Written):
    """`result.json`."""

    task: str
    method: str
    seed: int
    metrics: dict[str, dict[str, float]]
    test_metrics: dict[str, dict[str, float]] = {}
    unscored: dict[str, str] = {}
    epochs: Count
    kept_epoch: Count
    stopped: str
    parameters: _Parameters
    padding: float
    seconds: _Seconds
    peak_memory_mib: Count | None
    tokens: Count | None = None
    state_bytes: Count | None = None
    pass_bytes: Count | None = None


class _Data(_Written):
    source: str
    digest: str
    rows: dict[str, Count]
    vocabulary: Count | None
    notes: list[str] = []


class _Vectors(_Written):
    found: str
    digest: str | None = None


class _Made(_Written):
    """`manifest.json` of pre-training."""

    started: str
    finished: str
    command: str | list[str]
    versions: dict[str, str]
    commit: str | None
    processor: str
    threads: Count


class _Manifest(_Made):
    """`manifest.json` of a suite's run."""

    xla: bool
    data: _Data
    glove: _Vectors | None


@dataclass(frozen=True, repr=False)
class Results:
    """The finished runs of a suite.

    Attributes:
        folder: The suite's folder.
        suite: The suite.
        runs: `result.json` of each finished run, with its `config`, `manifest` and `folder`.
        failures: Names and errors of the failed runs, and of finished runs with a broken file.
        configs: The requested runs, if they are not all runs of the suite.
        parts: The results that these are joined from, if any.
        failing_layers: Methods whose custom layer fails its checks, and the faults.
        aliases: Names of renamed methods by their names in the suite's files.
        diverged: Names of the failed runs with losses or outputs that are not finite.
    """

    folder: Path
    suite: Suite
    runs: list[dict[str, Any]]
    failures: list[tuple[str, str]]
    configs: Sequence[RunConfig] | None = None
    parts: Sequence[Results] = ()
    failing_layers: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    diverged: Collection[str] = ()

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"<Results of suite {self.suite.name}: {len(self.runs)} runs{failed}, {self.folder}>"

    @cached_property
    def requested(self) -> Sequence[RunConfig]:
        """Configurations of the requested runs."""
        return self.suite.runs() if self.configs is None else self.configs

    @cached_property
    def begun(self) -> Suite:
        """The suite with only the tasks and methods that have finished or failed runs.

        The whole suite, if there are none. Reports of a part of a suite show only this part.
        """
        failed = [parts_of(run) for run, _ in self.failures]
        if not self.runs and not failed:
            return self.suite
        tasks = {*(run["task"] for run in self.runs), *(task for task, *_ in failed)}
        methods = {*(run["method"] for run in self.runs), *(method for _, method, _ in failed)}
        return self.suite.model_copy(
            update={
                "tasks": [name for name in self.suite.tasks if name in tasks],
                "method": [method for method in self.suite.methods() if method.name in methods],
            }
        )

    def renamed(self, names: Mapping[str, str]) -> Results:
        """Return the same runs with other names of some methods."""

        def new(name: Any) -> str:
            return names.get(str(name), str(name))

        def other_run(run: str) -> str:
            task, method, seed = parts_of(run)
            return f"{task}/{new(method)}/{seed}"

        methods = [
            method.model_copy(update={"name": new(method.name)}) for method in self.suite.methods()
        ]
        tuned = [
            choice.model_copy(update={"method": new(choice.method)}) for choice in self.suite.tuned
        ]
        aliases = {first: new(last) for first, last in self.aliases.items()}
        return replace(
            self,
            suite=self.suite.model_copy(update={"method": methods, "tuned": tuned}),
            aliases={**names, **aliases},
            runs=[run | {"method": new(run["method"])} for run in self.runs],
            failures=[(other_run(run), error) for run, error in self.failures],
            diverged=[*map(other_run, self.diverged)],
            configs=[
                config.model_copy(update={"method": new(config.method)})
                for config in self.requested
            ],
            failing_layers={new(name): fault for name, fault in self.failing_layers.items()},
        )

    def only(self, methods: Collection[str]) -> Results:
        """Return the runs of some methods."""
        kept = [method for method in self.suite.methods() if method.name in methods]
        return replace(
            self,
            suite=self.suite.model_copy(
                update={"method": kept, "families": None, "lower_bound": None}
            ),
            runs=[run for run in self.runs if run["method"] in methods],
            failures=[(run, error) for run, error in self.failures if parts_of(run)[1] in methods],
            configs=[config for config in self.requested if config.method in methods],
            failing_layers={k: v for k, v in self.failing_layers.items() if k in methods},
        )

    def scored(self, task: Task) -> dict[str, str]:
        """Return the scored splits of a task by name, with its diagnostics that have scores."""
        splits = task.scorable.items()
        return {name: at for name, at in splits if name in task.scored or name in self._names}

    @cached_property
    def _names(self) -> set[str]:
        return {name for run in self.runs for name in run["metrics"]}

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """Table of metrics on the scored sets, one row per run, scored name and metric.

        Columns: `task`, `method`, `seed`, `metric`, `value`. `splits` has the split of each name.
        """
        return self._table("metrics")

    @cached_property
    def test_metrics(self) -> pd.DataFrame:
        """The same table for test sets with public labels that `metrics` does not have."""
        table = self._table("test_metrics")
        return table[table["task"].map(self.splits) != "test"]

    @cached_property
    def splits(self) -> dict[str, str]:
        """Kind of the split of each name in `metrics`: "dev", "test" or another one."""
        tasks = map(self.suite.find_task, self.suite.tasks)
        scorable = [split for task in tasks for split in task.scorable.items()]
        return {name: kind_of(split) for name, split in scorable if name in self._names}

    def _table(self, key: str) -> pd.DataFrame:
        rows = [
            (task, run["method"], run["seed"], metric, value)
            for run in self.runs
            for task, metrics in run.get(key, {}).items()
            for metric, value in metrics.items()
        ]
        return pd.DataFrame(rows, columns=["task", "method", "seed", "metric", "value"])

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Table of scores, one row per scored name, method and seed.

        Columns: `task`, `method`, `seed`, `score`. The score of a task with two metrics is their
        mean, as on the leaderboard, or the first one if they differ in unit or direction. The last
        task is the average over the tasks, for seeds with all tasks: the GLUE average if these are
        the nine tasks, else the mean of these tasks, where tasks scored from one network, and
        MNLI-m and MNLI-mm, count once. There is no average if the metrics of the tasks differ in
        unit or direction.
        """
        rows = [
            (task, run["method"], run["seed"], score_of(metrics))
            for run in self.runs
            for task, metrics in run["metrics"].items()
        ]
        scores = pd.DataFrame(rows + self._averages(), columns=["task", "method", "seed", "score"])
        scored = [name for task in self.suite.tasks for name in self.suite.find_task(task).scorable]
        order = dict.fromkeys([*TASKS, *scored, GLUE_AVERAGE, MEAN_OF_TASKS])
        tasks = pd.Categorical(scores["task"], [*order], ordered=True)
        scores["task"] = tasks.remove_unused_categories()
        return scores.sort_values(["task", "method", "seed"], ignore_index=True, kind="stable")

    def history(self, run: dict[str, Any]) -> pd.DataFrame:
        """Return the history of a run, one row per epoch.

        Raises:
            SuiteError: If the file is missing or broken.
        """
        return _read_history(self.suite, run["task"], Path(run["folder"]) / "history.csv")

    def _averages(self) -> list[tuple[str, str, int, float]]:
        learned = {task.name for task in self.suite.learned()}
        metrics = [find_metric(task.metrics[0]) for task in self.suite.learned()]
        alike = len({(metric.points, metric.higher_is_better) for metric in metrics}) == 1
        if len(counted_once(learned)) < 2 or self.suite.timed or not alike:
            return []
        by_seed: dict[tuple[str, int], dict[str, dict[str, Any]]] = defaultdict(dict)
        for run in self.runs:
            by_seed[run["method"], run["seed"]][run["task"]] = run["metrics"]
        # Built-in tasks have the names of GLUE tasks, but their scores are not GLUE scores.
        of_glue = not SOURCES[self.suite.source].artificial and learned <= OFFICIAL_ROWS.keys()
        rows = []
        for (method, seed), tasks in by_seed.items():
            if set(tasks) != {*self.suite.tasks}:
                continue
            name, average = GLUE_AVERAGE, None
            if of_glue:
                average = glue_average(dict(ChainMap(*tasks.values())))
            if average is None:
                # Tasks scored from one network (MNLI-m, MNLI-mm, a group) count once.
                means = {
                    task: fmean(score_of(values) for name, values in metrics.items()
                                if name not in self.suite.find_task(task).diagnostics)
                    for task, metrics in tasks.items()
                }  # fmt: skip
                networks = counted_once(means).values()
                average = fmean(fmean(means[task] for task in tasks) for tasks in networks)
                name = MEAN_OF_TASKS
            rows.append((name, method, seed, average))
        return rows


def score_of(metrics: Mapping[str, float]) -> float:
    """Return the score of a task: the mean of its metrics, or the first if they are unlike."""
    return task_score({name: metrics[name] for name in averaged([*metrics])})


def read_results(folder: str | Path) -> Results:
    """Read a suite's folder.

    A run with a broken file counts as failed, so that the other runs can be reported. A run that
    diverged with other settings than those of the suite counts as not done.

    Raises:
        SuiteError: If it is not the folder of a suite, or its suite.toml is broken.
    """
    run_folder = RunFolder(expand_home(folder))
    suite = run_folder.suite()
    runs, failures = [], []
    for path in run_folder.with_file(RESULT):
        if (fault := damage(path, models=False)) is not None:
            failures.append((_name(path), f"{fault}; `relation-tf run` runs it again"))
            continue
        try:
            runs.append(_read_run(suite, path))
        except SuiteError as error:
            failures.append((_name(path), f"{error}; delete the folder to run it again"))
    requested = {run_folder.run(run): run for run in suite.runs()}
    failed = [
        path
        for path in run_folder.with_file(ERROR)
        if not (path / RESULT).exists() and not run_folder.has_other_settings(requested[path])
    ]
    failures += [(_name(path), _reason(path)) for path in failed]
    diverged = [_name(path) for path in failed if has_diverged(path)]
    methods = {str(method.name) for method in suite.methods()}
    failing = {k: v for k, v in run_folder.failing_layers().items() if k in methods}
    return Results(
        run_folder.path, suite, runs, failures, failing_layers=failing, diverged=diverged
    )


def read_result(folder: Path) -> dict[str, Any]:
    """Return the contents of `result.json` of a finished run.

    Raises:
        SuiteError: If the file is broken; the message names the file and the key.
    """
    path = folder / RESULT
    return _checked(path, read_json(path), _Result)


def parts_of(run: str) -> tuple[str, str, str]:
    """Return task, method and seed of the name of a run; `compare` gives methods names with `/`.

    Example:
        >>> parts_of("RTE/relation (runs/a)/seed-1")
        ('RTE', 'relation (runs/a)', 'seed-1')
    """
    task, _, others = run.partition("/")
    method, _, seed = others.rpartition("/")
    return task, method, seed


def _name(folder: Path) -> str:
    return "/".join(folder.parts[-3:])


def _reason(folder: Path) -> str:
    """Return the error of a failed run."""
    try:
        return str(read_json(folder / ERROR).get("error"))
    except SuiteError as error:
        return str(error)


def _read_run(suite: Suite, folder: Path) -> dict[str, Any]:
    """Read the files of a finished run and check their keys and types."""
    result = read_result(folder)
    config = read_config(folder)
    known = {key: value for key, value in config.items() if key in RunConfig.model_fields}
    _checked(folder / "config.json", known, RunConfig)
    manifest = _checked(folder / "manifest.json", read_json(folder / "manifest.json"), _Manifest)
    run = _name(folder)
    for file, values in (("result.json", result), ("config.json", config)):
        written = f"{values['task']}/{values['method']}/seed-{values['seed']}"
        if written != run:
            raise SuiteError(
                f"{folder / file}: must have task, method and seed of run {run}. "
                f"Received: {written:.160}"
            )
    task = suite.find_task(result["task"])
    optional = {*task.diagnostics} & {*result.get("unscored", {})}
    expected = [
        name
        for name in task.scorable
        if name in result["metrics"] or (name in task.scored and name not in optional)
    ]
    if {name: {*values} for name, values in result["metrics"].items()} != {
        name: {*task.metrics_of(name)} for name in expected
    }:
        wanted = "; ".join(f"{', '.join(task.metrics_of(name))} for {name}" for name in expected)
        raise SuiteError(
            f"{folder / 'result.json'}: key 'metrics': must have {wanted}. "
            f"Received: {result['metrics']!r:.80}"
        )
    _read_history(suite, result["task"], folder / "history.csv")
    for path in folder.glob("predictions/*.dev.tsv"):
        if _NOT_FINITE.search(path.read_bytes()):
            raise SuiteError(f"{path}: must have finite outputs")
    return {**result, "config": config, "manifest": manifest, "folder": str(folder)}


def read_pretraining(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """Return the settings of a pre-training folder and the manifests of its finished runs.

    Returns:
        None if the folder is not a pre-training folder.

    Raises:
        SuiteError: If a file is broken.
    """
    if not (folder / SETTINGS).is_file():
        return None
    from relation_tf.training.pretrained import finished_runs, run_folder

    manifests = []
    for run in finished_runs(folder):
        path = run_folder(folder, run["method"], run["seed"]) / "manifest.json"
        manifests.append(_checked(path, read_json(path), _Made))
    return read_json(folder / SETTINGS), manifests


def _read_history(suite: Suite, task: str, path: Path) -> pd.DataFrame:
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise SuiteError(
            f"{path}: expected a row for each epoch: {str(error).splitlines()[0]:.100}"
        ) from error
    kind = suite.find_task(task)
    learned = ("loss", "val_loss", *(f"val_{metric}" for metric in kind.metrics))
    for column in ("pass", "seconds") if kind.timed else ("epoch", *learned):
        if column not in table:
            raise SuiteError(
                f"{path}:1: expected a column {column!r}, found "
                f"{join_names([*map(repr, map(str, table.columns))])}"
            )
        if table[column].dtype.kind not in ("i" if column == "epoch" else "if"):
            raise SuiteError(f"{path}: expected numbers in column {column!r}, found others")
    if table.empty:
        raise SuiteError(f"{path}: expected a row for each epoch, found none")
    return table


def _checked(path: Path, values: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    try:
        model.model_validate(values)
    except ValidationError as error:
        raise SuiteError(f"{path}: {first_fault(error, model)}") from error
    return values


class GroupStatus(NamedTuple):
    """Numbers of runs of a task and a method; `diverged` ones are also `failed`."""

    task: str
    method: str
    requested: int
    done: int
    failed: int
    diverged: int

    def __str__(self) -> str:
        failed = failed_in_words(self.failed, self.diverged)
        return f"{self.done}/{self.requested}{failed and f' ({failed})'}"


@dataclass(frozen=True, repr=False)
class SuiteStatus:
    """Finished and failed runs of a suite; `print` shows a table.

    Attributes:
        results: The results.
        groups: One entry per task and method, in the order of the suite.
    """

    results: Results
    groups: Sequence[GroupStatus]

    @classmethod
    def of(cls, results: Results) -> SuiteStatus:
        """Return the status of a folder's results.

        Example:
            >>> import tempfile
            >>> from pathlib import Path
            >>> from relation_tf.bench import RunFolder, SuiteStatus, read_results
            >>> from relation_tf.config import load_suite
            >>> folder = tempfile.mkdtemp()
            >>> RunFolder(Path(folder)).open(load_suite("demo", {"tasks": ["RTE"]}))
            >>> SuiteStatus.of(read_results(folder)).count("requested")
            20
        """
        counts = (
            Counter((config.task, config.method) for config in results.requested),
            Counter((run["task"], run["method"]) for run in results.runs),
            Counter(parts_of(run)[:2] for run, _ in results.failures),
            Counter(parts_of(run)[:2] for run in results.diverged),
        )
        methods = [str(method.name) for method in results.suite.methods()]
        keys = [(task, method) for task in results.suite.tasks for method in methods]
        return cls(
            results, [GroupStatus(*key, *(counter[key] for counter in counts)) for key in keys]
        )

    def count(self, kind: str) -> int:
        """Return the number of runs of all groups, such as `"done"`, a field of `GroupStatus`."""
        return sum(getattr(group, kind) for group in self.groups)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of `relation-tf status --json`."""
        return {
            "suite": self.results.suite.name,
            "folder": str(self.results.folder),
            **{kind: self.count(kind) for kind in ("requested", "done", "failed", "diverged")},
            "groups": [group._asdict() for group in self.groups],
            "failures": [{"run": run, "error": error} for run, error in self.results.failures],
        }

    def __str__(self) -> str:
        rows: dict[str, list[str]] = {"": [*dict.fromkeys(group.method for group in self.groups)]}
        for group in self.groups:
            rows.setdefault(group.task, []).append(str(group))
        table = align([[head, *cells] for head, cells in rows.items()])
        failed = failed_in_words(self.count("failed"), self.count("diverged")) or "0 failed"
        done = f"{self.count('done')} of {self.count('requested')} runs done"
        return "\n".join([*table, f"{done}, {failed}"])

    __repr__ = __str__
