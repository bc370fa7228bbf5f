"""Tests of `read_published` against scores that round to the published table."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from relation_tf.stats import read_published, steel_dwass

TABLE = pd.DataFrame(
    [
        ("SST-2", "Relation", "80.6", "0.4"),
        ("SST-2", "Attention", "76.1", "0.9"),
        ("SST-2", "MLP", "56.9", "1.3"),
        ("CoLA", "Relation", "8.1", "1.3"),
        ("CoLA", "Attention", "3.6", "2.8"),
        ("CoLA", "MLP", "2.5", "3.1"),
    ],
    columns=["task", "method", "mean", "sd"],
)


def table_of(a, b, **more):
    """Return a table of two methods, each given as (mean, sd)."""
    return pd.DataFrame([("a", *a), ("b", *b)], columns=["method", "mean", "sd"]).assign(**more)


def separation(a, b, n=5, **options):
    return read_published(table_of(a, b), n, **options).pairs()["separation"][0]


@pytest.mark.parametrize("between", [" ± ", "+/-", r" \pm "])
def test_files_give_the_result_of_their_table(tmp_path, between):
    expected = read_published(TABLE, 5).pairs()
    long, wide = tmp_path / "long.csv", tmp_path / "wide.csv"
    TABLE.to_csv(long, index=False, encoding="utf-8-sig")
    cells = TABLE.assign(cell=TABLE["mean"] + between + TABLE["sd"])
    cells.pivot_table("cell", "method", "task", aggfunc="first", sort=False).to_csv(wide)
    for file in (str(long), wide):
        pd.testing.assert_frame_equal(read_published(file, 5).pairs(), expected)


@pytest.mark.parametrize("names", ["dataset,method,mean,std,n", "Env,Model,Mean,StDev,params"])
def test_columns_can_have_usual_names(tmp_path, names):
    file = tmp_path / "t.csv"
    file.write_text(f"{names}\nA,x,80.1,.4,5\nA,y,90.1,.5,5\nB,x,.7,.4,5\nB,y,.8,.5,5\n")
    pairs = read_published(file, 5).pairs()
    assert pairs[["task", "a", "b", "separation"]].to_numpy().tolist() == [
        ["A", "x", "y", "certain"], ["B", "x", "y", "impossible"],
    ]  # fmt: skip


def test_files_keep_decimals_and_names(tmp_path):
    file = tmp_path / "figures.csv"
    for text in ("method,mean,sd\nNA,80.000,1.000\nb,83.600,1.000\nc,,\n",
                 "model,MR\nNA,80.000 ± 1.000\nb,83.600 ± 1.000\nc,-\n",
                 "Dataset,NA,b,c\nMR,80.000 ± 1.000,83.600 ± 1.000,-\n"):  # fmt: skip
        file.write_text(text, encoding="utf-8")
        pairs = read_published(file, 5).pairs()
        assert pairs[["a", "b", "separation"]].to_numpy().tolist() == [["NA", "b", "certain"]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("figures.csv", "", "figures.csv must be a CSV file: No columns"),
        ("figures.csv", "a,b\n80,70\n", r"columns method, mean and sd, .*Received: \['a', 'b'\]"),
        (
            "figures.csv",
            "task,method,mean,sd\nMR,a,80,1\nMR,b,,\n",
            r"Received: \['a'\] on MR, no numbers for \['b'\]",
        ),
    ],
)
def test_errors_of_files(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        read_published(tmp_path / name, 5)
    assert "\n" not in str(caught.value)


def test_verdicts():
    claims = [("SST-2", "Attention", "Relation"), ("CoLA", "Attention", "MLP")]
    published = read_published(TABLE, 5, claims=claims)
    assert published.claims()["significance"].tolist() == ["certain", "undetermined"]
    assert published.pairs()["claimed"].sum() == 2
    fourth = read_published(TABLE, 5, num_methods=4, claims=claims).claims()
    assert fourth["significance"].tolist() == ["certain", "impossible"]


@pytest.mark.parametrize(
    ("num_methods", "n", "mean", "significance", "smallest"),
    [
        (4, 5, 70.0, "certain", ".0447"),
        (4, 5, 80.5, "impossible", ".0766"),
        (4, 5, 79.0, "undetermined", ".0447"),
        (2, 5, 80.5, "undetermined", "p < .05"),
        (5, 5, 70.0, "impossible", ".0683"),
        (2, 3, 70.0, "impossible", ".1000"),
    ],
)
def test_significance(num_methods, n, mean, significance, smallest):
    table = table_of(("80.0", "1.0"), (str(mean), "1.0"), task="SST-2")
    pair = read_published(table, n, num_methods=num_methods).pairs().iloc[0]
    assert pair["significance"] == significance
    assert smallest in pair["reason"]


@pytest.mark.parametrize("n", [2, 3, 5])
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_never_contradicts_scores_that_round_to_the_table(n, data):
    scores = data.draw(arrays(np.int64, (2, n), elements=st.integers(-40, 40), unique=True)) / 8
    digits = data.draw(st.integers(0, 2))
    ddof = data.draw(st.sampled_from([0, 1]))
    known = data.draw(st.booleans())
    texts = [(f"{x.mean():.{digits}f}", f"{x.std(ddof=ddof):.{digits}f}") for x in scores]
    found = read_published(table_of(*texts), n, ddof=ddof if known else None, alpha=0.2).pairs()
    a, b = scores
    separated = a.max() < b.min() or b.max() < a.min()
    assert found["separation"][0] != ("impossible" if separated else "certain")
    significant = all(
        steel_dwass({"a": a, "b": b}, 0.2, method=method).significant.loc["a", "b"]
        for method in ("asymptotic", "exact")
    )
    assert found["significance"][0] != ("impossible" if significant else "certain")


@pytest.mark.parametrize("n", [3, 5, 9])
def test_bounds_are_sharp(n):
    def verdict(a, b):  # of exact figures, without rounding
        figures = [(f"{x.mean():.17f}", f"{x.std(ddof=1):.17f}") for x in (a, b)]
        return separation(*figures, n)

    spike, step = np.eye(n)[0], 1e-6  # one outlier and n - 1 equal values
    # Outliers on the outer sides: the equal values touch at the lower bound.
    assert verdict(-spike, spike - step) == "impossible"
    assert verdict(-spike, spike + step) == "undetermined"
    # Outliers on the inner sides touch at the upper bound.
    assert verdict(spike, 2 - spike - step) == "undetermined"
    assert verdict(spike, 2 - spike + step) == "certain"


@pytest.mark.parametrize(
    ("a", "b", "options", "expected"),
    [
        # r is 1.8 and the bound 1.789: within half a unit of the last digit both are possible.
        ((80.0, 1.0), (83.6, 1.0), {}, "undetermined"),
        (("80.000", "1.000"), ("83.600", "1.000"), {}, "certain"),
        # All numbers have as many decimals as the most precise one.
        ((80.0, 1.0), (83.6, 1.001), {}, "undetermined"),
        ((80.0, 1.0), (83.601, 1.001), {}, "certain"),
        ((np.float32(80.0), np.float32(1.0)), (np.float32(83.6), 1.0), {}, "undetermined"),
        # The kind of SD.
        (("80.000", "1.000"), ("83.700", "1.000"), {}, "certain"),
        (("80.000", "1.000"), ("83.700", "1.000"), {"ddof": 0}, "undetermined"),
        (("80.000", "1.000"), ("83.700", "1.000"), {"ddof": None}, "undetermined"),
        (("80.000", "1.000"), ("84.100", "1.000"), {"ddof": None}, "certain"),
    ],
)
def test_rounding_and_the_kind_of_sd_decide(a, b, options, expected):
    assert separation(a, b, **options) == expected


GOOD = table_of((80.0, 1.0), (70.0, 1.0))


@pytest.mark.parametrize(
    ("table", "options", "error", "message"),
    [
        (GOOD.iloc[:0], {}, ValueError, "contains no numbers"),
        (GOOD.iloc[:1], {}, ValueError, r"at least two methods. Received: \['a'\]"),
        (GOOD, {"num_methods": 1}, ValueError, r"table. Received: num_methods=1 for \['a', 'b'\]"),
        (GOOD, {"control": "a"}, ValueError, "Received: test='steel-dwass', control='a'"),
        (GOOD, {"test": "steel", "control": "c"}, ValueError, r"\['a', 'b'\].*'c'"),
        (TABLE, {"claims": [("MLP", "Relation")]}, ValueError, r"Received: \('MLP', 'Relation'\)"),
        (table_of((80.0, 1.0), (70.0, math.nan)), {}, ValueError, "mean=70.0, sd=nan for 'b'"),
        (table_of((80.0, 1.0), (70.0, -1.0)), {}, ValueError, "at least 0. Received: -1.0 for 'b'"),
        (table_of((80.0, 1.0), ("much", 1)), {}, TypeError, "numbers. Received: 'much' for 'b'"),
        (table_of((80.0, 1.0), ("80 %", 1)), {}, TypeError, "figures must be numbers"),
    ],
)
def test_errors_of_bad_input(table, options, error, message):
    with pytest.raises(error, match=message) as caught:
        read_published(table, **{"n": 5, **options})
    assert "\n" not in str(caught.value)
