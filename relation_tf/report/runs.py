"""Tables of the status, results and costs of runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.suite import Suite
from relation_tf.errors import SuiteError
from relation_tf.networks.mechanisms import find_mechanism, mixes_tokens
from relation_tf.registry import METRICS, SOURCES
from relation_tf.report.text import Statement, state
from relation_tf.tasks import GLUE

_MEDIANS = ("parameters", "without_embedding", "mechanism", "epochs", "seconds_epoch",
            "tokens_second", "seconds_batch", "seconds_compilation", "padding",
            "mean_length")  # fmt: skip

_LEAST_SHARE = 0.8  # of the time that a run without other load has the processor

COSTS = ("seconds_epoch", "peak_memory_mib", "without_embedding")

_UNKNOWN = {"batch": math.nan, "cpu": math.nan, "wall": math.nan}
_MADE_WITH = ("xla", "started", "finished", "commit", "processor", "threads")


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
        row = {"task": config.task, "method": config.method, "seed": config.seed, "status": status}
        row |= {
            "diverged": str(config) in diverged,
            "mixes_tokens": mixes_tokens(config.mechanism, config.options),
        }
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


def _training_rows(manifest: Mapping[str, Any]) -> int:
    """Return the number of training rows of a task, or of all tasks of a group."""
    rows = manifest["data"]["rows"].items()
    return sum(count for name, count in rows if name.rpartition(":")[2] == "train")


def how_run(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the costs of finished runs by task and method: medians, and the peak of memory."""
    done = runs[runs["status"] == "done"] if len(runs) else runs
    if done.empty:
        return pd.DataFrame()
    how: dict[str, Any] = {
        "n": ("seed", "size"),
        **{name: (name, "median") for name in _MEDIANS},
        "state_mib": ("state_mib", "max"),
        "pass_mib": ("pass_mib", "median"),
        "memory_mib": ("memory_mib", "max"),
        "above_base": ("base_memory_mib", lambda base: base.notna().all()),
        "of_process": ("peak_memory_of", lambda of: of.eq("process").any()),
        "stopped": ("stopped", _counted),
    }
    for column in ("seconds_batch", "memory_mib", "pass_mib"):
        how |= {f"{column}_low": (column, "min"), f"{column}_high": (column, "max")}
    done = done.assign(memory_mib=memory_of(done))
    return done.groupby(["task", "method"], sort=False, as_index=False).agg(**how)


def memory_of(runs: pd.DataFrame) -> pd.Series[float]:
    """Return the peak memory of runs above that of their process before the first run, in MiB.

    If it is unknown for a run (earlier versions), all have the whole peak.
    """
    base = runs.get("base_memory_mib", pd.Series(math.nan, runs.index))
    own = runs["peak_memory_mib"].astype(float)
    return (own - base).clip(lower=0) if base.notna().all() else own


def summarize_costs(runs: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """Return the costs of each method over the tasks that all methods with runs have.

    Args:
        runs: Result of `all_runs`, or the `runs.csv` of a report.
        methods: The methods in display order.

    Returns:
        Columns `seconds_epoch` and `memory_mib` (geometric means over tasks of the median and of
        the peak over seeds, see `memory_of`, so that a ratio is the mean ratio),
        `without_embedding` (parameters, median), `of_process` (the memory includes earlier runs of
        the process), `above_base` (it is that above the process before its first run) and `alone`
        (the runs are known to have had the processor for themselves), by method; empty without a
        common task.
    """
    done = runs[runs["status"] == "done"] if len(runs) else runs
    if done.empty:
        return pd.DataFrame()
    above = "base_memory_mib" in done and bool(done["base_memory_mib"].notna().all())
    done = done.assign(
        of_process=done.get("peak_memory_of", "process") == "process", memory_mib=memory_of(done)
    )
    by_task = done.groupby(["method", "task"])
    costs = by_task[["seconds_epoch", "without_embedding"]].median()
    costs["memory_mib"] = by_task["memory_mib"].max()
    costs["of_process"] = by_task["of_process"].any()
    common = costs["seconds_epoch"].unstack("task").dropna(axis="columns").columns
    costs = costs[costs.index.isin(common, level="task")]
    # Memory is recorded in whole MiB; 0 has no logarithm.
    positive = costs[["seconds_epoch", "memory_mib"]].clip(lower=[1e-9, 1.0], axis=1)
    own = positive.transform(np.log).groupby("method").mean().transform(np.exp)
    own["without_embedding"] = costs["without_embedding"].groupby("method").median()
    own["of_process"] = costs["of_process"].groupby("method").any()
    own["above_base"] = above
    known = "seconds_cpu" in done and bool(done["seconds_cpu"].notna().all())
    own["alone"] = known and not any(load_warnings(runs))
    return own.reindex([name for name in methods if name in own.index])


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


def scored_names(suite: Suite | None) -> dict[str, list[str]]:
    """Return the scored tasks of each trained task or group, such as MNLI-m of MNLI."""
    trained = {task.name: task for task in GLUE.values()}
    if suite is not None:
        trained |= {name: suite.find_task(name) for name in suite.tasks}
    return {name: [*task.scorable] for name, task in trained.items()}


def has_scores(
    table: pd.DataFrame, scored: Mapping[str, Sequence[str]]
) -> Callable[[str, str, object], bool]:
    """Return a function that finds out if a run has a score.

    Args:
        table: Columns `task`, `method` and `seed`, one row per score.
        scored: Result of `scored_names`.

    Returns:
        A function of the trained task, the method and the seed.
    """
    columns = table[["task", "method", "seed"]].astype(str)
    known = {*columns.itertuples(index=False, name=None)}
    return lambda task, method, seed: any(
        (name, method, str(seed)) in known for name in (task, *scored.get(task, ()))
    )


def reads_one_token(suite: Suite) -> bool:
    """Return True if `compute` has an effect: networks use only the first token's output."""
    heads = {find_mechanism(method.mechanism).head for method in suite.method}
    return "first" in heads and not all(task.generated for task in suite.learned())


def computed_tokens(suite: Suite) -> str:
    """Return the tokens that mechanisms compute, in words; empty if they have no such choice."""
    if not reads_one_token(suite):
        return "all tokens" if all(task.generated for task in suite.learned()) else ""
    return {"readout": "only the output of the first token", "all": "all tokens"}[suite.compute]


def varied(results: Results) -> Sequence[str]:
    """Return what differs between the seeds, as in `vary`; nothing if it differs between runs."""
    kinds = {tuple(run["config"]["vary"]) for run in results.runs}
    return [] if results.suite.timed or len(kinds) != 1 else kinds.pop()


def generated_data(suite: Suite) -> str:
    """Return a sentence on tasks of generated text; empty if there are none."""
    if not SOURCES[suite.source].artificial:
        return ""
    return f"The tasks are generated text ({suite.source}), not the data sets of these names."


def scored_sets(results: Results) -> tuple[list[str], list[str]]:
    """Return the tasks scored on the set that stops training, and those scored on another one."""
    by_stopping: dict[bool, list[str]] = {True: [], False: []}
    for name in results.begun.tasks:
        own = results.suite.setting(name, "validation_split") is None
        for task in results.suite.find_task(name).each():
            stops = own and task.validation in task.scored.values()
            by_stopping[stops].append(task.name)
    dev, test = ([*dict.fromkeys(by_stopping[stops])] for stops in (True, False))
    return dev, test


def counted(values: Any) -> list[tuple[str, int]]:
    """Return distinct values as text with their counts, the most frequent first."""
    return Counter(map(str, values)).most_common()


def _counted(values: pd.Series[str]) -> str:
    reasons = counted(values)
    if len(reasons) == 1:
        return reasons[0][0]
    return "; ".join(f"{reason} ({count})" for reason, count in reasons)


def _measured(results: Results, run: dict[str, Any]) -> dict[str, Any]:
    parameters, seconds, manifest = run["parameters"], run["seconds"], run["manifest"]
    tokens = run.get("tokens") or math.nan  # not counted for text and in earlier versions
    history = results.history(run)
    return {
        "epochs": run["epochs"],
        "kept_epoch": run["kept_epoch"],
        "monitor": run["config"]["monitor"],
        "metrics": ", ".join(_validated(history)),
        "stopped": run["stopped"],
        "still_improving": _still_improving(run, history),
        "parameters": parameters["total"],
        "without_embedding": parameters["total"] - parameters["embedding"],
        "mechanism": parameters["mechanism"],
        "padding": run["padding"],
        "tokens": tokens,
        "tokens_second": tokens / seconds["epoch"],
        "mean_length": tokens / max(1, _training_rows(manifest)),
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
        **{name: manifest[name] for name in _MADE_WITH},
    }


def _validated(history: pd.DataFrame) -> list[str]:
    """Return the metrics that were computed on the validation rows after each epoch."""
    columns = [str(name) for name in history if str(name).startswith("val_")]
    return [name.removeprefix("val_") for name in columns if name != "val_loss"]


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
