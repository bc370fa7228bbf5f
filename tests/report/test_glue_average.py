"""The GLUE average in reports on runs and on tables, and MNLI-m and MNLI-mm as two networks."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from glue_submit import TASKS, glue_average
from relation_tf.report import compare, make_report
from relation_tf.report.lost_runs import trained_networks
from relation_tf.tasks import GLUE
from relation_tf.words import GLUE_AVERAGE, MEAN_OF_TASKS
from tests.report.conftest import TWO, noisy

TWO_NETWORKS = [name for name in TASKS if name != "AX"]


def rows(names=TASKS, seeds=3, factor=1.0):
    """Return a table with a row per metric, and the GLUE average of each method and seed."""
    random = np.random.default_rng(1)
    table, averages = [], {}
    for method in ("baseline", "relation"):
        for seed in range(seeds):
            values = {
                name: {metric: factor * random.uniform(0.4, 0.8) for metric in task.metrics}
                for name, task in TASKS.items()
            }
            if "MNLI" in names:
                values["MNLI-mm"] = values["MNLI"] = values["MNLI-m"]
            averages[method, str(seed)] = glue_average({name: values[name] for name in TASKS})
            table += [
                (name, method, seed, metric, value)
                for name in names
                for metric, value in values[name].items()
            ]
    columns = ["task", "method", "seed", "metric", "value"]
    return pd.DataFrame(table, columns=columns), averages


def found(report, average=GLUE_AVERAGE):
    table = report.tables["scores"]
    own = table[table["task"] == average]
    return {
        (method, str(seed)): value
        for method, seed, value in own[["method", "seed", "value"]].itertuples(index=False)
    }


@pytest.mark.parametrize(
    ("names", "with_metrics", "factor"),
    [([*GLUE], True, 1.0), (TWO_NETWORKS, False, 100.0), ([*TASKS, "IMDb"], True, 1.0)],
)
def test_a_table_with_the_nine_tasks_has_the_glue_average(names, with_metrics, factor):
    table, expected = rows([name for name in names if name != "IMDb"], factor=factor)
    if "IMDb" in names:
        more = table[table["task"] == "RTE"].assign(task="IMDb")
        table = pd.concat([table, more])
    if not with_metrics:
        own = table.groupby(["task", "method", "seed"], sort=False, as_index=False)
        table = own["value"].mean()
    report = compare(table)
    assert found(report) == pytest.approx(expected)
    assert not found(report, MEAN_OF_TASKS)
    assert GLUE_AVERAGE in {*report.tables["pvalues"]["task"]}
    mean = np.mean([value for (method, _), value in expected.items() if method == "relation"])
    written = report.tables["table"].set_index(["task", "method"])["mean"]
    assert written[GLUE_AVERAGE, "relation"] == pytest.approx(mean)


@pytest.mark.parametrize("name", ["CoLA", "MNLI-mm"])
def test_no_glue_average_without_a_task(name):
    table, _ = rows()
    assert not found(compare(table[table["task"] != name]))


def test_a_seed_without_a_task_has_no_glue_average():
    table, expected = rows()
    lost = (table["task"] == "QQP") & (table["method"] == "relation") & (table["seed"] == 1)
    del expected["relation", "1"]
    assert found(compare(table[~lost])) == pytest.approx(expected)


def test_scores_of_other_metrics_have_no_glue_average():
    table, expected = rows()
    assert not found(compare(table[table["metric"] != "f1"]))
    losses = table.drop_duplicates(["task", "method", "seed"]).assign(metric="loss")
    assert not found(compare(losses))
    longer = table["metric"].replace({"matthews": "Matthews_correlation", "pearson": "pearsonr"})
    assert found(compare(table.assign(metric=longer))) == pytest.approx(expected)
    # AX does not count.
    other = table["metric"].mask(table["task"] == "AX", "accuracy")
    assert found(compare(table.assign(metric=other))) == pytest.approx(expected)


def test_the_glue_average_is_of_one_split():
    table, expected = rows()
    report = compare(table.assign(split="test"))
    assert found(report) == pytest.approx(expected)
    assert set(report.tables["scores"]["split"]) == {"test"}
    mixed = table["task"].map(lambda task: "dev" if task == "QQP" else "test")
    assert not found(compare(table.assign(split=mixed)))


@pytest.mark.parametrize("tasks", [[*GLUE], [*TWO_NETWORKS, "MR"]])
def test_runs_and_their_report_have_the_same_glue_average(suite_of, fabricate, tasks, tmp_path):
    suite = suite_of(tasks=tasks, method=TWO, seeds=2)
    folder = fabricate(suite, noisy)
    values = {}
    for run in suite.runs():
        for name in suite.find_task(run.task).scored:
            if name in TASKS:
                metrics = {each: noisy(run, name, each) for each in TASKS[name].metrics}
                values.setdefault((run.method, str(run.seed)), {})[name] = metrics
    expected = {run: glue_average(own) for run, own in values.items()}
    report = make_report(folder)
    report.write(tmp_path / "report")
    for made in (report, compare(folder), compare(tmp_path / "report")):
        assert found(made) == pytest.approx(expected)
    assert bool(found(report, MEAN_OF_TASKS)) == ("MR" in tasks)
    table, _ = rows()
    both = compare(folder, table.assign(method=table["method"] + "-2"))
    assert len(found(both)) == 4 + 6


def test_two_networks_of_mnli_count_once(suite_of, fabricate, tmp_path):
    suite = suite_of(tasks=["CoLA", "MNLI-m", "MNLI-mm"], method=TWO, seeds=2)
    report = make_report(fabricate(suite, noisy))
    report.write(tmp_path / "report")
    for made in (report, compare(tmp_path / "report")):
        networks = json.loads(made.json())["networks"]
        assert networks["MNLI-m"] != networks["MNLI-mm"]
        scores = made.data.scores
        assert len(trained_networks(scores.table, scores)) == 3 * 2 * 2
        assert "2 tasks together" in " ".join(json.loads(made.json())["answer"])
    expected = {
        (run.method, str(run.seed)): np.mean(
            [
                noisy(run, "CoLA", "matthews"),
                np.mean([noisy(run, name, "accuracy") for name in ("MNLI-m", "MNLI-mm")]),
            ]
        )
        for run in suite.runs()
    }
    assert found(report, MEAN_OF_TASKS) == pytest.approx(expected)
