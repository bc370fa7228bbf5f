"""Calibration of predictions: tables and a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from relation_tf.report.pictures.drawing import INK, Panel, Picture, Style
from relation_tf.report.pictures.predictions import CURVE_SIZE, Answers, Run, mean_of

_BINS = 10  # of confidence
_FEW = 10  # rows per seed in a bin; with fewer, accuracy is unreliable


def calibration_table(answers: Answers) -> pd.DataFrame:
    """Return the expected calibration error (ECE) of each run.

    The confidence of a prediction is its highest probability. ECE is the mean of |confidence -
    accuracy| over ten bins of equal width, weighted by their number of rows.

    Returns:
        A table with columns `method`, `seed` and `ece`.

    References:
        C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger (2017), On calibration of modern neural
        networks, ICML.
    """
    rows = [(run.method, run.seed, _error(run)) for run in answers.runs]
    return pd.DataFrame(rows, columns=["method", "seed", "ece"])


def calibration(answers: Answers, look: Mapping[str, Style]) -> Picture | None:
    """Return a figure of accuracy against confidence by method, as mean over seeds.

    The diagonal is perfect calibration; below it a method is overconfident. The legend has the
    calibration errors. Bins with fewer than ten rows per seed have a small mark and no line.

    Args:
        answers: The predictions.
        look: Style of each method.

    Returns:
        The picture, or None if no run has finite probabilities.

    Example:
        >>> from relation_tf.report.pictures.drawing import styles
        >>> probabilities = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]
        >>> answers = Answers("CoLA", ["no", "yes"], {"mlp": {1: ([0, 0, 1, 1], probabilities)}})
        >>> picture = calibration(answers, styles(["mlp"]))
        >>> print(picture.panels[0].alt)  # doctest: +NORMALIZE_WHITESPACE
        CoLA, accuracy against confidence in ten bins, mean over seeds; expected calibration error:
        mlp 0.350.
    """
    task, runs = answers.task, answers.by_method
    if not runs:
        return None
    errors = {name: mean_of([_error(run) for run in own]) for name, own in runs.items()}
    values = ", ".join(f"{name} {error}" for name, error in errors.items())
    alt = (
        f"{task}, accuracy against confidence in ten bins, mean over seeds; "
        f"expected calibration error: {values}{answers.remarks}."
    )
    curves = {}
    for name, own in runs.items():
        bins = pd.concat([_bins(run) for run in own]).groupby("above")
        curves[name] = bins[["confidence", "accuracy"]].mean()
        curves[name]["enough"] = bins["rows"].sum() >= _FEW * len(own)
    lowest = math.floor(_BINS / len(answers.classes)) / _BINS
    return Picture(
        f"calibration-{task}",
        f"{task}, accuracy against confidence, by method.",
        [Panel(task, alt, partial(_draw_calibration, curves, lowest, look), task=task)],
        size=CURVE_SIZE,
        legend={f"{name}, ECE {error}": look[name] for name, error in errors.items()},
    )


def _bins(run: Run) -> pd.DataFrame:
    confidence = run.probabilities.max(axis=1)
    right = run.probabilities.argmax(axis=1) == run.labels
    place = np.clip(np.ceil(_BINS * confidence) - 1, 0, _BINS - 1)
    rows = pd.DataFrame({"place": place, "confidence": confidence, "accuracy": right})
    bins = rows.groupby("place").mean()
    bins["rows"] = rows.groupby("place").size()
    bins["above"] = bins.index / _BINS
    return bins


def _error(run: Run) -> float:
    bins = _bins(run)
    return float(np.average((bins["confidence"] - bins["accuracy"]).abs(), weights=bins["rows"]))


def _draw_calibration(
    curves: Mapping[str, pd.DataFrame], lowest: float, look: Mapping[str, Style], ax: Axes
) -> None:
    ax.plot([lowest, 1], [lowest, 1], color=INK, linewidth=0.8)
    for name, bins in curves.items():
        style = look[name]
        for enough, size, line in ((True, 5.5, style.dashes), (False, 3, "none")):
            own = bins[bins["enough"] == enough]
            ax.plot(own["confidence"], own["accuracy"], color=style.color, linestyle=line,
                    marker=style.marker, markersize=size, clip_on=False)  # fmt: skip
    least = min(bins["accuracy"].min() for bins in curves.values())
    bottom = lowest if least >= lowest else 0
    ax.set(xlim=(lowest, 1), ylim=(bottom, 1), xlabel="confidence", ylabel="accuracy")
    ax.grid()
