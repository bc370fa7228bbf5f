"""Tables of runs, compared with their files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relation_tf.bench.results import read_results
from relation_tf.report import make_report
from relation_tf.report.failed import failed_by_task, failed_runs
from relation_tf.report.runs import (
    all_runs,
    computed,
    how_run,
    load_warnings,
    memory_of,
    summarize_costs,
)
from relation_tf.report.scores import Scores

TWO = [{"name": name, "mechanism": name} for name in ("baseline", "relation")]


def noisy(config, task, metric):
    where = [config.seed, *task.encode(), *config.method.encode(), *metric.encode()]
    return float(np.random.default_rng(where).uniform(0.4, 0.8))


def test_costs_are_medians_over_seeds(suite_of, fabricate):
    def change(config, files):
        files["result"]["epochs"] = 10 * config.seed
        files["result"]["peak_memory_mib"] = 100 * config.seed
        files["result"]["stopped"] = "reached the end" if config.seed == 3 else "not better"

    runs = all_runs(read_results(fabricate(suite_of(method=TWO, seeds=3), noisy, change)))
    row = how_run(runs).iloc[0]
    assert (row["task"], row["method"], row["n"]) == ("CoLA", "baseline", 3)
    assert (row["parameters"], row["without_embedding"]) == (569_186, 569_186 - 541_600)
    assert (row["epochs"], row["memory_mib"], row["memory_mib_low"]) == (20, 300, 100)
    assert not row["above_base"]
    assert row["stopped"] == "not better (2); reached the end (1)"


def test_memory_is_that_above_the_base_of_the_process(suite_of, fabricate):
    def change(config, files):
        own = 60 if config.method == "relation" else 30
        files["result"] |= {"base_memory_mib": 900, "peak_memory_mib": 900 + own}

    runs = all_runs(read_results(fabricate(suite_of(method=TWO, seeds=3), noisy, change)))
    costs = summarize_costs(runs, ["relation", "baseline"])
    assert costs["memory_mib"].tolist() == pytest.approx([60, 30])
    assert costs["above_base"].all()
    assert how_run(runs)["memory_mib"].tolist() == [30, 60, 30, 60]
    # A run can need no memory beyond its process; memory is recorded in whole MiB.
    same = runs.assign(base_memory_mib=runs["peak_memory_mib"] + (runs["task"] == "CoLA"))
    assert memory_of(same).eq(0).all()
    assert summarize_costs(same, ["relation", "baseline"])["memory_mib"].tolist() == [1, 1]
    # One run of an earlier version: ratios need one kind of memory.
    runs.loc[0, "base_memory_mib"] = np.nan
    assert memory_of(runs).tolist() == runs["peak_memory_mib"].tolist()
    assert not summarize_costs(runs, ["relation"])["above_base"].any()


def test_the_header_of_memory_is_short(suite_of, fabricate):
    def change(config, files):
        files["result"] |= {"base_memory_mib": 900, "peak_memory_mib": 950}

    suite = suite_of(method=TWO, seeds=3, reference="baseline")
    page = make_report(fabricate(suite, noisy, change)).html()
    assert "<small>additional peak, baseline = 1</small>" in page
    assert "Additional peak: memory above that of the process before its first run." in page


def test_runs_next_to_other_load_are_named(suite_of, fabricate):
    def change(config, files):
        cpu = 4.0 if config.seed == 2 and config.task == "CoLA" else 9.5
        files["result"]["seconds"] |= {"cpu": cpu, "wall": 10.0}
        files["result"]["peak_device_memory_mib"] = None

    report = make_report(fabricate(suite_of(method=TWO, seeds=3), noisy, change))
    (found,) = (each for each in report.context.warnings if "processor" in each)
    assert found.startswith(
        "2 of 12 runs had the processor for less than 80% of their time (lowest: 40%), so other "
        "programs or runs shared it."
    )
    runs = report.context.runs
    assert [*load_warnings(runs.assign(peak_device_memory_mib=1.0))] == []  # a GPU
    assert [*load_warnings(runs.assign(seconds_cpu=np.nan))] == []  # an earlier version
    assert [*load_warnings(runs.assign(seconds_cpu=20.0))] == []  # two threads


@pytest.mark.parametrize(("cpu", "alone"), [(9.5, True), (4.0, False), (None, False)])
def test_times_are_shown_if_all_runs_had_the_processor(
    suite_of, fabricate, cpu, alone, monkeypatch
):
    """Earlier versions did not record it."""

    def change(config, files):
        if cpu is not None:
            files["result"]["seconds"] |= {"cpu": cpu, "wall": 10.0}
        files["result"]["peak_device_memory_mib"] = None

    suite = suite_of(method=TWO, seeds=3, reference="baseline")
    level = {"relation": 0.8, "baseline": 0.5}
    score = lambda config, *_: level[config.method] + config.seed / 100  # noqa: E731
    report = make_report(fabricate(suite, score, change))
    assert report.context.costs["alone"].tolist() == [alone, alone]
    assert ("times as long per epoch" in report.context.headline) is alone
    monkeypatch.setenv("COLUMNS", "200")  # wide enough for the costs
    assert ("Time (per epoch, baseline = 1)" in str(report)) is alone


def test_figures_of_cost_have_spread_and_only_real_differences(suite_of, fabricate):
    def change(config, files):
        files["result"]["seconds"]["epoch"] = config.seed * (2 if config.task == "CoLA" else 1)
        more = 10 if config.task == "CoLA" and config.method == "relation" else 0
        files["result"]["parameters"] = {"total": 90 + more, "embedding": 50, "mechanism": 9}

    report = make_report(fabricate(suite_of(method=TWO, seeds=3), noisy, change))
    pictures = {picture.name: picture for picture in report.context.pictures}
    assert [panel.title for panel in pictures["parameters"].panels] == ["CoLA"]
    assert "at 4 (2 to 6)" in pictures["time"].panels[0].alt


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, 'Computation: only the output of the first token (compute = "readout"), float32, '
             "without XLA."),
        ({"compute": "all", "precision": "bfloat16", "xla": True},
         'Computation: all tokens (compute = "all"), bfloat16, training step compiled with XLA.'),
        ({"method": [{"mechanism": "fcsr"}]}, "Computation: float32, without XLA."),
    ],
)  # fmt: skip
def test_sentence_on_computation(suite_of, fabricate, values, expected):
    assert computed(read_results(fabricate(suite_of(**values), lambda *_: None))) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "Runs compute only the output of the first token; an operation uses 1 CPU thread."),
        ({"tasks": ["majority", "count"]}, "Runs compute all tokens; an operation uses"),
        ({"method": [{"mechanism": "fcsr"}, {"mechanism": "lstm"}]}, ". An operation uses 1 CPU"),
    ],
)  # fmt: skip
def test_computed_tokens_of_costs(suite_of, fabricate, values, expected):
    assert expected in make_report(fabricate(suite_of(**values), noisy)).markdown()


def test_generated_tasks_are_not_taken_for_glue(suite_of, fabricate):
    said = "The tasks are generated text (miniglue), not the data sets of these names."
    suite = suite_of(tasks=["CoLA"], source="miniglue", reference="relation", margin=1.0)
    report = make_report(fabricate(suite, noisy))
    assert said in report.markdown().partition("## Scores")[0]
    assert report.latex().count(said) == 2  # verdicts and scores
    own = make_report(fabricate(suite_of(tasks=["CoLA"]), noisy))
    assert "generated text" not in own.html()


def test_a_failed_run_counts_for_all_test_sets_of_its_network():
    runs = pd.DataFrame([{"task": "induction", "method": "a", "seed": 1, "status": "failed"}])
    table = pd.DataFrame(columns=["task", "method", "seed", "score"])
    tasks, networks = ["induction-2x", "sort"], {"induction-2x": "induction"}
    scores = Scores(table, ["a"], tasks, seeds=1, networks=networks)
    failed = failed_runs(runs, None, scores)
    assert failed_by_task(failed) == {("induction-2x", "a"): {"induction/1": False}}
