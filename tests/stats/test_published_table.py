"""Tests of `read_published` against scores that round to the published table."""

from __future__ import annotations

import math
from importlib import resources

import numpy as np
import pandas as pd
import pytest
import tomli_w
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


def test_files_give_the_result_of_their_table(tmp_path):
    expected = read_published(TABLE, 5).pairs()
    file = tmp_path / "figures.csv"
    TABLE.to_csv(file, index=False, encoding="utf-8-sig")
    pd.testing.assert_frame_equal(read_published(str(file), 5).pairs(), expected)
    rows = TABLE.rename(columns={"mean": "value"}).astype({"value": float, "sd": float})
    file = tmp_path / "figures.toml"
    file.write_text(tomli_w.dumps({"seeds": 5, "figure": rows.to_dict("records")}))
    pd.testing.assert_frame_equal(read_published(file, 5).pairs(), expected)


def test_a_toml_file_keeps_decimals_metrics_and_widths(tmp_path):
    file = tmp_path / "figures.toml"
    figures = [("a", "80.000\nsd = 1.000"), ("b", "83.600\nsd = 1.000"), ("mean without SD", "81")]
    rows = (f'[[figure]]\ntask = "A"\nmethod = "{a}"\nvalue = {b}\n' for a, b in figures)
    file.write_text("".join(rows))
    assert read_published(file, 5).pairs()["separation"].tolist() == ["certain"]
    file.write_text("figure = 1")
    with pytest.raises(ValueError, match="must be a TOML file"):
        read_published(file, 5)
    packaged = resources.files("relation_tf.suites") / "published" / "relation-table2.toml"
    found = read_published(str(packaged), 5).pairs()
    assert {*found["task"]} == {
        f"{task}, {metric}, {units} units"
        for task in ("IMDb", "Reuters", "WikiText-103")
        for metric in ("seconds", "seconds per epoch")
        for units in (64, 128, 256)
    }


def test_a_file_keeps_decimals_and_names(tmp_path):
    file = tmp_path / "figures.csv"
    file.write_text("method,mean,sd\nNA,80.000,1.000\nb,83.600,1.000\nc,,\n")
    found = read_published(file, 5).pairs()
    assert found[["a", "b", "separation"]].to_numpy().tolist() == [["NA", "b", "certain"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "figures.csv must be a CSV file: No columns"),
        ("method,mean,sd\na,80,6,1\n", "Expected 3 fields in line 2, saw 4"),
        ("task,a,b\nMR,80,70\n", r"columns method, mean and sd. Received: \['task', 'a', 'b'\]"),
        (
            "task,method,mean,sd\nMR,a,80,1\nMR,b,,\n",
            r"Received: \['a'\] on MR, no numbers for \['b'\]",
        ),
    ],
)
def test_errors_of_files(tmp_path, content, message):
    file = tmp_path / "figures.csv"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        read_published(file, 5)
    assert "\n" not in str(caught.value)


def test_verdicts():
    claims = [("SST-2", "Attention", "Relation"), ("CoLA", "Attention", "MLP")]
    found = read_published(TABLE, 5, claims=claims)
    assert found.claims()["significance"].tolist() == ["certain", "undetermined"]
    assert found.pairs()["claimed"].sum() == 2
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
    found = read_published(table, n, num_methods=num_methods).pairs()
    assert found["significance"][0] == significance
    assert smallest in found["reason"][0]


def test_a_smaller_family_allows_a_smaller_p():
    more = [(task, name, "50.0", "0.1") for task in ("SST-2", "CoLA") for name in ("x", "y")]
    table = pd.concat([TABLE, pd.DataFrame(more, columns=TABLE.columns)])
    assert set(read_published(table, 5).pairs()["significance"]) == {"impossible"}
    found = read_published(table, 5, test="steel", control="Relation").pairs()
    assert set(found["a"]) == {"Relation"}
    assert len(found) == 2 * 4
    assert found["significance"][0] == "certain"
    assert "p = .0324" in found["reason"][0]


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
        steel_dwass((a, b), 0.2, method=method).significant.loc["1", "2"]
        for method in ("asymptotic", "exact")
    )
    assert found["significance"][0] != ("impossible" if significant else "certain")


def exact(scores):
    """Return the exact mean and SD, without rounding."""
    return f"{scores.mean():.17f}", f"{scores.std(ddof=1):.17f}"


@pytest.mark.parametrize("n", [3, 5, 9])
def test_bounds_are_sharp(n):
    spike = np.eye(n)[0]  # one outlier and n - 1 equal values
    step = 1e-6
    # Outliers on the outer sides: the equal values touch at the lower bound.
    assert separation(exact(-spike), exact(spike - step), n) == "impossible"
    assert separation(exact(-spike), exact(spike + step), n) == "undetermined"
    # Outliers on the inner sides touch at the upper bound.
    assert separation(exact(spike), exact(2 - spike - step), n) == "undetermined"
    assert separation(exact(spike), exact(2 - spike + step), n) == "certain"


def test_rounding_decides():
    # r is 1.8 and the bound 1.789: within half a unit of the last digit both sides are possible.
    a, b = (80.0, 1.0), (83.6, 1.0)
    assert separation(a, b) == "undetermined"
    assert separation(("80.000", "1.000"), ("83.600", "1.000")) == "certain"
    # All numbers have as many decimals as the most precise one.
    assert separation((80.0, 1.0), (83.6, 1.001)) == "undetermined"
    assert separation((80.0, 1.0), (83.601, 1.001)) == "certain"
    assert separation((np.float32(80.0), np.float32(1.0)), (np.float32(83.6), 1.0)) == (
        "undetermined"
    )


def test_kind_of_sd_decides():
    a, b = ("80.000", "1.000"), ("83.700", "1.000")
    assert separation(a, b) == "certain"
    assert separation(a, b, ddof=0) == "undetermined"
    assert separation(a, b, ddof=None) == "undetermined"
    assert separation(a, ("84.100", "1.000"), ddof=None) == "certain"


@pytest.mark.parametrize("empty", ["", " ", None, math.nan])
def test_empty_figures(empty):
    table = TABLE.astype(object)
    table.loc[5, ["mean", "sd"]] = empty
    found = read_published(table, 5).pairs()
    assert found["task"].tolist() == ["SST-2"] * 3 + ["CoLA"]


@pytest.mark.parametrize("figure", ["8_0.5", "٨٠", "80,5", "80 %"])
def test_only_plain_numbers_are_figures(figure):
    figures = {"mean": ["1e1", figure], "sd": [1.0, 1.0]}
    with pytest.raises(TypeError, match="figures must be numbers"):
        read_published(pd.DataFrame({"method": ["a", "b"], **figures}), 5)


def test_claims_without_tasks():
    found = read_published(table_of((80.0, 1.0), (70.0, 1.0)), 5, claims=[("b", "a")])
    assert "task" not in found.pairs()
    assert "p = .0090" in found.claims()["reason"][0]


GOOD = table_of((80.0, 1.0), (70.0, 1.0))


@pytest.mark.parametrize(
    ("table", "options", "error", "message"),
    [
        ({"a": 80}, {}, TypeError, "the path of a CSV or TOML file. Received: dict"),
        (GOOD.iloc[:0], {}, ValueError, "contains no numbers"),
        (GOOD.iloc[:1], {}, ValueError, r"at least two methods. Received: \['a'\]"),
        (GOOD, {"num_methods": 1}, ValueError, r"table. Received: num_methods=1 for \['a', 'b'\]"),
        (GOOD, {"n": "5"}, TypeError, "`n` must be a whole number, at least 2. Received: n='5'"),
        (GOOD, {"ddof": 2}, ValueError, "Received: ddof=2"),
        (GOOD, {"control": "a"}, ValueError, "Received: test='steel-dwass', control='a'"),
        (GOOD, {"test": "steel", "control": "c"}, ValueError, r"\['a', 'b'\].*'c'"),
        (TABLE, {"claims": [("MLP", "Relation")]}, ValueError, r"Received: \('MLP', 'Relation'\)"),
        (table_of((80.0, 1.0), (70.0, math.nan)), {}, ValueError, "mean=70.0, sd=nan for 'b'"),
        (table_of((80.0, 1.0), (70.0, -1.0)), {}, ValueError, "at least 0. Received: -1.0 for 'b'"),
        (table_of((80.0, 1.0), ("much", 1)), {}, TypeError, "numbers. Received: 'much' for 'b'"),
        (pd.concat([GOOD, GOOD]), {}, ValueError, "must occur once per task. Received twice: 'a'"),
    ],
)
def test_errors_of_bad_input(table, options, error, message):
    with pytest.raises(error, match=message) as caught:
        read_published(table, **{"n": 5, **options})
    assert "\n" not in str(caught.value)
