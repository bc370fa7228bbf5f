"""Sources of scores: reading, labels, joining and errors."""

from __future__ import annotations

import hashlib
import re

import pandas as pd
import pytest

import relation_tf
from relation_tf.errors import DataError, OptionError, SuiteError
from relation_tf.files import write_json
from relation_tf.report import compare, make_report
from tests.report.conftest import TWO, content, facts, rows_of, verdicts

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


def test_score_is_the_mean_of_metrics(csv):
    text = "method,task,metric,seed,value\n"
    text += "a,MRPC,f1,1,0.8\na,MRPC,accuracy,1,0.6\na,MRPC,accuracy,2,0.4\na,MRPC,f1,2,0.6\n"
    table = compare(csv(text)).tables["table"]
    (found,) = table.query("metric == 'score'")[["n", "mean", "sd"]].to_numpy().tolist()
    assert found == pytest.approx([2, 0.6, 0.2 / 2**0.5])


def test_suite_and_csv_file(before, csv, tmp_path):
    theirs = csv(HEAD + rows("relation", 0.7) + rows("transformer", 0.8))
    report = compare(before, theirs, labels=["ours", "theirs"])
    means = report.tables["table"].set_index(["task", "method"])["mean"]
    # Averages over different tasks are not comparable.
    assert {*means.index.levels[0]} == {"CoLA", "MRPC"}
    assert {*means["CoLA"].index} == {
        "baseline", "relation (ours)", "relation (theirs)", "transformer"
    }  # fmt: skip
    assert {*means["MRPC"].index} == {"baseline", "relation (ours)"}
    assert means["CoLA", "relation (theirs)"] == pytest.approx(0.702)
    assert {*report.tables["runs"]["method"]} == {"baseline", "relation (ours)"}
    again = compare(report.write(tmp_path / "written").parent)
    pd.testing.assert_frame_equal(again.tables["pvalues"], report.tables["pvalues"])


def statuses(report):
    return report.tables["runs"]["status"].value_counts().to_dict()


def test_a_label_must_not_make_the_name_of_another_method(table_of):
    one = table_of({"A": {"a": [0.5, 0.6], "a (y)": [0.9, 0.8]}})
    two = table_of({"A": {"a": [0.1, 0.2]}})
    with pytest.raises(OptionError, match=r"labels: must not .*another method.*'a \(y\)'"):
        compare(one, two, labels=["x", "y"])


def test_merge_pools_seeds_of_two_folders(suite_of, fabricate, tmp_path):
    """The first one can be a report, with the metrics of its scores."""
    score = scored({"baseline": 0.5, "relation": 0.9})
    runs = {"method": TWO, "tasks": ["CoLA", "RTE"]}
    first, second = (
        fabricate(suite_of(**runs, seeds=seeds), score, name=str(len(seeds)))
        for seeds in ([1, 2], [3, 4, 5])
    )
    whole = make_report(fabricate(suite_of(**runs), score)).tables
    written = make_report(first).write(tmp_path / "report").parent
    merged = [compare(each, second, merge=True).tables for each in (first, written)]
    for name, column in (("pvalues", "pvalue"), ("table", "mean")):
        for tables in merged:
            found, expected = (
                own[name].query("task != 'mean of these tasks'")[column].tolist()
                for own in (tables, whole)
            )
            assert found == pytest.approx(expected)
    with pytest.raises(
        SuiteError,
        match=r"merge: needs each combination .* only. CoLA / baseline / 1 is in a and in b$",
    ):
        compare(first, first, labels=["a", "b"], merge=True)


def test_report_as_source(before):
    report = make_report(before)
    again = compare(write_report(report, before / "report"))
    assert content(again)["title"] == "suite"
    # The average is not a task of the other report.
    kept = report.tables["pvalues"].query("task in ['CoLA', 'MRPC']").reset_index(drop=True)
    for found in (again, compare(report.tables["scores"])):
        columns = ["task", "a", "b", "pvalue", "better"]
        pd.testing.assert_frame_equal(found.tables["pvalues"][columns], kept[columns])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, r"theirs.csv has no rows; it must have one row per score"),
        (HEAD + "CoLA,a,1,high\n", r"theirs.csv:2: the score must be .* Received: 'high'"),
        (HEAD + "CoLA,a,1,nan\n", r"theirs.csv: all runs failed; there is no score to compare"),
        (HEAD + "CoLA,a,1,1\nCoLA, a ,01,2\n", r"csv:3 repeats 'CoLA / a / 1' of .*csv:2"),
        (HEAD + "CoLA,a\x0cb,1,1\n", r"csv:2: the method must be printable text. .*a.x0cb"),
        (
            "task,method,seed,metric,score\nMRPC,a,1,acc,1\nMRPC,a,1,f1,1\nMRPC,b,1,acc,1\n",
            r"theirs.csv:4: MRPC must have the metrics acc, f1. .*for b / 1",
        ),
        (HEAD + "CoLA,a,1,80.5 ± .4\n", r"csv:2: the score must be one number, without"),
        (HEAD + "CoLA,a,1,1\nCoLA,,2,1\n", r"theirs.csv:3: the method is empty"),
        (HEAD + "CoLA,a,1,1\nCoLA,a,1,2\n", r"theirs.csv:3 repeats 'CoLA / a / 1' of .*csv:2"),
        (HEAD + "CoLA,a,1\n", r"theirs.csv:2: must have 4 fields, as the header. Received: 3"),
        (HEAD + "CoLA,a,1,0,8282\n", r"Received: 5, .*8282'\. .*decimal point"),
        (HEAD + "CoLA,a,x,b,0.8\n", r"Received: 5, 'CoLA,a,x,b,0.8'$"),
        ("", r"theirs.csv: the file is empty; it must have a header and one row per score"),
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
        ((good, good), {}, "labels: must give each .* 2 sources have the name 'theirs'"),
        ((good,), {"merge": True}, "merge: needs two or more sources"),
        ((before,), {"columns": {"task": "x"}}, "columns: applies to tables of scores, but all"),
        ((before,), {"metric": "f1"}, "metric: applies to tables of scores, but all"),
        ((good,), {"labels": ["a\x00b"]}, r"labels: must be printable text.*a.x00b"),
        ((good, points), {}, "CoLA: all scores must have the same unit. .*0.904 for mine of "),
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
    with pytest.raises(SuiteError, match=r"it has neither\. It contains .*/empty/mine\.$"):
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
    rows = [
        (task, method, seed, score)
        for task, own in (("t", scores), ("other", [0.0, 1e-4]))
        for method in "ab"
        for seed, score in enumerate(own)
    ]
    table = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
    means = [cell.split()[0] for cell in rows_of(compare(table), "a")[1]]
    assert [len(mean.partition(".")[2]) for mean in means] == [digits, 6]


def _of_metrics(**values):
    rows = [("A", method, seed, metric, value + seed / 1000)
            for method in ("a", "b") for seed in range(5)
            for metric, value in values.items()]  # fmt: skip
    return pd.DataFrame(rows, columns=["task", "method", "seed", "metric", "value"])


def test_metrics_must_have_the_same_direction_and_unit():
    message = "the metrics of A must have one direction and unit, .*: acc and {}.*--metric acc"
    with pytest.raises(DataError, match=message.format("perplexity")):
        compare(_of_metrics(acc=0.8, perplexity=45))
    with pytest.raises(DataError, match=message.format("bleu")):
        compare(_of_metrics(acc=0.8, bleu=45))
    compare(_of_metrics(wer=0.8, cer=0.4), lower_is_better="A")


def test_a_report_does_not_overwrite_its_sources(tmp_path, before):
    table = _of_metrics(acc=0.5).drop(columns="metric")
    mine, more = tmp_path / "scores.csv", tmp_path / "elsewhere" / "more.csv"
    more.parent.mkdir()
    table.to_csv(mine, index=False)
    table.to_csv(more, index=False)
    text = mine.read_bytes()
    report = tmp_path / "report"
    compare(mine).write(report)
    compare(more).write(report)  # replaces the earlier report
    for source, folder in ((mine, tmp_path), (tmp_path, tmp_path), (report, report),
                           (before, before / "report")):  # fmt: skip
        with pytest.raises(SuiteError, match="is a source of this comparison"):
            compare(source).write(folder)
    assert mine.read_bytes() == text


ROW = {"task": "T", "method": "a", "seed": 0, "score": 0.5}


@pytest.mark.parametrize(("one", "other"), [("7", "7.0"), ("+7.000", "007."), ("0", "0.0")])
def test_spellings_of_the_same_seed(one, other):
    table = pd.DataFrame(
        [("T", "a", seed, 0.5) for seed in (one, other)],
        columns=["task", "method", "seed", "score"],
    )
    seed = int(float(one))
    with pytest.raises(DataError, match=rf"repeats 'T / a / {seed}' of table 1, row 0"):
        compare(table)
    assert compare(table[:1]).tables["scores"]["seed"].tolist() == [str(seed)]


def test_report_with_other_units_as_source(csv, tmp_path):
    path = csv(HEAD + rows("a", 87.4, task="WikiText") + rows("b", 79.1, task="WikiText"))
    report = compare(path, lower_is_better=["WikiText"])
    again = compare(write_report(report, tmp_path / "ppl"))
    assert content(again)["lower_is_better"] == ["WikiText"]
    assert str(again) == re.sub("Read .*\n", "", str(report))
    fractions = compare(csv(HEAD + rows("a", 0.8) + rows("b", 0.7)))
    again = compare(write_report(fractions, tmp_path / "out"))
    assert not content(fractions)["in_points"]
    assert not content(again)["in_points"]


def test_invalid_report_json_is_named(csv, tmp_path):
    folder = write_report(compare(csv(HEAD + rows("a", 0.8))), tmp_path / "out")
    for text, message in [
        ("{", "report.json"),
        ('{"in_points": 1}', "report.json: key 'in_points': must be a boolean. Received: 1"),
    ]:
        (folder / "report.json").write_text(text, encoding="utf-8")
        with pytest.raises(SuiteError, match=message):
            compare(folder)


def declared(suite_of, fabricate, name, level=0.5, **values):
    score = scored({"baseline": level, "relation": level + 0.1})
    return fabricate(suite_of(method=TWO, **values), score, name=name)


def test_declared_test_of_a_suite_is_used(suite_of, fabricate):
    folder = declared(suite_of, fabricate, "one", control="relation", alpha=0.04)
    report, own = compare(folder), make_report(folder)
    for name in ("answer", "warnings"):
        assert content(report)[name] == content(own)[name]
    assert report.data.scores.alpha == own.data.scores.alpha == 0.04
    pd.testing.assert_frame_equal(report.tables["pvalues"], own.tables["pvalues"])
    assert {*report.tables["pvalues"]["a"]} == {"relation"}
    merged = [
        declared(suite_of, fabricate, name, control="relation", alpha=0.04, seeds=seeds)
        for name, seeds in (("low", [1, 2]), ("high", [3, 4]))
    ]
    found = compare(*merged, merge=True)
    assert found.data.scores.alpha == 0.04
    assert {*found.tables["pvalues"]["a"]} == {"relation"}


def warned(path, **options):
    return content(compare(path, **options))["warnings"]


def test_report_names_its_sources(csv, before):
    path = csv(HEAD + rows("a", 0.8) + rows("b", 0.7))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    report = compare(path, before, labels=["x y", "z"], command="relation-tf compare ...")
    table, suite = facts(report)["sources"].split("; ")
    assert table == f"{path}, SHA-256 {digest}"
    assert suite.startswith(f"{before}, 20 runs")
    assert facts(report)["compare command"] == "relation-tf compare ..."
    assert facts(report)["compare version"] == f"relation_tf {relation_tf.__version__}"
    assert facts(report)["processor"] == "A processor"
    assert digest in report.html()
    again = compare(write_report(report, path.parent / "report"))
    assert facts(again)["sources"].startswith(f"{path.parent}/report/scores.csv")
    table = facts(compare(pd.read_csv(path)))
    assert table["sources"] == "table 1, in memory"
    assert "compare command" not in table


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


def _tasks(count):
    rows = [(f"t{task}", f"m{i}", seed, i / 100 + seed / 1000)
            for task in range(count) for i in range(3) for seed in range(5)]  # fmt: skip
    return pd.DataFrame(rows, columns=["task", "method", "seed", "score"])


@pytest.mark.parametrize(("task", "level"), [("WikiText perplexity", 23), ("IMDb", 83)])
def test_suites_stay_in_points_next_to_a_table_of_another_unit(
    suite_of, fabricate, csv, task, level
):
    """Their margins are in points."""
    suite = suite_of(method=TWO, reference="baseline", margin=1.0)
    folder = fabricate(suite, scored({"baseline": 0.5, "relation": 0.3}))
    table = csv(HEAD + rows("baseline", level, task=task) + rows("relation", level, task=task))
    report = compare(folder, table, merge=True)
    assert verdicts(report, "CoLA") == {"relation": "worse"}
    found = report.tables["verdicts"].query("method == 'relation'").set_index("task")["difference"]
    assert found["CoLA"] == pytest.approx(-20)
    assert {*found.index} == {"CoLA", "MRPC", task}  # no mean


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
    assert [name for name, _ in content(report)["failures"]] == ["RTE/relation/seed-2"]
    assert statuses(report) == {"done": 4, "failed": 1, "not done": 1}


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
    assert content(report)["failures"] == []
    assert report.tables["runs"]["status"].tolist() == ["done"] * 3
    alone = make_report(folder)
    alone.write(folder / "report")
    again = compare(folder / "report", table, merge=True)
    assert "failed" not in {*again.tables["runs"]["status"]}


def test_a_test_of_all_pairs_is_refused_for_a_suite_with_a_control(suite_of, fabricate):
    suite = suite_of(method=TWO, control="baseline")
    folder = fabricate(suite, scored({"baseline": 0.5, "relation": 0.6}))
    message = r"there is a control, baseline\. Tests with a control: .*welch-control"
    with pytest.raises(SuiteError, match=message):
        compare(folder, test="welch")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, r"columns=\{'task': 'NAME'\}`$"),
        ({"columns": "task=a"}, r"mapping.*Received: 'task=a'"),
    ],
)
def test_errors_name_options_of_python(options, said):
    with pytest.raises((DataError, OptionError), match=said):
        compare(pd.DataFrame({"a": [0.1, 0.2], "b": [0.3, 0.4]}), **options)
