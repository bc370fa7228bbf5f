"""Predictions of finished runs on scored rows, and what they say about seeds and rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from relation_tf.errors import SuiteError
from relation_tf.registry import METRICS, register_section
from relation_tf.report.blocks import Block, Column, Row, Section, Table, blocks
from relation_tf.report.drawing import GRID, Panel, Picture, Style
from relation_tf.stats import mcnemar, score_errors
from relation_tf.stats.pair_tests import holm
from relation_tf.tasks.metrics import averaged
from relation_tf.words import number, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from relation_tf.bench.results import Results
    from relation_tf.report.data import Comparison, ReportData

FloatArray: TypeAlias = NDArray[np.float64]
Run: TypeAlias = tuple[NDArray[Any], FloatArray]
"""True labels and outputs of a run."""
Runs: TypeAlias = Mapping[str, Mapping[int, Run]]
"""Method -> seed -> run."""
DRAWS = 400  # the Monte Carlo error of a standard error is 4 %
_ERRORS = ["task", "method", "score", "rows", "seeds", "sd_seeds", "se_seeds", "se_rows", "se_both"]
_PAIRS = ["task", "a", "b", "difference", "pvalue", "discordant", "rows"]
MOST_PREDICTIONS = 500_000  # of a task; reading and drawing this many takes a few seconds


@dataclass(frozen=True)
class PredictedRows:
    """Labels and predictions of all runs on a scored set.

    Attributes:
        name: Name of the scored set.
        classes: Names of the classes; empty for a regression.
        runs: Method -> seed -> true labels (rows,) and outputs. Of classes: class numbers, and
            probabilities (rows, classes). Of a regression: numbers, and predicted numbers (rows,).
        metrics: The metrics in the score.

    Example:
        >>> probabilities = np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]])
        >>> runs = {"mlp": {1: (np.array([0, 0, 1, 1]), probabilities)}}
        >>> rows = PredictedRows("CoLA", ["no", "yes"], runs)
        >>> auc_table(rows)[["macro", "micro"]].to_numpy().tolist()
        [[0.75, 0.8125]]
    """

    name: str
    classes: Sequence[str]
    runs: Runs
    metrics: Sequence[str] = ()

    def only(self, methods: Collection[str]) -> PredictedRows:
        """Return the predictions of some methods."""
        runs = {name: runs for name, runs in self.runs.items() if name in methods}
        return replace(self, runs=runs)

    def words(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return labels as words, or the numbers of a regression."""
        return np.array(self.classes)[numbers] if self.classes else numbers

    def predictions(self, outputs: FloatArray) -> NDArray[Any]:
        """Return the predicted words, or the numbers of a regression."""
        return self.words(outputs.argmax(axis=1)) if self.classes else outputs

    def without_rows(self, labels: NDArray[Any]) -> list[str]:
        """Return the classes without rows."""
        known = {*labels.tolist()}
        return [name for place, name in enumerate(self.classes) if place not in known]

    @property
    def remarks(self) -> str:
        """Remark for alternative texts: classes without rows in any run."""
        labels = [labels for runs in self.runs.values() for labels, _ in runs.values()]
        absent = self.without_rows(np.concatenate(labels))
        return f"; no rows of {', '.join(absent)}" if absent else ""

    @cached_property
    def rocs(self) -> dict[str, dict[str, list[_Roc]]]:
        """ROC curves of the runs of each method, as "macro" and as "micro" average."""
        return {
            name: {method: [*map(roc, runs.values())] for method, runs in self.runs.items()}
            for name, roc in (("macro", _macro), ("micro", _micro))
        }


class ReadRows(NamedTuple):
    """Predictions of a suite's runs.

    Attributes:
        sets: The predictions on each scored set with labels.
        too_many: Numbers of predictions of the sets that are not read because they have more than
            500,000.
    """

    sets: Sequence[PredictedRows]
    too_many: Mapping[str, int]

    @property
    def classified(self) -> list[PredictedRows]:
        """The sets with classes."""
        return [rows for rows in self.sets if rows.classes]


def read_rows(results: Results) -> ReadRows:
    """Read the predictions of the finished runs, with true labels.

    Raises:
        SuiteError: If a file of predictions is invalid.
    """
    from relation_tf.bench.run_folder import prediction_file

    sets: list[PredictedRows] = []
    too_many: dict[str, int] = {}
    for task in results.suite.tasks:
        group = results.suite.find_task(task)
        for name, split in results.scored(group).items():
            member = group.of(name)
            if member.generated or not member.label:  # unknown: its plugin is not imported
                continue
            manifests = (run["manifest"] for run in results.runs if run["task"] == task)
            count = sum(int(manifest["data"]["rows"].get(split, 0)) for manifest in manifests)
            if count > MOST_PREDICTIONS:
                too_many[name] = count
                continue
            classes = [str(label) for label in member.labels or ()]
            runs = _read(results, task, prediction_file(name, split), classes)
            if runs:
                metrics = averaged(member.metrics_of(name))
                sets.append(PredictedRows(name, classes, runs, metrics))
    return ReadRows(sets, too_many)


def _read(results: Results, task: str, file: str, classes: list[str]) -> Runs:
    by_method: dict[str, dict[int, Run]] = {str(x.name): {} for x in results.suite.methods()}
    for run in results.runs:
        path = Path(run["folder"]) / "predictions" / file
        if run["task"] == task and path.is_file():
            by_method[run["method"]][run["seed"]] = _read_run(path, classes)
    return {name: runs for name, runs in by_method.items() if runs}


def _read_run(path: Path, classes: list[str]) -> Run:
    """Return labels and outputs."""
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
    missing = [name for name in ("label", *columns) if name not in table]
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
        "variance": pd.DataFrame([errors for x in sets for errors in _errors(x)], columns=_ERRORS),
        "rows-pvalues": pd.DataFrame([test for x in sets for test in _pairs(x)], columns=_PAIRS),
    }
    tests = tables["rows-pvalues"]
    tests["pvalue"] = holm(tests["pvalue"].to_numpy(dtype=float))
    return {name: table for name, table in tables.items() if len(table)}


def _errors(rows: PredictedRows) -> Iterator[tuple[object, ...]]:
    """Yield the standard errors of each method."""
    metrics = [name for name in rows.metrics if METRICS[name].function is not None]
    for method, (labels, predictions) in _by_method(rows).items():
        if metrics:
            errors = score_errors(predictions, labels, metrics, draws=DRAWS)
            yield (
                *(rows.name, method, errors.score, errors.num_rows, errors.num_seeds),
                *(errors.seeds_sd, errors.seeds, errors.rows, errors.both),
            )


def _pairs(rows: PredictedRows) -> Iterator[tuple[object, ...]]:
    """Yield the tests of all pairs of methods of a task with classes, with unadjusted p."""
    methods = _by_method(rows) if rows.classes else {}
    for a, b in itertools.combinations(methods, 2):
        (labels, first), (other_labels, second) = methods[a], methods[b]
        if np.array_equal(labels, other_labels):
            test = mcnemar(first, second, labels)
            yield rows.name, a, b, test.difference, test.pvalue, test.discordant, test.num_rows


def _by_method(rows: PredictedRows) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """Return labels (rows,) and predictions (seeds, rows) of each method.

    A method whose runs have different evaluation rows is left out.
    """
    by_method = {}
    for method, runs in rows.runs.items():
        labels = next(iter(runs.values()))[0]
        same = all(np.array_equal(other, labels) for other, _ in runs.values())
        if same and len(labels) > 1:
            predictions = np.array([rows.predictions(outputs) for _, outputs in runs.values()])
            by_method[method] = rows.words(labels), predictions
    return by_method


@register_section("predictions")
class RocCurves(Section):
    """ROC curves of each task with classes."""

    heading = "Predictions"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return a figure for each task."""
        pictures = [roc_curves(rows, data.styles) for rows in data.predictions.classified]
        return blocks("predictions.jinja", pictures=pictures)

    def tables(self, data: ReportData) -> Mapping[str, pd.DataFrame]:
        """Return the areas under the curves."""
        areas = [auc_table(rows).assign(task=rows.name) for rows in data.predictions.classified]
        names = ["task", "method", "seed", "macro", "micro", "without_rows"]
        return {"auc": pd.concat(areas, ignore_index=True)[names]} if areas else {}


@register_section("variance")
class Variance(Section):
    """Standard errors of the scores from seeds and from evaluation rows."""

    heading = "Seeds and evaluation rows"
    by_family = True

    def blocks(self, part: Comparison) -> Sequence[Block]:
        """Return a table of the standard errors of each task, and the tasks that it leaves out."""
        tables, left_out = part.rows, part.report.predictions.too_many
        tests = tables.get("rows-pvalues", pd.DataFrame({"pvalue": []}))
        return blocks(
            "variance.jinja",
            part=part,
            table=_table(part, tables["variance"]) if "variance" in tables else None,
            draws=DRAWS,
            tests=len(tests),
            significant=int((tests["pvalue"] < part.scores.alpha).sum()),
            files=[*tables],
            left_out=[f"{name} ({number:,})" for name, number in left_out.items()],
            most=MOST_PREDICTIONS,
        )

    def tables(self, part: Comparison) -> Mapping[str, pd.DataFrame]:
        """Return the standard errors of each method, and tests of pairs of methods by rows."""
        return part.rows


def _table(part: Comparison, errors: pd.DataFrame) -> Table:
    columns = [Column("Task", "head"), Column("Evaluation rows", "number")]
    columns += [Column("SD over seeds", "number")]
    columns += [
        Column(f"Standard error, {name}", "number")
        for name in ("other seeds", "other rows", "both")
    ]
    rows, scores = [], part.scores
    names = ["sd_seeds", "se_seeds", "se_rows", "se_both"]
    for task, of_task in errors.groupby("task", sort=False):
        name = str(task)
        digits = scores.digits(name) + (scores.factor(name) == 100)
        # Root mean squares over methods; NaN for a single seed.
        sizes = scores.factor(name) * (of_task[names] ** 2).mean() ** 0.5
        shown = [number(size, digits) for size in sizes]
        rows.append(Row([name, f"{of_task['rows'].max():,}", *shown]))
    return Table("Table: seeds and evaluation rows", columns, rows)


CURVE_SIZE = (3.5, 3.55)  # of a panel of curves, in inches
# False-positive rates where curves are averaged, denser where curves are steep.
_RATES: FloatArray = np.linspace(0, 1, 61) ** 2


class _Roc(NamedTuple):
    curve: FloatArray  # true-positive rates at `_RATES`
    area: float


def auc_table(rows: PredictedRows) -> pd.DataFrame:
    """Return the area under the ROC curve of each run.

    Returns:
        A table with columns `method`, `seed`, `macro` (mean over the classes with rows, each
        against the rest; for two classes the area of the second), `micro` (all pairs of row and
        class pooled) and `without_rows` (classes without rows).
    """
    areas = []
    for method, runs in rows.runs.items():
        averages = zip(rows.rocs["macro"][method], rows.rocs["micro"][method], strict=True)
        for (seed, (labels, _)), (macro, micro) in zip(runs.items(), averages, strict=True):
            absent = "; ".join(rows.without_rows(labels))
            areas.append((method, seed, macro.area, micro.area, absent))
    return pd.DataFrame(areas, columns=["method", "seed", "macro", "micro", "without_rows"])


def roc_curves(rows: PredictedRows, styles: Mapping[str, Style]) -> Picture:
    """Return a figure of ROC curves by method, as mean over seeds; the legend has the areas.

    For two classes there is one panel, for the second class. For more classes there are two, with
    macro and micro averages as in `auc_table`. True-positive rates of seeds are averaged at fixed
    false-positive rates.

    Args:
        rows: The predictions, with classes.
        styles: Style of each method.

    Example:
        >>> from relation_tf.report.drawing import styles
        >>> probabilities = np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]])
        >>> runs = {"mlp": {1: (np.array([0, 0, 1, 1]), probabilities)}}
        >>> rows = PredictedRows("CoLA", ["no", "yes"], runs)
        >>> roc_curves(rows, styles(["mlp"])).panels[0].alt
        'CoLA, class yes, ROC curve as the mean over seeds; area under it: mlp 0.750.'

    References:
        T. Fawcett (2006), An introduction to ROC analysis, Pattern Recognition Letters 27, 861-874.
    """
    averages = {"macro average": "macro", "micro average": "micro"}
    if len(rows.classes) == 2:
        averages = {f"class {rows.classes[1]}": "macro"}
    panels = []
    legend = {name: f"{name}, AUC" for name in rows.runs}
    for average, kind in averages.items():
        rocs_of = rows.rocs[kind]
        curves = {name: np.mean([x.curve for x in rocs], axis=0) for name, rocs in rocs_of.items()}
        areas = {name: _mean_area([x.area for x in rocs]) for name, rocs in rocs_of.items()}
        values = ", ".join(f"{name} {area}" for name, area in areas.items())
        title = f"{rows.name}, {average}"
        alt = f"{title}, ROC curve as the mean over seeds; area under it: {values}{rows.remarks}."
        panels.append(Panel(title, alt, partial(_draw_roc, curves, styles)))
        which = f" {kind}" if len(averages) > 1 else ""
        legend = {name: f"{words}{which} {areas[name]}," for name, words in legend.items()}
    return Picture(
        f"roc-{rows.name}",
        f"{rows.name}, ROC curves by method.",
        panels,
        size=CURVE_SIZE,
        legend={words.rstrip(","): styles[name] for name, words in legend.items()},
    )


def _mean_area(areas: Sequence[float]) -> str:
    values = pd.Series(areas)
    return "undefined" if values.isna().any() else spread(values.mean(), values.std(), 3)


def _macro(run: Run) -> _Roc:
    labels, probabilities = run
    number = probabilities.shape[1]
    # For two classes, both have the same area: the curves mirror each other.
    truths = {place: labels == place for place in (range(number) if number > 2 else [1])}
    curves = [
        _roc(truth, probabilities[:, place])
        for place, truth in truths.items()
        if truth.any() and not truth.all()
    ]
    if not curves:
        return _UNDEFINED
    rates, areas = zip(*curves, strict=True)
    return _Roc(np.mean(rates, axis=0), float(np.mean(areas)))


def _micro(run: Run) -> _Roc:
    labels, probabilities = run
    truth = labels[:, None] == np.arange(probabilities.shape[1])
    return _roc(truth.ravel(), probabilities.ravel())


def _roc(truth: NDArray[np.bool_], scores: FloatArray) -> _Roc:
    from sklearn.metrics import auc, roc_curve

    false, true, _ = roc_curve(truth, scores)
    return _Roc(np.interp(_RATES, false, true), float(auc(false, true)))


_UNDEFINED = _Roc(np.full_like(_RATES, math.nan), math.nan)


def _draw_roc(curves: Mapping[str, FloatArray], styles: Mapping[str, Style], ax: Axes) -> None:
    ax.plot([0, 1], [0, 1], color=GRID)
    for i, (name, curve) in enumerate(curves.items()):
        style = styles[name]
        # Shift the markers so that methods do not cover each other.
        ax.plot([0, *_RATES], [0, *curve], **style.line, marker=style.marker,
                markevery=(5 + 2 * i % 15, 15), markersize=4.5, clip_on=False)  # fmt: skip
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="false-positive rate", ylabel="true-positive rate")
    ax.grid()
