"""Sources of scores: reading, labels, joining and errors."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
import threading

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import relation_tf
from relation_tf.bench.results import read_results
from relation_tf.bench.run_folder import RunFolder
from relation_tf.errors import DataError, OptionError, SuiteError
from relation_tf.files import write_bytes, write_json
from relation_tf.report import compare, make_report
from relation_tf.report.joining import join
from relation_tf.report.provenance import settings as settings_of
from relation_tf.report.sources import read_source

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


def write_report(report, folder):
    """Write the files of a report that `compare` reads."""
    folder.mkdir(parents=True)
    report.tables["scores"].to_csv(folder / "scores.csv", index=False)
    (folder / "report.json").write_text(report.json(), encoding="utf-8")
    return folder


def rows(method, level, seeds=5, task="CoLA"):
    return "".join(f"{task},{method},{seed},{level + seed / 1000}\n" for seed in range(seeds))


def test_csv_file(csv):
    report = compare(csv(HEAD + rows("mine", 0.9) + rows("theirs", 0.8)))
    assert "mine is better than theirs on CoLA (p < .05)." in report.context.answer
    table = report.tables["scores"]
    assert list(table) == ["task", "method", "seed", "metric", "value"]
    assert len(table) == 10
    assert "Methods and settings" not in report.html()


def test_score_is_the_mean_of_metrics(csv):
    text = "method,task,metric,seed,value\n"
    text += "a,MRPC,f1,1,0.8\na,MRPC,accuracy,1,0.6\na,MRPC,accuracy,2,0.4\na,MRPC,f1,2,0.6\n"
    table = read_source(csv(text)).scores.table
    assert table.to_dict("list") == {
        "task": ["MRPC"] * 2, "method": ["a"] * 2, "seed": ["1", "2"],
        "score": pytest.approx([0.7, 0.5]),
    }  # fmt: skip


def test_suite_and_csv_file(before, suite_of, fabricate, csv):
    theirs = csv(HEAD + rows("relation", 0.7) + rows("transformer", 0.8))
    report = compare(before, theirs, labels=["ours", "theirs"])
    assert report.context.scores.methods == [
        "baseline", "relation (ours)", "relation (theirs)", "transformer"
    ]  # fmt: skip
    # Averages over different tasks are not comparable.
    assert list(report.context.columns) == ["CoLA", "MRPC"]
    cells = report.context.cells
    assert cells["relation (theirs)", "CoLA"].text == "70.2"
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
    found = report.context
    assert (
        "relation (after) is better than relation (before) on both dev sets (p < .05)."
        in found.answer
    )
    assert len(report.tables["runs"]) == 2 * 2 * 2 * 5
    assert any(warning.startswith("The runs differ in commit:") for warning in found.warnings)
    assert any(warning.startswith("The runs differ in dropout:") for warning in found.warnings)
    assert "dropout" not in settings_of(found.results)
    assert "batch_size" in settings_of(found.results)
    # Both have the same tasks, so their averages are comparable.
    assert list(found.columns) == ["CoLA", "MRPC", "mean of these tasks"]


def test_failed_runs_are_counted(before, suite_of, fabricate):
    suite = suite_of(method=TWO)
    score = scored({"baseline": 0.5, "relation": 0.9})
    after = fabricate(
        suite, lambda config, *_: score(config) if config.seed > 1 else None, name="after"
    )
    failed = next(config for config in suite.runs() if config.method == "relation")
    write_json(RunFolder(after).start(failed) / "error.json", {"error": "DataError: no file"})
    report = compare(before, after, labels=["before", "after"])
    assert report.context.answer[0] == (
        "Preliminary: 36 of 40 runs are done, 1 failed and 3 not done."
    )
    assert report.context.failures == [("CoLA/relation (after)/seed-1", "DataError: no file")]


def test_unfinished_methods_of_two_sources_stay_apart(before, suite_of, fabricate):
    score = scored({"baseline": 0.5, "relation": 0.9})
    suite = suite_of(method=TWO)
    after = fabricate(
        suite, lambda config, *_: score(config) if config.method == "relation" else None,
        name="after",
    )  # fmt: skip
    report = compare(before, after, labels=["before", "after"])
    runs = report.tables["runs"]
    assert not runs.duplicated(["task", "method", "seed"]).any()
    assert set(runs[runs["status"] == "not done"]["method"]) == {"baseline (after)"}
    assert report.context.answer[0] == "Preliminary: 30 of 40 runs are done, 10 not done."


def test_labels_with_slashes_keep_failed_runs(before, suite_of, fabricate):
    score = scored({"baseline": 0.5, "relation": 0.9})
    failed = lambda run, *_: None if (run.method, run.seed) == ("relation", 1) else score(run)  # noqa: E731
    suite = suite_of(method=TWO)
    after = fabricate(suite, failed, name="after")
    lost = next(config for config in suite.runs() if failed(config) is None)
    write_json(RunFolder(after).start(lost) / "error.json", {"error": "DataError: no file"})
    context = compare(before, after, labels=["runs/a", "runs/b"]).context
    assert [run for run, _ in context.results.failures] == [f"{lost.task}/relation (runs/b)/seed-1"]
    assert context.results.only(["relation (runs/b)"]).failures == context.results.failures


def test_a_label_must_not_make_the_name_of_another_method(table_of):
    one = table_of({"A": {"a": [0.5, 0.6], "a (y)": [0.9, 0.8]}})
    two = table_of({"A": {"a": [0.1, 0.2]}})
    with pytest.raises(OptionError, match=r"labels: must not .*another method.*'a \(y\)'"):
        compare(one, two, labels=["x", "y"])


def test_failed_methods_of_two_reports_stay_apart(before, suite_of, fabricate, tmp_path):
    """The failed runs of one report must not count against a method of the other."""
    score = scored({"baseline": 0.5, "relation": 0.9})
    after = fabricate(
        suite_of(method=TWO), lambda run, *_: score(run) if run.method == "baseline" else None,
        name="after",
    )  # fmt: skip
    folders = []
    for source in (before, after):
        folders.append(tmp_path / f"report-{len(folders)}")
        make_report(source).write(folders[-1])
    runs = pd.read_csv(folders[1] / "runs.csv")
    runs.loc[runs["method"] == "relation", "status"] = "failed"
    runs.to_csv(folders[1] / "runs.csv", index=False)
    context = compare(*folders, labels=["before", "after"]).context
    assert set(context.scores.methods) == {
        "baseline (before)", "baseline (after)", "relation (before)"
    }  # fmt: skip


def test_merge_pools_seeds_of_two_folders(suite_of, fabricate):
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
    with pytest.raises(
        SuiteError,
        match=r"merge: needs each combination .* only. CoLA / baseline / 1 is in a and in b$",
    ):
        compare(first, first, labels=["a", "b"], merge=True)


def test_a_merged_report_keeps_its_metrics(suite_of, fabricate, tmp_path):
    score = scored({"baseline": 0.5, "relation": 0.9})
    first, second = (
        fabricate(suite_of(method=TWO, seeds=seeds, tasks=["RTE"]), score, name=str(len(seeds)))
        for seeds in ([1, 2], [3, 4, 5])
    )
    make_report(first).write(tmp_path / "report")
    merged = compare(tmp_path / "report", second, merge=True).tables
    whole = make_report(fabricate(suite_of(method=TWO, tasks=["RTE"]), score)).tables
    for name in ("scores", "table"):
        found, expected = (
            sorted(own[name].astype(str).to_numpy().tolist()) for own in (merged, whole)
        )
        assert found == expected


@pytest.mark.parametrize("metric", ["accuracy", "acc"])
@pytest.mark.parametrize("task", ["RTE", "MRPC"])
def test_other_metrics_of_tables_are_scores(suite_of, fabricate, csv, tmp_path, task, metric):
    folder = fabricate(
        suite_of(tasks=[task], method=TWO), scored({"baseline": 0.5, "relation": 0.9})
    )
    rows = "".join(f"{task},x,{seed},{metric},0.8{seed}\n" for seed in range(5))
    table = csv("task,method,seed,metric,value\n" + rows)
    report = compare(folder, table, labels=["a", "b"])
    names = report.tables["scores"].set_index("method").loc["x", "metric"]
    assert {*names} == {"accuracy" if (task, metric) == ("RTE", "accuracy") else "score"}
    again = compare(write_report(report, tmp_path / "report"))
    assert again.context.scores.samples(task) == report.context.scores.samples(task)


@pytest.mark.parametrize(
    "option", [{"columns": {"task": "dataset"}}, {"drop_failed": True}, {"failed_as": 0.0}]
)
def test_options_of_tables_are_refused_without_a_table(before, csv, option):
    (name,) = option
    with pytest.raises(SuiteError, match=f"{name}: applies to tables of scores, but all sources"):
        compare(before, before, labels=["a", "b"], **option)
    if name != "columns":
        table = csv(HEAD + rows("a", 0.8) + rows("b", 0.7))
        assert compare(before, table, **option)


def test_a_single_source_cannot_be_merged(before):
    with pytest.raises(SuiteError, match="merge: needs two or more sources"):
        compare(before, merge=True)


def test_report_as_source(before):
    write_report(make_report(before), before / "report")
    source = read_source(before / "report")
    assert source.label == "suite"
    again = join([source])[0]
    scores = read_source(read_results(before)).scores
    assert {*again.table["task"]} == {"CoLA", "MRPC"}
    for task in again.tasks:
        for method, own in scores.samples(task).items():
            assert again.samples(task)[method] == pytest.approx(own)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "task,method,score\nCoLA,a,1\n",
            r"theirs.csv has no column 'seed'. If your columns have other names, use --columns "
            r"seed=NAME",
        ),
        (
            "task,method,seed,acc\nCoLA,a,1,1\n",
            r"no column 'score' .or 'value'.. If .* --columns score=NAME. Other columns: 'acc'$",
        ),
        (HEAD, r"theirs.csv has no rows; it must have one row per score"),
        (HEAD + "CoLA,a,1,high\n", r"theirs.csv:2: the score must be .* Received: 'high'"),
        (HEAD + "CoLA,a,1,nan\n", r"theirs.csv: all runs failed; there is no score to compare"),
        (HEAD + "CoLA,a,1,8_0.5\n", r"theirs.csv:2: the score must be .* '8_0.5'"),
        (HEAD + "CoLA,a,1,1\n\nCoLA,a,1.0,2\n", r"csv:4 repeats 'CoLA / a / 1' of .*csv:2"),
        (HEAD + "CoLA,a,1,1\nCoLA, a ,01,2\n", r"csv:3 repeats 'CoLA / a / 1' of .*csv:2"),
        (
            HEAD + "CoLA,a\x0cb,1,1\n",
            r"theirs.csv:2: the method must be printable text. .*a.x0cb",
        ),
        (
            "task,method,seed,metric,score\nMRPC,a,1,acc,1\nMRPC,a,1,f1,1\nMRPC,b,1,acc,1\n",
            r"theirs.csv:4: MRPC must have the metrics acc, f1, as for a / 1. .*for b / 1",
        ),
        ("task;method;seed;score\nCoLA;a;1;0,5\n", r"csv:1: .*comma-separated, .*'task;method;"),
        ("task\tmethod\tseed\tscore\nCoLA\ta\t1\t0.5\n", r"csv:1: .*with decimal points"),
        (HEAD + "CoLA,a,1,1\nCoLA,,2,1\n", r"theirs.csv:3: the method is empty"),
        (HEAD + "CoLA,a,1,1\nCoLA,a,1,2\n", r"theirs.csv:3 repeats 'CoLA / a / 1' of .*csv:2"),
        (HEAD + "CoLA,a,1\n", r"theirs.csv:2: expected 4 fields"),
        ("", r"theirs.csv: the file is empty\. It must have the columns task, method, seed"),
    ],
)
def test_invalid_table(csv, text, message):
    with pytest.raises(DataError, match=message):
        compare(csv(text))


def test_invalid_arguments(before, csv, tmp_path):
    good = csv(HEAD + rows("mine", 0.9))
    points = csv(HEAD + rows("theirs", 81.0), "points.csv")
    both = csv(HEAD + rows("mine", 0.9) + rows("theirs", 81.0), "both.csv")
    (tmp_path / "empty").mkdir()
    for arguments, options, message in [
        ((), {}, "at least one source"),
        ((good,), {"labels": ["a", "b"]}, "one name per source. Received: 2 names for 1 source"),
        ((good,), {"alpha": 1.5}, "alpha: .* Received: 1.5"),
        ((good,), {"control": "x"}, "control: must be one of mine. Received: 'x'"),
        ((good,), {"lower_is_better": ["RTE"]}, "names an unknown task or metric 'RTE'"),
        (
            (good, good),
            {},
            "labels: must give each source a different name.* 2 sources have the name 'theirs'",
        ),
        ((good,), {"labels": ["a\x00b"]}, r"labels: must be printable text.*a.x00b"),
        (
            (good, points),
            {},
            "CoLA: all scores must have the same unit. Received: up to 0.904 for mine of ",
        ),
        ((both,), {}, "up to 0.904 for mine of both and up to 81 for theirs of both; if these are"),
        ((good, {"a": [1, 2]}), {}, "source 2 must be .*DataFrame. Received: dict"),
        (("~no-such-user/x.csv",), {}, "~no-such-user/x.csv: there is no such user."),
        (("x" * 300,), {}, "xxx: cannot be read: File name too long"),
        ((tmp_path / "empty",), {}, "must be a suite's folder .with runs/"),
    ]:
        with pytest.raises(SuiteError, match=message):
            compare(*arguments, **options)
    for name in ("none.csv", "non/scores.csv"):
        with pytest.raises(SuiteError, match=rf"{name}: no such file or folder\.$"):
            compare(tmp_path / name)
    (tmp_path / "empty" / "mine").mkdir()
    (tmp_path / "empty" / "mine" / "suite.toml").touch()
    with pytest.raises(SuiteError, match=r"it has neither\. Did you mean '.*/empty/mine'\?$"):
        compare(tmp_path / "empty")
    csv(HEAD + rows("a", 0.5), "scores.csv")
    meant = re.escape(str(tmp_path / "scores.csv"))
    with pytest.raises(SuiteError, match=rf"folder\. Did you mean '{meant}'\?"):
        compare(tmp_path / "score.csv")


@pytest.mark.parametrize(
    ("scores", "digits"),
    [
        *[([size * seed for seed in range(4)], digits)
          for size, digits in ((1000, 0), (1, 1), (0.001, 4), (0, 3))],
        # With one seed, digits depend on the size of the score.
        ([10765.3], 0), ([184.31], 1), ([8.5], 3), ([0.81], 3),
    ],
)  # fmt: skip
def test_digits_depend_on_the_deviation_of_scores(scores, digits):
    tables = [
        pd.DataFrame({"task": task, "method": "a", "seed": range(len(own)), "score": own})
        for task, own in (("t", scores), ("other", [0.0, 1e-4]))
    ]
    joined, _ = join([read_source(pd.concat(tables))])
    assert (joined.digits("t"), joined.digits("other")) == (digits, 6)


def _of_metrics(**values):
    rows = [("A", method, seed, metric, value + seed / 1000)
            for method in ("a", "b") for seed in range(5)
            for metric, value in values.items()]  # fmt: skip
    return pd.DataFrame(rows, columns=["task", "method", "seed", "metric", "value"])


def test_metrics_must_have_the_same_direction():
    message = "the metrics of A must be all .*Received: acc and perplexity. Keep one"
    with pytest.raises(DataError, match=message):
        compare(_of_metrics(acc=0.8, perplexity=45))
    compare(_of_metrics(wer=0.8, cer=0.4), lower_is_better="A")


def test_a_report_does_not_overwrite_its_sources(tmp_path, before):
    table = _of_metrics(acc=0.5).drop(columns="metric")
    mine, more = tmp_path / "scores.csv", tmp_path / "elsewhere" / "more.csv"
    more.parent.mkdir()
    table.to_csv(mine, index=False)
    table.to_csv(more, index=False)
    content = mine.read_bytes()
    report = tmp_path / "report"
    compare(mine).write(report)
    compare(more).write(report)  # replaces the earlier report
    for source, folder in ((mine, tmp_path), (tmp_path, tmp_path), (report, report),
                           (before, before / "report")):  # fmt: skip
        with pytest.raises(SuiteError, match="is a source of this comparison"):
            compare(source).write(folder)
    assert mine.read_bytes() == content


def test_a_report_can_be_written_next_to_its_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "mine.csv"
    _of_metrics(acc=0.5).drop(columns="metric").to_csv(mine, index=False)
    content = mine.read_bytes()
    assert compare("mine.csv").write(".").exists()
    assert mine.read_bytes() == content
    with pytest.raises(SuiteError, match=r"^scores.csv is a source of .* such as comparison$"):
        compare("scores.csv").write(".")


@pytest.mark.parametrize("method", [float("nan"), None, pd.NA])
@pytest.mark.parametrize("name", ["task", "method", "seed"])
def test_missing_values(name, method):
    row = {"task": "T", "method": "a", "seed": 0, "score": 0.5}
    table = pd.DataFrame([row, row | {name: method}], dtype=object, index=["first", "second"])
    with pytest.raises(
        DataError, match=rf"row 'second': the {name} is missing .*keep_default_na=False"
    ):
        compare(table)


def test_invalid_data_frame():
    row = [("T", "a", 0, 0.5, 0.5)]
    twice = pd.DataFrame(row, columns=["task", "method", "seed", "score", "score"])
    with pytest.raises(DataError, match="has column 'score' 2 times"):
        compare(twice)
    large = pd.DataFrame([("T", "a", 0, 10**400)], columns=twice.columns[:4], dtype=object)
    with pytest.raises(DataError, match="the score must be a number"):
        compare(large)


def test_a_string_is_one_name(csv):
    path = csv(HEAD + rows("mine", 0.9, task="T1") + rows("theirs", 0.8, task="T1"))
    report = compare(path, lower_is_better="T1", labels="mine")
    assert report.context.scores.lower_is_better == {"T1"}
    assert report.context.title == "mine"


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**15),
    st.sampled_from(["{}", "0{}", "{}.0", " {} ", "00{}.", "+{}.000"]),
    st.sampled_from(["{}", "{}.00", "\t{}"]),
)
def test_spellings_of_the_same_seed(seed, one, other):
    table = pd.DataFrame(
        [("T", "a", form.format(seed), 0.5) for form in (one, other)],
        columns=["task", "method", "seed", "score"],
    )
    with pytest.raises(DataError, match=rf"repeats 'T / a / {seed}' of table 1, row 0"):
        read_source(table)
    assert read_source(table[:1]).scores.table["seed"].tolist() == [str(seed)]


def test_blank_rows_are_skipped(csv):
    path = csv(HEAD + "\n" + rows("a", 0.5) + "\n,,,\n" + rows("b", 0.6) + "\n\n")
    assert len(compare(path).tables["scores"]) == 10


def test_lower_is_better_scores_may_have_any_size(csv):
    path = csv(HEAD + rows("fast", 0.5, task="seconds") + rows("slow", 30, task="seconds"))
    report = compare(path, lower_is_better=["seconds"])
    assert "fast is better than slow on seconds (p < .05)." in report.context.answer


def test_report_with_other_units_as_source(csv, tmp_path):
    path = csv(HEAD + rows("a", 87.4, task="WikiText") + rows("b", 79.1, task="WikiText"))
    report = compare(path, lower_is_better=["WikiText"])
    again = compare(write_report(report, tmp_path / "ppl"))
    assert again.context.answer == report.context.answer
    assert again.context.scores.lower_is_better == {"WikiText"}
    assert again.context.cells == report.context.cells
    # A report of an earlier version does not record the unit: inferred from the scores.
    (tmp_path / "ppl/report.json").unlink()
    cells = compare(tmp_path / "ppl").context.cells
    assert cells["a", "WikiText"].text == report.context.cells["a", "WikiText"].text
    fractions = compare(csv(HEAD + rows("a", 0.8) + rows("b", 0.7)))
    again = compare(write_report(fractions, tmp_path / "out"))
    assert not fractions.context.scores.in_points
    assert not again.context.scores.in_points


def test_invalid_report_json_is_named(csv, tmp_path):
    folder = write_report(compare(csv(HEAD + rows("a", 0.8))), tmp_path / "out")
    for text, message in [
        ("{", "report.json"),
        ('{"in_points": 1}', "report.json: key 'in_points': must be a boolean. Received: 1"),
        ('{"lower_is_better": "T"}', r"must be a list, such as \['T'\]. Received: 'T'"),
    ]:
        (folder / "report.json").write_text(text, encoding="utf-8")
        with pytest.raises(SuiteError, match=message):
            compare(folder)


def test_suite_with_scores_that_are_not_fractions(before, csv):
    theirs = csv(HEAD + rows("relation", 87.4, task="WikiText"))
    report = compare(before, theirs, labels=["ours", "theirs"])
    assert not report.context.scores.in_points


def test_labels_are_names_of_folders(csv, tmp_path):
    report = compare(csv(HEAD + rows("a", 0.8)))
    for name in ("v1.2", "v1.3"):
        write_report(report, tmp_path / name)
    write_report(report, tmp_path / "suite" / "report")
    sources = [tmp_path / "v1.2", tmp_path / "v1.3", tmp_path / "suite" / "report"]
    assert compare(*sources).context.title == "v1.2, v1.3 and suite"


def declared(suite_of, fabricate, name, level=0.5, **values):
    score = scored({"baseline": level, "relation": level + 0.1})
    return fabricate(suite_of(method=TWO, **values), score, name=name)


def test_declared_test_of_a_suite_is_used(suite_of, fabricate):
    folder = declared(suite_of, fabricate, "one", control="relation", alpha=0.04)
    report, own = compare(folder), make_report(folder)
    for name in ("test", "level", "answer", "warnings"):
        assert getattr(report.context, name) == getattr(own.context, name)
    assert settings_of(report.context.results) == settings_of(own.context.results)
    pd.testing.assert_frame_equal(report.tables["pvalues"], own.tables["pvalues"])
    assert "Steel's test against relation" in report.context.test
    merged = [
        declared(suite_of, fabricate, name, control="relation", alpha=0.04, seeds=seeds)
        for name, seeds in (("low", [1, 2]), ("high", [3, 4]))
    ]
    found = compare(*merged, merge=True).context
    assert (found.test, found.scores.alpha) == ("Steel's test against relation", 0.04)


def test_unused_declared_test_is_named(suite_of, fabricate):
    folders = [
        declared(suite_of, fabricate, name, control="relation", alpha=0.04)
        for name in ("before", "after")
    ]
    found = compare(*folders).context
    # It is not declared which of the two "relation" methods is the control.
    assert (found.test, found.scores.alpha, settings_of(found.results)["alpha"]) == (
        "Steel-Dwass", 0.05, "0.05"
    )  # fmt: skip
    assert (
        "before declares Steel's test against relation (before), p < .04; this comparison uses "
        "Steel-Dwass, p < .05." in found.warnings
    )
    found = compare(folders[0], alpha=0.01).context
    assert (found.test, found.scores.alpha, settings_of(found.results)["alpha"]) == (
        "Steel's test against relation", 0.01, "0.01"
    )  # fmt: skip
    assert (
        "before declares Steel's test against relation, p < .04; this comparison uses Steel's "
        "test against relation, p < .01." in found.warnings
    )


def test_times_to_target_are_tested_at_the_requested_level(suite_of, fabricate):
    def change(config, files):
        seconds = 20.0 + config.seed + 20 * (config.method == "baseline")
        files["result"]["reached"] = True
        files["result"]["seconds"] |= {"training": seconds, "evaluation": 0.0, "input": 0.1}
        files["history"] |= {"running_accuracy": [0.5] * files["result"]["epochs"]}

    suite = suite_of(method=TWO, tasks=["MRPC"], stopping="accuracy_reached")
    folder = fabricate(suite, lambda *_: 0.8, change)
    found = compare(folder).context.answer
    assert "Time to target on MRPC (p < .05): relation faster than baseline." in found
    strict = compare(folder, alpha=0.001).context.answer
    assert "No two methods differ significantly in time to target on MRPC." in strict


def test_scores_table_has_all_sources(before, csv, tmp_path):
    theirs = csv(HEAD + rows("transformer", 0.8) + rows("transformer", 0.8, task="MRPC"))
    report = compare(before, theirs)
    assert "transformer" in set(report.tables["scores"]["method"])
    again = compare(report.write(tmp_path / "written").parent)
    assert again.context.answer == report.context.answer


def warned(path, **options):
    return compare(path, **options).context.warnings


@pytest.mark.parametrize("task", ["PTB perplexity", "val_loss", "NLL", "word error rate"])
def test_direction_from_a_name_is_reported(csv, task):
    path = csv(HEAD + rows("a", 87.4, task=task) + rows("b", 79.1, task=task))
    assert f"Lower is better on {task} (from its name)." in str(compare(path))
    assert warned(path) == warned(path, higher_is_better=[task]) == []
    assert f"{task} (lower is better)" in str(compare(path))
    assert "best mean (lowest for " in compare(path).latex()


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (rows("theirs", 0.09) + rows("mine", 8.9), {},
         ["CoLA: theirs has scores up to 0.094, mine from 8.9; if these are percent and "
          "fractions, divide or multiply one by 100."]),
        (rows("theirs", 0.09) + rows("mine", 8.9), {"lower_is_better": ["CoLA"]}, []),
        (rows("theirs", 0.9) + rows("mine", 8.9), {}, []),
        # Names that only contain the word "loss" or "error".
        (rows("a", 0.5, task="terrors") + rows("b", 0.6, task="terrors"), {}, []),
    ],
)  # fmt: skip
def test_low_percentages_with_fractions_are_named(csv, text, options, expected):
    assert warned(csv(HEAD + text), **options) == expected


def test_unequal_seeds_are_named(csv):
    text = HEAD + "".join(
        rows(name, 0.9, seeds, task)
        for task in ("MR", "CR")
        for name, seeds in (("mine", 2), ("a", 5), ("b", 5))
    )
    assert warned(csv(text)) == ["MR, CR: mine has 2 seeds (without 2, 3, 4), others 5."]
    text += "SST,a,1,0.5\nSST,b,1,0.5\nSST,b,2,0.5\nSST,mine,1,0.5\nSST,mine,2,0.5\nSST,mine,3,1\n"
    assert warned(csv(text))[1] == (
        "SST: a has 1 seed (without 2, 3), b has 2 seeds (without 3), others 3."
    )


def test_missing_seeds_are_those_that_the_usual_methods_share(table_of):
    def said(**seeds):
        table = pd.concat(
            table_of({"MR": {name: [0.5] * len(own)}}).assign(seed=list(own))
            for name, own in seeds.items()
        )
        (remark,) = [
            each for each in compare(table.reset_index(drop=True)).context.warnings
            if each.startswith("MR: ")
        ]  # fmt: skip
        return remark.removeprefix("MR: ")

    assert said(a="12345", b="123", c="12", d="123") == (
        "a has 5 seeds, c has 2 seeds (without 3), others 3."
    )
    assert said(a="123", b="456", c="45") == "c has 2 seeds, others 3."


def test_report_names_its_sources(csv, before):
    path = csv(HEAD + rows("a", 0.8) + rows("b", 0.7))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    report = compare(path, before, labels=["x y", "z"], lower_is_better="MRPC", alpha=0.01)
    made = report.context.made
    assert made["sources"] == [f"{path}, SHA-256 {digest}", f"{before}, 20 runs of a suite"]
    command = ["relation-tf", "compare", str(path), str(before), "--labels", "x y,z"]
    command += ["--lower-is-better", "MRPC", "--alpha", "0.01"]
    assert made["compare command"] == [shlex.join(command)]
    assert made["compare version"] == [f"relation_tf {relation_tf.__version__}"]
    assert made["processor"] == ["A processor"]
    assert digest in report.html()
    assert digest in report.markdown()
    again = compare(write_report(report, path.parent / "report"))
    assert again.context.made["sources"][0].startswith(f"{path.parent}/report/scores.csv")
    table = compare(pd.read_csv(path)).context.made
    assert table["sources"] == ["table 1, in memory"]
    assert "compare command" not in table
    options = {"reference": "a", "margin": 0.51234567, "margins": {"CoLA": 0.1}, "out": "my page"}
    again = compare(path, **options, failed_as=0, drop_failed=False).context.made
    command = ["relation-tf", "compare", str(path), "--out", "my page", "--failed-as", "0"]
    command += ["--reference", "a", "--margin", "0.51234567", "--margin", "CoLA=0.1"]
    assert again["compare command"] == [shlex.join(command)]
    # The command line would split a name with a comma.
    again = compare(path, labels=("a, b",))
    assert "compare command" not in again.context.made


def test_commands_of_numpy_numbers_and_of_names_that_are_numbers(csv):
    path = csv(HEAD + rows("1", 0.8) + rows("2", 0.7))
    options = {"margin": np.float32(0.5), "margins": {"CoLA": np.float16(0.25)}}
    made = compare(path, reference=np.int64(2), **options, alpha=np.float64(0.01)).context.made
    command = ["relation-tf", "compare", str(path), "--alpha", "0.01", "--reference", "2"]
    command += ["--margin", "0.5", "--margin", "CoLA=0.25"]
    assert made["compare command"] == [shlex.join(command)]
    listed = compare(path, reference=[1], margin=0.5).context.made
    assert listed["compare command"][0].endswith(" --reference 1 --margin 0.5")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_has_no_digest(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = HEAD + rows("a", 0.8) + rows("b", 0.7)
    writer = threading.Thread(target=pipe.write_text, args=(text,), daemon=True)
    writer.start()
    report = compare(pipe)
    writer.join()
    assert report.context.made["sources"] == [str(pipe)]


def test_caption_refers_to_n_for_unequal_seeds(csv):
    unequal = compare(csv(HEAD + rows("a", 0.5) + rows("b", 0.6, seeds=3)))
    assert "Mean over 5 seeds (or n if given)" in unequal.markdown()
    assert "over 5 seeds or fewer" in unequal.latex()
    assert "if given" not in compare(csv(HEAD + rows("a", 0.5) + rows("b", 0.6))).html()


@pytest.mark.parametrize(
    ("name", "earlier"),
    [("report.html", False), ("figures/scores.svg", False), ("report.md", False),
     ("over_tasks.csv", False), ("over_tasks.csv", True)],
)  # fmt: skip
def test_other_files_are_not_overwritten(tmp_path, name, earlier):
    if earlier:
        compare(_tasks(1)).write(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    if not earlier:
        (tmp_path / "report.json").write_text('{"summary": "of another program"}')
    with pytest.raises(SuiteError, match=f"{name} was not written by a report"):
        compare(_tasks(3)).write(tmp_path)
    assert (tmp_path / name).read_text() == "mine"


def test_scores_of_a_report_keep_their_direction(tmp_path):
    table = _tasks(1).rename(columns={"score": "bits_per_byte"})
    compare(table, columns={"score": "bits_per_byte"}).write(tmp_path / "first")
    again = compare(tmp_path / "first" / "scores.csv").context.scores
    assert again.lower_is_better == {"t0"}


def test_interrupted_report_leaves_no_files(tmp_path, monkeypatch):
    report = compare(_tasks(3))

    def interrupted(path, content):
        if path.name == "report.md":
            raise KeyboardInterrupt
        write_bytes(path, content)

    with monkeypatch.context() as patch:
        patch.setattr("relation_tf.report.report.write_bytes", interrupted)
        with pytest.raises(KeyboardInterrupt):
            report.write(tmp_path)
    assert not [*tmp_path.iterdir()]
    assert compare(_tasks(3)).write(tmp_path).is_file()


def _tasks(count):
    rows = [(f"t{task}", f"m{i}", seed, i / 100 + seed / 1000)
            for task in range(count) for i in range(3) for seed in range(5)]  # fmt: skip
    return pd.DataFrame(rows, columns=["task", "method", "seed", "score"])


@pytest.mark.parametrize(
    ("metrics", "lower", "warning"),
    [
        ({"acc": 0.5}, (), None),
        ({"acc": 0.5, "f1": 0.9}, (), "A: a score is the mean of acc and f1."),
        ({"wer": 0.2}, (), None),
        ({"wer": 0.2}, "A", None),
        ({"neg_mse": -0.2}, (), None),
    ],
)  # fmt: skip
def test_suspicious_metrics_are_named(metrics, lower, warning):
    found = compare(_of_metrics(**metrics), lower_is_better=lower).context.warnings
    assert found == ([warning] if warning else [])


def test_different_metrics_are_named():
    one = _of_metrics(acc=0.5).replace({"method": {"a": "x", "b": "y"}})
    found = compare(one, _of_metrics(acc=0.5, f1=0.9)).context.warnings
    assert found == ["A: sources have different metrics: acc; acc and f1."]


@pytest.mark.parametrize(("task", "level"), [("WikiText perplexity", 23), ("IMDb", 83)])
def test_suites_stay_in_points_next_to_a_table_of_another_unit(
    suite_of, fabricate, csv, task, level
):
    """Their margins are in points."""
    suite = suite_of(method=TWO, reference="baseline", margin=1.0)
    folder = fabricate(suite, scored({"baseline": 0.5, "relation": 0.3}))
    table = csv(HEAD + rows("baseline", level, task=task) + rows("relation", level, task=task))
    context = compare(folder, table, merge=True).context
    assert {name: context.scores.factor(name) for name in context.scores.own_tasks} == {
        "CoLA": 100, "MRPC": 100, task: 1
    }  # fmt: skip
    verdicts = context.tables["verdicts"].set_index(["task", "method"])["verdict"]
    assert verdicts["CoLA", "relation"] == "worse"
    assert context.scores.alike is False


def test_merged_folders_count_each_run_once(suite_of, fabricate):
    """Both suites request all seeds; one has finished a run that failed in the other."""
    suite = suite_of(method=TWO, seeds=[1, 2, 3], tasks=["RTE"])
    score = scored({"baseline": 0.5, "relation": 0.9})
    first, second = (
        fabricate(suite, lambda run, *_, own=own: score(run) if run.seed in own else None,
                  name=str(own[0]))
        for own in ([1], [3])
    )  # fmt: skip
    for folder, seed in ((first, 3), (second, 2)):
        path = folder / "runs" / "RTE" / "relation" / f"seed-{seed}"
        path.mkdir(parents=True)
        write_json(path / "error.json", {"error": "RuntimeError: broken", "traceback": ""})
    report = compare(first, second, labels=["a", "b"], merge=True)
    assert len(report.tables["runs"]) == 6
    assert [name for name, _ in report.context.failures] == ["RTE/relation/seed-2"]
    assert report.context.answer[0] == (
        "Preliminary: 4 of 6 runs are done, 1 failed and 1 not done."
    )


def test_a_failed_run_of_a_suite_with_a_score_in_a_table(suite_of, fabricate, csv):
    """Also if the task is scored by another name: MNLI-m of MNLI."""
    suite = suite_of(method=TWO, seeds=[1, 2], tasks=["MNLI"], reference="baseline")
    score = scored({"baseline": 0.5, "relation": 0.9})
    failed = ("relation", 2)
    folder = fabricate(
        suite, lambda run, *_: None if (run.method, run.seed) == failed else score(run)
    )
    path = folder / "runs" / "MNLI" / "relation" / "seed-2"
    path.mkdir(parents=True)
    write_json(path / "error.json", {"error": "RuntimeError: broken", "traceback": ""})
    table = csv(f"{HEAD}MNLI-m,relation,2,0.92\nMNLI-mm,relation,2,0.92\n")
    report = compare(folder, table, merge=True)
    assert report.context.failures == []
    assert report.tables["runs"]["status"].tolist() == ["done"] * 3
    alone = make_report(folder)
    alone.write(folder / "report")
    again = compare(folder / "report", table, merge=True)
    assert "failed" not in {*again.tables["runs"]["status"]}


def test_averages_are_no_tasks_of_a_data_frame(before):
    scores = make_report(before).tables["scores"]
    assert "mean of these tasks" in {*scores["task"]}
    report = compare(scores)
    assert report.context.scores.tasks == ["CoLA", "MRPC"]
    assert len(report.context.several.tasks) == 2


def test_a_repeated_run_of_a_table_is_not_a_failed_one(csv):
    first = csv(HEAD + rows("a", 0.8) + rows("b", 0.7).replace("0.702", "nan"), "first.csv")
    again = csv(HEAD + "CoLA,b,2,0.702\n", "again.csv")
    options = {"drop_failed": True, "reference": "a", "margin": 0.01}
    failed = compare(first, **options)
    assert failed.tables["runs"]["status"].tolist() == ["failed"]
    assert "runs" not in compare(first, again, merge=True, **options).tables


def test_the_command_loads_the_plugins_again(csv, tmp_path, monkeypatch):
    (tmp_path / "plug_compare.py").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    table = csv(HEAD + rows("a", 0.8) + rows("b", 0.7))
    report = compare(table, plugins="plug_compare")
    assert "plug_compare" in sys.modules
    (command,) = report.context.made["compare command"]
    assert command.endswith("theirs.csv --plugin plug_compare")


def test_a_test_of_all_pairs_is_refused_for_a_suite_with_a_control(suite_of, fabricate):
    suite = suite_of(method=TWO, control="baseline")
    folder = fabricate(suite, scored({"baseline": 0.5, "relation": 0.6}))
    message = r"there is a control, baseline\. Tests with a control: .*welch-control"
    with pytest.raises(SuiteError, match=message):
        compare(folder, test="welch")


def test_runs_without_a_result_are_merged_with_a_report(suite_of, fabricate, tmp_path):
    done = make_report(fabricate(suite_of(), lambda config, *_: config.seed / 50, name="done"))
    done.write(tmp_path / "report")
    empty = fabricate(suite_of(), lambda *_: None, name="empty")
    (empty / "runs").mkdir(exist_ok=True)
    merged = compare(empty, tmp_path / "report", merge=True)
    found, own = merged.context.scores, done.context.scores
    for task in found.tasks:
        assert found.samples(task) == own.samples(task)
    assert merged.context.runs.empty
