"""Scores against the speed and memory of timed suites."""

from __future__ import annotations

import json
import math
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from relation_tf.errors import SuiteError
from relation_tf.report import compare, make_report
from tests.report.conftest import facts

LEVELS = {"attention": 0.6, "linear": 0.602, "relation": 0.65, "baseline": 0.3}
SECONDS = {"attention": 4.0, "linear": 2.0, "relation": 1.0, "baseline": 0.5}
SPEED, MEMORY, STATE = (
    "training speed, tokens/s", "peak memory of a training pass, MiB", "state size, KiB",
)  # fmt: skip


def score(run, *_):
    return LEVELS.get(run.method, 0.5) + run.seed / 1e4


@pytest.fixture(scope="module")
def scored(fabricate_in, suite_of, tmp_path_factory):
    suite = suite_of(reference="attention", margin=1.0)
    return fabricate_in(tmp_path_factory.mktemp("scored"))(suite, score=score)


@pytest.fixture(scope="module")
def timed(fabricate_in, suite_of, tmp_path_factory):
    """A timed suite: attention takes the most time, and its state grows with the text."""

    def change(config, files):
        length = int(config.task.partition("-")[2])
        files["history"] = {"pass": [1], "seconds": [1.0]}
        result = files["result"]
        result["seconds"]["epoch"] = SECONDS[config.method] * (1 + config.seed / 100)
        result["tokens"] = length
        result["pass_bytes"] = 2**20 * length
        result["state_bytes"] = 512 * (length if config.method == "attention" else 2)
        if config.method == "baseline":
            result["state_bytes"] = result["pass_bytes"] = None

    suite = suite_of(tasks=["training-128", "training-512"], seeds=6)
    fabricate = fabricate_in(tmp_path_factory.mktemp("suites"))
    return fabricate(suite, score=lambda *_: 1.0, change=change, name="timed")


@pytest.fixture
def table(table_of):
    """Make a table with the same scores on each task."""
    samples = {name: [level + seed / 1e3 for seed in range(5)] for name, level in LEVELS.items()}
    return lambda *tasks: table_of(dict.fromkeys(tasks, samples))


def costs(report):
    return report.tables["trade_offs"]


def test_methods_that_are_no_worse_and_cheaper_are_named(scored, timed, tmp_path):
    found = facts(make_report(scored, [timed]))
    assert [found[name] for name in (SPEED, MEMORY, STATE)] == [
        "linear and relation", "none", "linear and relation",
    ]  # fmt: skip
    for run, changes, measure, methods in (
        ("512/relation", {"seconds": {"epoch": 5.0}}, SPEED,
         "128 tokens: linear and relation; 512 tokens: linear"),
        # Only small arrays: no memory is counted.
        ("128/relation", {"pass_bytes": None}, MEMORY,
         "none"),
        ("512/attention/seed-1", {"seconds": {"cpu": 1.0, "wall": 2.0}}, SPEED,
         "not compared, other programs or runs slowed them down"),
        ("512/attention", {}, STATE,
         "128 tokens: linear and relation; 512 tokens: attention was not measured"),
    ):  # fmt: skip
        changed = shutil.copytree(timed, tmp_path / measure.replace("/", " ") / run)
        for file in changed.glob(f"runs/training-{run}/**/result.json"):
            result = json.loads(file.read_text())
            result["seconds"] |= changes.get("seconds", {})
            file.write_text(json.dumps({**result, **changes, "seconds": result["seconds"]}))
            if not changes:
                file.unlink()
        assert facts(make_report(scored, [changed]))[measure] == methods


def test_costs_of_a_report_are_those_of_its_runs(scored, timed, tmp_path):
    copied = tmp_path / "copied"
    make_report(timed).write(copied)
    shutil.copy(timed / "suite.toml", copied)
    pd.testing.assert_frame_equal(
        costs(make_report(scored, [copied])), costs(make_report(scored, [timed]))
    )
    runs = pd.read_csv(copied / "runs.csv")
    for broken, said in (
        (runs.assign(pass_mib="much"), r"runs\.csv: must have numbers in column 'pass_mib'"),
        (runs.drop(columns="pass_mib"), r"runs\.csv: must have numbers in column 'pass_mib'"),
    ):
        broken.to_csv(copied / "runs.csv", index=False)
        with pytest.raises(SuiteError, match=said):
            make_report(scored, [copied])
    (copied / "runs.csv").unlink()
    with pytest.raises(SuiteError, match="no finished run of a compared method"):
        make_report(scored, [copied])


def test_costs_are_medians_with_ranges(scored, timed):
    table = (
        costs(make_report(scored, [timed])).set_index(["measure", "method", "tokens"]).sort_index()
    )
    row = table.loc["speed", "relation", 512]
    assert row["typical"] == pytest.approx(512 / 1.035, rel=1e-3)
    assert (row["low"], row["high"]) == (pytest.approx(512 / 1.06), pytest.approx(512 / 1.01))
    assert row["runs"] == 6
    assert table.loc[("state", "attention"), "typical"].tolist() == [64, 256]
    assert "baseline" not in table.loc["state"].index


def test_scores_have_intervals_over_seeds(scored, timed):
    report = make_report(scored, [timed])
    row = costs(report).query("method == 'relation'").iloc[0]
    own = 100 * (0.65 + np.arange(1, 6) / 1e4)
    # Two tasks with the same scores and independent seeds.
    half = stats.t.ppf(0.975, 8) * math.sqrt(np.var(own, ddof=1) / 5 / 2)
    mean = own.mean()
    assert row["score_of"] == "mean of 2 tasks"
    found = row[["score", "score_low", "score_high"]].tolist()
    assert found == pytest.approx([mean, mean - half, mean + half])
    assert {*costs(report)["score_interval"]} == {"95 % confidence interval"}
    assert "Dotted" not in report.markdown()


def test_a_mean_with_collapsed_runs_has_a_range(fabricate, suite_of, timed):
    """Relation's first run on CoLA has a correlation of 0, that of equal predictions."""

    def lost(run, task, metric):
        return 0.0 if (run.method, task, run.seed) == ("relation", "CoLA", 1) else score(run)

    report = make_report(fabricate(suite_of(), lost), [timed])
    own = costs(report).set_index("method")
    # On CoLA 0 to 65.05, on the other task 65.01 to 65.05.
    assert {*own.loc["relation", "score_interval"]} == {"range over seeds"}
    (low,), (high,) = (own.loc["relation", key].unique() for key in ("score_low", "score_high"))
    assert (low, high) == pytest.approx((65.01 / 2, 65.05))
    assert {*own.loc["attention", "score_interval"]} == {"95 % confidence interval"}
    assert "Dotted" in report.markdown()


def test_methods_without_costs_are_named(scored, timed, tmp_path):
    text = make_report(scored, [timed]).markdown()
    assert "No costs" not in text
    timed = shutil.copytree(timed, tmp_path / "timed")
    for run in ("512/linear", "512/relation", "128/relation"):
        shutil.rmtree(timed / "runs" / f"training-{run}")
    text = make_report(scored, [timed]).markdown()
    assert "No costs: relation." in text


def labels(report, start):
    """Return the alternative texts of panels that begin so."""
    found = re.findall(r'role="img" aria-label="([^"]+)"', report.html())
    return [label for label in found if label.startswith(start)]


@pytest.mark.slow
def test_means_leave_out_what_the_reference_does_not_learn(fabricate, suite_of, timed):
    """Parity has two classes: 0.5 is chance."""
    learned = {"majority": 0.9, "needle-64": 0.8, "parity": 0.5}
    suite = suite_of(tasks=[*learned], reference="attention", margin=5.0)
    folder = fabricate(suite, lambda run, *_: learned[run.task] + run.seed / 1e3)
    report = make_report(folder, [timed])
    assert {*costs(report)["score_of"]} == {"mean of 2 tasks"}
    assert costs(report)["score"].to_numpy() == pytest.approx(85.3)


def test_scores_of_tables_can_have_costs(timed, table, tmp_path):
    scores = table("MR")
    file = tmp_path / "scores.csv"
    scores.assign(score=100 * scores["score"]).to_csv(file, index=False)
    report = compare(file, reference="attention", margin=1, costs=[timed])
    assert facts(report)[SPEED] == "linear and relation"


def test_wrong_timed_suites_are_refused(scored, timed, table):
    with pytest.raises(SuiteError, match="suite 'made-up' is not a timed suite"):
        make_report(scored, [scored])
    with pytest.raises(SuiteError, match=r"measures training like .*timed\. Time all methods"):
        make_report(scored, [timed, timed])
    other = table("MR").replace({"method": {"relation": "cnn", **dict.fromkeys(LEVELS, "cnn")}})
    with pytest.raises(SuiteError, match=r"Compared: cnn\. Timed: attention.* matched by name"):
        compare(other.drop_duplicates(["task", "method", "seed"]), costs=[timed])
