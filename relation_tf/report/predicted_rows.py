"""Predictions of finished runs on scored rows, and what they say about seeds and rows."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from relation_tf.bench.results import Results
from relation_tf.bench.run_folder import prediction_file
from relation_tf.errors import SuiteError
from relation_tf.registry import METRICS
from relation_tf.stats import mcnemar, score_errors
from relation_tf.stats.pair_tests import holm
from relation_tf.tasks import Task
from relation_tf.tasks.metrics import counted

# Method -> seed -> true labels and outputs.
Runs: TypeAlias = Mapping[str, Mapping[int, tuple[NDArray[Any], NDArray[np.float64]]]]

DRAWS = 400  # the Monte Carlo error of a standard error is 4 %
_ERRORS = ["task", "method", "score", "rows", "seeds", "sd_seeds", "se_seeds", "se_rows", "se_both"]
_PAIRS = ["task", "a", "b", "difference", "pvalue", "discordant", "rows"]
MOST_PREDICTIONS = 500_000  # of a task; reading and drawing this many takes a few seconds


@dataclass(frozen=True)
class PredictedRows:
    """Labels and predictions of all runs on a scored set.

    Attributes:
        name: Name of the scored set.
        task: Its task.
        classes: Names of the classes; empty for a regression.
        runs: Method -> seed -> true labels (rows,) and outputs. Of classes: class numbers, and
            probabilities (rows, classes). Of a regression: numbers, and predicted numbers (rows,).
    """

    name: str
    task: Task
    classes: Sequence[str]
    runs: Runs

    def only(self, methods: Collection[str]) -> PredictedRows:
        """Return the predictions of some methods."""
        return replace(self, runs={name: own for name, own in self.runs.items() if name in methods})

    def words(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return labels as words, or the numbers of a regression."""
        return np.array(self.classes)[numbers] if self.classes else numbers

    def predictions(self, outputs: NDArray[np.float64]) -> NDArray[Any]:
        """Return the predicted words, or the numbers of a regression."""
        return self.words(outputs.argmax(axis=1)) if self.classes else outputs


class ReadRows(NamedTuple):
    """Predictions of a suite's runs.

    Attributes:
        sets: The predictions on each scored set with labels.
        too_many: Numbers of predictions of the sets that are not read because they have more than
            500,000.
        unread: Methods with finished runs whose predictions have no labels, by set.
    """

    sets: Sequence[PredictedRows]
    too_many: Mapping[str, int]
    unread: Mapping[str, Sequence[str]] = {}


def read_rows(results: Results) -> ReadRows:
    """Read the predictions of the finished runs, with true labels.

    Runs of earlier versions have no labels, or none for a regression.

    Raises:
        SuiteError: If a file of predictions is invalid.
    """
    found: list[PredictedRows] = []
    too_many: dict[str, int] = {}
    unread: dict[str, list[str]] = {}
    for task in results.suite.tasks:
        group = results.suite.find_task(task)
        for name, split in results.scored(group).items():
            own = group.of(name)
            count = _count(results, task, split)
            if own.generated or not own.label:  # unknown: its plugin is not imported
                continue
            if count > MOST_PREDICTIONS:
                too_many[name] = count
                continue
            classes = [str(label) for label in own.labels or ()]
            runs = _read(results, task, prediction_file(name, split), classes)
            if runs:
                found.append(PredictedRows(name, own, classes, runs))
                done = {run["method"]: None for run in results.runs if run["task"] == task}
                unread[name] = [method for method in done if method not in runs]
    return ReadRows(found, too_many, unread)


def _count(results: Results, task: str, split: str) -> int:
    """Return the number of predictions of all runs of a task on a split."""
    own = (run["manifest"]["data"]["rows"] for run in results.runs if run["task"] == task)
    return sum(int(rows.get(split, 0)) for rows in own)


def _read(results: Results, task: str, file: str, classes: list[str]) -> Runs:
    answers: dict[str, dict[int, tuple[NDArray[Any], NDArray[np.float64]]]]
    answers = {str(method.name): {} for method in results.suite.methods()}
    for run in results.runs:
        path = Path(run["folder"]) / "predictions" / file
        if run["task"] == task and path.is_file():
            read = _read_run(path, classes)
            if read is not None:
                answers[run["method"]][run["seed"]] = read
    return {name: runs for name, runs in answers.items() if runs}


def _read_run(path: Path, classes: list[str]) -> tuple[NDArray[Any], NDArray[np.float64]] | None:
    """Return labels and outputs; None if the file has no labels."""
    columns = [f"probability_{name}" for name in classes] or ["prediction"]
    try:
        table = pd.read_csv(
            path,
            sep="\t",
            dtype={"label": str if classes else float} | dict.fromkeys(columns, float),
            usecols=lambda name: name == "label" or name in columns,
            keep_default_na=False,
            na_values={name: ["nan"] for name in columns},
            quoting=3,
        )
    except (OSError, ValueError) as error:
        raise SuiteError(
            f"{path}: must have one row per prediction: {str(error).splitlines()[0]:.100}"
        ) from error
    if "label" not in table:
        return None
    missing = [name for name in columns if name not in table]
    if missing:
        raise SuiteError(f"{path}: must have a column {missing[0]!r:.160}")
    outputs = table[columns].to_numpy(dtype=float)
    if not classes:
        return table["label"].to_numpy(), outputs[:, 0]
    labels = pd.Index(classes).get_indexer(pd.Index(table["label"]))
    if (labels < 0).any():
        raise SuiteError(f"{path}: must have labels {', '.join(classes):.160}")
    return labels.astype(np.intp), outputs


def row_tables(sets: Sequence[PredictedRows]) -> dict[str, pd.DataFrame]:
    """Return the table of standard errors and the table of tests by rows, without empty ones.

    Holm's method adjusts the p of the tests over all pairs and tasks together.
    """
    tables = {
        "variance": pd.DataFrame([row for own in sets for row in _errors(own)], columns=_ERRORS),
        "rows-pvalues": pd.DataFrame([row for own in sets for row in _pairs(own)], columns=_PAIRS),
    }
    tests = tables["rows-pvalues"]
    tests["pvalue"] = holm(tests["pvalue"].to_numpy(dtype=float))
    return {name: table for name, table in tables.items() if len(table)}


def _errors(own: PredictedRows) -> Iterator[tuple[object, ...]]:
    """Yield the standard errors of each method."""
    metrics = [
        name
        for name in counted(own.task.metrics_of(own.name))
        if METRICS[name].function is not None
    ]
    for method, (labels, predictions) in _by_method(own).items():
        if metrics:
            found = score_errors(predictions, labels, metrics, draws=DRAWS)
            yield (
                *(own.name, method, found.score, found.num_rows, found.num_seeds),
                *(found.seeds_sd, found.seeds, found.rows, found.both),
            )


def _pairs(own: PredictedRows) -> list[tuple[object, ...]]:
    """Return the tests of all pairs of methods of a task with classes, with unadjusted p."""
    methods = _by_method(own) if own.classes else {}
    pairs = [
        (a, b, mcnemar(methods[a][1], methods[b][1], methods[a][0]))
        for a, b in itertools.combinations(methods, 2)
        if np.array_equal(methods[a][0], methods[b][0])
    ]
    return [
        (own.name, a, b, test.difference, test.pvalue, test.discordant, test.num_rows)
        for a, b, test in pairs
    ]


def _by_method(own: PredictedRows) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """Return labels (rows,) and predictions (seeds, rows) of each method.

    A method whose runs have different evaluation rows is left out.
    """
    found = {}
    for method, runs in own.runs.items():
        labels = next(iter(runs.values()))[0]
        same = all(np.array_equal(given, labels) for given, _ in runs.values())
        if same and len(labels) > 1:
            predictions = np.array([own.predictions(outputs) for _, outputs in runs.values()])
            found[method] = own.words(labels), predictions
    return found
