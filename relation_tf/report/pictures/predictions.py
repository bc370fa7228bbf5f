"""ROC curves and confusion matrices.

All probabilities are finite: a run with others has failed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from relation_tf.report.pictures.drawing import GRID, Panel, Picture, Style, draw_heat_map

# Method -> seed -> labels (rows,) and probabilities (rows, classes).
Predictions: TypeAlias = Mapping[str, Mapping[int, tuple[ArrayLike, ArrayLike]]]
FloatArray: TypeAlias = NDArray[np.float64]

CURVE_SIZE = (3.5, 3.55)  # of a panel of curves, in inches

# False-positive rates where curves are averaged, denser where curves are steep.
_RATES: FloatArray = np.linspace(0, 1, 61) ** 2

MOST_CLASSES = 50  # a confusion matrix with more classes is not drawn
_NUMBERED, _NAMED = 8, 12  # most classes for numbers in cells, and for names of classes
_CELLS = ((4, 0.45), (8, 0.36), (12, 0.24))  # most classes, and side of a cell in inches
_OPACITY = 0.2, 0.75  # of the smallest and largest share: black and white text stays readable


class Run(NamedTuple):
    """Labels and probabilities of a method's seed."""

    method: str
    seed: int
    labels: NDArray[np.intp]
    probabilities: FloatArray


class _Roc(NamedTuple):
    curve: FloatArray  # true-positive rates at `_RATES`
    area: float


@dataclass(frozen=True)
class Answers:
    """Predictions of runs on the scored rows of a task.

    Attributes:
        task: Name of the task.
        classes: Names of the classes.
        predictions: Method -> seed -> labels (rows,) and probabilities (rows, classes).

    Raises:
        ValueError: If labels and probabilities do not match each other or the classes.

    Example:
        >>> probabilities = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]
        >>> answers = Answers("CoLA", ["no", "yes"], {"mlp": {1: ([0, 0, 1, 1], probabilities)}})
        >>> auc_table(answers)[["macro", "micro"]].to_numpy().tolist()
        [[0.75, 0.8125]]
        >>> confusion_table(answers)["share"].tolist()
        [1.0, 0.0, 0.5, 0.5]
    """

    task: str
    classes: Sequence[str]
    predictions: Predictions

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise ValueError(f"`classes` must be at least two. Received: {list(self.classes)}")
        _ = self.runs

    @cached_property
    def runs(self) -> list[Run]:
        """All runs."""
        number = len(self.classes)
        runs = []
        for method, by_seed in self.predictions.items():
            for seed, (given, chances) in by_seed.items():
                labels, probabilities = np.asarray(given), np.asarray(chances, dtype=np.float64)
                rows = labels.size
                if not rows or (labels.shape, probabilities.shape) != ((rows,), (rows, number)):
                    raise ValueError(
                        f"predictions of {method}, seed {seed}, must be labels (rows,) and "
                        f"probabilities (rows, {number}), at least one row. "
                        f"Received: shapes {labels.shape} and {probabilities.shape}"
                    )
                wrong = labels[~np.isin(labels, range(number))]
                if wrong.size:
                    raise ValueError(
                        f"labels of {method}, seed {seed}, must be integers from 0 to "
                        f"{number - 1}. Received: {wrong[0]}"
                    )
                runs.append(Run(method, seed, labels.astype(np.intp), probabilities))
        return runs

    @cached_property
    def by_method(self) -> dict[str, list[Run]]:
        """Runs of each method."""
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            found.setdefault(run.method, []).append(run)
        return found

    @property
    def remarks(self) -> str:
        """Remark for the alternative text: classes without rows."""
        absent = self.without_rows(*self.runs)
        return f"; no rows of {', '.join(absent)}" if absent else ""

    def without_rows(self, *runs: Run) -> list[str]:
        """Return the classes without rows in these runs."""
        there = set(np.concatenate([run.labels for run in runs]).tolist())
        return [name for place, name in enumerate(self.classes) if place not in there]


def auc_table(answers: Answers) -> pd.DataFrame:
    """Return the area under the ROC curve of each run.

    Returns:
        A table with columns `method`, `seed`, `macro` (mean over the classes with rows, each
        against the rest; for two classes the area of the second), `micro` (all pairs of row and
        class pooled) and `without_rows` (classes without rows).
    """
    rows = [
        (*run[:2], _macro(run).area, _micro(run).area, "; ".join(answers.without_rows(run)))
        for run in answers.runs
    ]
    return pd.DataFrame(rows, columns=["method", "seed", "macro", "micro", "without_rows"])


def roc_curves(answers: Answers, look: Mapping[str, Style]) -> Picture | None:
    """Return a figure of ROC curves by method, as mean over seeds; the legend has the areas.

    For two classes there is one panel, for the second class. For more classes there are two, with
    macro and micro averages as in `auc_table`. True-positive rates of seeds are averaged at fixed
    false-positive rates.

    Args:
        answers: The predictions.
        look: Style of each method.

    Returns:
        The picture, or None if no run has finite probabilities.

    Example:
        >>> from relation_tf.report.pictures.drawing import styles
        >>> probabilities = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]
        >>> answers = Answers("CoLA", ["no", "yes"], {"mlp": {1: ([0, 0, 1, 1], probabilities)}})
        >>> roc_curves(answers, styles(["mlp"])).panels[0].alt
        'CoLA, class yes, ROC curve as the mean over seeds; area under it: mlp 0.750.'

    References:
        T. Fawcett (2006), An introduction to ROC analysis, Pattern Recognition Letters 27, 861-874.
    """
    if not answers.by_method:
        return None
    averages = {"macro average": _macro, "micro average": _micro}
    if len(answers.classes) == 2:
        averages = {f"class {answers.classes[1]}": _macro}
    panels = []
    legend = {name: f"{name}, AUC" for name in answers.by_method}
    for average, roc in averages.items():
        found = {name: [roc(run) for run in own] for name, own in answers.by_method.items()}
        curves = {name: np.mean([one.curve for one in own], axis=0) for name, own in found.items()}
        areas = {name: mean_of([one.area for one in own]) for name, own in found.items()}
        values = ", ".join(f"{name} {area}" for name, area in areas.items())
        title = f"{answers.task}, {average}"
        alt = (
            f"{title}, ROC curve as the mean over seeds; area under it: {values}{answers.remarks}."
        )
        panels.append(Panel(title, alt, partial(_draw_roc, curves, look), task=answers.task))
        which = f" {average.split()[0]}" if len(averages) > 1 else ""
        legend = {name: f"{words}{which} {areas[name]}," for name, words in legend.items()}
    return Picture(
        f"roc-{answers.task}",
        f"{answers.task}, ROC curves by method.",
        panels,
        size=CURVE_SIZE,
        legend={words.rstrip(","): look[name] for name, words in legend.items()},
    )


def _macro(run: Run) -> _Roc:
    number = run.probabilities.shape[1]
    # For two classes, both have the same area: the curves mirror each other.
    truths = {place: run.labels == place for place in (range(number) if number > 2 else [1])}
    found = [
        _roc(truth, run.probabilities[:, place])
        for place, truth in truths.items()
        if truth.any() and not truth.all()
    ]
    if not found:
        return _UNDEFINED
    curves, areas = zip(*found, strict=True)
    return _Roc(np.mean(curves, axis=0), float(np.mean(areas)))


def _micro(run: Run) -> _Roc:
    truth = run.labels[:, None] == np.arange(run.probabilities.shape[1])
    return _roc(truth.ravel(), run.probabilities.ravel())


def _roc(truth: NDArray[np.bool_], scores: FloatArray) -> _Roc:
    from sklearn.metrics import auc, roc_curve

    false, true, _ = roc_curve(truth, scores)
    return _Roc(np.interp(_RATES, false, true), float(auc(false, true)))


_UNDEFINED = _Roc(np.full_like(_RATES, math.nan), math.nan)


def _draw_roc(curves: Mapping[str, FloatArray], look: Mapping[str, Style], ax: Axes) -> None:
    ax.plot([0, 1], [0, 1], color=GRID)
    for i, (name, curve) in enumerate(curves.items()):
        style = look[name]
        # Shift the markers so that methods do not cover each other.
        ax.plot([0, *_RATES], [0, *curve], **style.line, marker=style.marker,
                markevery=(5 + 2 * i % 15, 15), markersize=4.5, clip_on=False)  # fmt: skip
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="false-positive rate", ylabel="true-positive rate")
    ax.grid()


def confusion_table(answers: Answers) -> pd.DataFrame:
    """Return the confusion matrix of each method, as shares of the rows of a class.

    Returns:
        A table with columns `method`, `true`, `predicted` and `share` (mean over runs with finite
        probabilities; NaN for a class without rows).
    """
    rows = [
        (name, true, predicted, share)
        for name, runs in answers.by_method.items()
        for true, shares in zip(answers.classes, _confusion(runs), strict=True)
        for predicted, share in zip(answers.classes, shares, strict=True)
    ]
    return pd.DataFrame(rows, columns=["method", "true", "predicted", "share"])


def confusion_matrices(answers: Answers) -> Picture | None:
    """Return a figure with the confusion matrix of each method.

    Rows are true classes and columns predicted classes, in the order of `classes`. Cells are
    shaded by the share of their row, in steps of 10 percent. With up to 8 classes, cells show
    percentages; with up to 12, classes are named.

    Returns:
        The picture, or None for more than `MOST_CLASSES` classes or without finite probabilities.

    Example:
        >>> probabilities = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]
        >>> answers = Answers("CoLA", ["no", "yes"], {"mlp": {1: ([0, 0, 1, 1], probabilities)}})
        >>> print(confusion_matrices(answers).panels[0].alt)  # doctest: +NORMALIZE_WHITESPACE
        CoLA, mlp, recall in percent: no 100, yes 50; most frequent errors: yes as no 50.
    """
    task, classes = answers.task, answers.classes
    shares = {name: _confusion(own) for name, own in answers.by_method.items()}
    if not shares or len(classes) > MOST_CLASSES:
        return None
    named = [name if len(name) <= 16 else f"{name[:15]}…" for name in classes]
    named = named if len(classes) <= _NAMED else []
    cell = next((inches for most, inches in _CELLS if len(classes) <= most), 2.6 / len(classes))
    side = cell * len(classes)
    names = 0.065 * max(map(len, named), default=0)
    upright = names > cell - 0.06
    left, bottom = 0.4 + names, 0.4 + (names if upright else 0.08 * bool(named))
    return Picture(
        f"confusion-{task}",
        f"{task}, confusion matrices by method.",
        [
            Panel(
                name,
                f"{task}, {name}, {_confusion_words(own, classes)}{answers.remarks}.",
                partial(_draw_confusion, own, named, cell, upright),
                task=task,
            )
            for name, own in shares.items()
        ],
        # A method's name may be wider than its matrix.
        size=(left + max(side, 0.095 * max(map(len, shares))) + 0.1, 0.3 + side + bottom),
        left=left,
        bottom=bottom,
    )


def _confusion(runs: Sequence[Run]) -> FloatArray:
    """Return the shares of predicted classes for each true class (row), as mean over seeds."""
    from sklearn.metrics import confusion_matrix

    found = []
    for run in runs:
        classes = np.arange(run.probabilities.shape[1])
        predicted = run.probabilities.argmax(axis=1)
        counts = confusion_matrix(run.labels, predicted, labels=classes)
        with np.errstate(invalid="ignore"):
            found.append(counts / counts.sum(axis=1, keepdims=True))
    mean: FloatArray = np.ma.masked_invalid(found).mean(axis=0).filled(np.nan)
    return mean


def _confusion_words(shares: FloatArray, classes: Sequence[str]) -> str:
    found = np.diag(shares)
    places = np.flatnonzero(np.isfinite(found)).tolist()
    which = ""
    if len(classes) > _NAMED:
        ordered = sorted(places, key=lambda place: found[place])
        places = [ordered[0], ordered[-1]]
        which = ", worst and best class"
    values = ", ".join(f"{classes[place]} {100 * found[place]:.0f}" for place in places)
    wrong = np.where(np.eye(len(classes), dtype=bool), 0, np.nan_to_num(shares))
    most = np.argsort(-wrong, axis=None, kind="stable")[:3]
    mistaken = ", ".join(
        f"{classes[true]} as {classes[taken]} {100 * wrong[true, taken]:.0f}"
        for true, taken in np.column_stack(np.unravel_index(most, wrong.shape)).tolist()
        if wrong[true, taken] > 0
    )
    return f"recall in percent{which}: {values}; most frequent errors: {mistaken or 'none'}"


def _draw_confusion(
    shares: FloatArray, named: Sequence[str], cell: float, upright: bool, ax: Axes
) -> None:
    draw_heat_map(ax, shares, named, named, cell, upright, _OPACITY)
    ax.set(xlabel="predicted", ylabel="true")
    if len(shares) <= _NUMBERED:
        for (row, column), share in np.ndenumerate(shares):
            if np.isfinite(share):
                ax.text(column + 0.5, row + 0.5, f"{100 * share:.0f}", fontsize=8, ha="center",
                        va="center")  # fmt: skip


def mean_of(values: Sequence[float]) -> str:
    """Format mean and standard deviation of values."""
    if not np.isfinite(values).all():
        return "undefined"
    spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{spread}"
