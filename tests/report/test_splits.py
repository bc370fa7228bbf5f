"""Scores of several splits of a task are never compared with each other."""

from __future__ import annotations

import pandas as pd
import pytest

from relation_tf.bench.run_folder import RunFolder
from relation_tf.errors import OptionError
from relation_tf.files import write_json
from relation_tf.report import compare, make_report
from tests.report.conftest import content

TASKS = ["RTE", "MRPC"]
ROWS = [
    ("RTE", method, seed, split, 0.5 + seed / 100 + 0.1 * (split == "test") + 0.2 * (method == "b"))
    for method in "ab"
    for seed in range(3)
    for split in ("dev", "test")
]
TABLE = pd.DataFrame(ROWS, columns=["task", "method", "seed", "split", "score"])


@pytest.fixture
def runs(suite_of, fabricate):
    """Fabricate runs on two tasks that score RTE on dev (.5) and test (.7), and AX by others."""

    def change(config, files):
        if config.task == "RTE":
            files["result"]["test_metrics"] = {"RTE": {"accuracy": 0.7 + config.seed / 100}}

    suite = suite_of(tasks=TASKS, seeds=2, published="relation-table1", reference="attention")
    return fabricate(suite, lambda config, *_: 0.5 + config.seed / 100, change)


def means(report):
    table = report.tables["table"]
    kept = table[table["method"] == table["method"].iloc[0]]
    return dict(zip(kept["task"], kept["mean"].round(6), strict=True))


def test_a_table_with_two_splits_needs_one():
    with pytest.raises(OptionError, match=r"split.*must be dev or test: .* scores of RTE"):
        compare(TABLE)
    assert means(compare(TABLE, split="dev")) == {"RTE": 0.51}
    report = compare(TABLE, split="test")
    assert means(report) == {"RTE": 0.61}
    assert set(report.tables["scores"]["split"]) == {"test"}
    with pytest.raises(OptionError, match=r"must be dev or test .* Received: 'train'"):
        compare(TABLE, split="train")
    with pytest.raises(OptionError, match="needs a column 'split'"):
        compare(TABLE[TABLE["split"] == "dev"].drop(columns="split"), split="dev")


def test_a_wide_table_and_other_names_of_the_column():
    wide = TABLE.pivot_table("score", ["task", "seed", "split"], "method").reset_index()
    assert means(compare(wide, split="test")) == {"RTE": 0.61}
    other = TABLE.rename(columns={"split": "subset"})
    assert means(compare(other, columns={"split": "subset"}, split="dev")) == {"RTE": 0.51}


def test_sources_of_different_splits_are_refused(runs):
    on_test = TABLE[TABLE["split"] == "test"]
    with pytest.raises(OptionError, match=r"RTE has scores of dev in suite, test in table 2"):
        compare(runs, on_test)
    report = compare(runs, on_test, split="test")
    assert set(report.tables["table"]["method"]) == {
        "attention", "linear", "relation", "baseline", "a", "b",
    }  # fmt: skip


def test_runs_give_dev_scores_or_those_of_test_sets(runs):
    assert means(compare(runs)) == {"RTE": 0.515, "MRPC": 0.515, "mean of these tasks": 0.515}
    report = compare(runs, split="test")
    assert means(report) == {"RTE": 0.715}
    assert {*report.tables["verdicts"]["reference"]} == {"attention"}
    assert content(report)["in_points"]


def test_a_report_names_the_split_of_every_score(runs):
    report = make_report(runs)
    scores = report.tables["scores"]
    own = scores[(scores["task"] == "RTE") & (scores["method"] == "attention")]
    assert own.groupby("split")["value"].mean().round(6).to_dict() == {"dev": 0.515, "test": 0.715}
    assert means(report)["RTE"] == 0.515
    path = report.write(runs / "report").parent
    assert means(compare(path, split="test")) == {"RTE": 0.715}
    with pytest.raises(OptionError, match="must be dev or test"):
        compare(path)


def test_a_papers_test_scores_are_compared_with_ours_on_test(runs):
    report = make_report(runs)
    found = report.tables["published"].set_index(["task", "metric", "method"])
    on_test = found.loc[("RTE", "accuracy", "relation")]
    assert (on_test["split"], on_test["mean"]) == ("test", pytest.approx(71.5))
    assert "dev sets" not in on_test["reason"]
    on_dev = found.loc[("MRPC", "accuracy", "relation")]
    assert (on_dev["split"], on_dev["mean"]) == ("dev", pytest.approx(51.5))
    assert "dev sets" in on_dev["reason"]


def test_failed_runs_count_on_test_sets(suite_of, fabricate):
    def change(config, files):
        files["result"]["test_metrics"] = {"RTE": {"accuracy": 0.7 + config.seed / 100}}

    suite = suite_of(tasks=["RTE"], seeds=4)
    diverged = [run for run in suite.runs() if (run.method, run.seed) == ("relation", 4)]
    folder = fabricate(suite, lambda run, *_: None if run in diverged else 0.5, change)
    for run in diverged:
        path = RunFolder(folder).start(run)
        write_json(path / "error.json", {"error": "loss is not finite", "diverged": True})
    report = compare(folder, split="test")
    sizes = report.tables["pvalues"].set_index(["a", "b"])["n_b"]
    assert sizes["attention", "relation"] == 4  # three scores and the failed run, ranked worst
    assert report.tables["runs"]["diverged"].sum() == 1


def test_scores_of_ax_are_on_a_test_set(suite_of, fabricate):
    """The labelled diagnostic set is scored with the dev sets, but is a test set."""

    def change(config, files):
        files["result"]["metrics"]["AX"] = {"matthews": 0.1}
        files["result"]["test_metrics"] = {"AX": {"matthews-two-classes": 0.3}}

    suite = suite_of(tasks=["MNLI"], seeds=2)
    runs = fabricate(suite, lambda config, *_: 0.5 + config.seed / 100, change)
    assert means(compare(runs, split="dev")) == {"MNLI-m": 0.515, "MNLI-mm": 0.515}
    report = compare(runs, split="test")
    assert means(report) == {"AX": 0.1}
    assert report.tables["scores"]["split"].unique() == ["test"]
    named = make_report(runs).tables["scores"].query("task == 'AX'")["metric"]
    assert set(named) == {"matthews"}


def test_a_split_can_be_unknown(tmp_path):
    dev = TABLE[TABLE["split"] == "dev"]
    other = dev.drop(columns="split").assign(task="MR")
    report = compare(dev, other, merge=True)
    assert set(report.tables["scores"]["split"]) == {"dev", ""}
    again = compare(report.write(tmp_path).parent)
    assert means(again) == {"RTE": 0.51, "MR": 0.51}
    with pytest.raises(OptionError, match=r"must be dev: .* scores of RTE on several splits"):
        compare(TABLE.assign(split=TABLE["split"].where(TABLE["split"] == "dev")))


def test_tasks_of_several_splits_are_named():
    other = TABLE[TABLE["split"] == "dev"].assign(task="MR")
    mixed = pd.concat([other, TABLE[TABLE["split"] == "test"]])
    (found,) = (x for x in compare(mixed).data.warnings if x.kind == "several_splits")
    assert found.values == {"splits": {"dev": ["MR"], "test": ["RTE"]}}
    assert {*compare(mixed, split="test").tables["scores"]["split"]} == {"test"}


def test_a_score_on_a_split_is_that_of_the_report(suite_of, fabricate):
    suite = suite_of(tasks=["MRPC", "MR"], seeds=2)
    runs = fabricate(suite, lambda config, name, metric: 0.8 if metric == "f1" else 0.6)
    assert means(compare(runs, split="dev")) == {"MRPC": 0.7}
    assert means(compare(runs, split="test")) == {"MR": 0.6}
