"""Tests of the page on the Relation paper's Table 1, with fabricated scores."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_ind

from relation_tf.config.suite import load_published

RESULTS = Path(__file__).resolve().parents[1] / "results"
sys.path.insert(0, str(RESULTS))
import relation_table1  # noqa: E402
import relation_table1_data as table1  # noqa: E402

PUBLISHED = load_published("relation-table1")
PAPER = table1.read_paper(PUBLISHED)
MECHANISMS = ("attention", "linear-attention", "relation", "baseline")
STEPS = np.array([-2.0, -1, 0, 1, 2])  # their SD is 1.58


def runs_of(*rows, split="test"):
    """Return runs from rows with task, metric, mechanism, units and five values."""
    return pd.DataFrame(
        [
            (*place, seed, value, split)
            for *place, values in rows
            for seed, value in zip(table1.SEEDS, values, strict=True)
        ],
        columns=[*table1.CELL, "seed", "value", "split"],
    )


def files_of(folder):
    """Write fabricated files whose means are the paper's, and return the folder."""
    rng = np.random.default_rng(0)
    place = PAPER.assign(split=np.where(PAPER["task"].isin(table1.TESTED), "test", "dev"))
    place["metric"] = place["metric"].mask(place["task"] == "AX", table1.TWO_CLASSES)
    place["method"] = place["mechanism"] + "-" + place["units"].astype(str)
    runs = place.merge(pd.Series(table1.SEEDS, name="seed"), "cross")
    runs["value"] = (runs["paper"] + rng.normal(size=len(runs))).clip(0, 99) / 100
    names = ["task", "method", "seed", "metric", "value", "split"]
    small = runs.loc[runs["units"] == 64, names]
    changed = small[small["task"].isin(table1.CHANGED)]
    fewer = small[small["task"].isin(table1.ROWS)]
    own = runs[names]
    unused = own[own["split"] == "test"].assign(split="dev", value=0.5)
    pd.concat([own, unused]).to_csv(folder / "scores.csv", index=False)
    parts = [changed.assign(factor=name) for name in ("random", "train-words", "length")]
    pd.concat(parts).to_csv(folder / "factors.csv", index=False)
    parts = [fewer.assign(rows=rows) for rows in (5000, 10000)]
    pd.concat(parts).to_csv(folder / "samples.csv", index=False)
    for name in ("README.md", "submissions.csv"):
        (folder / name).write_bytes((RESULTS / "relation" / name).read_bytes())
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(table1, "FOLDER", tmp_path)
    return files_of(tmp_path)


@pytest.mark.skipif(
    not (RESULTS / "relation" / "scores.csv").is_file(), reason="the runs are in progress"
)
def test_committed_page_equals_the_command_output():
    readme = RESULTS / "relation" / "README.md"
    written = relation_table1.outputs()
    assert written[readme] == readme.read_text("utf-8")
    assert (readme.parent / "table1.svg").is_file()


def test_the_page_of_complete_files(folder):
    written = relation_table1.outputs()
    text, figure = written[folder / "README.md"], written[folder / "table1.svg"]
    assert "72 cells have" in text
    assert "70 of 72 are" in text
    assert "MRPC, f1: baseline-64" in figure
    assert relation_table1.page(table1.read_data()).keys() == {
        *("conclusion", "cells", "dev", "averages", "claims", "growth", "effects", "samples"),
        "duplicates",
    }


@pytest.mark.parametrize("name", ["scores", "factors", "samples", "submissions"])
def test_a_missing_file_is_one_line(folder, capsys, name):
    (folder / f"{name}.csv").unlink()
    with pytest.raises(SystemExit) as stopped:
        relation_table1.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.splitlines() == [f"results/{folder.name}/{name}.csv is missing"]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("scores", "GLUE average score baseline 64 1"),
        ("factors", "CoLA matthews baseline 64 random 1"),
        ("samples", "MNLI-m accuracy baseline 64 5000 1"),
    ],
)
def test_missing_and_repeated_runs_are_named(folder, name, first):
    path = folder / f"{name}.csv"
    scores = pd.read_csv(path)
    pd.concat([scores, scores[:1]]).to_csv(path, index=False)
    with pytest.raises(ValueError, match=f"{name}.csv: each run must have one score, but {first}"):
        table1.read_data()
    scores.loc[0, "value"] = math.nan
    scores.to_csv(path, index=False)
    with pytest.raises(ValueError, match=rf"{name}.csv: missing scores \(task, .*\): {first}$"):
        table1.read_data()


@pytest.mark.parametrize(
    ("difference", "deviation", "z", "within"),
    [
        (2.05, 1.0, 2.0, True),
        (-2.05, 1.0, -2.0, True),
        (2.06, 1.0, 2.01, False),
        (-0.05, 0.0, 0.0, True),
        (0.06, 0.0, math.inf, False),
        (-0.06, 0.0, -math.inf, False),
    ],
)
def test_z_allows_for_rounding(difference, deviation, z, within):
    found = table1.z_scores(pd.Series([difference]), pd.Series([deviation]))
    assert found[0] == pytest.approx(z)
    assert table1.is_within(found)[0] == within


def both_criteria(*means):
    """Return runs on both criteria with a mean for each mechanism at all sizes."""
    criteria = (("GLUE average", "score"), ("AX", table1.TWO_CLASSES))
    return runs_of(
        *(
            (*criterion, name, units, mean + 0.01 * STEPS)
            for criterion in criteria
            for units in table1.UNITS
            for name, mean in zip(MECHANISMS, means, strict=True)
        )
    )


def test_claims_in_both_directions():
    own = both_criteria(1, 1.001, 3, 2)
    found = table1.claims(own, PUBLISHED)
    claimed = found["claimed"].notna()
    assert (len(found), claimed.sum()) == (36, 24)
    # Baseline is above both attentions (12 claims), Relation above all (10 claims and 8 other
    # pairs); the attentions do not differ (2 claims and 4 other pairs).
    counts = found[claimed]["verdict"].value_counts().to_dict()
    assert counts == {"opposite direction": 12, "same direction": 10, "not significant": 2}
    others = found[~claimed]["verdict"].value_counts().to_dict()
    assert others == {"relation higher": 8, "not significant": 4}
    assert found[claimed]["pvalue"].min() == pytest.approx(0.0402, abs=1e-4)


def test_growth_has_joint_intervals():
    rng = np.random.default_rng(1)
    samples = {(name, n): rng.normal(50, 1 + n / 256, 5) for name in MECHANISMS for n in (64, 256)}
    own = runs_of(*(("GLUE average", "score", *key, each) for key, each in samples.items()))
    found = table1.growth(own, PAPER).set_index("mechanism")
    tested = ttest_ind(samples["relation", 256], samples["relation", 64], equal_var=False)
    expected = tested.confidence_interval(1 - 0.05 / 4)
    assert found.loc["relation", ["low", "high"]].tolist() == pytest.approx([*expected])
    assert found.loc["relation", "paper"] == pytest.approx(0.7)


def factor_runs():
    """Return runs of two tasks without and with a change, one of them constant."""
    rng = np.random.default_rng(2)
    before = runs_of(
        *(
            (task, metric, name, 64, rng.normal(50, 1, 5))
            for task, metric in (("RTE", "accuracy"), ("MRPC", "f1"), ("MRPC", "accuracy"))
            for name in MECHANISMS
        )
    )
    constant = (before["task"] == "RTE") & (before["mechanism"] == "baseline")
    before.loc[constant, "value"] = 50.0
    change = np.where(constant, 1.0, 20 + rng.normal(size=len(before)))
    return before, before.assign(value=before["value"] + change, factor="random")


def test_effects_have_welch_intervals_that_hold_jointly():
    before, after = factor_runs()
    found = table1.effects(before, after).set_index(table1.SETTING)
    assert len(found) == 12
    place = ("MRPC", "f1", "relation")
    new, old = (own.set_index(table1.SETTING).loc[place, "value"] for own in (after, before))
    expected = ttest_ind(new, old, equal_var=False).confidence_interval(1 - 0.05 / 12)
    row = found.loc[place]
    assert row["difference"] == pytest.approx(new.mean() - old.mean())
    assert [row["low"], row["high"]] == pytest.approx([*expected])
    constant = found.loc[("RTE", "accuracy", "baseline")]
    assert constant[["difference", "low", "high"]].tolist() == [1, -math.inf, math.inf]


def test_a_cell_is_explained_by_factors_that_reduce_its_difference():
    place = {"task": "RTE", "metric": "accuracy", "mechanism": "relation"}
    cells = pd.DataFrame(
        [(64, 55.0, 50.0, False), (128, 45.0, 50.0, False), (256, 52.0, 50.0, False),
         (64, 50.0, 50.0, True)],
        columns=["units", "mean", "paper", "within"],
    ).assign(**place)  # fmt: skip
    effects = pd.DataFrame(
        [("random", -4.0, -5.0, -3.0), ("length", -4.0, -9.0, 1.0), ("batch-64", 4.0, 3.0, 5.0),
         ("equations", -6.0, -7.0, -5.0)],
        columns=["factor", "difference", "low", "high"],
    ).assign(**place)  # fmt: skip
    found = table1.explained(cells, effects)["explanation"].tolist()
    assert found == ["random, equations", "batch-64 (with 64 units)", "unexplained"]
    other = table1.explained(cells, effects.assign(mechanism="attention"))
    assert set(other["explanation"]) == {"unexplained"}


def rows_of(task, samples):
    parts = [
        runs_of((task, "accuracy", "relation", 64, values), split="dev").assign(rows=rows)
        for rows, values in samples.items()
    ]
    return pd.concat(parts)


def test_the_extrapolation_has_a_prediction_interval():
    ours, goal = table1.ROWS["QNLI"]
    smaller = rows_of("QNLI", {ours / 4: 50 + STEPS, ours / 2: 51 + STEPS})
    full = rows_of("QNLI", {ours: 54 + STEPS}).drop(columns="rows")
    found = table1.samples(full, smaller, PAPER).iloc[0]
    # By least squares with a design matrix.
    x = np.repeat(np.log2([ours / 4, ours / 2, ours]), 5)
    y = np.concatenate([50 + STEPS, 51 + STEPS, 54 + STEPS])
    design, at = np.column_stack([np.ones(15), x]), np.array([1, math.log2(goal)])
    weights, squares = np.linalg.lstsq(design, y, rcond=None)[:2]
    inverse = np.linalg.inv(design.T @ design) * squares[0] / 13
    half = 2.160369 * math.sqrt(at @ inverse @ at + squares[0] / 13 / 5)
    assert found["predicted"] == pytest.approx(at @ weights)
    assert found["high"] - found["predicted"] == pytest.approx(half, rel=1e-5)
    slope_half = 2.160369 * math.sqrt(inverse[1, 1])
    assert found["slope_high"] - found["slope"] == pytest.approx(slope_half, rel=1e-5)


@pytest.mark.parametrize(("true", "false"), [(200, 60), (0, 0), (0, 9), (377, 0), (377, 623)])
def test_other_shares_of_duplicates_follow_from_the_counts(true, false):
    missed, kept = 377 - true, 623 - false
    accuracy, f1 = (true + kept) / 1000, 2 * true / (2 * true + false + missed)
    own = runs_of(
        ("QQP", "accuracy", "relation", 64, np.full(5, 100 * accuracy)),
        ("QQP", "f1", "relation", 64, np.full(5, 100 * f1)),
        split="dev",
    )
    found = table1.duplicates(own, PAPER).set_index(["metric", "share"])
    assert found.loc[("accuracy", 0.377), "mean"] == pytest.approx(100 * accuracy)
    assert found.loc[("f1", 0.377), "mean"] == pytest.approx(100 * f1)
    # A test set with 19 of 100 duplicates: 377 x 1 duplicates and 377 x 81 / 19 others.
    others = 377 * 81 / 19
    alarms = false / 623 * others
    expected = (true + others - alarms) / (377 + others)
    assert found.loc[("accuracy", 0.19), "mean"] == pytest.approx(100 * expected)
    expected = 2 * true / (true + alarms + 377)
    assert found.loc[("f1", 0.19), "mean"] == pytest.approx(100 * expected)
    assert found.loc[("f1", 0.19), "paper"] == 51.5
