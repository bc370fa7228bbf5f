"""Verdicts against a reference, their table, sentence and files."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from relation_tf.errors import SuiteError
from relation_tf.files import write_json
from relation_tf.report import compare, make_report
from tests.report.conftest import content, rows_of, verdicts

SEEDS = np.array([-2, -1, 0, 1, 2]) / np.sqrt(2.5)
TWO = [{"name": name, "mechanism": name} for name in ("attention", "relation")]
NEAR = {"a": [0.80, 0.81, 0.82], "b": [0.80, 0.81, 0.83]}
FAR = {name: [100 * score for score in own] for name, own in NEAR.items()}


@pytest.fixture
def judged(table_of):
    """Compare means of methods on tasks, each with five seeds of SD `sd`, with a reference."""

    def make(means, sd=1.0, **options):
        tasks = {
            task: {name: mean + sd * SEEDS for name, mean in own.items()}
            for task, own in means.items()
        }
        return compare(table_of(tasks), **{"reference": "r", "margin": 1.0, **options})

    return make


def row(report, task, method, *names):
    table = report.tables["verdicts"].set_index(["task", "method"])
    return table.loc[(task, method), list(names)].tolist()


def tasks_of(report):
    return [*report.tables["verdicts"]["task"].unique()]


def test_verdicts_over_tasks(judged):
    """The mean has a Welch-Satterthwaite interval over tasks, corrected for three methods."""
    means = {"r": 80, "a": 82, "b": 80, "c": 70}
    report = judged(dict.fromkeys("xyz", means), sd=0.5)
    assert tasks_of(report) == ["x", "y", "z", "mean of 3 tasks"]
    mean = "mean of 3 tasks"
    assert verdicts(report, mean) == {"a": "better", "b": "no worse", "c": "worse"}
    assert [row(report, mean, name, "beyond_margin")[0] for name in "abc"] == [False, False, True]
    variance = 0.5**2 / 5  # of the mean of a method on a task
    degrees = (6 * variance) ** 2 / (6 * variance**2 / 4)
    half = t.ppf(1 - 0.025 / 3, degrees) * np.sqrt(6 * variance) / 3
    for name in "abc":
        difference = means[name] - 80
        found = row(report, mean, name, "difference", "low", "high")
        assert found == pytest.approx([difference, difference - half, difference + half])
    assert {*report.tables["verdicts"]["reference"]} == {"r"}


@pytest.mark.parametrize(
    ("mean", "options", "verdict", "phrase"),
    [
        (90, {}, "better", "is better than r"),
        (80, {}, "no worse", "is no worse than"),
        (70, {}, "worse", "is worse than r"),
        (79.5, {}, "inconclusive", "Inconclusive"),
        (80, {"margin": None}, "inconclusive", "Neither"),
        (79.2, {"sd": 0.1}, "no worse", "is lower than r"),
        (80.8, {"sd": 0.1, "lower_is_better": "x"}, "no worse", "is higher than r"),
        (70, {"lower_is_better": "x"}, "better", "is better than r"),
    ],
)
def test_one_method_on_one_task(judged, mean, options, verdict, phrase):
    report = judged({"x": {"r": 80, "a": mean}}, **{"sd": 0.5, **options})
    assert verdicts(report, "x") == {"a": verdict}
    sign = -1 if "lower_is_better" in options else 1
    assert row(report, "x", "a", "difference") == pytest.approx([sign * (mean - 80)])
    headline = content(report)["headline"]
    assert phrase in headline
    assert ("within the margin" in headline) == (options.get("sd") == 0.1)


def test_the_headline_names_tasks_against_the_mean(judged):
    means = {"r": 80, "a": 86, "b": 83, "c": 74, "d": 80}
    against = {"r": 80, "a": 78, "b": 77, "c": 82, "d": 80}
    headline = content(judged({"A": means, "B": against}, 0.2))["headline"]
    for phrase in ("a (worse on 1", "b (worse on 1", "and d are", "c (better on 1"):
        assert phrase in headline
    many = {f"m{place}": 86 for place in range(5)}
    against = {**dict.fromkeys(many, 78), "m0": 86}
    headline = content(judged({"A": {"r": 80, **many}, "B": {"r": 80, **against}}, 0.2))["headline"]
    assert "5 of 5 methods" in headline
    assert "(4 of them worse" in headline


def test_tasks_of_one_network_count_once(judged):
    means = {"MNLI-m": {"r": 40, "a": 43}, "MNLI-mm": {"r": 40, "a": 43}, "RTE": {"r": 50, "a": 50}}
    report = judged(means)
    assert tasks_of(report) == ["MNLI-m", "MNLI-mm", "RTE", "mean of 2 tasks"]
    assert row(report, "mean of 2 tasks", "a", "difference") == pytest.approx([1.5])


def test_a_missing_method_does_not_change_the_correction(judged):
    """Only the tasks of all methods are in the mean; the page states one level for all tasks."""
    report = judged({"x": {"r": 80, "a": 80, "b": 80}, "y": {"r": 80, "a": 80}})
    assert tasks_of(report) == ["x", "y"]
    assert row(report, "x", "a", "low", "high") == row(report, "y", "a", "low", "high")
    half = t.ppf(1 - 0.025 / 2, 8) * np.sqrt(2 / 5)
    assert row(report, "y", "a", "low", "high") == pytest.approx([-half, half])


def test_methods_without_two_seeds_of_a_common_task_have_no_verdict(table_of):
    table = table_of({"x": {"r": [80, 81], "a": [80, 81], "b": [80]}, "y": {"a": [1], "c": [1, 2]}})
    report = compare(table, reference="r", margin=0.5)
    assert [*report.tables["verdicts"]["method"]] == ["a"]
    assert any("No verdict on b" in warning for warning in content(report)["warnings"])
    one = compare(table[table["seed"] == 0], reference="r", margin=0.5)
    assert "verdicts" not in one.tables
    assert "Verdicts need several seeds" in content(one)["headline"]


@pytest.mark.parametrize(
    ("mean", "who", "verdict", "reason"),
    [
        (0.8, "relation", "inconclusive", "1 failed run"),
        (0.8, "attention", "better", ""),
        (0.2, "attention", "inconclusive", "1 failed run of attention"),
        (0.2, "relation", "worse", ""),
    ],
)
def test_failed_runs_withhold_a_verdict(suite_of, fabricate, mean, who, verdict, reason):
    suite = suite_of(tasks=["CoLA", "RTE"], method=TWO, reference="attention", margin=1.0, seeds=5)

    def score(config, *_):
        if (config.task, config.method, config.seed) == ("CoLA", who, 5):
            return None
        return {"attention": 0.5, "relation": mean}[config.method] + config.seed / 1000

    folder = fabricate(suite, score)
    run = folder / "runs" / "CoLA" / who / "seed-5"
    run.mkdir(parents=True)
    write_json(run / "error.json", {"error": "NaN"})
    report = make_report(folder)
    report.write(folder / "report")
    # A comparison of the report knows the failures from its runs.csv.
    for found in (report, compare(folder / "report", reference="attention", margin=1.0)):
        own = row(found, "mean of 2 tasks", "relation", "verdict", "reason", "beyond_margin")
        assert own == [verdict, reason, verdict == "worse"]
        assert row(found, "RTE", "relation", "reason") == [""]
        assert reason in content(found)["headline"]


def test_failures_withhold_a_mean_also_where_a_method_has_no_score(table_of, tmp_path):
    """x failed with all seeds of C, y with one: C is not in the mean."""
    level = {"ref": 50, "x": 90, "y": 90}
    samples = {task: {name: [own + seed for seed in range(5)] for name, own in level.items()}
               for task in "ABC"}  # fmt: skip
    samples["C"]["x"] = [np.nan] * 5
    samples["C"]["y"][0] = np.nan
    report = compare(table_of(samples), reference="ref")
    for found in (report, compare(report.write(tmp_path).parent, reference="ref")):
        for method, reason in (("x", "5 failed runs"), ("y", "1 failed run")):
            own = row(found, "mean of 2 tasks", method, "verdict", "reason")
            assert own == ["inconclusive", reason]


def test_scores_that_do_not_vary_have_no_verdict(table_of):
    """Collapsed runs of two methods can all predict the most frequent class."""
    report = compare(table_of({"x": {"r": [50.0] * 3, "a": [50.0] * 3}}), reference="r", margin=1.0)
    verdict, reason, *interval = row(report, "x", "a", "verdict", "reason", "low", "high")
    assert (verdict, interval) == ("inconclusive", [-np.inf, np.inf])
    assert "do not vary" in reason
    varying = {"r": [80, 80.4, 79.6], "a": [80.1, 80.3, 79.7]}
    samples = {"x": varying, "y": {"r": [50.0] * 3, "a": [53.0] * 3}, "z": varying}
    found = compare(table_of(samples), reference="r", margin=9.0)
    assert verdicts(found, "mean of 3 tasks") == {"a": "inconclusive"}


def test_margins_of_tasks(suite_of, fabricate):
    suite = suite_of(
        tasks=["CoLA", "MNLI"], method=TWO, reference="attention", margin=1.0,
        overrides={"MNLI": {"margin": 4.0}},
    )  # fmt: skip
    report = make_report(fabricate(suite, lambda config, *_: 0.5 + config.seed / 1000))
    margins = report.tables["verdicts"].set_index("task")["margin"].to_dict()
    assert margins == {"CoLA": 1.0, "MNLI-m": 4.0, "MNLI-mm": 4.0, "mean of 2 tasks": 2.5}


def test_a_comparison_sets_the_margin_of_a_task(table_of):
    table = table_of({"MR": NEAR, "WikiText perplexity": FAR})
    wrong = r"0.83 on MR. Received: 1$"
    with pytest.raises(SuiteError, match=wrong):
        compare(table, reference="a", margin=1)
    report = compare(table, reference="a", margin=1, margins={"MR": 0.05})
    margins = report.tables["verdicts"].set_index("task")["margin"].to_dict()
    assert margins == {"MR": 0.05, "WikiText perplexity": 1.0}


def test_declared_reference_of_a_suite_is_used_and_replaced(suite_of, fabricate):
    suite = suite_of(reference="attention", margin=2.0)
    folder = fabricate(suite, lambda config, *_: 0.5 + config.seed / 1000)
    own, other = compare(folder), compare(folder, reference="linear", margin=0.5)
    for report, *expected in ((own, "attention", 2.0), (other, "linear", 0.5)):
        assert row(report, "CoLA", "relation", "reference", "margin") == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reference": "attentoin"}, "reference: must be one of .* Did you mean 'attention'?"),
        ({"margin": 1.0}, "margin: needs --reference NAME or --control NAME"),
        (
            {"reference": "attention", "margin": 1.0},
            r"largest score of a task, 0.9 on x. .*: 1$",
        ),
        ({"reference": "attention", "margin": 0.0}, "margin: must be above 0. Received: 0"),
        ({"reference": "attention", "margins": {"X": 0.1}}, "must name tasks of the sources: x. "),
        (
            {"reference": "attention", "margin": 0.1, "margins": {"x": -0.1}},
            "margin: must be above 0. Received: -0.1",
        ),
    ],
)
def test_wrong_references_and_margins_are_refused(table_of, options, message):
    table = table_of({"x": {"attention": [0.8, 0.9], "relation": [0.8, 0.9]}})
    with pytest.raises(SuiteError, match=message):
        compare(table, **options)


def test_margins_of_all_tasks_need_no_other(table_of):
    table = table_of({"MR": NEAR, "points": FAR})
    with pytest.raises(SuiteError, match="must have a value for the other tasks, too, such as"):
        compare(table, reference="a", margins={"points": 1.0})
    report = compare(table, reference="a", margins={"MR": 0.01, "points": 1.0})
    margins = report.tables["verdicts"].groupby("task")["margin"].first()
    assert margins.to_dict() == {"MR": 0.01, "points": 1.0}
    assert not any(each.startswith("The margin") for each in content(report)["warnings"])


@pytest.mark.parametrize(
    ("tasks", "options", "named"),
    [
        ({"MR": NEAR, "SST-2": FAR}, {}, ["MR and SST-2"]),
        ({"acc": NEAR, "a loss": FAR}, {"lower_is_better": "a loss"}, ["acc and a loss"]),
        ({"acc": NEAR, "a loss": FAR}, {"lower_is_better": "a loss", "margins": {"a loss": 1}}, []),
        ({"acc": NEAR, "a loss": FAR}, {"lower_is_better": "a loss", "margin": None}, []),
        # The third task has another unit, but its own margin.
        ({"MR": NEAR, "SST-2": NEAR, "points": FAR}, {"margins": {"points": 1.0}}, []),
        ({"MR": NEAR, "SST-2": NEAR}, {}, []),
    ],
)
def test_tasks_with_another_unit_have_no_mean_and_need_their_margin(
    table_of, tasks, options, named
):
    report = compare(table_of(tasks), **{"reference": "a", "margin": 0.01, **options})
    warnings = [each for each in content(report)["warnings"] if each.startswith("The margin")]
    assert [names for each in warnings for names in named if names in each] == named
    assert len(warnings) == len(named)
    alike = FAR not in tasks.values()
    assert any(task.startswith("mean of") for task in tasks_of(report)) == alike


def test_costs_are_ratios_over_common_tasks(tmp_path, table_of):
    """Geometric means of medians over seeds; only b has runs on z."""
    seconds = {"x": {"a": 1.0, "b": 2.0}, "y": {"a": 8.0, "b": 8.0}, "z": {"b": 9.0}}
    table = table_of({task: {name: [own * x for x in (1, 2, 3)] for name, own in by.items()}
                      for task, by in seconds.items()})  # fmt: skip
    table.to_csv(tmp_path / "scores.csv", index=False)
    runs = table.rename(columns={"score": "seconds_epoch"}).assign(
        status="done", peak_memory_mib=100 + table["seed"], without_embedding=7,
        seconds_cpu=10, seconds_wall=10,
    )  # fmt: skip
    runs.to_csv(tmp_path / "runs.csv", index=False)
    report = compare(tmp_path, reference="a")
    time, memory, parameters = rows_of(report, "b")[0][-3:]
    assert (time, memory, parameters) == ("1.41", "1.00", "7")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "runs.csv: cannot be read"),
        (b"", "runs.csv: cannot be read"),
        (b"task,method,seed,status,seconds_epoch,peak_memory_mib,without_embedding\n"
         b"x,a,0,done,soon,1,1\n", "runs.csv: must have numbers in column 'seconds_epoch'"),
        (b"task,method\nx,a\n", None),
    ],
)  # fmt: skip
def test_runs_of_a_report_are_checked(tmp_path, table_of, content, message):
    """A file of another program is ignored, a broken one is an error of one line."""
    table_of({"x": {"r": [80, 81], "a": [80, 82]}}).to_csv(tmp_path / "scores.csv", index=False)
    (tmp_path / "runs.csv").write_bytes(content)
    if message is None:
        assert "runs" not in compare(tmp_path, reference="r").tables
        return
    with pytest.raises(SuiteError, match=message) as error:
        compare(tmp_path)
    assert "\n" not in str(error.value)
