"""Figures of tests: marks point to the better method, intervals are in the row of their pair."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.report.pictures import significance
from relation_tf.report.pictures.drawing import styles
from relation_tf.report.pictures.significance import (
    critical_difference,
    effect_sizes,
    pvalue_matrix,
)

TASKS = ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "QNLI", "RTE",
         "mean of these tasks"]  # fmt: skip


def tables_of(names, pvalue, statistic):
    """Tables of p and statistic; pairs in the order of the upper triangle, or one for all."""
    upper = np.triu_indices(len(names), 1)
    p, w = np.zeros((2, len(names), len(names)))
    p[upper], w[upper] = pvalue, statistic
    return [
        pd.DataFrame(values, index=list(names), columns=list(names))
        for values in (p + p.T + np.eye(len(names)), w - w.T)
    ]


def pairs_of(names):
    rng = np.random.default_rng(0)
    rows = []
    for a, b in itertools.combinations(names, 2):
        low, delta, high = np.sort(rng.uniform(-1, 1, 3))
        rows.append((a, b, delta, low, high))
    return pd.DataFrame(rows, columns=["a", "b", "effect_size", "low", "high"])


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


@pytest.mark.parametrize(
    ("statistic", "lower", "better", "marker", "color"),
    [
        # Names are right of their row and above their column; the pair is in b's row.
        (2.0, (), "b better than a", ">", "#0072b2"),
        (-2.0, (), "a better than b", "^", "#d55e00"),
        (2.0, ("CoLA",), "a better than b", "^", "#d55e00"),
        (-2.0, ("CoLA",), "b better than a", ">", "#0072b2"),
    ],
)
def test_marks_point_to_the_better_method(statistic, lower, better, marker, color):
    tests = {"CoLA": tables_of(["a", "b"], 0.009, statistic)}
    picture = pvalue_matrix(tests, ["a", "b"], 0.05, lower)
    assert f"{better} .009" in picture.panels[0].alt
    assert marks(axes_of(picture)).keys() == {marker}
    assert color in picture.inline[0]
    assert "#0072b2" not in picture.inline[0] or "#d55e00" not in picture.inline[0]


def test_only_significant_pairs_are_shaded():
    pairs = [0.05, 0.0499, 0.2]  # a-b, a-c, b-c
    picture = pvalue_matrix({"CoLA": tables_of("abc", pairs, 1.0)}, "abc", 0.05)
    assert picture.panels[0].alt == (
        "CoLA, p of each pair of methods: 1 of 3 pairs significant at p < .05: "
        "c better than a .0499; p of the others from .050 to .200."
    )
    shaded = [line for line in axes_of(picture).lines if line.get_alpha() is not None]
    ends = [line.get_xydata() for line in shaded if len(line.get_xdata())]
    assert len(ends) == 1
    assert ends[0][0] == pytest.approx([0, 2.5], abs=0.02)  # column a, row c


def test_untested_method_has_no_cells():
    tests = {"CoLA": tables_of("ab", 0.2, 1.0), "RTE": tables_of("abc", 0.2, 1.0)}
    picture = pvalue_matrix(tests, ["z", "a", "b", "c"], 0.05)
    one, other = picture.panels
    assert "0 of 1 pairs" in one.alt
    assert "0 of 3 pairs" in other.alt
    assert ">z</text>" not in picture.inline[0]


def test_no_figure_without_tests():
    assert pvalue_matrix({}, ["a", "b"], 0.05) is None
    assert effect_sizes({"CoLA": pairs_of([])}, styles(["a"])) is None
    assert critical_difference({"a": 1.0}, [], 1.0, "Tasks", styles(["a"])) is None


def test_text_is_readable_on_shaded_cells(contrast):
    for color in (significance._ROW_BETTER, significance._COLUMN_BETTER):
        assert contrast(color, significance._OPACITY) > 4.5


@pytest.mark.parametrize(("methods", "tasks"), [(12, 2), (4, 10), (2, 1)])
def test_readable(names, readable, methods, tasks):
    names = names[:methods]
    look = styles(names)
    readable(
        pvalue_matrix({task: tables_of(names, 1e-6, 1.0) for task in TASKS[-tasks:]}, names, 0.05)
    )
    readable(effect_sizes({task: pairs_of(names) for task in TASKS[-tasks:]}, look))
    even = {name: 1 + place for place, name in enumerate(names)}
    equal = dict.fromkeys(names, (methods + 1) / 2)
    for ranks in (even, equal):
        for distance in (0.3, 5.0, 40.0):
            picture = critical_difference(ranks, [names, names[:2]], distance, "All", look)
            readable(picture)


def test_pictures_are_small(names):
    tests = pvalue_matrix({"CoLA": tables_of(names, 0.001, 1.0)}, names, 0.05)
    assert len(tests.inline[0]) < 35_000
    assert len(effect_sizes({"CoLA": pairs_of(names)}, styles(names)).inline[0]) < 40_000


def test_alternative_text_of_many_pairs_names_those_that_differ(names):
    table = pairs_of(names).assign(low=-0.5, high=0.5)
    table.loc[3, ["effect_size", "low", "high"]] = 0.9, 0.4, 1.0
    table.loc[4, ["effect_size", "low", "high"]] = -0.1, np.nan, np.nan
    alt = effect_sizes({"CoLA": table}, styles(names)).panels[0].alt
    assert alt.endswith(
        "contextualizer-k5-uniform and relation-original-form +0.90 (+0.40 to +1.00), "
        "contextualizer-k5-uniform and baseline −0.10, the intervals of the other 64 include 0."
    )


def test_many_pairs_draw_only_those_that_differ(readable):
    names = [f"method-{number}" for number in range(16)]
    table = pairs_of(names).assign(low=-0.5, high=0.5)
    assert len(table) > significance._MOST_DRAWN
    few = table.copy()
    few.loc[3, ["effect_size", "low", "high"]] = 0.9, 0.4, 1.0
    few.loc[4, ["effect_size", "low", "high"]] = -0.1, np.nan, np.nan
    picture = effect_sizes({"few": few, "none": table}, styles(names))
    readable(picture)
    one, none = picture.inline
    assert "118 other intervals include 0" in one
    assert "120 other intervals include 0" in none
    assert [one.count(f">{name}</text>") for name in names[:6]] == [1, 0, 0, 0, 1, 1]
    assert sum(len(places) for places in marks(axes_of(picture)).values()) == 2
    assert picture.size[1] < 2


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 10))
def test_effects_are_in_the_row_of_their_pair(random, number):
    table = pairs_of("abcde")
    kept = random.sample(range(len(table)), number)
    table = table.iloc[kept]
    axes = axes_of(effect_sizes({"CoLA": table}, styles("abcde")))
    rows = {
        round(label.get_position()[1]): (label.get_text(), label.get_fontweight())
        for label in axes.texts
        if label.get_position()[0] < 0
    }
    found = set()
    for x, y in itertools.chain(*marks(axes).values()):
        first = max(row for row, (_, weight) in rows.items() if weight == "bold" and row < y)
        found.add((rows[first][0], rows[y][0], x))
    assert found == set(table[["a", "b", "effect_size"]].itertuples(index=False, name=None))


@given(st.lists(st.lists(st.floats(1, 12), min_size=2, max_size=5), max_size=8))
def test_bars_do_not_overlap(spans):
    lines = significance._bars(sorted(span) for span in spans)
    assert sorted(bar for line in lines for bar in line) == sorted(
        (min(span), max(span)) for span in spans
    )
    for line in lines:
        assert all(one[1] < other[0] for one, other in itertools.pairwise(line))


def test_alternative_text_of_ranks():
    ranks = {"mlp": 2.8, "attention": 1.7, "relation": 1.5, "linear": 4.0}
    picture = critical_difference(
        ranks, [("relation", "attention"), ("linear",)], 1.05, "Nine tasks", styles(list(ranks))
    )
    assert picture.panels[0].alt == (
        "Nine tasks, average ranks, the best first: relation 1.50, attention 1.70, mlp 2.80, "
        "linear 4.00; critical difference 1.05; no significant difference: relation and attention."
    )
    bold = [line.get_xdata() for line in axes_of(picture).lines if line.get_linewidth() > 3]
    assert len(bold) == 1
