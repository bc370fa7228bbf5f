"""Tables of scores with other columns, failed runs, directions and incomplete methods."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from relation_tf.errors import DataError, OptionError, SuiteError
from relation_tf.report import compare
from relation_tf.report.options import ComparisonOptions
from relation_tf.report.score_tables import KEY, read_table
from relation_tf.words import GLUE_AVERAGE, MEAN_OF_TASKS


def read(table, **options):
    rows = [f"row {i}" for i in range(len(table))]
    return read_table(table, rows, "scores.csv", ComparisonOptions(**options))


def long_table(tasks=("A",), methods=("a", "b"), seeds=3, columns=("task", "method", "seed")):
    rows = [
        (task, method, seed, 0.5 + 0.1 * number + seed / 100)
        for task in tasks
        for number, method in enumerate(methods)
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=[*columns, "score"])


def test_averages_are_no_tasks():
    table = long_table(["MR", MEAN_OF_TASKS, GLUE_AVERAGE]).rename(columns={"task": "data"})
    scores = read(table, columns={"task": "data"}).scores
    assert scores.tasks == ["MR"]
    with pytest.raises(DataError, match="task"):
        read(pd.concat([table.rename(columns={"data": "task"}), table[["data"]]], axis=1)
             .set_axis(["task", "method", "seed", "score", "task"], axis=1))  # fmt: skip


# Direction


def test_lowest_perplexity_is_best_without_an_option():
    report = compare(long_table(["WikiText perplexity", "SST-2"]))
    scores = report.data.scores
    assert scores.lower_is_better == {"WikiText perplexity"}
    assert report.data.cells["a", "WikiText perplexity"].bold
    assert not report.data.cells["b", "WikiText perplexity"].bold
    (warning,) = report.warnings
    assert warning.startswith("Lower is better on WikiText perplexity, higher on the other tasks")


def test_a_bits_per_byte_is_judged_as_lower_is_better():
    """The method with the lowest scores is the best."""
    table = long_table(["WikiText bits_per_byte"], ["good", "mid", "bad"])
    table["score"] += table["method"].map({"good": 0.0, "mid": 0.1, "bad": 0.2})
    report = compare(table, reference="good", margin=0.01)
    verdicts = report.tables["verdicts"].set_index("method")["verdict"]
    assert verdicts.to_dict() == {"mid": "worse", "bad": "worse"}
    stated = "Lower is better on WikiText bits_per_byte (from its name)."
    assert stated in str(report)
    for page in (report.html(), report._repr_html_()):
        assert page.index(stated) < page.index("<table")
    assert stated.replace("_", r"\_") in report.markdown()
    assert stated.replace("_", r"\_") in report.latex()


def test_directions_are_data_that_a_second_report_reads(tmp_path):
    table = long_table(["latency", "WikiText perplexity", "RTE", "MR"])
    table = table.assign(metric="value")
    table.loc[table["task"] == "RTE", "metric"] = "acc"
    report = compare(table, lower_is_better="latency")
    expected = {
        "latency": (False, "declared"),
        "WikiText perplexity": (False, "name"),
        "RTE": (True, "column"),
        "MR": (True, "assumed"),
    }
    again = compare(report.write(tmp_path).parent)
    for each in (report, again):
        assert each.data.scores.directions == expected
        content = json.loads(each.json())["directions"]
        assert {task: (*own.values(),) for task, own in content.items()} == expected
        assert each.data.scores.stated_directions == (
            "Lower is better: latency (declared), WikiText perplexity (from its name). "
            "Higher is better: RTE (from its column of metrics), MR (assumed)."
        )


def test_a_registered_metric_precedes_the_name_in_a_table(suite_of, fabricate):
    folder = fabricate(suite_of(tasks=["RTE"]), lambda *_: 0.5)
    table = long_table(["RTE"], ["x", "y"]).assign(metric="error")
    scores = compare(folder, table, merge=True).data.scores
    assert scores.directions == {"RTE": (True, "registered")}
    assert scores.stated_directions == "Higher is better on RTE."
    low = compare(folder, table, merge=True, lower_is_better="RTE").data.scores
    assert low.directions == {"RTE": (False, "declared")}


@pytest.mark.parametrize(
    ("task", "level", "options", "warned"),
    [
        ("mystery", 0.5, {}, False),
        ("mystery", 50.0, {}, False),
        ("mystery", -0.5, {}, True),
        ("mystery", 340.0, {}, True),
        ("mystery", 340.0, {"higher_is_better": "mystery"}, False),
        ("mystery", 340.0, {"lower_is_better": "mystery"}, False),
        ("return", 340.0, {}, False),
        ("CoLA", -0.5, {}, False),
    ],
)
def test_unknown_metrics_outside_of_fractions_and_percentages(task, level, options, warned):
    table = long_table([task])
    table["score"] += level - table["score"].min()
    warnings = compare(table, **options).warnings
    assert ["--lower-is-better mystery" in each for each in warnings] == [True] * warned


@pytest.mark.parametrize(
    ("task", "metric", "warned"),
    [
        ("attack success rate", "score", True),
        ("mine", "uncertainty", True),
        ("mine", "score", False),
        ("ASR", "accuracy", False),
        ("uncertainty AUROC", "score", False),
    ],
)
def test_an_assumed_direction_of_a_metric_with_two_is_a_warning(task, metric, warned):
    table = long_table([task]).assign(metric=metric)
    warnings = compare(table).warnings
    assert ["--lower-is-better" in each for each in warnings] == [True] * warned


def test_directions_can_be_given():
    table = long_table(["val_loss", "SST-2"])
    report = compare(table, higher_is_better="val_loss")
    assert report.data.scores.lower_is_better == frozenset()
    assert report.warnings == []
    both = {"lower_is_better": "val_loss", "higher_is_better": "SST-2"}
    assert compare(table, **both).warnings == []
    with pytest.raises(SuiteError, match="lower_is_better: must not name the task 'SST-2'"):
        compare(table, lower_is_better="SST-2", higher_is_better="SST-2")
    with pytest.raises(
        SuiteError, match=r"higher_is_better: names an unknown task or metric 'loss'"
    ):
        compare(table, higher_is_better="loss")
    table = table.rename(columns={"score": "perplexity"})
    with pytest.raises(SuiteError, match="tasks and metrics are val_loss, SST-2, perplexity"):
        compare(table, columns={"score": "perplexity"}, higher_is_better="loss")


@pytest.mark.parametrize("name", ["perplexity", "val_loss", "test/loss"])
def test_the_name_of_the_score_column_gives_the_direction(name):
    """Method b has the higher scores, so it is the worse one."""
    table = long_table(["SST-2", "CoLA"]).rename(columns={"score": name})
    scores = compare(table, columns={"score": name}).data.scores
    assert scores.lower_is_better == {"SST-2", "CoLA"}
    turned = compare(table, columns={"score": name}, higher_is_better=name)
    assert turned.data.scores.lower_is_better == frozenset()
    assert turned.warnings == []
    assert compare(table, columns={"score": name}, lower_is_better=name).warnings == []


def test_a_report_keeps_its_directions(tmp_path):
    folder = compare(long_table(["val_loss"]), higher_is_better="val_loss").write(tmp_path).parent
    again = compare(folder)
    assert again.data.scores.lower_is_better == frozenset()
    assert again.warnings == []


def test_heads_and_plots_have_arrows():
    report = compare(long_table(["loss", "SST-2"]))
    html, latex = report.html(), report.latex()
    assert "loss ↓" in html
    assert "SST-2 ↑" in html
    assert r"loss $\downarrow$ & SST-2 $\uparrow$" in latex
    (picture,) = (each for each in report.data.pictures if each.name == "scores")
    assert [panel.title for panel in picture.panels] == ["loss ↓", "SST-2 ↑"]
    assert '<div data-task="loss">' in html  # the filter hides the panel of this task
    assert "loss, lower is better" in picture.panels[0].alt
    assert "SST-2 ↑" not in compare(long_table(["SST-2"])).html()


# Methods without a whole task


@pytest.fixture
def incomplete():
    table = long_table(["A", "B", "C"], ["a", "b", "c"], seeds=4)
    return table[(table["method"] != "c") | (table["task"] == "A")]


def test_a_method_without_whole_tasks_is_named(incomplete):
    (warning,) = (each for each in compare(incomplete).warnings if each.startswith("Methods"))
    assert warning == (
        "Methods without scores on whole tasks: c on B and C. Tests over tasks are not possible. "
        "To compare a and b on all tasks: `relation-tf compare SOURCE... --complete-methods`."
    )
    some = incomplete[(incomplete["task"] != "C") | (incomplete["method"] == "a")]
    some = pd.concat([some, long_table(["D"], ["a", "b", "c"], seeds=4)])
    assert "Tests over tasks use only A and D." in " ".join(compare(some).warnings)


def test_tests_over_tasks_of_a_family_without_whole_tasks_are_not_possible(incomplete):
    others = long_table(["A", "B", "C"], ["d"], seeds=4)
    report = compare(pd.concat([incomplete, others]), families=[["a", "b"], ["c", "d"]])
    parts = report.data.comparisons.values()
    assert [part.over_tasks is None for part in parts] == [False, True]
    (warning,) = (each for each in report.warnings if each.startswith("Methods"))
    assert "c on B and C. Tests over tasks of family 2 are not possible." in warning
    assert "family 1" not in warning


def test_tasks_of_one_network_are_no_test_over_tasks():
    table = long_table(["MNLI-m", "MNLI-mm", "RTE"], ["a", "b"], seeds=4)
    report = compare(table[(table["method"] == "a") | (table["task"] != "RTE")])
    assert report.data.comparisons[""].over_tasks is None
    assert "Tests over tasks are not possible." in report.warnings[-1]


def test_complete_methods_are_compared_on_all_tasks(incomplete):
    assert compare(incomplete).data.comparisons[""].over_tasks is None
    report = compare(incomplete, complete_methods=True)
    assert report.data.scores.methods == ["a", "b"]
    assert report.data.comparisons[""].over_tasks.tasks == ["A", "B", "C"]
    assert report.warnings == [
        "Left out by --complete-methods: c (no scores on B and C). Tests and verdicts are "
        "corrected for the 2 other methods only, so p is smaller than with all 3."
    ]
    with pytest.raises(SuiteError, match="complete_methods: needs scores of c on all tasks"):
        compare(incomplete, complete_methods=True, reference="c")
    with pytest.raises(SuiteError, match="needs at least two methods with scores on all tasks"):
        compare(incomplete[incomplete["method"] != "b"], complete_methods=True)


def test_complete_methods_without_an_incomplete_one():
    assert compare(long_table(methods=["a"]), complete_methods=True).data.scores.methods == ["a"]


def test_a_diagnostic_set_of_incomplete_methods_only():
    table = pd.concat([long_table(["CoLA"], seeds=4), long_table(["AX"], ["c", "d"], seeds=4)])
    report = compare(table, complete_methods=True)
    assert report.data.scores.methods == ["a", "b"]
    assert "| Method | CoLA | AX |" in report.markdown()


def test_complete_methods_are_advised_only_where_this_is_possible(incomplete):
    assert "--complete-methods" in compare(incomplete, reference="a").warnings[0]
    for options in ({"reference": "c"}, {"control": "c"}):
        warning = compare(incomplete, **options).warnings[0]
        assert "c on B and C" in warning
        assert "--complete-methods" not in warning


# Failed runs


@pytest.mark.parametrize("failed", ["nan", "", "inf", float("nan"), None])
def test_failed_runs(failed):
    table = long_table(seeds=4).astype({"score": object})
    table.loc[1, "score"] = failed
    by_default = read(table)
    assert len(by_default.scores.samples("A")["a"]) == 3
    assert by_default.failed["ranked"].tolist() == [True]
    assert by_default.notes == [
        "1 failed run without a finite score: A / a / 1. Means without "
        "them favor methods that fail."
    ]
    table.loc[1, "score"] = "high"
    with pytest.raises(DataError, match=r"must be a number, or empty .*run. Received: 'high'$"):
        read(table)
    table.loc[1, "score"] = "80.8%"
    with pytest.raises(DataError, match=r"Received: '80.8%'. Write it without the percent sign$"):
        read(table)
    table.loc[1, "score"] = failed
    dropped = read(table, drop_failed=True)
    assert len(dropped.scores.samples("A")["a"]) == 3
    (lost,) = dropped.failed.to_dict("records")
    assert lost == {
        "task": "A", "method": "a", "seed": "1", "diverged": None, "status": "failed",
        "ranked": False,
    }  # fmt: skip
    assert dropped.notes == [
        "1 failed run left out (--drop-failed): A / a / 1. Means without them favor methods that "
        "fail."
    ]
    replaced = read(table, failed_as=0.0)
    assert replaced.scores.samples("A")["a"][1] == 0.0
    assert replaced.notes == ["1 failed run has the score 0 (--failed-as): A / a / 1."]


def test_a_misspelt_score_is_no_failed_run():
    table = long_table().astype({"score": object})
    table.loc[1, "score"] = "O.5"
    with pytest.raises(DataError, match=r"row 1: the score must be a number.*'O.5'"):
        read(table, drop_failed=True)


def test_a_seed_with_a_failed_metric_is_dropped():
    table = pd.concat([long_table().assign(metric=metric) for metric in ("f1", "accuracy")])
    table = table.reset_index(drop=True)
    table.loc[0, "score"] = float("nan")
    assert read(table, drop_failed=True).scores.samples("A")["a"] == [0.51, 0.52]


def test_dropped_runs_of_a_task_with_the_name_of_a_trained_one():
    """MNLI is also the trained task of MNLI-m."""
    table = long_table(methods=["a", "b"], seeds=6)
    table.loc[table["method"] == "b", "score"] += 0.3
    lost = table[table["method"] == "b"].iloc[:1].assign(score=float("nan"), seed=99)
    table = pd.concat([table, lost], ignore_index=True).assign(task="MNLI")
    report = compare(table, reference="a", drop_failed=True)
    assert report.data.comparisons[""].verdicts.tasks["MNLI"]["verdict"].tolist() == [
        "inconclusive"
    ]


@pytest.mark.parametrize("name", ["None", "NA", "nan"])
def test_a_method_with_the_name_of_a_missing_value_keeps_its_failed_runs(name, tmp_path):
    table = long_table(methods=["a", name], seeds=6)
    table.loc[table["method"] == name, "score"] += 0.3
    table.loc[11, "score"] = float("nan")
    first = compare(table, reference="a", drop_failed=True)
    first.write(tmp_path / "first")
    again = compare(tmp_path / "first", reference="a")
    assert again.data.comparisons[""].verdicts.tasks["A"]["verdict"].tolist() == ["inconclusive"]


def test_a_method_with_dropped_runs_is_never_better():
    table = long_table(methods=["a", "b"], seeds=6)
    table.loc[table["method"] == "b", "score"] += 0.3
    assert "b is better" in compare(table, reference="a").headline
    table.loc[11, "score"] = float("nan")
    report = compare(table, reference="a", drop_failed=True)
    assert report.data.comparisons[""].verdicts.tasks["A"]["verdict"].tolist() == ["inconclusive"]
    whole = table.assign(task="B", score=table["score"].fillna(0.9))
    both = compare(pd.concat([table, whole], ignore_index=True), reference="a", drop_failed=True)
    verdicts = both.data.comparisons[""].verdicts.tasks
    assert {task: [*own["verdict"]] for task, own in verdicts.items()} == {
        "A": ["inconclusive"],
        "B": ["better"],
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop_failed": True, "failed_as": 0.0}, "failed_as: cannot be used with --drop-failed"),
        ({"failed_as": float("inf")}, r"failed_as: must be a number of at most 1e\+100 in size"),
        ({"failed_as": 1e200}, r"failed_as: must be a number of at most 1e\+100 in size"),
        ({"columns": {"dataset": "task"}}, r"columns: must be one of task, .* Received: 'dataset'"),
    ],
)
def test_options_that_exclude_each_other(options, message):
    with pytest.raises(OptionError, match=message):
        ComparisonOptions(**options)


# Columns


def test_columns_of_other_names():
    table = long_table(columns=("dataset", "model", "run")).rename(columns={"score": "acc"})
    names = {"task": "dataset", "method": "model", "seed": "run", "score": "acc"}
    assert read(table, columns=names).scores.samples("A")["a"] == [0.5, 0.51, 0.52]
    with pytest.raises(
        DataError, match=r"no column 'task'.*--columns task=NAME.*Other columns: 'dataset'"
    ):
        read(table)
    with pytest.raises(
        DataError, match=r"--columns score=ac: there is no column 'ac'. Did you mean 'acc'"
    ):
        read(table, columns=names | {"score": "ac"})


def test_a_score_column_names_the_task_of_a_table_without_tasks():
    table = long_table().drop(columns="task").rename(columns={"score": "test/accuracy"})
    found = read(table, columns={"score": "test/accuracy"})
    assert found.scores.samples("test/accuracy")["a"] == [0.5, 0.51, 0.52]
    assert len(found.notes) == 1


def test_wide_table():
    table = pd.DataFrame(
        {"task": ["A", "A", "B"], "seed": [1, 2, 1], "x": [1, 2, 3], "y": [4, 5, 6]}
    )
    found = read(table)
    assert found.scores.samples("A") == {"x": [1, 2], "y": [4, 5]}
    assert found.scores.samples("B") == {"x": [3], "y": [6]}
    assert found.notes == ["scores.csv: read as a wide table, one column per method: x, y."]
    numbered = read(table.drop(columns="seed"))
    assert numbered.scores.table["seed"].tolist() == ["1", "2", "1"] * 2
    assert "the rows of a task are seeds 1, 2, ..." in numbered.notes[0]
    table = table.astype({"y": object})
    table.loc[1, "y"] = ""
    assert read(table).failed[KEY].to_numpy().tolist() == [["A", "y", "2"]]
    assert read(table, drop_failed=True).scores.samples("A") == {"x": [1, 2], "y": [4]}


def test_only_methods_are_columns_of_a_wide_table():
    table = pd.DataFrame({"Unnamed: 0": [0, 1], "": [0, 1], "seed": [9, 9], "task": [1, 1]})
    table = table.assign(name="A", run=[1, 2], x=[1, 2], y=[4, 5])
    found = read(table, columns={"task": "name", "seed": "run"}).scores
    assert found.samples("A") == {"x": [1, 2], "y": [4, 5]}
    assert found.table["seed"].tolist() == ["1", "2"] * 2
    twice = table.drop(columns="name").set_axis([*table.columns[:4], "run", "x", "x"], axis=1)
    with pytest.raises(DataError, match="has column 'x' 2 times"):
        read(twice)


def test_a_table_with_words_is_not_wide():
    with pytest.raises(DataError, match=r"no column 'method' or 'score' .or 'value'"):
        read(pd.DataFrame({"task": ["A"], "seed": [1], "model": ["x"], "acc": [0.5]}))


def test_a_table_with_a_column_per_task_is_refused_with_the_right_form():
    table = pd.DataFrame({"method": ["x"], "seed": [1], "MR": [0.5], "SST-2": [0.6]})
    with pytest.raises(DataError, match="If MR and SST-2 are tasks, write one row per score"):
        read(table)
    melted = table.melt(["method", "seed"], var_name="task", value_name="score")
    assert read(melted).scores.tasks == ["MR", "SST-2"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("x", "a" * 201, 1, 0.5), "the method must have at most 200 characters. Received: 201"),
        (("x" * 10**6, "a", 1, 0.5), "the task must have at most 200 characters"),
        (("x", "a", 1, 1e308), "the score must be between -1e100 and 1e100. Received: 1e\\+308"),
    ],
)
def test_names_and_scores_have_limits(row, said):
    table = pd.DataFrame([row], columns=["task", "method", "seed", "score"])
    with pytest.raises(DataError, match=said):
        compare(table)


def test_names_with_backslashes(tmp_path):
    rows = [(task, method, seed, seed + len(method)) for task in ("a\\q", "b\\1")
            for method in ("m\\p", "\\g<0>") for seed in range(3)]  # fmt: skip
    report = compare(pd.DataFrame(rows, columns=["task", "method", "seed", "score"]))
    report.write(tmp_path)
    assert "m\\p" in (tmp_path / "report.html").read_text()
    assert "m\\textbackslash{}p" in (tmp_path / "report.tex").read_text()


def test_incomplete_methods_leave_no_trace():
    """Neither their number of seeds nor their failed runs."""
    table = long_table(["A", "B"])
    task = table["task"].iloc[0]
    more = pd.DataFrame({"task": task, "method": "c", "seed": range(12), "score": 0.5})
    more.loc[0, "score"] = float("nan")
    report = compare(pd.concat([table, more]), complete_methods=True, drop_failed=True)
    assert report.data.scores.seeds == table.groupby(["task", "method"]).size().max()
    assert "runs" not in report.tables
