"""Reports on tables with one score for each task and method, and on other small designs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relation_tf.report import compare
from relation_tf.report.sections.paper import sentences_for_paper
from relation_tf.report.sections.tests import diagram_of
from relation_tf.stats import friedman_wilcoxon, wilcoxon_holm
from tests.report.conftest import stated


def wide(tasks=12, methods="abc", seed=0, steps=0.01):
    """Return a table with tasks in rows; later methods are better."""
    rng = np.random.default_rng(seed)
    size = tasks, len(methods)
    scores = rng.uniform(0.6, 0.9, (tasks, 1)) + rng.normal(0, 0.02, size)
    names = pd.Index([f"d{i}" for i in range(tasks)], name="dataset")
    return pd.DataFrame((scores + steps * np.arange(size[1])).round(4), names, [*methods])


def runs(seeds, tasks=("t0", "t1", "t2"), methods="abc"):
    """Return a long table."""
    rng = np.random.default_rng(0)
    rows = [(t, m, s, 0.8 + 0.02 * (m == "b") + rng.normal() / 100)
            for t in tasks for m in methods for s in range(seeds)]  # fmt: skip
    return pd.DataFrame(rows, columns=["task", "method", "seed", "score"])


def part_of(table, **options):
    (part,) = compare(table.reset_index() if table.index.name else table,
                      **options).data.comparisons.values()  # fmt: skip
    return part


def test_the_test_against_a_control_is_the_result():
    table = wide()
    part = part_of(table, control="a")
    assert part.verdicts is None
    samples = {task: {name: [x] for name, x in row.items()} for task, row in table.iterrows()}
    expected = wilcoxon_holm(samples, "a", higher_is_better=True)
    assert part.headline.kind == "leading"
    assert part.headline.values["test"]["significant"] == int(expected.significant.sum()) > 0


def test_without_verdicts_the_headline_is_that_of_the_test():
    part = part_of(wide(), reference="a", margin=0.01)
    assert part.headline.kind == "leading"
    assert "no_verdict" in [said.kind for said in part.caveats]


def test_estimates_over_tasks_need_independent_seeds():
    for table in (wide(), runs(1), runs(5).rename(columns={"seed": "fold"})):
        assert part_of(table, same_unit=True).aggregates.empty
    items = runs(9).assign(score=lambda x: (x["score"] > 0.8).astype(int))
    assert part_of(items.rename(columns={"seed": "item"}), same_unit=True).aggregates.empty
    assert len(part_of(runs(2), same_unit=True).aggregates) == 3


def test_the_diagram_shows_each_pair_without_a_significant_difference():
    rng = np.random.default_rng(0)
    scores = rng.normal([0.03, 0.02, 0.015, 0.01, 0], [0.01, 0.01, 0.05, 0.01, 0.01], (12, 5))
    table = pd.DataFrame(scores, columns=[*"abcde"]).rename_axis("dataset")
    table.index = [f"d{i}" for i in table.index]
    part = part_of(table.rename_axis("dataset"), same_unit=True)
    said = diagram_of(part).panels[0].alt.partition("no significant difference: ")[2].strip(".")
    shown = [{*group.split(" and ")} for group in said.split("; ")]
    result = friedman_wilcoxon(table, higher_is_better=True)
    for row in result.pairs().itertuples():
        assert row.significant != any({row.a, row.b} <= group for group in shown)


def test_the_f_test_decides_unless_p_is_exact():
    found = [(friedman_wilcoxon(wide(14, "abcd", n), higher_is_better=True), n) for n in range(300)]
    seed = next(n for x, n in found if x.f_pvalue < 0.05 < x.friedman_pvalue)
    said = [x for x in sentences_for_paper(part_of(wide(14, "abcd", seed)))
            if x.kind == "paper_friedman"]  # fmt: skip
    assert (said[0].values["exact"], "not" in str(said[0]).partition("(")[0]) == (False, False)
    assert stated(part_of(wide(5)))["paper_friedman"]["exact"]


def test_a_task_that_the_test_leaves_out_is_named():
    table = wide().astype(object)
    table.iloc[2, 0] = "failed"
    part = part_of(table)
    assert stated(part)["paper_failed"]["left_out"] == ["d2"]
    assert "d2" not in part.over_tasks.tasks


def test_tasks_of_the_test_are_those_that_a_warning_names():
    """Failed runs are ranked, so no task is left out."""
    table = runs(5)
    table.loc[(table["task"] == "t1") & (table["method"] == "c"), "score"] = np.nan
    report = compare(table)
    (part,) = report.data.comparisons.values()
    (said,) = [x for x in report.data.warnings if x.kind == "incomplete_methods"]
    assert said.values["used"] == {"": part.over_tasks.tasks}


@pytest.mark.parametrize("options", [{}, {"control": "a"}])
@pytest.mark.parametrize("factor", [100, 100_000])
def test_default_verdict_does_not_depend_on_the_unit_of_a_task(options, factor):
    table, scaled = wide(10), wide(10)
    table.iloc[5:] *= 100
    scaled.iloc[5:] *= factor
    expected, found = (part_of(x, **options).over_tasks.pairs for x in (table, scaled))
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize(("options", "depends"), [
    ({"test_over_tasks": "friedman-wilcoxon"}, True),
    ({"test_over_tasks": "wilcoxon-holm", "control": "a"}, True),
    ({}, False), ({"same_unit": True}, False), ({"test_over_tasks": "friedman-nemenyi"}, False),
])  # fmt: skip
def test_ranks_of_differences_in_different_units(options, depends):
    table = wide(10)
    table.iloc[5:] *= 100
    part = part_of(table, **options)
    assert ("ranks_depend_on_units" in [said.kind for said in part.caveats]) == depends
    assert stated(part)["paper_test"]["units"] == depends


def test_a_single_pair_has_no_correction():
    for table in (wide(methods="ab"), runs(5, "t", "ab").rename(columns={"seed": "fold"})):
        said = stated(part_of(table))["paper_test"]
        assert "Holm" not in said["test"]
        assert "holm1979" not in said["cite"]
    assert "holm1979" in stated(part_of(wide()))["paper_test"]["cite"]


def test_the_paragraph_has_the_share_of_folds_and_the_scope():
    said = stated(part_of(runs(5, "t").rename(columns={"seed": "fold"})))
    assert said["paper_test"]["shares"] == pytest.approx([0.2])
    assert stated(part_of(runs(5, "t")))["paper_scope"]["over"] == "seed"


def test_normalized_scores_in_percent_have_their_target():
    """As in Atari: some of the best scores are above 100, others below 1."""
    tops = {"Pong": 95, "Breakout": 350, "Montezuma": 0.3, "Seaquest": 40}
    table = runs(5, tops, "ab")
    table["score"] *= table["task"].map(tops)
    found = part_of(table, same_unit=True).aggregates
    assert found.attrs["target"] == 100
    assert found.loc["a", "gap"] == pytest.approx(
        (100 - table[table["method"] == "a"]["score"]).clip(0).mean())  # fmt: skip


def test_only_tasks_with_odd_scores_are_doubtful():
    table = runs(3)
    table.loc[table["task"] == "t1", "score"] *= 1000
    (said,) = [x for x in compare(table).data.warnings if x.kind == "assumed_direction"]
    assert said.values["tasks"] == ["t1"]
