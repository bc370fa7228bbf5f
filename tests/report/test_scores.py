"""Scores of a comparison: tasks that are scored from one trained network."""

from __future__ import annotations

import pytest

from relation_tf.bench.results import MEAN_OF_TASKS, read_results
from relation_tf.report import compare, make_report
from relation_tf.report.scores import Scores

TWO = [{"name": name, "mechanism": name} for name in ("baseline", "relation")]
GROUP = [{"name": "opinions", "tasks": ["MR", "CR"]}]
LEVEL = {"MR": 0.6, "CR": 0.8, "SUBJ": 0.5}


def score(config, task, metric):
    return LEVEL[task] + config.seed / 100 + 0.1 * (config.method == "relation")


@pytest.fixture
def grouped(suite_of, fabricate):
    suite = suite_of(tasks=["opinions", "SUBJ"], group=GROUP, method=TWO, seeds=2)
    return fabricate(suite, score)


def test_tasks_of_a_group_count_once(grouped):
    scores = Scores.of(read_results(grouped))
    assert scores.shared == {"opinions": ["MR", "CR"]}
    samples = scores.by_network()
    assert [*samples] == ["opinions", "SUBJ"]
    assert samples["opinions"]["baseline"] == pytest.approx([71, 72])
    assert samples["SUBJ"]["relation"] == pytest.approx([61, 62])
    # The displayed average uses the same rule.
    assert scores.samples(MEAN_OF_TASKS)["baseline"] == pytest.approx([0.61, 0.62])


def test_the_report_names_tasks_of_one_network(grouped, tmp_path):
    report = make_report(grouped)
    note = "The two metrics of a task, and MR and CR, are averaged first, then the tasks."
    assert note in " ".join(report.markdown().split())
    # A comparison of the report's tables knows the group as well.
    report.write(tmp_path / "report")
    assert compare(tmp_path / "report").context.scores.shared == {"opinions": ["MR", "CR"]}


def test_a_group_in_one_source_counts_once_in_all(grouped, table_of):
    alone = table_of({task: {"dan": [0.1, 0.2]} for task in LEVEL})
    for sources in ((grouped, alone), (alone, grouped)):
        assert compare(*sources).context.scores.network("CR") == "opinions"


def test_registered_tasks_know_their_network(table_of):
    tasks = ["reversal", "reversal-long", "MNLI-mm", "own"]
    table = table_of({task: {"a": [1.0, 2], "b": [3.0, 4]} for task in tasks})
    scores = compare(table).context.scores
    assert scores.shared == {"reversal": ["reversal", "reversal-long"]}
    # Without the other half, MNLI-mm is a task of its own.
    assert [*scores.by_network()] == ["reversal", "MNLI-mm", "own"]


def test_a_seed_needs_all_tasks_of_its_network(table_of):
    table = table_of(
        {"MNLI-m": {"a": [1.0, 2], "b": [3.0, 4]}, "MNLI-mm": {"a": [3.0], "b": [5, 6]}}
    )
    assert compare(table).context.scores.by_network() == {"MNLI": {"a": [2], "b": [4, 5]}}


def test_unlike_tasks_of_a_network_are_not_averaged(table_of):
    table = table_of({task: {"a": [1.0, 2], "b": [3.0, 4]} for task in ("MNLI-m", "MNLI-mm")})
    scores = compare(table, lower_is_better="MNLI-mm").context.scores
    assert scores.counted("MNLI") == ["MNLI-m"]
    assert scores.by_network()["MNLI"]["a"] == [1, 2]
