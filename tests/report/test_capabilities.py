"""Capabilities: scores on diagnostic tasks between a simple rule and a perfect score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relation_tf.report import compare, make_report
from relation_tf.report.diagnostics import rule_of
from tests.report.conftest import Fabricate, MakeSuite

TWO = [{"mechanism": name, "name": name} for name in ("attention", "relation")]
SCORES = {
    ("attention", "majority"): 1.0, ("attention", "needle-16"): 1.0,
    ("attention", "needle-64"): 0.99, ("attention", "parity"): 0.55,
    ("relation", "majority"): 0.995, ("relation", "needle-16"): 0.98,
    ("relation", "needle-64"): 0.07, ("relation", "parity"): 0.52,
}  # fmt: skip


@pytest.fixture
def folder(fabricate: Fabricate, suite_of: MakeSuite) -> Path:
    def score(run: Any, task: str, *_: Any) -> float:
        own = task.rpartition("-depth")[0] or task.rpartition("-")[0]
        base = SCORES.get((run.method, task), SCORES.get((run.method, own), 0.5))
        return base - run.seed / 1e4

    tasks = ["majority", "needle-16", "needle-64", "parity"]
    suite = suite_of(tasks=tasks, method=TWO, reference="attention", margin=5.0, seeds=5)
    return fabricate(suite, score=score)


def test_levels_and_verdicts_leave_out_what_the_reference_does_not_learn(folder: Path) -> None:
    report = make_report(folder)
    table = report.tables["capabilities"].set_index(["method", "task"])
    relation = table.loc["relation"]
    assert relation["level"].to_dict() == {
        "majority": "solved", "needle-16": "solved", "needle-64": "rule", "parity": "rule"
    }  # fmt: skip
    assert relation["verdict"].to_dict() == {
        "majority": "no worse", "needle-16": "no worse", "needle-64": "worse", "parity": ""
    }  # fmt: skip
    assert relation.loc["parity", "chance"] == pytest.approx(50, abs=3)
    score, rule, share = relation.loc["needle-64", ["score", "rule", "share"]]
    assert share == pytest.approx((score - rule) / (100 - rule))
    judged = {*report.tables["verdicts"]["task"]}
    assert {"majority", "needle-16", "needle-64", "needle-64-depth0", "mean of 3 tasks"} <= judged
    assert not [task for task in judged if task.startswith("parity")]
    assert "attention itself fails on" in report.markdown()


@pytest.mark.parametrize(
    ("levels", "seeds", "why"),
    [
        ({"parity": 0.5}, 5, "attention does not learn"),
        ({"majority": 0.99, "majority-2x": 0.95}, 1, "No verdict: no task"),
        ({"needle-64": 0.30, "needle-64-depth100": 0.95}, 5, "except on diagnostic sets"),
    ],
)
def test_no_verdict_on_the_mean(table_of: Any, levels: Any, seeds: int, why: str) -> None:
    samples = {
        task: {name: [level + seed / 1e3 for seed in range(seeds)] for name in ("attention", "B")}
        for task, level in levels.items()
    }
    report = compare(table_of(samples), reference="attention")
    assert why in json.loads(report.json())["headline"]
    judged = [*report.tables["verdicts"]["task"]] if "verdicts" in report.tables else []
    assert judged == [task for task in levels if "depth" in task]


@pytest.mark.parametrize(
    ("scores", "options", "expected"),
    [
        ({"mqar-64-4": [0.4, 0.5], "count": [99.0, 98.0]}, {}, [0.45, 98.5]),
        # A table of another direction does not change the unit.
        ({"majority": [0.97, 0.98], "count": [3.1, 3.2]}, {"lower_is_better": ["count"]}, [97.5]),
    ],
)
def test_scores_of_a_table_have_one_unit(
    table_of: Any, scores: Any, options: Any, expected: list[float]
) -> None:
    report = compare(table_of({task: {"mine": own} for task, own in scores.items()}), **options)
    assert report.tables["capabilities"]["score"].tolist() == pytest.approx(expected)


def test_binding_nothing_is_no_success(table_of: Any) -> None:
    """One of two values of a text is right in half of the cases."""
    scores = {
        "mqar-32-2-v32": {"attention": [99.0, 99.5], "mine": [52.0, 54.0]},
        "mqar-32-4-v32": {"attention": [99.0, 99.5], "mine": [33.0, 34.0]},
        "memorize-small": {"attention": [100.0, 100.0], "mine": [100.0, 100.0]},
        "majority": {"mine": [97.0, 97.0]},
    }
    report = compare(table_of(scores), reference="attention", margin=5.0)
    table = report.tables["capabilities"]
    mine = table[table["method"] == "mine"].set_index("task")
    assert mine["level"].tolist() == ["rule", "rule", "solved", "partly"]


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ({"32-2-v32": 0.99, "32-4-v32": 0.9}, "succeeds with 4 pairs,"),
        ({"32-2-v32": 0.1, "32-4-v32": 0.2}, "fails with 2 pairs,"),
        ({"32-2-v32": 0.99, "32-4-v32": 0.2}, "2 pairs, fails with 4."),
        ({"32-2-v32": 0.1, "32-4-v32": 0.99}, "4 pairs, fails with 2."),
        # Four pairs are found in 32 tokens, and not in 64.
        ({"32-2-v32": 0.99, "32-4-v32": 0.99, "64-4-v64": 0.4}, "2 pairs, fails with 4."),
    ],
)
def test_limit_of_an_ability(table_of: Any, levels: dict[str, float], said: str) -> None:
    scores = {f"mqar-{name}": {"mine": [own, own]} for name, own in levels.items()}
    assert said in compare(table_of(scores)).markdown()


@pytest.mark.parametrize(("name", "lower"), [("needle-3", []), ("RTE", []), ("sort", ["sort"])])
def test_tasks_that_are_not_diagnostic(table_of: Any, name: str, lower: list[str]) -> None:
    table = table_of({name: {"a": [0.5, 0.6], "b": [0.7, 0.8]}})
    report = compare(table, reference="a", margin=0.01, lower_is_better=lower)
    assert "capabilities" not in report.tables
    assert report.tables["verdicts"]["task"].tolist() == [name]


def test_longer_test_sets_have_own_rules() -> None:
    assert rule_of("sort") > 1.5 * rule_of("sort-2x") > 0.1
    assert rule_of("needle-64-depth100") == rule_of("needle-64")


def test_further_sets_are_in_no_mean(fabricate: Fabricate, suite_of: MakeSuite) -> None:
    """Attention reads only the trained length: a mean over all lengths would reverse the order."""
    known = ["parity", "majority", "needle-64"]

    def score(run: Any, task: str, *_: Any) -> float:
        own = (0.99, 0.95) if task in known else (0.5, 0.9)
        return own[run.method == "relation"] + run.seed / 1e4

    suite = suite_of(tasks=known, method=TWO, reference="attention", margin=1.0, seeds=5)
    verdicts = make_report(fabricate(suite, score=score)).tables["verdicts"].set_index("task")
    assert verdicts.loc["mean of 3 tasks", "difference"] == pytest.approx(-4)
    assert verdicts.loc["mean of 3 tasks", "verdict"] == "worse"


def test_state_size(folder: Path) -> None:
    assert "score-state" not in json.loads(make_report(folder).json())["figures"]
    for file in folder.rglob("result.json"):
        result = json.loads(file.read_text())
        size = 128 if result["method"] == "relation" else 8192
        file.write_text(json.dumps(result | {"state_bytes": size}))
    report = make_report(folder)
    assert "score-state" in json.loads(report.json())["figures"]
    sizes = report.tables["capabilities"].set_index("method")["state_kib"]
    assert sizes["attention"].eq(8).all()
    assert sizes["relation"].eq(0.125).all()
