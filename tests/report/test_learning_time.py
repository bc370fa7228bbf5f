from __future__ import annotations

import math

import pandas as pd
import pytest

from relation_tf.bench import read_results
from relation_tf.report import render, summarize
from relation_tf.report.learning_time import compare_times, learning_times, summarize_times

SECONDS = {"attention": 40.0, "linear": 30.0, "relation": 20.0, "baseline": 90.0}


@pytest.fixture
def results(suite_of, fabricate):
    """Learning times: relation is the fastest, the baseline never gets there."""

    def make(never=("baseline",), **values):
        suite = suite_of(tasks=["MRPC", "RTE"], stopping="accuracy_reached", **values)

        def change(config, files):
            result = files["result"]
            epochs = result["epochs"]
            result["reached"] = config.method not in never
            total = SECONDS[config.method] + config.seed
            result["seconds"] |= {"training": 0.9 * total, "evaluation": 0.1 * total}
            result["seconds"]["input"] = epochs / 10
            files["history"] |= {"running_accuracy": [0.5] * epochs}

        return read_results(fabricate(suite, lambda *_: 0.8, change))

    return make


def test_a_row_for_each_run(results):
    found = results()
    times = learning_times(found)
    assert len(times) == len(found.runs) == 2 * 4 * 5
    row = times[(times["method"] == "relation") & (times["seed"] == 3)].iloc[0]
    assert row["seconds"] == pytest.approx(23.0)
    assert row["seconds_epoch"] == pytest.approx(23.0 / row["epochs"])
    assert row["seconds_input"] == pytest.approx(0.1)
    assert bool(row["reached"])


def test_other_suites_have_none(suite_of, fabricate):
    found = read_results(fabricate(suite_of(), lambda *_: 0.8))
    times = learning_times(found)
    assert times.empty
    assert summarize_times(times, found).empty
    assert compare_times(times, found) == {}


def test_means_are_of_the_seeds_that_got_there(results):
    found = results()
    table = summarize_times(learning_times(found), found).set_index(["task", "method"])
    relation, baseline = table.loc[("RTE", "relation")], table.loc[("RTE", "baseline")]
    assert (relation["n"], relation["reached"], baseline["reached"]) == (5, 5, 0)
    assert relation["seconds"] == pytest.approx(23.0)
    assert relation["seconds_sd"] == pytest.approx(math.sqrt(2.5))
    assert relation["ratio"] == 1
    assert table.loc[("RTE", "attention"), "ratio"] == pytest.approx(43.0 / 23.0)
    assert math.isnan(baseline["seconds"])
    assert baseline["ratio_epoch"] > 1


def test_who_never_got_there_is_the_slowest(results):
    found = results()
    times = learning_times(found)
    pairs = compare_times(times, found)["RTE"].pairs().set_index(["a", "b"])
    assert pairs["significant"].all()
    assert pairs.loc[("relation", "baseline"), "statistic"] > 0
    assert pairs.loc[("attention", "relation"), "statistic"] < 0
    none = results(never=tuple(SECONDS))
    pairs = compare_times(learning_times(none), none)["RTE"].pairs()
    assert (pairs["pvalue"] == 1).all()


def test_the_report_says_who_was_faster(results):
    found = results()
    page = render(found).read_text(encoding="utf-8")
    markdown = (found.folder / "report" / "report.md").read_text(encoding="utf-8")
    for text in (page, markdown):
        assert "Learning time" in text
        assert "until validation accuracy above 0.8 held, fastest first: relation 23 s" in text
        assert "never reached by baseline" in text
        assert "relation than attention" in text
    assert "| relation | 5 of 5 |" in markdown
    assert "| baseline | 0 of 5 | – | – | – |" in markdown
    assert "Faster on RTE" in summarize(found).replace("\n  ", " ")
    kept = pd.read_csv(found.folder / "report" / "times.csv")
    pd.testing.assert_frame_equal(kept, learning_times(found), check_dtype=False)


def test_some_seeds_and_no_difference_are_said(results, suite_of, fabricate):
    found = results(never=("baseline",), seeds=[1, 2])
    answer = summarize(found).replace("\n  ", " ")
    assert "No two learning times on RTE can be separated by these seeds." in answer
    found = results(never=tuple(SECONDS))
    assert "never reached by attention, linear, relation, baseline" in summarize(found).replace(
        "\n  ", " "
    )


def test_no_learning_time_in_other_reports(suite_of, fabricate):
    found = read_results(fabricate(suite_of(), lambda *_: 0.8))
    page = render(found)
    assert "Learning time" not in page.read_text(encoding="utf-8")
    assert not page.with_name("times.csv").exists()
