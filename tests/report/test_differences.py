"""Figures of tests: intervals are in the row of their pair."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.report.drawing import styles
from relation_tf.report.sections.tests import differences

TASKS = ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "QNLI", "RTE",
         "mean of these tasks"]  # fmt: skip


def pairs_of(names):
    rng = np.random.default_rng(0)
    rows = []
    for a, b in itertools.combinations(names, 2):
        low, delta, high = np.sort(rng.uniform(-1, 1, 3))
        rows.append((a, b, delta, low, high))
    return pd.DataFrame(rows, columns=["a", "b", "difference", "low", "high"])


def axes_of(picture):
    (axes,) = picture._figure(picture.panels[:1], 1).axes
    return axes


def marks(axes):
    """Return the positions of each marker."""
    return {
        line.get_marker(): list(zip(line.get_xdata(), line.get_ydata(), strict=True))
        for line in axes.lines
        if line.get_marker() not in ("None", "") and len(line.get_xdata())
    }


def test_no_figure_without_tests():
    assert differences({"CoLA": pairs_of([])}, styles(["a"])) is None
    assert differences({"CoLA": pairs_of("ab").assign(difference=np.nan)}, styles("ab")) is None


def test_tasks_without_a_finite_limit_are_not_drawn():
    finite = pairs_of("abc")
    infinite = finite.assign(low=-np.inf, high=np.inf)
    one_sided = infinite.assign(high=finite["high"])
    look = styles("abc")
    assert differences({"CoLA": infinite}, look) is None
    picture = differences({"CoLA": infinite, "RTE": one_sided, "SST-2": finite}, look)
    assert [panel.title for panel in picture.panels] == ["RTE", "SST-2"]
    assert differences({"CoLA": finite.assign(low=np.nan, high=np.nan)}, look) is not None


@pytest.mark.parametrize(("methods", "tasks"), [(12, 2), (4, 10), (2, 1)])
def test_readable(names, readable, methods, tasks):
    names = names[:methods]
    look = styles(names)
    readable(differences({task: pairs_of(names) for task in TASKS[-tasks:]}, look))


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 10))
def test_differences_are_in_the_row_of_their_pair(random, number):
    table = pairs_of("abcde")
    kept = random.sample(range(len(table)), number)
    table = table.iloc[kept]
    axes = axes_of(differences({"CoLA": table}, styles("abcde")))
    rows = {
        round(label.xy[1]): (label.get_text(), label.get_fontweight())
        for label in axes.texts
        if label.get_ha() == "right" and label.get_va() == "center"
    }
    found = set()
    for x, y in itertools.chain(*marks(axes).values()):
        first = max(row for row, (_, weight) in rows.items() if weight == "bold" and row < y)
        found.add((rows[first][0], rows[y][0], x))
    assert found == set(table[["a", "b", "difference"]].itertuples(index=False, name=None))


def test_infinite_intervals_end_at_the_edge():
    rows = [("a", "b", 1.0, -np.inf, np.inf), ("a", "c", -2.0, -np.inf, -1.0)]
    table = pd.DataFrame(rows, columns=["a", "b", "difference", "low", "high"])
    picture = differences({"CoLA": table}, styles("abc"), margins={"CoLA": 4.0})
    axes = axes_of(picture)
    left, right = axes.get_xlim()
    assert left < -4 < 1 < right
    ends = [line.get_xdata()[:2] for line in axes.lines if line.get_linewidth() == 1.4]
    assert [*map(list, ends)] == [[left, right], [left, -1]]
