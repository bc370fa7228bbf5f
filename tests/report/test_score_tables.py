"""Tables of scores: columns, failed runs, directions and methods without a whole task."""

from __future__ import annotations

import pandas as pd
import pytest

from relation_tf.errors import DataError, OptionError, SuiteError
from relation_tf.report import compare
from relation_tf.report.lost_runs import mostly_lost
from relation_tf.report.options import ComparisonOptions
from relation_tf.report.score_tables import read_table
from relation_tf.words import GLUE_AVERAGE, MEAN_OF_TASKS
from tests.report.conftest import content, verdicts


def read(table, **options):
    rows = [f"row {i}" for i in range(len(table))]
    return read_table(table.set_axis(rows), "scores.csv", ComparisonOptions(**options))


def long_table(tasks=("A",), methods=("a", "b"), seeds=3, columns=("task", "method", "seed")):
    rows = [
        (task, method, seed, 0.5 + 0.1 * number + seed / 100)
        for task in tasks
        for number, method in enumerate(methods)
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=[*columns, "score"])


# Direction


def test_the_name_of_a_task_gives_its_direction():
    """The method with the lowest scores is the best."""
    table = long_table(["WikiText bits_per_byte", "SST-2"], ["good", "bad"])
    report = compare(table, reference="good", margin=0.01)
    assert verdicts(report, "WikiText bits_per_byte") == {"bad": "worse"}
    assert verdicts(report, "SST-2") == {"bad": "better"}
    assert report.data.cells["good", "WikiText bits_per_byte"].bold
    stated = "Lower is better: WikiText bits_per_byte (from its name). Higher is better: SST-2 (ass"
    assert stated in " ".join(str(report).split())
    for page in (report.html(), report._repr_html_()):
        assert page.index(stated) < page.index("<table")
    for page in (report.markdown(), report.latex()):
        assert stated.replace("_", r"\_") in page
    assert r"byte $\downarrow$ & SST-2 $\uparrow$" in report.latex()
    (picture,) = (each for each in report.data.pictures if each.name == "scores")
    assert [panel.title for panel in picture.panels] == ["WikiText bits_per_byte ↓", "SST-2 ↑"]
    assert "lower is better" in picture.panels[0].alt
    assert "SST-2 ↑" not in compare(long_table(["SST-2"])).html()


def test_directions_are_data_that_a_second_report_reads(tmp_path):
    table = long_table(["latency", "WikiText perplexity", "RTE", "MR", "val_loss"])
    table = table.assign(metric="value")
    table.loc[table["task"] == "RTE", "metric"] = "acc"
    report = compare(table, lower_is_better="latency", higher_is_better="val_loss")
    expected = {
        "latency": (False, "declared"),
        "WikiText perplexity": (False, "name"),
        "RTE": (True, "column"),
        "MR": (True, "assumed"),
        "val_loss": (True, "declared"),
    }
    for each in (report, compare(report.write(tmp_path).parent)):
        assert each.data.scores.directions == expected
        found = content(each)["directions"]
        assert {task: (*own.values(),) for task, own in found.items()} == expected
        assert each.warnings == []


def test_a_registered_metric_precedes_the_name_in_a_table(suite_of, fabricate):
    folder = fabricate(suite_of(tasks=["RTE"]), lambda *_: 0.5)
    table = long_table(["RTE"], ["x", "y"]).assign(metric="error")
    scores = compare(folder, table, merge=True).data.scores
    assert scores.directions == {"RTE": (True, "registered")}
    low = compare(folder, table, merge=True, lower_is_better="RTE").data.scores
    assert low.directions == {"RTE": (False, "declared")}


@pytest.mark.parametrize(
    ("task", "level", "options", "warned"),
    [
        ("mystery", 50.0, {}, False),
        ("mystery", -0.5, {}, True),
        ("mystery", 340.0, {}, True),
        ("mystery", 340.0, {"higher_is_better": "mystery"}, False),
        ("return", 340.0, {}, False),
        ("CoLA", -0.5, {}, False),
        ("attack success rate", 0.5, {}, True),
    ],
)
def test_a_doubtful_direction_is_a_warning(task, level, options, warned):
    table = long_table([task])
    table["score"] += level - table["score"].min()
    warnings = compare(table, **options).warnings
    assert ["--lower-is-better" in each for each in warnings] == [True] * warned


def test_directions_name_tasks_or_metrics():
    table = long_table(["val_loss", "SST-2"])
    with pytest.raises(SuiteError, match="lower_is_better: must not name the task 'SST-2'"):
        compare(table, lower_is_better="SST-2", higher_is_better="SST-2")
    table = table.rename(columns={"score": "perplexity"})
    with pytest.raises(
        SuiteError,
        match=r"higher_is_better: names an unknown task or metric 'loss'.*"
        r"tasks and metrics are val_loss, SST-2, perplexity",
    ):
        compare(table, columns={"score": "perplexity"}, higher_is_better="loss")


@pytest.mark.parametrize("name", ["perplexity", "test/loss"])
def test_the_name_of_the_score_column_gives_the_direction(name):
    table = long_table(["SST-2", "CoLA"]).rename(columns={"score": name})
    scores = compare(table, columns={"score": name}).data.scores
    assert scores.lower_is_better == {"SST-2", "CoLA"}
    turned = compare(table, columns={"score": name}, higher_is_better=name)
    assert turned.data.scores.lower_is_better == frozenset()


# Methods without a whole task


@pytest.fixture
def incomplete():
    table = long_table(["A", "B", "C"], ["a", "b", "c"], seeds=4)
    return table[(table["method"] != "c") | (table["task"] == "A")]


def lacking(report):
    """Return the values of the warning on methods without whole tasks."""
    (found,) = (
        each
        for each in content(report)["statements"]["warnings"]
        if each["kind"] == "incomplete_methods"
    )
    return found["lacking"], found["used"]


def test_methods_without_whole_tasks_are_named(incomplete):
    assert lacking(compare(incomplete)) == ({"c": ["B", "C"]}, {"": []})
    some = incomplete[(incomplete["task"] != "C") | (incomplete["method"] == "a")]
    some = pd.concat([some, long_table(["D"], ["a", "b", "c"], seeds=4)])
    assert lacking(compare(some))[1] == {"": ["A", "D"]}
    others = long_table(["A", "B", "C"], ["d"], seeds=4)
    report = compare(pd.concat([incomplete, others]), families=[["a", "b"], ["c", "d"]])
    parts = report.data.comparisons.values()
    assert [part.over_tasks is None for part in parts] == [False, True]
    assert lacking(report)[1] == {"family 2": []}


def test_tasks_of_one_network_are_no_test_over_tasks():
    table = long_table(["MNLI-m", "MNLI-mm", "RTE"], ["a", "b"], seeds=4)
    report = compare(table[(table["method"] == "a") | (table["task"] != "RTE")])
    assert report.data.comparisons[""].over_tasks is None
    assert lacking(report)[1] == {"": []}


# Failed runs


@pytest.mark.parametrize("failed", ["nan", "", "inf", float("nan"), None])
def test_failed_runs(failed):
    table = long_table(seeds=4).astype({"score": object})
    table.loc[1, "score"] = failed
    found = read(table)
    assert len(found.scores.samples("A")["a"]) == 3
    (lost,) = found.failed.to_dict("records")
    assert (lost["task"], lost["method"], lost["seed"]) == ("A", "a", "1")
    assert "1 failed run" in found.notes[0]


def test_failed_runs_are_left_out_or_scored():
    table = long_table(["A"], ["a", "b"], seeds=5)
    table.loc[0, "score"] = float("nan")
    assert read(table, failed_as=0.0).scores.samples("A")["a"][0] == 0
    ranked, dropped, scored = (
        compare(table, **options).data.comparisons[""].tests["A"].samples["a"]
        for options in ({}, {"drop_failed": True}, {"failed_as": 0.0})
    )
    assert (len(ranked), len(dropped), len(scored)) == (5, 4, 5)


def test_a_failed_metric_gets_no_better_score_than_others():
    table = pd.concat([long_table(["A"]).assign(metric=name) for name in ("f1", "accuracy")])
    table = table.reset_index(drop=True)
    table.loc[0, "score"] = float("nan")
    with pytest.raises(OptionError, match="worst score of 'A'"):
        read(table, failed_as=1.0)


@pytest.mark.parametrize("options", [{}, {"drop_failed": True}])
def test_runs_that_are_left_out_are_lost(options):
    table = long_table(["A"], ["a", "b"], seeds=5)
    table.loc[:2, "score"] = float("nan")
    report = compare(table, **options)
    assert mostly_lost(report.data.scores, report.data.failed) == {"a": (3, 5)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"failed_as": 0.9}, r"failed_as: must be no better than the worst score of 'A': at most"),
        ({"failed_as": 0.1, "lower_is_better": ["A"]}, "worst score of 'A': at least"),
        ({"failed_as": 1e200}, r"failed_as: must be a number of at most 1e\+100"),
        ({"failed_as": 0.0, "drop_failed": True}, "failed_as: must not be set with --drop-failed"),
    ],
)
def test_no_score_for_failed_runs_that_makes_them_good(options, message):
    table = long_table(["A"], ["a", "b"], seeds=5)
    table.loc[0, "score"] = float("nan")
    with pytest.raises(OptionError, match=message):
        compare(table, **options)


@pytest.mark.parametrize("score", ["high", "O.5", "8_0"])
def test_a_misspelt_score_is_no_failed_run(score):
    table = long_table().astype({"score": object})
    table.loc[1, "score"] = score
    with pytest.raises(DataError, match=f"row 1: the score must be a number.*'{score}'"):
        read(table)


def test_all_scores_are_in_percent_or_none():
    table = long_table().astype({"score": str})
    percent = table.assign(score=table["score"] + " %")
    assert read(percent).scores.samples("A")["a"] == [0.5, 0.51, 0.52]
    percent.loc[1, "score"] = "0.51"
    with pytest.raises(
        DataError, match=r"row 1: the score must have a percent sign, as that of ro"
    ):
        read(percent)


def test_a_seed_with_a_failed_metric_is_left_out():
    table = pd.concat([long_table().assign(metric=metric) for metric in ("f1", "accuracy")])
    table = table.reset_index(drop=True)
    table.loc[0, "score"] = float("nan")
    assert read(table).scores.samples("A")["a"] == [0.51, 0.52]


@pytest.mark.parametrize("name", ["b", "None"])
@pytest.mark.parametrize("task", ["A", "MNLI"])  # MNLI is also the trained task of MNLI-m
def test_a_method_with_failed_runs_is_never_better(tmp_path, name, task):
    table = long_table([task], methods=["a", name], seeds=6)
    table.loc[table["method"] == name, "score"] += 0.3
    assert verdicts(compare(table, reference="a"), task) == {name: "better"}
    table.loc[11, "score"] = float("nan")
    report = compare(table, reference="a")
    assert verdicts(report, task) == {name: "inconclusive"}
    again = compare(report.write(tmp_path).parent, reference="a")
    assert verdicts(again, task) == {name: "inconclusive"}


# Columns


def test_columns_of_other_names():
    table = long_table(columns=("dataset", "model", "run")).rename(columns={"score": "acc"})
    names = {"task": "dataset", "method": "model", "seed": "run", "score": "acc"}
    assert read(table, columns=names).scores.samples("A")["a"] == [0.5, 0.51, 0.52]
    assert read(table).scores.samples("A")["a"] == [0.5, 0.51, 0.52]
    with pytest.raises(
        DataError, match=r"--columns score=ac: there is no column 'ac'. Did you mean 'acc'"
    ):
        read(table, columns=names | {"score": "ac"})
    with pytest.raises(OptionError, match=r"columns: must be one of task, .* Received: 'dataset'"):
        ComparisonOptions(columns={"dataset": "task"})


def test_averages_are_no_tasks():
    table = long_table(["MR", MEAN_OF_TASKS, GLUE_AVERAGE])
    assert read(table).scores.tasks == ["MR"]
    with pytest.raises(DataError, match="has column 'task' 2 times"):
        read(pd.concat([table, table[["task"]]], axis=1))


def test_a_score_column_names_the_task_of_a_table_without_tasks():
    table = long_table().drop(columns="task").rename(columns={"score": "test/accuracy"})
    found = read(table, columns={"score": "test/accuracy"})
    assert found.scores.samples("test/accuracy")["a"] == [0.5, 0.51, 0.52]
    assert "test/accuracy" in found.layout.columns


def test_wide_table():
    table = pd.DataFrame(
        {"task": ["A", "A", "B"], "seed": [1, 2, 1], "x": [1, 2, 3], "y": [4, 5, 6]}
    )
    found = read(table)
    assert found.scores.samples("A") == {"x": [1, 2], "y": [4, 5]}
    assert found.scores.samples("B") == {"x": [3], "y": [6]}
    assert found.layout.wide == "methods"
    numbered = read(table.drop(columns="seed"))
    assert numbered.scores.table["seed"].tolist() == ["1", "2", "1"] * 2
    table = table.astype({"y": object})
    table.loc[1, "y"] = ""
    assert read(table).failed[["task", "method", "seed"]].to_numpy().tolist() == [["A", "y", "2"]]


def test_only_methods_are_columns_of_a_wide_table():
    table = pd.DataFrame({"Unnamed: 0": [0, 1], "": [0, 1], "seed": [9, 9], "task": [1, 1]})
    table = table.assign(name="A", run=[1, 2], x=[1, 2], y=[4, 5])
    found = read(table, columns={"task": "name", "seed": "run"}).scores
    assert found.samples("A") == {"x": [1, 2], "y": [4, 5]}
    assert found.table["seed"].tolist() == ["1", "2"] * 2
    twice = table.drop(columns="name").set_axis([*table.columns[:4], "run", "x", "x"], axis=1)
    with pytest.raises(DataError, match="has column 'x' 2 times"):
        read(twice)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("x", "a" * 201, 1, 0.5), "the method must have at most 200 characters. Received: 201"),
        (("x", "a", 1, 1e308), "the score must be between -1e100 and 1e100. Received: 1e\\+308"),
    ],
)
def test_names_and_scores_have_limits(row, said):
    table = pd.DataFrame([row], columns=["task", "method", "seed", "score"])
    with pytest.raises(DataError, match=said):
        compare(table)


@pytest.mark.parametrize(("cell", "message"), [
    ("85.3 ± 0.4", "t.csv:3: the score must be one number, without a deviation"),
    ("85.3 $\\pm$ 0.4", "t.csv:3: the score must be one number, without a deviation"),
    ("85.3_{0.4}", "`relation_tf.stats.read_published`"),
    ("O.85", "t.csv:3: the score must be a number, or empty for a failed run. Received: 'O.85'"),
])  # fmt: skip
def test_a_column_of_scores_with_other_text_is_not_left_out(tmp_path, cell, message):
    path = tmp_path / "t.csv"
    path.write_text(f"dataset,x,y,z\nA,1,2,3\nB,1,{cell},3\n")
    with pytest.raises(DataError) as error:
        compare(path)
    assert message in str(error.value)


@pytest.mark.parametrize("names", ["model,A,B,Perplexity", "Modell,A,B,C", "model,task,acc,f1"])
def test_means_with_deviations_are_refused_before_questions(tmp_path, names):
    path = tmp_path / "t.csv"
    rows = ["x,1 ± 0.2,2 ± 0.1,3 ± 0.1", "y,1 ± 0.2,2 ± 0.1,3 ± 0.1"]
    text = "\n".join([names, *rows])
    path.write_text(text.replace("1 ± 0.2", "A") if "task" in names else text, encoding="utf-8")
    with pytest.raises(DataError, match=r"t\.csv:2: the score must be one number, without"):
        compare(path)


def test_repeated_rows_name_the_columns_that_are_not_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("task,method,seed,step,score\nA,x,1,1,.5\nA,x,1,2,.6\n")
    with pytest.raises(DataError, match=r"t\.csv:3 repeats .* Keep one value of 'step', or"):
        compare(path)


def test_an_unknown_metric_has_a_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("task,method,FVU\nA,x,1\nA,x,2\nA,y,3\nA,y,5\n")
    assert compare(path, lower_is_better="FVU").data.scores.lower_is_better == {"A"}


def test_what_was_read_is_printed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("dataset,x,y\nA,1,2\nB,1,3\n")
    report = compare(path)
    assert "".join(report.data.origin["read as"]) in " ".join(str(report).split())
    table = pd.read_csv(path).assign(seed=1).pivot(index="dataset", columns=["seed"])
    table.columns = table.columns.set_names(["model", "seed"])
    (said,) = compare(table).data.origin["read as"]
    assert "columns dataset" in said


def test_an_index_with_the_name_of_a_column():
    table = long_table()
    with pytest.raises(DataError, match="has column 'seed' 2 times"):
        compare(table.set_index("seed", drop=False))


def test_latex_is_refused(tmp_path):
    file = tmp_path / "table.tex"
    file.write_text("CNN & 1 \\\\", encoding="utf-8")
    with pytest.raises(DataError, match="LaTeX cannot be read; convert the table"):
        compare(file)


def test_means_with_sds_name_what_reads_them(tmp_path):
    file = tmp_path / "means.csv"
    rows = [f"{task},{method},0.{n},0.1" for task in "ab" for n, method in enumerate("xyz", 1)]
    file.write_text("\n".join(["task,method,mean,sd", *rows]), encoding="utf-8")
    assert "use `relation_tf.stats.read_published`" in str(compare(file))
