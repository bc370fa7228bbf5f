from __future__ import annotations

import math

import pandas as pd
import pytest

from relation_tf.bench import read_results
from relation_tf.report import make_report, render
from relation_tf.report.sections.learning_time import learning_times

SECONDS = {"attention": 40.0, "linear": 30.0, "relation": 20.0, "baseline": 90.0}


def answer_of(found):
    return " ".join(make_report(found).context.answer)


@pytest.fixture
def results(suite_of, fabricate):
    """Times to target: relation is the fastest, baseline never reaches the target."""

    def make(never=("baseline",), missed=(), **values):
        suite = suite_of(tasks=["MRPC", "RTE"], stopping="accuracy_reached", **values)

        def change(config, files):
            result = files["result"]
            epochs = result["epochs"]
            result["reached"] = config.method not in never and config.key not in missed
            total = SECONDS[config.method] + config.seed
            result["seconds"] |= {"training": 0.9 * total, "evaluation": 0.1 * total}
            result["seconds"]["input"] = epochs / 10
            files["history"] |= {"running_accuracy": [0.5] * epochs}

        return read_results(fabricate(suite, lambda *_: 0.8, change))

    return make


def test_one_row_per_run(results):
    found = results()
    times = learning_times(found).runs
    assert len(times) == len(found.runs) == 2 * 4 * 5
    row = times[(times["method"] == "relation") & (times["seed"] == 3)].iloc[0]
    assert row["seconds"] == pytest.approx(23.0)
    assert row["seconds_epoch"] == pytest.approx(23.0 / row["epochs"])
    assert row["seconds_input"] == pytest.approx(0.1)
    assert bool(row["reached"])


def test_means_use_only_seeds_that_reached_the_target(results):
    table = learning_times(results()).means.set_index(["task", "method"])
    relation, baseline = table.loc[("RTE", "relation")], table.loc[("RTE", "baseline")]
    assert (relation["n"], relation["reached"], baseline["reached"]) == (5, 5, 0)
    assert relation["seconds"] == pytest.approx(23.0)
    assert relation["seconds_sd"] == pytest.approx(math.sqrt(2.5))
    assert relation["ratio"] == 1
    assert table.loc[("RTE", "attention"), "ratio"] == pytest.approx(43.0 / 23.0)
    assert math.isnan(baseline["seconds"])
    assert baseline["ratio_epoch"] > 1


def test_a_method_that_never_reached_the_target_is_slowest(results):
    pairs = learning_times(results()).tests["RTE"].pairs().set_index(["a", "b"])
    assert pairs["significant"].all()
    assert pairs.loc[("relation", "baseline"), "statistic"] > 0
    assert pairs.loc[("attention", "relation"), "statistic"] < 0
    none = results(never=tuple(SECONDS))
    assert learning_times(none).tests == {}
    assert "differ significantly in time to target" not in answer_of(none)


def test_report_of_faster_methods(results):
    found = results()
    page = render(found).read_text(encoding="utf-8")
    markdown = (found.folder / "report" / "report.md").read_text(encoding="utf-8")
    for text in (page, markdown):
        assert "Time to target" in text
        assert "time to validation accuracy above 0.8, fastest first: relation 23 s" in text
        assert "Target: validation accuracy above 0.8 (an accuracy above the target" in text
        assert "Runs compute only the output of the first token; an operation uses 1 CPU" in text
        assert "not reached within 100 epochs by baseline (5 seeds)" in text
        assert "relation faster than attention" in text
    assert "| relation | 5 of 5 |" in markdown
    assert "| baseline | 0 of 5 | – | – | – |" in markdown
    assert "Time to target on RTE (p < .05): " in answer_of(found)
    kept = pd.read_csv(found.folder / "report" / "times.csv")
    pd.testing.assert_frame_equal(kept, learning_times(found).runs, check_dtype=False)


def test_a_method_is_ranked_only_if_all_seeds_reached_the_target(results):
    """Relation reaches the target with one seed only, which is faster than the others."""
    missed = [(task, "relation", seed) for task in ("MRPC", "RTE") for seed in (2, 3, 4, 5)]
    found = results(missed=missed)
    table = learning_times(found).means.set_index(["task", "method"])
    assert math.isnan(table.loc[("RTE", "relation"), "ratio"])
    assert table.loc[("RTE", "linear"), "ratio"] == 1
    answer = answer_of(found)
    assert "fastest first: linear 33 s" in answer
    assert "validation accuracy above 0.8 reached by relation in 1 of 5 seeds (21 s)" in answer


def test_ties_between_runs_that_missed_the_target_are_noted(results):
    found = results(never=("baseline",), time_limit=90.5, overrides={"RTE": {"epochs": 7}})
    report = make_report(found)
    page, pvalues = report.html(), report.tables["time-pvalues"]
    assert "MRPC 100 epochs or 90.5 s; RTE 7 epochs or 90.5 s" in page
    ties = "P-values below .0402 are possible here only because some seeds did not reach the target"
    assert f"RTE: {ties}." in page
    assert len(pvalues) == 2 * 6
    assert pvalues["asymptotic_pvalue"].notna().all()
    assert pvalues["difference_low"].notna().all()


def test_other_suites_have_no_time_to_target(suite_of, fabricate):
    report = make_report(fabricate(suite_of(), lambda *_: 0.8))
    assert "Time to target" not in report.html()
    assert "times" not in report.tables


def test_no_significant_difference_in_time(results):
    answer = answer_of(results(seeds=[1, 2]))
    assert "No two methods differ significantly in time to target on RTE." in answer


def test_a_failed_run_did_not_reach_the_target(suite_of, fabricate):
    suite = suite_of(tasks=["RTE"], stopping="accuracy_reached")

    def change(config, files):
        files["result"]["reached"] = True
        files["result"]["seconds"]["input"] = 1.0
        files["history"] |= {"running_accuracy": [0.5] * files["result"]["epochs"]}

    def score(config, *_):
        return None if (config.method, config.seed) == ("relation", 5) else 0.8

    folder = fabricate(suite, score, change)
    failed = folder / "runs" / "RTE" / "relation" / "seed-5"
    failed.mkdir(parents=True)
    (failed / "error.json").write_text('{"error": "time is over", "traceback": ""}')
    table = learning_times(read_results(folder)).means.set_index("method")
    assert (table.loc["relation", "n"], table.loc["relation", "reached"]) == (5, 4)
    assert math.isnan(table.loc["relation", "ratio"])
    assert (table.loc["linear", "n"], table.loc["linear", "reached"]) == (5, 5)
    answer = answer_of(folder)
    assert "relation in 4 of 5 seeds" in answer
