"""Capabilities: scores on diagnostic tasks between a simple rule and a perfect score."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest
from matplotlib.figure import Figure

from relation_tf.report import compare, make_report
from relation_tf.report.capabilities import _limit, describe
from relation_tf.report.context import ReportContext
from relation_tf.report.learned import rule_of
from relation_tf.report.pictures.capabilities import (
    depth_picture,
    longer_picture,
    profile_picture,
    state_panel,
)
from relation_tf.report.pictures.drawing import styles
from relation_tf.report.pictures.trade_offs import Point
from relation_tf.report.sections.capabilities import _intervals
from tests.report.conftest import Fabricate, MakeSuite

TASKS = ["majority", "needle-16", "needle-64", "parity"]
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

    methods = [{"mechanism": name, "name": name} for name in ("attention", "relation")]
    suite = suite_of(tasks=TASKS, method=methods, reference="attention", margin=5.0, seeds=5)
    return fabricate(suite, score=score)


def test_profile_has_simple_rules_levels_and_verdicts(folder: Path) -> None:
    table = make_report(folder).tables["capabilities"].set_index(["method", "task"])
    relation = table.loc["relation"]
    assert relation["level"].to_dict() == {
        "majority": "solved", "needle-16": "solved", "needle-64": "rule", "parity": "rule"
    }  # fmt: skip
    assert relation["verdict"].to_dict() == {
        "majority": "no worse", "needle-16": "no worse", "needle-64": "worse", "parity": ""
    }  # fmt: skip
    assert relation.loc["parity", "chance"] == pytest.approx(50, abs=3)
    share = relation.loc["needle-64", "share"]
    rule = relation.loc["needle-64", "rule"]
    assert share == pytest.approx((relation.loc["needle-64", "score"] - rule) / (100 - rule))


def test_verdicts_leave_out_what_the_reference_does_not_learn(folder: Path) -> None:
    verdicts = make_report(folder).context.verdicts
    assert verdicts is not None
    assert {"majority", "needle-16", "needle-64", "needle-64-depth0"} <= {*verdicts.tasks}
    assert {"parity", "parity-2x", "parity-8x"} <= {*verdicts.not_learned}
    assert not {*verdicts.not_learned} & {*verdicts.tasks}
    assert verdicts.averaged == ["majority", "needle-16", "needle-64"]
    assert verdicts.doubts == []


def test_no_verdict_if_the_reference_learns_nothing(
    fabricate: Fabricate, suite_of: MakeSuite
) -> None:
    methods = [{"mechanism": name, "name": name} for name in ("attention", "relation")]
    suite = suite_of(tasks=["parity"], method=methods, reference="attention", margin=5.0, seeds=5)
    report = make_report(fabricate(suite, score=lambda run, *_: 0.5 + run.seed / 1e4))
    said = "No verdict: attention does not learn the tasks with at least two seeds."
    assert said in " ".join(str(report).split())


def test_no_verdict_with_one_seed_of_a_reference_that_learns(
    fabricate: Fabricate, suite_of: MakeSuite
) -> None:
    methods = [{"mechanism": name, "name": name} for name in ("attention", "relation")]
    suite = suite_of(tasks=["majority"], method=methods, reference="attention", seeds=1)
    scores = {"majority": 0.99, "majority-2x": 0.95}
    report = make_report(fabricate(suite, score=lambda run, task, *_: scores.get(task, 0.5)))
    assert report.context.headline == (
        "No verdict yet: no task has two seeds of attention and of another method."
    )


def test_a_reference_that_learns_only_a_further_test_set(table_of: Any) -> None:
    samples = {
        task: {name: [level + seed / 1e3 for seed in range(5)] for name in "AB"}
        for task, level in {"needle-64": 0.30, "needle-64-depth100": 0.95}.items()
    }
    report = compare(table_of(samples), reference="A")
    assert report.context.headline == "No verdict against A, except on diagnostic sets."
    assert "| A | reference |\n| B | – |\n" in report.markdown()
    assert report.context.headline in " ".join(str(report).split())


@pytest.mark.parametrize("unit", [1.0, 0.01])
def test_tables_in_points_and_fractions(unit: float) -> None:
    means = {("parity", "attention"): 61, ("parity", "relation"): 57,
             ("majority", "attention"): 99, ("majority", "relation"): 98}  # fmt: skip
    rows = [
        (*key, seed, unit * (mean + seed / 10)) for key, mean in means.items() for seed in range(5)
    ]
    table = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
    report = compare(table, reference="attention", margin=5 * unit)
    found = report.tables["capabilities"].set_index(["task", "method"])
    rule = found.loc[("parity", "attention"), "rule"] / 100
    assert 0.53 < rule < 0.58
    share = (0.612 - rule) / (1 - rule)
    assert found.loc[("parity", "attention"), "share"] == pytest.approx(share, abs=0.01)
    assert found["level"].to_list() == ["partly", "rule", "solved", "partly"]
    assert report.context.verdicts is not None
    assert report.context.verdicts.not_learned == ["parity"]


def test_a_small_score_in_a_table_of_points(table_of: Any) -> None:
    scores = {"mqar-64-4": {"relation": [0.4, 0.5]}, "count": {"relation": [99.0, 98.0]}}
    table = compare(table_of(scores)).tables["capabilities"].set_index("task")
    assert table.loc["mqar-64-4", "score"] == pytest.approx(0.45)
    assert table.loc["mqar-64-4", "level"] == "rule"


def test_binding_nothing_is_no_success(table_of: Any) -> None:
    """One of two values of a text is right in half of the cases."""
    scores = {
        "mqar-32-2-v32": {"attention": [99.0, 99.5], "mine": [52.0, 54.0]},
        "mqar-32-4-v32": {"attention": [99.0, 99.5], "mine": [33.0, 34.0]},
        "memorize-small": {"attention": [100.0, 100.0], "mine": [100.0, 100.0]},
    }
    context = compare(table_of(scores), reference="attention", margin=5.0).context
    assert describe(context.scores, context.verdicts, "mine") == (
        "Solves memorize-small. Is no better than a simple rule on mqar-32-2-v32 and "
        "mqar-32-4-v32. The same score as attention on memorize-small. Worse than attention on "
        "mqar-32-2-v32 and mqar-32-4-v32. Recall: fails with 2 pairs, the fewest that were tested."
    )


def test_a_task_without_the_reference_has_no_same_score(table_of: Any) -> None:
    scores = {"majority": {"mine": [0.97, 0.97]},
              "count": {"attention": [0.99, 0.98], "mine": [0.99, 0.98]}}  # fmt: skip
    context = compare(table_of(scores), reference="attention", margin=0.05).context
    assert "same score" not in describe(context.scores, context.verdicts, "mine")


def test_a_table_of_another_direction_does_not_change_the_unit(table_of: Any) -> None:
    scores = {"majority": {"mine": [0.97, 0.98]}, "count": {"mine": [3.1, 3.2]}}
    table = compare(table_of(scores), lower_is_better=["count"]).tables["capabilities"]
    assert table["score"].tolist() == pytest.approx([97.5])


@pytest.mark.parametrize("name", ["needle-3", "parity-n2"])
def test_a_table_may_have_names_of_impossible_tasks(table_of: Any, name: str) -> None:
    report = compare(table_of({name: {"a": [0.5, 0.6], "b": [0.7, 0.8]}}))
    assert "capabilities" not in report.tables


def test_longer_test_sets_have_own_rules() -> None:
    assert rule_of("sort") > 1.5 * rule_of("sort-2x") > 0.1
    assert rule_of("needle-64-depth100") == rule_of("needle-64")


def test_page_says_what_a_method_can_do(folder: Path) -> None:
    text = make_report(folder).markdown()
    assert (
        "relation: Solves majority and needle-16. Is no better than a simple rule on needle-64 and "
        "parity. attention itself fails on parity. Better or no worse than attention on majority "
        "and needle-16. Worse than attention on needle-64. Keep one token among many: succeeds "
        "with 14 other tokens, fails with 62."
    ) in text
    assert "No verdicts on parity: attention itself does not reach 50 % of the distance" in text
    assert "| parity | track a state |" in text


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([(2, 0.9), (4, 0.8)], "Recall: succeeds with 4 pairs, the most that were tested."),
        ([(2, 0.1), (4, 0.2)], "Recall: fails with 2 pairs, the fewest that were tested."),
        ([(2, 0.9), (4, 0.2)], "Recall: succeeds with 2 pairs, fails with 4."),
        ([(2, 0.1), (4, 0.9)], "Recall: succeeds with 4 pairs, fails with 2."),
    ],
)
def test_limit(values: list[tuple[int, float]], said: str) -> None:
    assert _limit("recall: bind keys", "pairs", values) == said


def test_many_tasks_of_one_verdict_are_counted(table_of: Any) -> None:
    tasks = ["majority", "count", "needle-16", "sort", "reverse", "induction", "memorize-small"]
    scores = {task: {"mine": [0.8, 0.81, 0.79], "attention": [0.99, 0.98, 0.97]} for task in tasks}
    report = compare(table_of(scores), reference="attention", margin=0.01)
    assert "Worse than attention on 7 tasks." in report.markdown()


def test_pictures_hold_all_scores() -> None:
    row = {"task": "count", "method": "mlp", "score": 97.6, "share": 0.9, "verdict": "worse",
           "state_kib": math.nan, "rule": 15.0, "chance": 11.0}  # fmt: skip
    assert profile_picture(pd.DataFrame([row])).panels[0].alt == (
        "Scores by method and task: mlp: count 98 (worse); best simple rule: count 15; "
        "most frequent label: count 11."
    )
    depths = pd.DataFrame([row | {"length": 16, "depth": 0}, row | {"length": 64, "depth": 50}])
    picture = depth_picture(depths)
    assert picture is not None
    assert picture.panels[0].alt == "mlp: 98 with 16 tokens at 0 %, 98 with 64 tokens at 50 %."
    assert b"<svg" in picture.svg().encode()
    assert depth_picture(depths[:0]) is None
    longer = pd.DataFrame([row | {"times": times} for times in (1, 2)])
    picture = longer_picture(longer, styles(["mlp"]))
    assert picture is not None
    assert picture.panels[0].alt == "count, score by length: mlp 98 at 1x, 98 at 2x."
    assert "98" in profile_picture(pd.DataFrame([row])).svg()
    assert longer_picture(longer[:1], styles(["mlp"])) is None


def test_further_sets_of_tasks_of_any_size_are_in_no_mean(
    fabricate: Fabricate, suite_of: MakeSuite
) -> None:
    """Attention reads only the trained length: a mean over all lengths would reverse the order."""
    known = {"parity-n64": (0.99, 0.95), "majority-n65": (0.99, 0.95), "needle-40": (0.99, 0.95)}

    def score(run: Any, task: str, *_: Any) -> float:
        own = known.get(task, (0.5, 0.9))
        return own[run.method == "relation"] + run.seed / 1e4

    methods = [{"mechanism": name, "name": name} for name in ("attention", "relation")]
    suite = suite_of(tasks=[*known], method=methods, reference="attention", margin=1.0, seeds=5)
    report = make_report(fabricate(suite, score=score))
    scores = report.context.scores
    assert scores.main_tasks == [*known]
    assert {"parity-n64-2x", "needle-40-depth100"} <= {*scores.diagnostics}
    assert report.context.verdicts is not None
    assert report.context.verdicts.mean is not None
    (mean,) = report.context.verdicts.mean.itertuples()
    assert mean.difference == pytest.approx(-4)
    assert str(mean.verdict) == "worse"


def test_abilities_are_named_also_where_the_reference_fails(
    fabricate: Fabricate, suite_of: MakeSuite
) -> None:
    tasks = ["majority", "parity", "mqar-32-2-v32", "mqar-32-8-v32", "mqar-64-8-v32"]
    failed = {"attention": ("parity", "mqar-32-8-v32"), "relation": ("mqar-64-8-v32",)}

    def score(run: Any, task: str, *_: Any) -> float:
        return (0.4 if task.startswith(failed[run.method]) else 0.99) - run.seed / 1e4

    methods = [{"mechanism": name, "name": name} for name in ("attention", "relation")]
    suite = suite_of(tasks=tasks, method=methods, reference="attention", margin=5.0, seeds=5)
    context = make_report(fabricate(suite, score=score)).context
    said = describe(context.scores, context.verdicts, "relation")
    assert "Solves majority, parity, mqar-32-2-v32 and mqar-32-8-v32." in said
    assert "attention itself fails on parity and mqar-32-8-v32." in said
    # Eight pairs are found in 32 tokens, and not in 64.
    assert "Recall: succeeds with 2 pairs, fails with 8." in said


def test_suites_without_diagnostics_have_no_section(
    fabricate: Fabricate, suite_of: MakeSuite
) -> None:
    folder = fabricate(suite_of(), score=lambda *_: 0.5)
    assert "Capabilities" not in make_report(folder).markdown()


def test_state_size(folder: Path) -> None:
    assert "score-state" not in {each.name for each in make_report(folder).context.pictures}
    for file in folder.rglob("result.json"):
        result = json.loads(file.read_text())
        result["state_bytes"] = 128 if result["method"] == "relation" else 8192
        file.write_text(json.dumps(result))
    report = make_report(folder)
    pictures = {each.name: each for each in report.context.pictures}
    first, second = pictures["score-state"].panels
    assert first.alt.startswith("needle-16: 14 other tokens, mean score in points")
    assert "against state size, KiB: attention 100 ± " in first.alt
    assert first.alt.endswith(" at 0.125.")
    assert "relation 6.97 " in second.alt
    assert "relation, 0.12 KiB: majority" in pictures["capabilities"].panels[0].alt
    assert report.tables["capabilities"].set_index("method")["state_kib"]["attention"].eq(8).all()
    assert "KiB: size of the state of the causal form" in report.markdown()


def test_figures_of_scores_stay_within_0_and_100() -> None:
    """Intervals of t are symmetric, also around a mean near the limit."""
    look = styles(["A", "B"])
    points = [Point("A", [8.0], 95.0, 30.0), Point("B", [0.2], 100.0, math.nan)]
    longer = pd.DataFrame(
        [{"task": "count", "method": "A", "score": 100.0, "rule": 10.0, "times": each}
         for each in (1, 2)]
    ).assign(rule=[10.0, 30.0])  # fmt: skip
    picture = longer_picture(longer, look)
    assert picture is not None
    assert [*picture.legend] == ["A"]
    for panel in (state_panel("count", points, look, "count"), *picture.panels):
        ax = Figure().add_subplot()
        panel.draw(ax)
        low, high = ax.get_ylim()
        assert 0 <= low < high == 100
        assert ax.get_ylabel() == "points"
    assert [*ax.lines[-1].get_ydata()] == [10, 30]  # each length has its own rule


def test_methods_without_state_are_named_and_not_in_the_legend(
    fabricate: Fabricate, suite_of: MakeSuite
) -> None:
    names = ("attention", "relation", "baseline")
    methods = [{"mechanism": name, "name": name} for name in names]
    suite = suite_of(tasks=["needle-16"], method=methods, reference="attention", seeds=3)

    def change(config: Any, files: dict[str, Any]) -> None:
        if config.method != "baseline":
            files["result"]["state_bytes"] = 256

    report = make_report(fabricate(suite, lambda run, *_: 0.9 + run.seed / 50, change))
    pictures = {each.name: each for each in report.context.pictures}
    assert [*pictures["score-state"].legend] == ["attention", "relation"]
    page = report.markdown()
    assert "Not drawn, because no state is known: baseline." in page
    for caption in ("Depths: score by", "Scores against state size: the mean"):
        assert caption in page
    assert "The heat map has the largest size over these tasks, the figure of scores" in page


def test_a_mean_with_collapsed_runs_has_a_range(folder: Path) -> None:
    lost = pd.DataFrame([{"task": "needle-64", "method": "relation", "seed": 1}])
    context = SimpleNamespace(scores=make_report(folder).context.scores, collapsed=lost)
    own = _intervals(cast("ReportContext", context), "needle-64")
    half, (low, high) = own["relation"]
    assert math.isnan(half)
    assert low < high
    half, seeds = own["attention"]
    assert 0 < half < 0.1
    assert seeds is None


def test_scores_of_tables_in_fractions_are_in_points(table_of: Any) -> None:
    samples = {"attention": [0.9, 0.91], "relation": [0.8, 0.82]}
    table = compare(table_of({"parity": samples, "loss": samples})).tables["capabilities"]
    assert table["score"].tolist() == pytest.approx([90.5, 81])
    assert table["chance"].tolist() == pytest.approx([50, 50], abs=3)


def test_a_table_where_lower_is_better_is_no_diagnostic_task() -> None:
    rows = [
        ("sort", method, seed, seconds + seed / 10)
        for method, seconds in {"A": 5, "B": 6}.items()
        for seed in range(5)
    ]
    table = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
    report = compare(table, reference="A", margin=0.5, lower_is_better=["sort"])
    assert "capabilities" not in report.tables
    assert report.context.verdicts is not None
    assert report.context.verdicts.not_learned == []
    assert [str(verdict) for verdict in report.tables["verdicts"]["verdict"]] == ["worse"]


def test_verdicts_on_constant_scores_have_a_reason(table_of: Any) -> None:
    samples = {"majority": {"A": [100.0] * 3, "B": [69.0] * 3}}
    report = compare(table_of(samples), reference="A", margin=5.0)
    assert (
        "A verdict is also inconclusive where the scores do not vary over seeds."
        in report.markdown()
    )
    assert "Inconclusive against A on majority (scores do not vary over seeds)." in describe(
        report.context.scores, report.context.verdicts, "B"
    )
    found = report.tables["capabilities"].set_index("method")["reason"]
    assert found.to_dict() == {"A": "", "B": "scores do not vary over seeds"}


def test_inconclusive_verdicts_are_in_the_description() -> None:
    rows = [
        ("majority", method, seed, value + spread * seed)
        for method, value, spread in (("A", 97, 0.1), ("B", 80, 8.0))
        for seed in range(3)
    ]
    table = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
    scores = compare(table, reference="A", margin=5.0).context
    assert "Inconclusive against A on majority." in describe(scores.scores, scores.verdicts, "B")
