"""Tune settings of a suite before its runs, see `relation_tf.config.method`. Does not import Keras.

OUT/sweep/ is the folder of a suite in which each method occurs with each combination of the
settings. OUT/sweep/sweep.csv has the validation score of each run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from relation_tf.bench.results import Results, parts_of, score_of
from relation_tf.bench.run_folder import SWEEP, RunFolder, writing
from relation_tf.config.method import Sweep, Tuned, combination_name, tuned_method
from relation_tf.config.run import RunConfig
from relation_tf.config.suite import Suite, make_suite, select
from relation_tf.errors import SuiteError, join_names
from relation_tf.files import write_text
from relation_tf.tasks.metrics import find_metric

TABLE = "sweep.csv"
_RESULTS = "*/result.json"  # files of the finished runs of a task and method

# Keys of a suite that a comparison needs; the sweep compares no methods.
_COMPARING = ("control", "test", "test_over_tasks", "reference", "margin", "families",
              "lower_bound", "published", "sweep")  # fmt: skip


def tune(
    suite: Suite,
    folder: Path,
    train: Callable[[Suite, Path, list[str] | None], Results],
    say: Callable[[str], None],
    tasks: str | Iterable[str] | None = None,
    methods: str | Iterable[str] | None = None,
) -> Suite:
    """Train the pending runs of a sweep, and return the suite with the chosen settings.

    Args:
        suite: A suite with `sweep`.
        folder: The folder of the suite's runs; those of the sweep are in its folder `sweep`.
        train: Function of a suite, its folder and the methods to train (None for all).
        say: Called with lines for the user.
        tasks: Names of tasks to tune for, by default all.
        methods: Names of methods or mechanisms to tune, by default all.

    Raises:
        SuiteError: If the sweep cannot be run, a run of it failed, or all combinations of a method
            diverged.
    """
    assert suite.sweep is not None
    tuning, pairs = tuning_suite(suite), _pairs(select(suite, tasks, methods))
    chosen = None
    if methods is not None:
        names = suite.find_methods(methods)
        chosen = [variant for name in names for variant, _ in _variants(suite.sweep, name)]
    say(f"Sweep, before the runs: {described(suite.sweep)}.")
    results = train(tuning, folder / SWEEP, chosen)
    table = sweep_table(suite, results)
    with writing(folder / SWEEP):
        write_text(folder / SWEEP / TABLE, table.to_csv(index=False, lineterminator="\n"))
    tuned = _choices(suite, folder, table)
    known = {(choice.task, choice.method) for choice in tuned}
    lacking = [pair for pair in pairs if pair not in known]
    if unfinished := [pair for pair in lacking if not all_runs_finished(suite, table, *pair)]:
        raise SuiteError(
            f"{folder / SWEEP}: runs of the sweep failed for {_named(unfinished)}"
            f"{_reason(suite.sweep, results, unfinished)}. The suite needs all of them: remove the "
            "cause and run the same command again, or remove a value from the sweep and choose "
            "another --out"
        )
    if lacking:
        raise SuiteError(
            f"{folder / SWEEP}: no combination of the sweep has finite losses in all its runs for "
            f"{_named(lacking)}. Change the values of the sweep, and choose another --out"
        )
    for line in _chosen(suite, tuned):
        say(line)
    return suite.model_copy(update={"tuned": tuned})


def _choices(suite: Suite, folder: Path, table: pd.DataFrame) -> list[Tuned]:
    """Return the chosen settings; finished runs keep those that an earlier command chose."""
    chosen = {(choice.task, choice.method): choice for choice in choose(suite, table)}
    kept = {
        (choice.task, choice.method): choice
        for choice in tuned_before(folder)
        if any((folder / "runs" / choice.task / choice.method).glob(_RESULTS))
    }
    return [*(chosen | kept).values()]


def _in_words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def described(sweep: Sweep) -> str:
    """Describe the budget of a sweep.

    Example:
        >>> described(Sweep(learning_rate=[0.001, 0.01], dropout=[0.0, 0.1, 0.5]))
        '2 values of learning_rate x 3 values of dropout x 2 seeds for each method and task'
    """
    sizes = [f"{len(values)} values of {key}" for key, values in sweep.values.items()]
    seeds = "1 seed" if len(sweep.seeds) == 1 else f"{len(sweep.seeds)} seeds"
    return f"{' x '.join([*sizes, seeds])} for each method and task"


def check_no_untuned_runs(suite: Suite, folder: Path, runs: Sequence[RunConfig]) -> None:
    """Check that no requested run was finished before the suite had a sweep.

    Args:
        suite: A suite with `sweep`.
        folder: The folder of the suite's runs.
        runs: The requested runs.

    Raises:
        SuiteError: The message names the method and the task.
    """
    tuned = {(choice.task, choice.method) for choice in tuned_before(folder)}
    for task, method in _pairs(runs):
        if (task, method) not in tuned and any((folder / "runs" / task / method).glob(_RESULTS)):
            raise SuiteError(
                f"{folder}: runs of {method} on {task} are finished, and suite {suite.name} now "
                "has a sweep. Choose another --out"
            )


def tuned_before(folder: Path) -> list[Tuned]:
    """Return the settings that an earlier command chose."""
    return RunFolder(folder).suite().tuned if (folder / "suite.toml").exists() else []


def _pairs(runs: Iterable[RunConfig]) -> list[tuple[str, str]]:
    """Return the tasks and methods of runs."""
    return [*dict.fromkeys((run.task, run.method) for run in runs)]


def _named(pairs: Iterable[tuple[str, str]]) -> str:
    return join_names([f"{method} on {task}" for task, method in pairs])


def _reason(sweep: Sweep, results: Results, pairs: Iterable[tuple[str, str]]) -> str:
    """Return why the first run of tasks and methods failed, in brackets; empty if none did."""
    names = {(task, name) for task, method in pairs for name, _ in _variants(sweep, method)}
    failed = (why for run, why in results.failures if parts_of(run)[:2] in names)
    return next((f" ({why:.400})" for why in failed), "")


def _chosen(suite: Suite, tuned: Sequence[Tuned]) -> Iterator[str]:
    """Yield the chosen settings of each method."""
    for method in suite.methods():
        tasks: dict[str, list[str]] = {}
        for choice in tuned:
            if choice.method == method.name:
                tasks.setdefault(_in_words(choice.settings), []).append(choice.task)
        if tasks:
            parts = [f"{settings} ({', '.join(names)})" for settings, names in tasks.items()]
            yield f"chosen for {method.name}: {'; '.join(parts)}"


def tuning_suite(suite: Suite) -> Suite:
    """Return the suite of a sweep: a method for each method and combination of settings.

    Example:
        >>> from relation_tf.config import load_suite
        >>> sweep = {"sweep": {"learning_rate": [0.001, 0.01]}}
        >>> tuning = tuning_suite(load_suite("demo", sweep))
        >>> [method.name for method in tuning.methods()][:2]
        ['attention-64-0.001', 'attention-64-0.01']
        >>> tuning.runs()[2].learning_rate, tuning.seeds
        (0.01, [1001, 1002])
    """
    assert suite.sweep is not None
    methods, tuned = [], []
    for method in suite.methods():
        for name, settings in _variants(suite.sweep, method.name):
            methods.append({**tuned_method(method, settings).model_dump(), "name": name})
            tuned += [{"task": task, "method": name, "settings": settings} for task in suite.tasks]
    overrides = {
        task: {**override.model_dump(exclude_none=True), "margin": None}
        for task, override in suite.overrides.items()
    }
    values = suite.model_dump() | dict.fromkeys(_COMPARING)
    values |= {
        "name": f"{suite.name}-sweep",
        "title": f"Sweep of {suite.title or suite.name}",
        "method": methods,
        "tuned": tuned,
        "seeds": suite.sweep.seeds,
        "overrides": overrides,
        "save_models": False,
    }
    return make_suite(f"sweep of suite {suite.name}", values)


def _variants(sweep: Sweep, method: str | None) -> list[tuple[str, dict[str, Any]]]:
    """Return the name and the settings of a method with each combination."""
    return [
        (f"{method}-{combination_name(settings)}", settings) for settings in sweep.combinations()
    ]


def with_first_values(suite: Suite, runs: Iterable[RunConfig]) -> Suite:
    """Return the suite with the first combination of the sweep for runs that need the sweep."""
    assert suite.sweep is not None
    first = next(iter(suite.sweep.combinations()))
    pairs = dict.fromkeys((run.task, run.method) for run in runs)
    added = [Tuned(task=task, method=method, settings=first) for task, method in pairs]
    return suite.model_copy(update={"tuned": [*suite.tuned, *added]})


def sweep_table(suite: Suite, results: Results) -> pd.DataFrame:
    """Return the validation score of each finished run of a sweep.

    The score is that of the epoch whose weights are kept: the mean of the task's metrics on the
    validation rows, or its first metric if they differ in unit. It is NaN for a diverged run.

    Args:
        suite: The suite with the sweep.
        results: The runs of `tuning_suite`.

    Returns:
        Columns `task`, `method`, a column for each setting, `seed` and `score`.
    """
    assert suite.sweep is not None
    sources = {
        name: (str(method.name), settings)
        for method in suite.methods()
        for name, settings in _variants(suite.sweep, method.name)
    }
    rows = []
    for run in results.runs:
        method, settings = sources[run["method"]]
        score = _validation_score(suite, results, run)
        row = {"task": run["task"], "method": method, **settings, "seed": run["seed"]}
        rows.append(row | {"score": score})
    for task, name, seed in map(parts_of, results.diverged):
        method, settings = sources[name]
        row = {"task": task, "method": method, **settings}
        rows.append(row | {"seed": int(seed.removeprefix("seed-")), "score": math.nan})
    columns = ["task", "method", *suite.sweep.values, "seed", "score"]
    return pd.DataFrame(rows, columns=columns)


def _validation_score(suite: Suite, results: Results, run: Mapping[str, Any]) -> float:
    history = results.history(dict(run))
    kept = history[history["epoch"] == run["kept_epoch"]]
    metrics = suite.find_task(run["task"]).metrics
    if kept.empty:
        return math.nan
    return score_of({name: float(kept[f"val_{name}"].iloc[0]) for name in metrics})


def choose(suite: Suite, table: pd.DataFrame) -> list[Tuned]:
    """Return the best settings of each task and method for which all runs are finished.

    The best combination has the best mean score over the seeds of the sweep; of equal ones, the
    nearest to the middle of the range, then the first in the order of the suite.

    Args:
        suite: The suite with the sweep.
        table: Result of `sweep_table`.
    """
    sweep = suite.sweep
    assert sweep is not None
    combinations, chosen = [*sweep.combinations()], []
    for (task, method), means in means_of(suite, table).items():
        higher = find_metric(suite.find_task(task).metrics[0]).higher_is_better
        known = [mean for mean in means if not math.isnan(mean)]
        if known and all_runs_finished(suite, table, task, method):
            best = (max if higher else min)(known)
            equal = [settings for settings, mean in zip(combinations, means, strict=True)
                     if same_score(mean, best)]  # fmt: skip
            nearest = min(equal, key=lambda settings: _from_middle(sweep, settings))
            chosen.append(Tuned(task=task, method=method, settings=nearest))
    return chosen


def all_runs_finished(suite: Suite, table: pd.DataFrame, task: str, method: str) -> bool:
    """Return True if all runs of the sweep for a task and method have results."""
    assert suite.sweep is not None
    finished = ((table["task"] == task) & (table["method"] == method)).sum()
    return bool(finished == len([*suite.sweep.combinations()]) * len(suite.sweep.seeds))


def same_score(a: float, b: float) -> bool:
    """Return True if two mean scores differ by rounding at most; False for NaN."""
    return math.isclose(a, b, rel_tol=1e-12)


def _from_middle(sweep: Sweep, settings: Mapping[str, Any]) -> tuple[float, float]:
    """Return the largest distance of a number from the middle of its range, and the sum.

    Distances count values: 0 is the middle, 1 the smallest or largest of three or more numbers.
    """
    distances = [0.0]
    for key, value in settings.items():
        numbers = _numbers(sweep, key)
        if len(numbers) > 2 and value in numbers:
            last = len(numbers) - 1
            distances.append(abs(2 * numbers.index(value) - last) / last)
    return max(distances), sum(distances)


def _numbers(sweep: Sweep, key: str) -> list[float]:
    """Return the numbers among the values of a key, the smallest first."""
    return sorted(value for value in sweep.values[key] if isinstance(value, int | float))


def means_of(suite: Suite, table: pd.DataFrame) -> dict[tuple[str, str], list[float]]:
    """Return the mean score of each combination over the seeds, by task and method.

    NaN if a run of the combination is missing or diverged.

    Args:
        suite: The suite with the sweep.
        table: Result of `sweep_table`.
    """
    assert suite.sweep is not None
    by_group = {}
    for (task, method), rows in table.groupby(["task", "method"], sort=False):
        means = []
        for settings in suite.sweep.combinations():
            scores = rows.loc[_has(rows, settings), "score"]
            complete = len(scores) == len(suite.sweep.seeds)
            means.append(float(scores.mean(skipna=False)) if complete else math.nan)
        by_group[str(task), str(method)] = means
    return by_group


def _has(table: pd.DataFrame, settings: Mapping[str, Any]) -> pd.Series[bool]:
    """Return which rows have settings."""
    same = pd.Series(True, table.index)
    for key, value in settings.items():
        if isinstance(value, int | float) and table[key].dtype.kind in "bif":
            same &= np.isclose(table[key], value, rtol=1e-9, atol=0)  # written and read
        else:
            same &= table[key].map(str) == str(value)  # text, or texts and numbers
    return same


def is_best(suite: Suite, tuned: Tuned, table: pd.DataFrame) -> bool:
    """Return True if no other settings of the sweep have a better mean score.

    Finished runs keep the settings that a smaller sweep chose.

    Args:
        suite: The suite with the sweep.
        tuned: The settings of the runs.
        table: Result of `sweep_table`.
    """
    assert suite.sweep is not None
    rows = table[(table["task"] == tuned.task) & (table["method"] == tuned.method)]
    if rows.empty:
        return True
    (means,) = means_of(suite, rows).values()
    combinations = [*suite.sweep.combinations()]
    if tuned.settings not in combinations:
        return False
    higher = find_metric(suite.find_task(tuned.task).metrics[0]).higher_is_better
    known = [mean for mean in means if not math.isnan(mean)]
    kept = means[combinations.index(tuned.settings)]
    return not known or same_score(kept, (max if higher else min)(known))


class RangeWarning(NamedTuple):
    """A reason why settings that were not tried can be better.

    Attributes:
        text: The reason.
        kind: The same without the key and its value.
    """

    text: str
    kind: str


def warn_of_range(suite: Suite, tuned: Tuned, table: pd.DataFrame) -> RangeWarning | None:
    """Return why settings that were not tried can be better; None without a reason.

    There is a reason if most runs with the best values collapsed, if all values have the same
    score, or if a number is the smallest or largest of three or more and the next one is worse by
    more than two standard errors, or with one seed by any difference. A perfect score and the
    smallest possible number, 0 or the integer 1, are no reason. Settings that are not the best ones
    of the sweep are no reason either: see `is_best`.

    Args:
        suite: The suite with the sweep.
        tuned: The chosen settings.
        table: Result of `sweep_table`.
    """
    assert suite.sweep is not None
    metric = find_metric(suite.find_task(tuned.task).metrics[0])
    rows = table[(table["task"] == tuned.task) & (table["method"] == tuned.method)]
    combinations = [*suite.sweep.combinations()]
    if not is_best(suite, tuned, table):
        return None
    samples = [
        rows.loc[_has(rows, sample), "score"].to_numpy(dtype=float) for sample in combinations
    ]
    best = samples[combinations.index(tuned.settings)]
    perfect = metric.high if metric.higher_is_better else metric.low
    if not best.size or (perfect is not None and same_score(best.mean(), perfect)):
        return None
    if metric.low == -1 and 2 * np.count_nonzero(best == 0) >= best.size:
        text = "at least half of the runs with the best value collapsed (score 0)"
        return RangeWarning(text, text)
    means = [sample.mean() for sample in samples if sample.size and np.isfinite(sample).all()]
    if len(means) > 1 and all(same_score(mean, means[0]) for mean in means):
        return RangeWarning("all values have the same score", "all values have the same score")
    for key, value in tuned.settings.items():
        numbers = _numbers(suite.sweep, key)
        smallest_possible = value == 0 or (isinstance(value, int) and value == 1)
        if len(numbers) < 3 or value not in (numbers[0], numbers[-1]) or smallest_possible:
            continue
        least = value == numbers[0]
        inside = tuned.settings | {key: numbers[1] if least else numbers[-2]}
        if not _is_flat(best, samples[combinations.index(inside)]):
            which, others = ("smallest", "smaller") if least else ("largest", "larger")
            return RangeWarning(
                f"{key} {value} is the {which} value, and {others} ones can be better",
                "the chosen value is the smallest or largest one",
            )
    return None


def _is_flat(first: np.ndarray, second: np.ndarray) -> bool:
    """Return True if the means differ by two standard errors at most; False for NaN."""
    difference = abs(float(first.mean() - second.mean())) if second.size else math.nan
    errors = [scores.var(ddof=1) / scores.size for scores in (first, second) if scores.size > 1]
    return difference <= 2 * math.sqrt(math.fsum(errors)) + 1e-12
