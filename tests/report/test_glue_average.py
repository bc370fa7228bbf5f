"""The GLUE average in reports on runs and on tables, and MNLI-m and MNLI-mm as two networks."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from glue_submit import TASKS, glue_average
from relation_tf.bench.results import GLUE_AVERAGE, MEAN_OF_TASKS, read_results
from relation_tf.report import compare, make_report
from relation_tf.report.reliability import trained_networks
from relation_tf.tasks import GLUE

TWO = [{"name": name, "mechanism": name} for name in ("baseline", "relation")]
TWO_NETWORKS = [name for name in TASKS if name != "AX"]


def score(config, task, metric):
    where = [config.seed, *task.encode(), *config.method.encode(), *metric.encode()]
    return float(np.random.default_rng(where).uniform(0.4, 0.8))


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


def found(scores):
    own = scores.table[scores.table["task"] == GLUE_AVERAGE]
    return {
        (method, str(seed)): score
        for method, seed, score in own[["method", "seed", "score"]].itertuples(index=False)
    }


@pytest.mark.parametrize("factor", [1.0, 100.0])
@pytest.mark.parametrize("with_metrics", [True, False])
@pytest.mark.parametrize("names", [[*GLUE], [*TASKS], TWO_NETWORKS, [*TASKS, "IMDb"]])
def test_a_table_with_the_nine_tasks_has_the_glue_average(names, with_metrics, factor):
    table, expected = rows([name for name in names if name != "IMDb"], factor=factor)
    if "IMDb" in names:
        more = table[table["task"] == "RTE"].assign(task="IMDb")
        table = pd.concat([table, more])
    if not with_metrics:
        own = table.groupby(["task", "method", "seed"], sort=False, as_index=False)
        table = own["value"].mean()
    report = compare(table)
    scores = report.context.scores
    assert found(scores) == pytest.approx(expected)
    assert scores.averages == [GLUE_AVERAGE]
    assert GLUE_AVERAGE in report.context.comparisons
    mean = np.mean([value for (method, _), value in expected.items() if method == "relation"])
    written = report.tables["table"].set_index(["task", "method"])["mean"]
    assert written[GLUE_AVERAGE, "relation"] == pytest.approx(mean)
    assert GLUE_AVERAGE in report.markdown()


@pytest.mark.parametrize("name", [name for name in TWO_NETWORKS if name != "MNLI-m"])
def test_no_glue_average_without_a_task(name):
    table, _ = rows()
    assert not found(compare(table[table["task"] != name]).context.scores)


def test_a_seed_without_a_task_has_no_glue_average():
    table, expected = rows()
    lost = (table["task"] == "QQP") & (table["method"] == "relation") & (table["seed"] == 1)
    scores = compare(table[~lost]).context.scores
    del expected["relation", "1"]
    assert found(scores) == pytest.approx(expected)


def test_scores_of_other_metrics_have_no_glue_average():
    table, expected = rows()
    assert not found(compare(table[table["metric"] != "f1"]).context.scores)
    losses = table.drop_duplicates(["task", "method", "seed"]).assign(metric="loss")
    assert not found(compare(losses).context.scores)
    longer = table["metric"].replace({"matthews": "Matthews_correlation", "pearson": "pearsonr"})
    assert found(compare(table.assign(metric=longer)).context.scores) == pytest.approx(expected)
    # AX does not count.
    other = table["metric"].mask(table["task"] == "AX", "accuracy")
    assert found(compare(table.assign(metric=other)).context.scores) == pytest.approx(expected)


def test_the_glue_average_is_of_one_split():
    table, expected = rows()
    report = compare(table.assign(split="test"))
    assert found(report.context.scores) == pytest.approx(expected)
    assert set(report.tables["scores"]["split"]) == {"test"}
    mixed = table["task"].map(lambda task: "dev" if task == "QQP" else "test")
    assert not found(compare(table.assign(split=mixed)).context.scores)


def test_tables_with_parts_of_the_nine_tasks_have_it_together():
    table, expected = rows()
    first = table["task"].isin(["CoLA", "QQP"])
    report = compare(table[first], table[~first], merge=True)
    assert found(report.context.scores) == pytest.approx(expected)


def test_a_failed_run_of_another_task_leaves_the_glue_average():
    table, expected = rows()
    lost = (table["task"] == "AX") & (table["method"] == "relation") & (table["seed"] == 1)
    report = compare(table.assign(value=table["value"].mask(lost)))
    test = report.context.comparisons[GLUE_AVERAGE]
    samples = [expected["relation", str(seed)] for seed in range(3)]
    assert [*test.samples["relation"]] == pytest.approx(samples)
    assert math.isnan(report.context.comparisons["AX"].samples["relation"][-1])


@pytest.mark.parametrize("tasks", [[*GLUE], TWO_NETWORKS, [*TWO_NETWORKS, "MR"]])
def test_runs_and_their_report_have_the_same_glue_average(suite_of, fabricate, tasks, tmp_path):
    folder = fabricate(suite_of(tasks=tasks, method=TWO, seeds=2), score)
    results = read_results(folder)
    by_run = {
        run: dict(zip(own["task"], own.drop(columns=["task"]).to_dict("records"), strict=True))
        for run, own in (
            results.metrics.pivot_table("value", ["method", "seed", "task"], "metric")
            .reset_index(level="task")
            .groupby(["method", "seed"])
        )
    }
    expected = {
        (method, str(seed)): glue_average(
            {
                name: {metric: x for metric, x in metrics.items() if not math.isnan(x)}
                for name, metrics in own.items()
                if name in TASKS
            }
        )
        for (method, seed), own in by_run.items()
    }
    scores = make_report(folder).context.scores
    assert found(scores) == pytest.approx(expected)
    assert scores.averages == [GLUE_AVERAGE, *([MEAN_OF_TASKS] if "MR" in tasks else [])]
    assert found(compare(folder).context.scores) == pytest.approx(expected)
    make_report(folder).write(tmp_path / "report")
    assert found(compare(tmp_path / "report").context.scores) == pytest.approx(expected)
    table, _ = rows()
    both = compare(folder, table.assign(method=table["method"] + "-2")).context.scores
    assert len(found(both)) == 4 + 6


def test_generated_text_has_no_glue_average(suite_of, fabricate, tmp_path):
    suite = suite_of(tasks=TWO_NETWORKS, method=TWO, seeds=2, source="miniglue")
    folder = fabricate(suite, score)
    assert make_report(folder).context.scores.averages == [MEAN_OF_TASKS]
    make_report(folder).write(tmp_path / "report")
    table, _ = rows()
    for sources in ([folder], [tmp_path / "report"], [tmp_path / "report", table]):
        assert not found(compare(*sources).context.scores)


def test_two_networks_of_mnli_count_once(suite_of, fabricate, tmp_path):
    suite = suite_of(tasks=["CoLA", "MNLI-m", "MNLI-mm"], method=TWO, seeds=2)
    folder = fabricate(suite, score)
    report = make_report(folder)
    report.write(tmp_path / "report")
    again = compare(tmp_path / "report")
    for made in (report, again):
        scores = made.context.scores
        assert scores.shared == {"MNLI": ["MNLI-m", "MNLI-mm"]}
        assert made.context.several.tasks == ["CoLA", "MNLI"]
        both = [
            100 * np.mean([score(config, name, "accuracy") for name in ("MNLI-m", "MNLI-mm")])
            for config in suite.runs()
            if (config.task, config.method) == ("MNLI-m", "relation")
        ]
        assert scores.by_network["MNLI"]["relation"] == pytest.approx(both)
        assert len(trained_networks(scores.table, scores)) == 3 * 2 * 2
        assert (
            "MNLI-m and MNLI-mm have the same network or training rows and count once"
            in " ".join(made.markdown().split())
        )
    means = report.context.scores.samples(MEAN_OF_TASKS)["relation"]
    cola = report.context.scores.samples("CoLA")["relation"]
    assert means == pytest.approx([(a + b / 100) / 2 for a, b in zip(cola, both, strict=True)])


def test_two_networks_of_mnli_alone_have_no_mean(suite_of, fabricate):
    report = make_report(fabricate(suite_of(tasks=["MNLI-m", "MNLI-mm"], method=TWO), score))
    assert not report.context.scores.averages
    assert report.context.several is None
