"""Scores of any origin: read, named, put side by side, and refused where they do not fit."""

from __future__ import annotations

import pandas as pd
import pytest

from relation_tf.bench.results import read_results
from relation_tf.bench.run_folder import RunFolder, write_json
from relation_tf.bench.suite import SuiteError
from relation_tf.report import compare, make_report
from relation_tf.report.sources import join, read_source
from relation_tf.tasks.tsv import DataError

TWO = [{"name": name, "mechanism": name} for name in ("baseline", "relation")]
HEAD = "task,method,seed,score\n"


def scored(level):
    return lambda config, *_: level[config.method] + config.seed / 100


@pytest.fixture
def before(suite_of, fabricate):
    return fabricate(suite_of(method=TWO), scored({"baseline": 0.5, "relation": 0.6}))


@pytest.fixture
def csv(tmp_path):
    def write(text, name="theirs.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def rows(method, level, seeds=5, task="CoLA"):
    return "".join(f"{task},{method},{seed},{level + seed / 1000}\n" for seed in range(seeds))


def test_a_table_of_anyone(csv):
    report = compare(csv(HEAD + rows("mine", 0.9) + rows("theirs", 0.8)))
    assert "mine is better than theirs on CoLA (p < .05)." in report.content.values["answer"]
    table = report.tables["scores"]
    assert list(table) == ["task", "method", "seed", "metric", "value"]
    assert len(table) == 10
    assert "How each method was run" not in report.html()


def test_lower_is_better(csv):
    path = csv(HEAD + rows("mine", 0.9) + rows("theirs", 0.8))
    report = compare(path, lower_is_better=["CoLA"])
    assert "theirs is better than mine on CoLA (p < .05)." in report.content.values["answer"]
    cells = report.content.values["cells"]
    assert cells["theirs", "CoLA"].best
    assert not cells["mine", "CoLA"].best
    assert "the lowest of CoLA" in report.html()


def test_metrics_count_their_mean(csv):
    text = "method,task,metric,seed,value\n"
    text += "a,MRPC,f1,1,0.8\na,MRPC,accuracy,1,0.6\na,MRPC,f1,2,0.5\n"
    table = read_source(csv(text)).scores.table
    assert table.to_dict("list") == {
        "task": ["MRPC"] * 2, "method": ["a"] * 2, "seed": ["1", "2"],
        "score": pytest.approx([0.7, 0.5]),
    }  # fmt: skip


def test_suites_side_by_side(before, suite_of, fabricate, csv):
    theirs = csv(HEAD + rows("relation", 0.7) + rows("transformer", 0.8))
    report = compare(before, theirs, labels=["ours", "theirs"])
    assert report.content.values["methods"] == [
        "baseline", "relation (ours)", "relation (theirs)", "transformer"
    ]  # fmt: skip
    # The average of the suite's two tasks is not one of the other's single task.
    assert list(report.content.values["columns"]) == ["CoLA", "MRPC"]
    cells = report.content.values["cells"]
    assert cells["relation (theirs)", "CoLA"].means == "70.2"
    assert ("relation (theirs)", "MRPC") not in cells
    assert "relation (ours)" in report.html()
    assert set(report.tables["runs"]["method"]) == {"baseline", "relation (ours)"}


def test_before_and_after_a_change(before, suite_of, fabricate):
    def change(config, files):
        files["manifest"]["commit"] = "after"
        files["config"]["dropout"] = 0.1

    suite = suite_of(method=TWO, dropout=0.1)
    score = scored({"baseline": 0.5, "relation": 0.9})
    after = fabricate(suite, score, change, "after")
    report = compare(before, after, labels=["before", "after"])
    values = report.content.values
    assert (
        "relation (after) is better than relation (before) on all 2 dev sets (p < .05)."
        in values["answer"]
    )
    assert len(report.tables["runs"]) == 2 * 2 * 2 * 5
    assert any(warning.startswith("The runs differ in commit:") for warning in values["warnings"])
    assert any(warning.startswith("The runs differ in dropout:") for warning in values["warnings"])
    assert "dropout" not in values["settings"]
    assert "batch_size" in values["settings"]
    # Both have all tasks, and so the averages of both are of the same.
    assert list(values["columns"]) == ["CoLA", "MRPC", "mean of these tasks"]


def test_failed_runs_of_each_are_counted(before, suite_of, fabricate):
    suite = suite_of(method=TWO)
    score = scored({"baseline": 0.5, "relation": 0.9})
    after = fabricate(
        suite, lambda config, *_: score(config) if config.seed > 1 else None, name="after"
    )
    failed = next(config for config in suite.runs() if config.method == "relation")
    write_json(RunFolder(after).start(failed) / "error.json", {"error": "DataError: no file"})
    report = compare(before, after, labels=["before", "after"])
    assert report.content.values["answer"][0] == (
        "Preliminary: 36 of 40 runs are done, 1 failed and 3 not done."
    )
    assert report.content.values["failures"] == [
        ("CoLA/relation (after)/seed-1", "DataError: no file")
    ]


def test_seeds_of_one_method_from_two_folders(suite_of, fabricate):
    score = scored({"baseline": 0.5, "relation": 0.9})
    first, second = (
        fabricate(suite_of(method=TWO, seeds=seeds), score, name=str(len(seeds)))
        for seeds in ([1, 2], [3, 4, 5])
    )
    merged = compare(first, second, labels=["a", "b"], merge=True)
    whole = make_report(fabricate(suite_of(method=TWO), score))
    columns = ["task", "a", "b", "pvalue", "better"]
    pd.testing.assert_frame_equal(
        merged.tables["pvalues"][columns], whole.tables["pvalues"][columns]
    )
    with pytest.raises(SuiteError, match=r"each task, method and seed from one source. Received: "
                                         r"CoLA / baseline / 1 from a and from b"):  # fmt: skip
        compare(first, first, labels=["a", "b"], merge=True)


def test_the_scores_of_a_report_are_a_source(before):
    make_report(before).write(before / "report")
    source = read_source(before / "report")
    assert source.label == "report"
    again = join([source])[0]
    scores = read_source(read_results(before)).scores
    assert {*again.table["task"]} == {"CoLA", "MRPC"}
    for task in again.tasks:
        for method, own in scores.samples(task).items():
            assert again.samples(task)[method] == pytest.approx(own)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task,method,score\nCoLA,a,1\n", r"theirs.csv: expected columns 'task', 'method', 'seed'"),
        (HEAD, r"theirs.csv: expected a row for each score"),
        (HEAD + "CoLA,a,1,high\n", r"theirs.csv:2: expected a finite number .* Received: 'high'"),
        (HEAD + "CoLA,a,1,nan\n", r"theirs.csv:2: expected a finite number .* Received: 'nan'"),
        (HEAD + "CoLA,a,1,1\nCoLA,,2,1\n", r"theirs.csv:3: expected a method, found none"),
        (HEAD + "CoLA,a,1,1\nCoLA,a,1,2\n", r"theirs.csv:3: .*'CoLA / a / 1' of .*csv:2 again"),
        (HEAD + "CoLA,a,1\n", r"theirs.csv:2: expected 4 comma-separated fields"),
        ("", r"theirs.csv: expected records, the file is empty"),
    ],
)
def test_a_table_that_is_none_of_scores(csv, text, message):
    with pytest.raises(DataError, match=message):
        compare(csv(text))


def test_what_does_not_fit_is_refused(before, csv, tmp_path):
    good = csv(HEAD + rows("mine", 0.9))
    points = csv(HEAD + rows("theirs", 81.0), "points.csv")
    (tmp_path / "empty").mkdir()
    for arguments, options, message in [
        ((), {}, "at least one source"),
        ((good,), {"labels": ["a", "b"]}, "one for each of 1 sources. Received: 2"),
        ((good,), {"alpha": 1.5}, "alpha: .* Received: 1.5"),
        ((good,), {"lower_is_better": ["RTE"]}, "expected some of CoLA. Received: 'RTE'"),
        ((good, good), {}, "found 'theirs' 2 times"),
        ((good, points), {}, "CoLA: expected scores in one unit. Received: up to 0.904"),
        ((tmp_path / "empty",), {}, "expected a suite's folder, with runs/"),
    ]:
        with pytest.raises(SuiteError, match=message):
            compare(*arguments, **options)
    with pytest.raises(DataError, match="cannot be read"):
        compare(tmp_path / "none.csv")


@pytest.mark.parametrize(("size", "digits"), [(1000, 0), (1, 1), (0.001, 4), (0, 3)])
def test_as_many_digits_as_tell_the_scores_apart(size, digits):
    rows = [("t", "mine", seed, size * seed) for seed in range(4)]
    table = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
    assert join([read_source(table)])[0].digits == digits
