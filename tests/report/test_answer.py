"""The short answer states only what the tests show."""

from __future__ import annotations

import json

import pytest

from relation_tf.report import compare, make_report
from tests.report.conftest import LEVEL


def said_of(report):
    """Return the short answer."""
    return " ".join(json.loads(report.json())["answer"])


@pytest.fixture
def answer(suite_of, fabricate):
    return lambda score, **suite: said_of(make_report(fabricate(suite_of(**suite), score)))


@pytest.fixture
def answer_of(table_of):
    """Make an answer from the level and number of seeds of each method, by task."""

    def answer_to(levels, **options):
        samples = {
            task: {
                name: [level + seed / 100 for seed in range(n)] for name, (level, n) in own.items()
            }
            for task, own in levels.items()
        }
        return said_of(compare(table_of(samples), **options))

    return answer_to


def test_no_significant_pair_is_not_called_equal(answer):
    said = answer(lambda config, *_: config.seed / 10)
    assert "No two methods differ" in said
    assert not any(word in said for word in ("better", "no difference", "equal", "same"))


def test_better_and_worse_tasks_are_counted(answer):
    def score(config, task, metric):
        sign = -1 if config.task == "RTE" else 0 if config.task == "WNLI" else 1
        return 0.5 + config.seed / 100 + sign * {"relation": 0.2, "baseline": 0}[config.method]

    methods = [{"name": name, "mechanism": name} for name in ("baseline", "relation")]
    said = answer(score, tasks=["CoLA", "SST-2", "RTE", "WNLI"], method=methods)
    assert "better than baseline on" in said
    assert "2 of 4" in said
    assert "CoLA, SST-2)" in said
    assert "worse on 1 (RTE)" in said


FIVE = [{"mechanism": "relation", "units": [8, 16, 32, 64, 128]}]


def test_design_that_cannot_reach_significance(answer):
    """Scores never overlap, but five methods with five seeds cannot reach p < .05."""
    said = answer(lambda config, *_: config.units / 200 + config.seed / 1e4, method=FIVE,
                  tasks=["CoLA"])  # fmt: skip
    assert "smallest possible p: .062" in said
    assert "at least 6" in said
    assert "better" not in said


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("lowest", "named"), [(0.05, True), (0.91, False)])
def test_significantly_better_with_worse_mean_is_reported(table_of, sign, lowest, named):
    samples = {"a": [0.90 + i / 1000 for i in range(9)] + [lowest], "b": [0.85] * 9 + [0.86]}
    table = table_of({"A": {name: [sign * x for x in own] for name, own in samples.items()}})
    report = compare(table, lower_is_better=["A"] if sign < 0 else [])
    assert report.tables["pvalues"]["better"].tolist() == ["a"]
    assert ("with the worse mean" in said_of(report)) == named


def test_each_sentence_counts_only_tasks_with_both_methods(answer_of):
    both = {"a": (0.7, 5), "b": (0.8, 5)}
    levels = {
        "t1": {**both, "c": (0.701, 4), "d": (0.8, 5)},
        "t2": {**both, "d": (0.8, 5)},
        "t3": both,
        "t4": {"a": (0.7, 5)},
    }
    said = answer_of(levels)
    for phrase in ("all 3 tasks with", "both tasks with", "any of the 2", "4 or 5 seeds"):
        assert phrase in said
    assert "c and d" in said


def test_more_pairs_than_named_are_counted_on_tasks_with_any_name(answer_of):
    said = answer_of({"company": {name: (x, 9) for x, name in enumerate("abcde")}})
    assert "10 of 10" in said
    assert "company" in said


def test_with_a_control_other_pairs_are_not_mentioned(table_of):
    """Without a control, b and c would differ significantly."""
    scores = {"base": [4, 5, 5.5, 6, 6.5], "b": [5.1, 6.1, 7, 8, 9], "c": [1, 2, 3, 4.5, 4.9]}
    said = said_of(compare(table_of({"T": scores}), control="base"))
    assert "No method differs" in said
    assert "two methods" not in said


@pytest.mark.parametrize(
    ("suite", "there", "expected"),
    [
        ({}, lambda run: run.seed < 3, ["16 of 40 runs", "no pair can reach"]),
        ({}, lambda run: run.seed == 1, ["8 of 40 runs", "Over the 2 tasks together"]),
        ({"tasks": ["CoLA"]}, lambda run: run.seed == 1, ["No test yet:"]),
        ({}, lambda run: False, ["0 of 40 runs", "No results yet"]),
        ({"method": [{"name": "relation", "mechanism": "relation"}]}, lambda run: True,
         ["Only one method"]),
        ({"control": "baseline"}, lambda run: run.method != "baseline", ["the control baseline"]),
    ],
)  # fmt: skip
def test_answer_with_too_few_runs(answer, suite, there, expected):
    said = answer(
        lambda run, *_: LEVEL[run.method] + run.seed / 100 if there(run) else None, **suite
    )
    assert all(each in said for each in expected)


@pytest.mark.parametrize(("tasks", "found"), [(10, True), (2, False)])
def test_one_seed_on_several_tasks_has_a_test_over_tasks(table_of, tasks, found):
    report = compare(table_of({f"T{i}": {"a": [0.1], "b": [0.2]} for i in range(tasks)}))
    assert (report.tables["over_tasks"]["better"] == "b").all() == found
    assert ("with so few tasks" in said_of(report)) != found


@pytest.mark.parametrize(("seeds", "fewer"), [(3, False), (4, True)])
def test_fewer_methods_are_suggested_only_if_they_suffice(answer_of, seeds, fewer):
    said = answer_of({"MR": dict.fromkeys("abc", (0.5, seeds))})
    assert "at least 5" in said
    assert ("or fewer methods" in said) == fewer
