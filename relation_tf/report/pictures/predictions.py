"""The pictures of predictions: ROC curves and what is taken for what.

All take the labels and the probabilities of one task's scored rows, by method and seed. A run whose
probabilities are not all finite is NaN in the tables, left out of the pictures, and counted in
their words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from relation_tf.report.pictures.drawing import GRID, Panel, Picture, Style

# Method -> seed -> labels (rows,) and probabilities (rows, classes).
Predictions: TypeAlias = Mapping[str, Mapping[int, tuple[ArrayLike, ArrayLike]]]
FloatArray: TypeAlias = NDArray[np.float64]

# False-positive rates at which curves are averaged, denser where they rise.
_RATES: FloatArray = np.linspace(0, 1, 61) ** 2

MOST_CLASSES = 50  # of a confusion matrix that is drawn
_NUMBERED, _NAMED = 8, 12  # classes up to which cells have numbers, and rows and columns names
_CELLS = ((4, 0.45), (8, 0.36), (12, 0.24))  # classes up to which a cell has that side, in inches
_SHADE = "#0072b2"
_FAINT, _DEEP = 0.2, 0.75  # opacity of least and largest share: text is read on it, white or black


class Run(NamedTuple):
    """The labels and probabilities of a method's seed."""

    method: str
    seed: int
    labels: NDArray[np.intp]
    probabilities: FloatArray


class _Roc(NamedTuple):
    curve: FloatArray  # true-positive rates at `_RATES`
    area: float


def auc_table(predictions: Predictions, classes: Sequence[str]) -> pd.DataFrame:
    """The area under the ROC curve of each run.

    Args:
        predictions: Method -> seed -> labels (rows,) and probabilities (rows, classes).
        classes: Names of the classes.

    Returns:
        A table with columns `method`, `seed`, `macro` (the mean over the classes that have rows,
        each against the rest; of two classes the area of the second), `micro` (all pairs of a row
        and a class in one pool) and `without_rows` (the classes that have none).

    Raises:
        ValueError: If labels and probabilities do not fit each other or the classes.

    Example:
        >>> probabilities = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]
        >>> table = auc_table({"mlp": {1: ([0, 0, 1, 1], probabilities)}}, ["no", "yes"])
        >>> table[["macro", "micro"]].to_numpy().tolist()
        [[0.75, 0.8125]]
    """
    rows = [
        (
            run.method,
            run.seed,
            _macro(run).area,
            _micro(run).area,
            "; ".join(_without_rows([run], classes)),
        )
        for run in runs_of(predictions, classes)
    ]
    return pd.DataFrame(rows, columns=["method", "seed", "macro", "micro", "without_rows"])


def roc_curves(
    task: str, predictions: Predictions, classes: Sequence[str], look: Mapping[str, Style]
) -> Picture | None:
    """ROC curves, the mean over the seeds of a method; the legend has the areas under them.

    Of more than two classes there are two panels, the macro and the micro average as `auc_table`
    has them; of two classes there is one, of the second class. The true-positive rates of seeds
    are averaged at fixed false-positive rates.

    Args:
        task: What was predicted.
        predictions: As for `auc_table`.
        classes: Names of the classes.
        look: How each method is drawn.

    Returns:
        The picture, None where no run has finite probabilities.

    Raises:
        ValueError: If labels and probabilities do not fit each other or the classes.

    Example:
        >>> from relation_tf.report.pictures.drawing import styles
        >>> probabilities = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]
        >>> predictions = {"mlp": {1: ([0, 0, 1, 1], probabilities)}}
        >>> picture = roc_curves("CoLA", predictions, ["no", "yes"], styles(["mlp"]))
        >>> picture.panels[0].alt
        'CoLA, class yes, ROC curve as the mean over seeds; area under it: mlp 0.750.'

    References:
        T. Fawcett (2006), An introduction to ROC analysis, Pattern Recognition Letters 27, 861-874.
    """
    runs = runs_of(predictions, classes)
    own_runs = by_method(runs)
    if not own_runs:
        return None
    averages = {"macro average": _macro, "micro average": _micro}
    if len(classes) == 2:
        averages = {f"class {classes[1]}": _macro}
    panels = []
    legend = {name: f"{name}, AUC" for name in own_runs}
    for average, roc in averages.items():
        found = {name: [roc(run) for run in own] for name, own in own_runs.items()}
        curves = {name: np.mean([one.curve for one in own], axis=0) for name, own in found.items()}
        areas = {name: mean_of([one.area for one in own]) for name, own in found.items()}
        values = ", ".join(f"{name} {area}" for name, area in areas.items())
        alt = (
            f"{task}, {average}, ROC curve as the mean over seeds; area under it: {values}"
            f"{remarks(runs, classes)}."
        )
        panels.append(Panel(f"{task}, {average}", alt, partial(_draw_roc, curves, look)))
        which = f" {average.split()[0]}" if len(averages) > 1 else ""
        legend = {name: f"{words}{which} {areas[name]}," for name, words in legend.items()}
    return Picture(
        f"roc-{task}",
        f"{task}, ROC curves by method.",
        panels,
        size=(3.5, 3.55),
        legend={words.rstrip(","): look[name] for name, words in legend.items()},
    )


def _macro(run: Run) -> _Roc:
    number = run.probabilities.shape[1]
    # Of two classes the one's curve is the other's, turned round.
    truths = {place: run.labels == place for place in (range(number) if number > 2 else [1])}
    found = [
        _roc(truth, run.probabilities[:, place])
        for place, truth in truths.items()
        if truth.any() and not truth.all()
    ]
    if not found:
        return _roc(np.array([], dtype=bool), np.array([math.nan]))
    return _Roc(
        np.mean([roc.curve for roc in found], axis=0), float(np.mean([roc.area for roc in found]))
    )


def _micro(run: Run) -> _Roc:
    truth = run.labels[:, None] == np.arange(run.probabilities.shape[1])
    return _roc(truth.ravel(), run.probabilities.ravel())


def _roc(truth: NDArray[np.bool_], scores: FloatArray) -> _Roc:
    from sklearn.metrics import auc, roc_curve

    if not np.isfinite(scores).all():
        return _Roc(np.full_like(_RATES, math.nan), math.nan)
    false, true, _ = roc_curve(truth, scores)
    return _Roc(np.interp(_RATES, false, true), float(auc(false, true)))


def _draw_roc(curves: Mapping[str, FloatArray], look: Mapping[str, Style], ax: Axes) -> None:
    ax.plot([0, 1], [0, 1], color=GRID)
    for i, (name, curve) in enumerate(curves.items()):
        style = look[name]
        # The marks of one method stand where those of the next do not.
        ax.plot([0, *_RATES], [0, *curve], **style.line, marker=style.marker,
                markevery=(5 + 2 * i % 15, 15), markersize=4.5, clip_on=False)  # fmt: skip
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="false-positive rate", ylabel="true-positive rate")
    ax.grid()


def confusion_table(predictions: Predictions, classes: Sequence[str]) -> pd.DataFrame:
    """What share of the rows of a class is taken for each class, by method.

    Args:
        predictions: As for `auc_table`.
        classes: Names of the classes.

    Returns:
        A table with columns `method`, `true`, `predicted` and `share`, the mean over the runs whose
        probabilities are finite; NaN for a class that has no rows.

    Raises:
        ValueError: If labels and probabilities do not fit each other or the classes.

    Example:
        >>> probabilities = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]
        >>> table = confusion_table({"mlp": {1: ([0, 0, 1, 1], probabilities)}}, ["no", "yes"])
        >>> table["share"].tolist()
        [1.0, 0.0, 0.5, 0.5]
    """
    own_runs = by_method(runs_of(predictions, classes))
    rows = [
        (name, true, predicted, share)
        for name, runs in own_runs.items()
        for true, shares in zip(classes, _confusion(runs), strict=True)
        for predicted, share in zip(classes, shares, strict=True)
    ]
    return pd.DataFrame(rows, columns=["method", "true", "predicted", "share"])


def confusion_matrices(
    task: str, predictions: Predictions, classes: Sequence[str]
) -> Picture | None:
    """What share of the rows of each class is taken for each class, a panel a method.

    Rows are true classes, columns predicted ones, in the order of `classes`; the deeper a cell, the
    larger its share, from 1 percent in steps of 10. Up to 8 classes cells have their shares in
    percent, up to 12 the classes have their names.

    Args:
        task: What was predicted.
        predictions: As for `auc_table`.
        classes: Names of the classes.

    Returns:
        The picture, None for more than `MOST_CLASSES` classes, or where no run has finite
        probabilities.

    Raises:
        ValueError: If labels and probabilities do not fit each other or the classes.

    Example:
        >>> probabilities = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]
        >>> predictions = {"mlp": {1: ([0, 0, 1, 1], probabilities)}}
        >>> picture = confusion_matrices("CoLA", predictions, ["no", "yes"])
        >>> print(picture.panels[0].alt)  # doctest: +NORMALIZE_WHITESPACE
        CoLA, mlp, percent of the rows of a class that are found: no 100, yes 50; most often
        mistaken: yes for no 50.
    """
    runs = runs_of(predictions, classes)
    shares = {name: _confusion(own) for name, own in by_method(runs).items()}
    if not shares or len(classes) > MOST_CLASSES:
        return None
    named = [name if len(name) <= 16 else f"{name[:15]}…" for name in classes]
    named = named if len(classes) <= _NAMED else []
    cell = next((inches for most, inches in _CELLS if len(classes) <= most), 2.6 / len(classes))
    side = cell * len(classes)
    names = 0.065 * max(map(len, named), default=0)
    upright = names > cell - 0.06
    left, bottom = 0.4 + names, 0.4 + (names if upright else 0.08 * bool(named))
    told = remarks(runs, classes)
    return Picture(
        f"confusion-{task}",
        f"{task}, what share of each class is taken for which, by method.",
        [
            Panel(
                name,
                f"{task}, {name}, {_confusion_words(own, classes)}{told}.",
                partial(_draw_confusion, own, named, cell, upright),
            )
            for name, own in shares.items()
        ],
        # A method's name may be wider than its matrix.
        size=(left + max(side, 0.095 * max(map(len, shares))) + 0.1, 0.3 + side + bottom),
        left=left,
        bottom=bottom,
    )


def _confusion(runs: Sequence[Run]) -> FloatArray:
    """Shares of each true class (row) that are taken for each class, the mean over seeds."""
    found = []
    for run in runs:
        number = run.probabilities.shape[1]
        cells = number * run.labels + run.probabilities.argmax(axis=1)
        counts = np.bincount(cells, minlength=number**2).reshape(number, number)
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
        which = ", the worst and the best"
    values = ", ".join(f"{classes[place]} {100 * found[place]:.0f}" for place in places)
    wrong = np.where(np.eye(len(classes), dtype=bool), 0, np.nan_to_num(shares))
    most = np.argsort(-wrong, axis=None, kind="stable")[:3]
    mistaken = ", ".join(
        f"{classes[true]} for {classes[taken]} {100 * wrong[true, taken]:.0f}"
        for true, taken in np.column_stack(np.unravel_index(most, wrong.shape)).tolist()
        if wrong[true, taken] > 0
    )
    return (
        f"percent of the rows of a class that are found{which}: {values}; "
        f"most often mistaken: {mistaken or 'none'}"
    )


def _draw_confusion(
    shares: FloatArray, named: Sequence[str], cell: float, upright: bool, ax: Axes
) -> None:
    number = len(shares)
    known = np.nan_to_num(shares)
    tenths = np.where(known < 0.01, 0, np.ceil(10 * known))
    ax.set(xlim=(0, number), ylim=(number, 0), xlabel="predicted", ylabel="true")
    ax.set_aspect("equal", anchor="NW")
    ax.spines[:].set_visible(True)
    for tenth in np.unique(tenths[tenths > 0]):
        # Thick strokes of one path, neighbours joined, take far less room than a shape a cell.
        edges = np.diff(np.pad(tenths == tenth, ((0, 0), (1, 1))).astype(int))
        (rows, starts), (_, stops) = np.nonzero(edges == 1), np.nonzero(edges == -1)
        ends = np.column_stack((starts, stops, np.full(len(rows), np.nan)))
        opacity = _FAINT + (_DEEP - _FAINT) * (tenth - 1) / 9
        ax.plot(ends.ravel(), np.repeat(rows + 0.5, 3), color=_SHADE, alpha=opacity,
                linewidth=72 * cell, solid_capstyle="butt")  # fmt: skip
    places = np.arange(len(named)) + 0.5
    ax.set_xticks(places, named, fontsize=8, rotation=90 if upright else 0)
    ax.set_yticks(places, named, fontsize=8)
    ax.tick_params(length=0)
    if number <= _NUMBERED:
        for (row, column), share in np.ndenumerate(shares):
            if np.isfinite(share):
                ax.text(column + 0.5, row + 0.5, f"{100 * share:.0f}", fontsize=8, ha="center",
                        va="center")  # fmt: skip


def runs_of(predictions: Predictions, classes: Sequence[str]) -> list[Run]:
    """Return all runs.

    Raises:
        ValueError: If shapes or labels do not fit the classes.
    """
    if len(classes) < 2:
        raise ValueError(f"`classes` must be at least two. Received: {list(classes)}")
    runs = []
    for method, by_seed in predictions.items():
        for seed, (given, chances) in by_seed.items():
            labels, probabilities = np.asarray(given), np.asarray(chances, dtype=np.float64)
            rows = labels.size
            shapes = ((rows,), (rows, len(classes)))
            if not rows or (labels.shape, probabilities.shape) != shapes:
                raise ValueError(
                    f"predictions of {method}, seed {seed}, must be labels (rows,) and "
                    f"probabilities (rows, {len(classes)}), one row or more. "
                    f"Received: shapes {labels.shape} and {probabilities.shape}"
                )
            wrong = labels[~np.isin(labels, range(len(classes)))]
            if wrong.size:
                raise ValueError(
                    f"labels of {method}, seed {seed}, must be integers from 0 to "
                    f"{len(classes) - 1}. Received: {wrong[0]}"
                )
            runs.append(Run(method, seed, labels.astype(np.intp), probabilities))
    return runs


def by_method(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs whose probabilities are finite, by method."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if np.isfinite(run.probabilities).all():
            found.setdefault(run.method, []).append(run)
    return found


def _without_rows(runs: Sequence[Run], classes: Sequence[str]) -> list[str]:
    there = set(np.concatenate([run.labels for run in runs]).tolist())
    return [name for place, name in enumerate(classes) if place not in there]


def remarks(runs: Sequence[Run], classes: Sequence[str]) -> str:
    """Return what a reader has to know next to the numbers."""
    found = []
    if absent := _without_rows(runs, classes):
        found.append(f"no rows of {', '.join(absent)}")
    if left_out := len(runs) - sum(map(len, by_method(runs).values())):
        found.append(f"{left_out} of {len(runs)} runs left out, whose outputs are not finite")
    return "".join(f"; {remark}" for remark in found)


def mean_of(values: Sequence[float]) -> str:
    """Format the mean and standard deviation of some values."""
    if not np.isfinite(values).all():
        return "undefined"
    spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{spread}"
