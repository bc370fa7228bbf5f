"""Tables of the status, results and costs of runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relation_tf.errors import SuiteError
from relation_tf.registry import METRICS, SOURCES, register_section
from relation_tf.report.blocks import (
    Block,
    Code,
    Column,
    Facts,
    Row,
    Section,
    Show,
    Table,
    blocks,
    table_by_task,
)
from relation_tf.report.text import Statement, state
from relation_tf.tasks.metrics import no_score
from relation_tf.words import number

if TYPE_CHECKING:
    from relation_tf.bench.results import Results
    from relation_tf.config.suite import Suite
    from relation_tf.report.data import ReportData
    from relation_tf.tasks.task import Timed

_MEDIANS = ("parameters", "without_embedding", "mechanism", "epochs", "seconds_epoch",
            "tokens_second", "seconds_batch", "seconds_compilation", "padding",
            "mean_length")  # fmt: skip
_LEAST_SHARE = 0.8  # of the time that a run without other load has the processor
COSTS = ("seconds_epoch", "peak_memory_mib", "without_embedding")
_UNKNOWN = {"batch": math.nan, "cpu": math.nan, "wall": math.nan}
_ENVIRONMENT = ("xla", "started", "finished", "commit", "processor", "threads")


def all_runs(results: Results) -> pd.DataFrame:
    """Return one row per requested run, with its status (done, failed, not done) and results.

    A failed run is `diverged` if a loss or an output was not finite.
    """
    done = {(run["task"], run["method"], run["seed"]): run for run in results.runs}
    errors, diverged = dict(results.failures), {*results.diverged}
    rows = []
    for config in results.requested:
        run, error = done.get(config.key), errors.get(str(config))
        status = "done" if run else "not done" if error is None else "failed"
        row: dict[str, Any] = {"task": config.task, "method": config.method, "seed": config.seed}
        row["status"] = status
        row["diverged"] = str(config) in diverged
        rows.append(row | (_measured(results, run) if run else {}) | {"error": error})
    columns = None if rows else ["task", "method", "seed", "status", "diverged", "error"]
    return pd.DataFrame(rows, columns=columns)


def read_runs(folder: Path) -> pd.DataFrame:
    """Return the runs of a report's folder; empty if it has none, or a file without costs.

    Args:
        folder: The folder, with `runs.csv`.

    Raises:
        SuiteError: If the file cannot be read.
    """
    file = folder / "runs.csv"
    if not file.exists():
        return pd.DataFrame()
    try:
        others = {*pd.read_csv(file, nrows=0).columns} - {"task", "method"}
        runs = pd.read_csv(  # A method may have a name such as "None".
            file, dtype={"task": str, "method": str}, keep_default_na=False,
            na_values={key: ["", "nan"] for key in others},
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise SuiteError(f"{file}: cannot be read: {str(error).splitlines()[0]:.100}") from error
    if not {"task", "method", "seed", "status", *COSTS} <= {*runs.columns}:
        return pd.DataFrame()
    for column in COSTS:
        if runs[column].dtype.kind not in "if":
            raise SuiteError(f"{file}: must have numbers in column {column!r}")
    if {"diverged", "error"} <= {*runs}:  # earlier versions trained on and gave the run a score
        lost = runs["diverged"].eq(True) & runs["status"].eq("done")
        errors = runs["error"].astype(object).mask(lost, "diverged")
        runs = runs.assign(status=runs["status"].mask(lost, "failed"), error=errors)
    return runs


def costs_of_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the costs of finished runs by task and method: medians, and the peak of memory."""
    done = runs[runs["status"] == "done"] if len(runs) else runs
    if done.empty:
        return pd.DataFrame()
    columns: dict[str, Any] = {
        "n": ("seed", "size"),
        **{name: (name, "median") for name in _MEDIANS},
        "state_mib": ("state_mib", "max"),
        "pass_mib": ("pass_mib", "median"),
        "memory_mib": ("memory_mib", "max"),
        "stopped": ("stopped", _with_counts),
    }
    for column in ("seconds_batch", "memory_mib", "pass_mib"):
        columns |= {f"{column}_low": (column, "min"), f"{column}_high": (column, "max")}
    done = done.assign(memory_mib=memory_of(done))
    return done.groupby(["task", "method"], sort=False, as_index=False).agg(**columns)


def memory_of(runs: pd.DataFrame) -> pd.Series[float]:
    """Return the peak memory of runs above that of their process before the first run, in MiB.

    If it is unknown for a run (earlier versions), all have the whole peak.
    """
    base = runs.get("base_memory_mib", pd.Series(math.nan, runs.index))
    peak = runs["peak_memory_mib"].astype(float)
    return (peak - base).clip(lower=0) if base.notna().all() else peak


def summarize_costs(runs: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """Return the costs of each method over the tasks that all methods with runs have.

    Args:
        runs: Result of `all_runs`, or the `runs.csv` of a report.
        methods: The methods in display order.

    Returns:
        Columns `seconds_epoch` and `memory_mib` (geometric means over tasks of the median and of
        the peak over seeds, see `memory_of`, so that a ratio is the mean ratio),
        `without_embedding` (parameters, median) and `alone` (the runs are known to have had the
        processor for themselves), by method; empty without a common task.
    """
    done = runs[runs["status"] == "done"] if len(runs) else runs
    if done.empty:
        return pd.DataFrame()
    done = done.assign(memory_mib=memory_of(done))
    by_task = done.groupby(["method", "task"])
    costs = by_task[["seconds_epoch", "without_embedding"]].median()
    costs["memory_mib"] = by_task["memory_mib"].max()
    common = costs["seconds_epoch"].unstack("task").dropna(axis="columns").columns
    costs = costs[costs.index.isin(common, level="task")]
    # Memory is recorded in whole MiB; 0 has no logarithm.
    positive = costs[["seconds_epoch", "memory_mib"]].clip(lower=[1e-9, 1.0], axis=1)
    means = positive.transform(np.log).groupby("method").mean().transform(np.exp)
    means["without_embedding"] = costs["without_embedding"].groupby("method").median()
    recorded = "seconds_cpu" in done and bool(done["seconds_cpu"].notna().all())
    means["alone"] = recorded and not any(load_warnings(runs))
    return means.reindex([name for name in methods if name in means.index])


def load_warnings(runs: pd.DataFrame) -> Iterator[Statement]:
    """Warn of runs on a processor that waited for it: other programs made them slower.

    A run without other load uses at least one core all the time. Runs on a GPU, and runs of earlier
    versions, which did not record their CPU time, are left out.

    Args:
        runs: As for `summarize_costs`.
    """
    if not len(runs) or "seconds_cpu" not in runs:
        return
    done = runs[runs["status"] == "done"]
    if "peak_device_memory_mib" in done:
        done = done[done["peak_device_memory_mib"].isna()]
    share = (done["seconds_cpu"] / done["seconds_wall"]).dropna()
    slow = share[share < _LEAST_SHARE]
    if len(slow):
        yield state("shared_processor", slow=len(slow), runs=len(share), least=_LEAST_SHARE,
                    lowest=float(slow.min()))  # fmt: skip


def generated_data(suite: Suite) -> str:
    """Return a sentence on tasks of generated text; empty if there are none."""
    if not SOURCES[suite.source].artificial:
        return ""
    return f"The tasks are generated text ({suite.source}), not the data sets of these names."


def scored_sets(results: Results) -> tuple[list[str], list[str]]:
    """Return the tasks scored on the set that stops training, and those scored on another one."""
    by_stopping: dict[bool, list[str]] = {True: [], False: []}
    for name in results.begun.tasks:
        on_dev_set = results.suite.setting(name, "validation_split") is None
        for task in results.suite.find_task(name).each():
            stops = on_dev_set and task.validation in task.scored.values()
            by_stopping[stops].append(task.name)
    dev, test = ([*dict.fromkeys(by_stopping[stops])] for stops in (True, False))
    return dev, test


def frequencies(values: Any) -> list[tuple[str, int]]:
    """Return distinct values as text with their counts, the most frequent first."""
    return Counter(map(str, values)).most_common()


def _with_counts(values: pd.Series[str]) -> str:
    counts = frequencies(values)
    single = len(counts) == 1
    return "; ".join(reason if single else f"{reason} ({count})" for reason, count in counts)


def _measured(results: Results, run: dict[str, Any]) -> dict[str, Any]:
    parameters, seconds, manifest = run["parameters"], run["seconds"], run["manifest"]
    tokens = run.get("tokens") or math.nan  # not counted for text
    rows = manifest["data"]["rows"].items()  # by split, of a group by task and split
    training_rows = sum(size for name, size in rows if name.rpartition(":")[2] == "train")
    return {
        "epochs": run["epochs"],
        "kept_epoch": run["kept_epoch"],
        "stopped": run["stopped"],
        "still_improving": _still_improving(run, results.history(run)),
        "parameters": parameters["total"],
        "without_embedding": parameters["total"] - parameters["embedding"],
        "mechanism": parameters["mechanism"],
        "padding": run["padding"],
        "tokens": tokens,
        "tokens_second": tokens / seconds["epoch"],
        "mean_length": tokens / max(1, training_rows),
        # Runs of earlier versions did not count their batches.
        **{f"seconds_{name}": value for name, value in (_UNKNOWN | seconds).items()},
        "state_mib": _or_nan(run.get("state_bytes")) / 2**20,
        "pass_mib": _or_nan(run.get("pass_bytes")) / 2**20,
        "peak_memory_mib": _or_nan(run["peak_memory_mib"]),
        "base_memory_mib": run.get("base_memory_mib", math.nan),
        "peak_memory_of": run.get("peak_memory_of", "process"),
        "peak_device_memory_mib": run.get("peak_device_memory_mib"),
        "compute": run["config"]["compute"],
        "precision": run["config"]["precision"],
        "result_sha256": run.get("sha256"),
        **{name: manifest[name] for name in _ENVIRONMENT},
    }


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _still_improving(run: Mapping[str, Any], history: pd.DataFrame) -> bool:
    """Return True if the best monitored value is in the last tenth of the allowed epochs."""
    column, epochs = run["config"]["monitor"], run["epochs"]
    if run["stopped"] != f"reached {epochs} epochs" or column not in history:
        return False
    metric = METRICS.get(column.removeprefix("val_"))
    values = history[column].to_numpy(dtype=float)
    if not np.isfinite(values).all():
        return False
    best = values.argmax() if metric is not None and metric.higher_is_better else values.argmin()
    return bool(best >= epochs - max(1, epochs // 10))


_MACHINE = ("python", "commit", "platform", "processor", "cores", "devices", "backend", "threads",
            "xla", "op_determinism", "onednn")  # fmt: skip
# Data differs between tasks, and pre-training between seeds; data is compared within a task.
_OF_A_RUN = ("task", "method", "mechanism", "mechanism_digest", "units", "options", "size",
             "sized_by", "seed", "source", "data_digest", "data_digests", "custom_task", "group",
             "sharing", "feature_projection", "encoder_weights", "pretrained_digest",
             "glove_digest")  # fmt: skip


def provenance(manifests: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return dates, commands, versions and hardware of runs, the most frequent value first."""
    if not manifests:
        return {}
    first = min(str(manifest["started"]) for manifest in manifests)
    last = max(str(manifest["finished"]) for manifest in manifests)
    versions = (
        ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
        for manifest in manifests
    )
    facts = {
        "dates": [f"{first} to {last}"],
        "commands": _distinct(manifest["command"] for manifest in manifests),
        "versions": _distinct(versions),
    }
    for key in _MACHINE:
        values = (manifest.get(key) for manifest in manifests)
        facts[key] = _distinct(map(_shown, values))
    return facts


def _rows(rows: dict[str, int]) -> str:
    """Return the number of rows of each split, summed over the tasks of a group."""
    tasks = {name.rpartition(":")[0] for name in rows}
    counts: Counter[str] = Counter()
    for name, size in rows.items():
        counts[name.rpartition(":")[2]] += size
    of = f" of {len(tasks)} tasks" if len(tasks) > 1 else ""
    return ", ".join(f"{name} {n:,}" for name, n in counts.items()) + of


def warnings_of_runs(results: Results) -> Iterator[Statement]:
    """Yield warnings on differences between runs, on shared pre-training and on missing scores."""
    yield from _unlike(results)
    yield from _shared_start(results)
    # Test sets that a method cannot predict.
    unscored: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for task in results.suite.tasks:
        for run in results.runs:
            if run["task"] == task and run.get("unscored"):
                unscored.setdefault((task, run["method"]), []).append(run["unscored"])
    for (_, method), sets in unscored.items():
        reasons = {name: reason for of_run in sets for name, reason in of_run.items()}
        yield state("unpredicted_sets", method=method, runs=len(sets), why=no_score(reasons))


def unlike_machines(manifests: Sequence[Mapping[str, Any]]) -> Iterator[Statement]:
    """Yield differences between runs in versions and hardware."""
    flat = [
        {key: manifest.get(key) for key in _MACHINE} | manifest["versions"]
        for manifest in manifests
    ]
    for key in dict.fromkeys(key for record in flat for key in record):
        yield from _differing(key, [record.get(key) for record in flat])


def unlike_pretraining(settings: Sequence[Mapping[str, Any]]) -> Iterator[Statement]:
    """Yield differences between the settings of pre-training folders."""
    for key in dict.fromkeys(key for x in settings for key in x):
        values = dict.fromkeys(_shown(x.get(key)) for x in settings)
        if len(values) > 1:
            yield state("unlike_pretraining", key=key, values=[*values])


def _unlike(results: Results) -> Iterator[Statement]:
    from relation_tf.config.run import Override

    yield from unlike_machines([run["manifest"] for run in results.runs])
    overrides = {str(method.name): method.overrides for method in results.suite.methods()}
    tuned = {key for x in results.suite.tuned for key in x.settings}
    for key in dict.fromkeys(key for run in results.runs for key in run["config"]):
        if key in _OF_A_RUN:
            continue
        compared: dict[str, list[Any]] = {}
        for run in results.runs:
            # Settings of single methods and tasks are compared only within them.
            by_method = key in tuned or key in overrides.get(run["method"], {})
            parts = [run["method"]] if by_method else []
            parts += [run["task"]] if key in tuned or key in Override.model_fields else []
            where = f"{key} of {', '.join(parts)}" if parts else key
            compared.setdefault(where, []).append(run["config"].get(key))
        for where, values in compared.items():
            yield from _differing(where, values)
    for task in results.suite.tasks:
        yield from (state("note", text=f"{task}: {note}.") for note in notes(results, task))
        manifests = [run["manifest"] for run in results.runs if run["task"] == task]
        yield from _differing(f"data of {task}", [x["data"]["digest"] for x in manifests])
        files = [x["glove"].get("digest") for x in manifests if x["glove"]]
        yield from _differing(f"word vectors of {task}", files)


def _shared_start(results: Results) -> Iterator[Statement]:
    """Yield methods with several seeds but one pre-trained encoder."""
    starts: dict[str, dict[int, str]] = {}
    for config in (run["config"] for run in results.runs):
        if config.get("encoder_weights", "random") != "random":
            starts.setdefault(config["method"], {})[config["seed"]] = config["pretrained_digest"]
    for method, digests in starts.items():
        if len(digests) > 1 and len(set(digests.values())) == 1:
            yield state("shared_start", method=method, seeds=len(digests))


def notes(results: Results, task: str) -> list[str]:
    """Return differences between the data of a task and the published data."""
    runs = [run for run in results.runs if run["task"] == task]
    all_notes = (note for run in runs for note in run["manifest"]["data"].get("notes", []))
    return [*dict.fromkeys(all_notes)]


def _differing(key: str, values: Iterable[Any]) -> Iterator[Statement]:
    counts = frequencies(map(_shown, values))
    if len(counts) > 1:
        yield state("unlike_runs", key=key, values=counts)


def in_a_line(settings: Mapping[str, Any]) -> str:
    """Return settings and their values on one line."""
    return "; ".join(f"{key} {_shown(value)}" for key, value in settings.items())


def _distinct(values: Any) -> list[str]:
    return [value for value, _ in frequencies(values)]


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        parts = ((key, _shown(part)) for key, part in value.items() if part is not None)
        return "; ".join(f"{key} {part}" for key, part in parts)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


_DIGEST = 12


def _columns(timed: Timed) -> Mapping[Column, Show]:
    """Return the columns of the table of costs; each formats a row of `costs_of_runs`."""

    def numeric(name: str) -> Column:
        return Column(name, "number")

    unit, epoch_digits = ("pass", 3) if timed else ("epoch", 2)
    common: dict[Column, Show] = {
        Column("Method", "method"): lambda row: row.method,
        numeric("Runs"): lambda row: str(row.n),
        numeric("Parameters"): lambda row: number(row.parameters),
        numeric("Parameters without embedding"): lambda row: number(row.without_embedding),
        numeric("Parameters of the mechanism"): lambda row: number(row.mechanism),
        numeric("Passes" if timed else "Epochs"): lambda row: f"{row.epochs:g}",
        numeric(f"Time, s per {unit}"): lambda row: number(row.seconds_epoch, epoch_digits),
        numeric("Time, tokens per second"): lambda row: number(row.tokens_second),
        numeric("Time, compilation, s"): lambda row: number(row.seconds_compilation, 2),
    }
    if timed == "decoding":
        return common | {
            numeric("Time, ms per step"): lambda row: number(1000 * row.seconds_batch, 3),
            numeric("Memory for earlier tokens, KiB"): lambda row: number(1024 * row.state_mib, 1),
        }
    if timed:
        return common
    return common | {
        numeric("Time, ms per batch"): lambda row: number(1000 * row.seconds_batch, 1),
        numeric("Padding"): lambda row: f"{100 * row.padding:.1f} %",
        numeric("Memory, MiB"): lambda row: number(row.memory_mib),
        Column("Reason for stopping", "words"): lambda row: row.stopped,
    }


@register_section("run")
class MethodsAndSettings(Section):
    """Costs of the runs, and the methods and settings of the suites."""

    heading = "Methods and settings"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the table of costs and the suites."""
        results, costs = data.results, data.run_costs
        if results is None:
            return []
        timed, suites = results.suite.timed, [part.suite for part in results.parts or [results]]
        table = None
        if not costs.empty:
            table = table_by_task("Table: costs of the runs", costs, _columns(timed))
        return blocks(
            "methods.jinja",
            suite=results.suite,
            costs=table,
            timed=timed,
            suites=[(suite.name, Code(suite.to_toml())) for suite in suites],
        )


@register_section("made")
class WarningsAndProvenance(Section):
    """Warnings, environment and data."""

    heading = "Warnings and provenance"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return warnings, failures, environment and the data of each task."""
        return blocks(
            "made.jinja",
            data=data,
            facts=Facts(data.provenance) if data.provenance else None,
            table=None if data.results is None else _data_table(data.results),
            files=[*data.tables],
        )


def _data_table(results: Results) -> Table | None:
    """Return the table of the data of each task: source, sizes and digests; None without runs."""
    rows = []
    for task in results.suite.tasks:
        sets = [run["manifest"]["data"] for run in results.runs if run["task"] == task]
        members = ", ".join(member.name for member in results.suite.find_task(task).members)
        if sets:
            source = " or ".join(_distinct(data["source"] for data in sets))
            digests = " ".join(x[:_DIGEST] for x in _distinct(data["digest"] for data in sets))
            name = f"{task} ({members})" if members else task
            rows.append(Row([name, source, _rows(sets[0]["rows"]), digests]))
    columns = [Column("Task", "head"), Column("Source"), Column("Rows"), Column("Digest")]
    return Table("Table: data", columns, rows) if rows else None
