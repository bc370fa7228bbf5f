"""Scores against the speed and memory of timed suites."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError
from relation_tf.report import Report, compare, make_report
from relation_tf.report.trade_offs import (
    CONFIDENCE,
    RANGE,
    MeanScore,
    mean_of,
    mean_scores,
    read_costs,
)
from tests.report.conftest import Fabricate, MakeSuite

MakeTable = Callable[..., pd.DataFrame]

LEVELS = {"attention": 0.6, "linear": 0.602, "relation": 0.65, "baseline": 0.3}
SECONDS = {"attention": 4.0, "linear": 2.0, "relation": 1.0, "baseline": 0.5}


@pytest.fixture
def scored(fabricate: Fabricate, suite_of: MakeSuite) -> Path:
    suite = suite_of(reference="attention", margin=1.0)
    return fabricate(suite, score=lambda run, *_: LEVELS[run.method] + run.seed / 1e4)


@pytest.fixture
def timed(fabricate: Fabricate, suite_of: MakeSuite) -> Path:
    """A timed suite: attention takes the most time, and its state grows with the text."""

    def change(config: Any, files: dict[str, Any]) -> None:
        length = int(config.task.partition("-")[2])
        files["history"] = {"pass": [1], "seconds": [1.0]}
        result = files["result"]
        result["seconds"]["epoch"] = SECONDS[config.method] * (1 + config.seed / 100)
        result["tokens"] = length
        result["pass_bytes"] = 2**20 * length
        result["state_bytes"] = 512 * (length if config.method == "attention" else 2)
        if config.method == "baseline":
            result["state_bytes"] = result["pass_bytes"] = None

    suite = suite_of(tasks=["training-128", "training-512"], seeds=6)
    return fabricate(suite, score=lambda *_: 1.0, change=change, name="timed")


def _mean_scores(report: Report) -> dict[str, dict[str, MeanScore]]:
    return mean_scores(report.context.scores, report.context.collapsed)


def shown(folder: Path, timed: Path) -> str:
    return str(make_report(folder, [timed]).markdown())


def test_methods_that_are_no_worse_and_cheaper_are_named(scored: Path, timed: Path) -> None:
    text = shown(scored, timed)
    assert (
        "Better or no worse than attention on the mean, and faster or smaller in every run:" in text
    )
    assert "| Training speed, tokens/s (128 tokens) |" in text
    assert "- training speed, tokens/s: linear and relation\n" in text
    assert "- peak memory of a training pass, MiB: none\n" in text
    assert "- state size, KiB: linear and relation\n" in text
    assert "Costs: suite made-up, 48 runs, on A processor." in text


def test_costs_of_a_report_are_those_of_its_runs(scored: Path, timed: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    make_report(timed).write(copied)
    shutil.copy(timed / "suite.toml", copied)
    names = ["attention", "relation"]
    pd.testing.assert_frame_equal(read_costs([copied], names), read_costs([timed], names))
    runs = pd.read_csv(copied / "runs.csv")
    for broken, said in (
        (runs.assign(pass_mib="much"), r"runs\.csv: must have numbers in column 'pass_mib'"),
        (runs.drop(columns="pass_mib"), r"runs\.csv: must have numbers in column 'pass_mib'"),
        (runs.drop(columns="processor"), r"runs\.csv: must have a column 'processor'"),
        (runs.assign(task="CoLA"), "suite 'made-up' has no task 'CoLA'"),
    ):
        broken.to_csv(copied / "runs.csv", index=False)
        with pytest.raises(SuiteError, match=said):
            read_costs([copied], names)
    (copied / "runs.csv").unlink()
    with pytest.raises(SuiteError, match="no finished run of a compared method"):
        read_costs([copied], names)


def test_cheaper_methods_can_depend_on_the_length(scored: Path, timed: Path) -> None:
    for file in (timed / "runs" / "training-512" / "relation").rglob("result.json"):
        result = json.loads(file.read_text())
        result["seconds"]["epoch"] = 5.0
        file.write_text(json.dumps(result))
    text = shown(scored, timed)
    assert "tokens/s: 128 tokens: linear and relation; 512 tokens: linear\n" in text


def test_methods_without_a_cost_at_a_length_are_named(scored: Path, timed: Path) -> None:
    for file in (timed / "runs" / "training-128" / "relation").rglob("result.json"):
        result = json.loads(file.read_text())
        result["pass_bytes"] = None  # only small arrays: no memory is counted
        file.write_text(json.dumps(result))
    text = shown(scored, timed)
    assert (
        "peak memory of a training pass, MiB: 128 tokens: none (not measured: relation); "
        "512 tokens: none\n"
    ) in text


def test_speeds_of_disturbed_runs_are_not_compared(scored: Path, timed: Path) -> None:
    (file, *_) = (timed / "runs" / "training-512" / "attention").rglob("result.json")
    result = json.loads(file.read_text())
    result["seconds"] |= {"cpu": 1.0, "wall": 2.0}
    file.write_text(json.dumps(result))
    text = shown(scored, timed)
    assert (
        "training speed, tokens/s: not compared, other programs or runs slowed them down\n" in text
    )
    assert "- state size, KiB: linear and relation\n" in text
    assert "Other programs or runs shared the processor: speeds may be wrong." in text


def test_costs_are_medians_with_ranges(scored: Path, timed: Path) -> None:
    table = make_report(scored, [timed]).tables["trade_offs"]
    row = table[
        (table["method"] == "relation") & (table["tokens"] == 512) & (table["measure"] == "speed")
    ].iloc[0]
    assert row["typical"] == pytest.approx(512 / 1.035, rel=1e-3)
    assert (row["low"], row["high"]) == (pytest.approx(512 / 1.06), pytest.approx(512 / 1.01))
    assert row["runs"] == 6
    held = table[table["measure"] == "state"]
    assert held[held["method"] == "attention"]["typical"].tolist() == [64, 256]
    assert "baseline" not in {*held["method"]}


def test_scores_have_intervals_over_seeds(scored: Path, timed: Path) -> None:
    ((title, by_method),) = _mean_scores(make_report(scored, [timed])).items()
    assert title == "mean of 2 tasks"
    own = 100 * (0.65 + np.arange(1, 6) / 1e4)
    # Two tasks with the same scores and independent seeds.
    error = math.sqrt(np.var(own, ddof=1) / 5 / 2)
    half = stats.t.ppf(0.975, 8) * error
    mean, low, high, kind = by_method["relation"]
    assert (mean, low, high) == pytest.approx((own.mean(), own.mean() - half, own.mean() + half))
    assert kind == CONFIDENCE


def test_a_single_seed_has_no_interval(fabricate: Fabricate, suite_of: MakeSuite) -> None:
    suite = suite_of(tasks=["CoLA"], seeds=1)
    folder = fabricate(suite, score=lambda run, *_: LEVELS[run.method])
    (by_method,) = _mean_scores(make_report(folder)).values()
    assert math.isnan(by_method["relation"].low)
    assert by_method["relation"].kind == ""
    assert by_method["relation"].value == pytest.approx(65)


def test_scores_that_do_not_vary_have_a_range_without_length() -> None:
    *limits, kind = mean_of([[0.1] * 3, [0.3] * 3])
    assert limits == pytest.approx([0.2] * 3)
    assert kind == RANGE


def test_a_mean_with_collapsed_runs_has_a_range(
    fabricate: Fabricate, suite_of: MakeSuite, timed: Path
) -> None:
    """Relation's first run on CoLA has a correlation of 0, that of equal predictions."""

    def score(run: RunConfig, task: str, metric: str) -> float:
        lost = (run.method, task, run.seed) == ("relation", "CoLA", 1)
        return 0.0 if lost else LEVELS[run.method] + run.seed / 1e4

    report = make_report(fabricate(suite_of(), score), [timed])
    own = report.tables["trade_offs"].set_index("method")
    # On CoLA 0 to 65.05, on the other task 65.01 to 65.05.
    assert {*own.loc["relation", "score_interval"]} == {RANGE}
    (low,), (high,) = (own.loc["relation", key].unique() for key in ("score_low", "score_high"))
    assert (low, high) == pytest.approx((65.01 / 2, 65.05))
    assert {*own.loc["attention", "score_interval"]} == {CONFIDENCE}
    text = " ".join(str(report.markdown()).split())
    assert "Dotted vertical line: lowest to highest score over the seeds, where a run coll" in text
    assert "Over tasks: mean of their lowest scores to mean of their highest." in text
    assert re.search(r"\| relation \| 58.5 \(32.5 to 65.\d, range\) \|", text)
    (panel, *_) = next(p for p in report.context.pictures if p.name == "trade-offs-speed").panels
    assert "relation 58.5 (seeds 32.5 to 65) at " in panel.alt
    (by_task,) = mean_scores(
        replace(report.context.scores, tasks=["CoLA"]), report.context.collapsed
    ).values()
    assert by_task["relation"].seeds == pytest.approx((0, 65.05))


def test_without_collapsed_runs_no_dotted_line_is_explained(scored: Path, timed: Path) -> None:
    text = shown(scored, timed)
    assert "Vertical line: mean score with its 95 % interval over seeds" in text
    assert "Dotted" not in text
    assert ", range)" not in text


def test_one_seed_has_no_line(fabricate: Fabricate, suite_of: MakeSuite, timed: Path) -> None:
    folder = fabricate(suite_of(seeds=1), score=lambda run, *_: LEVELS[run.method])
    assert "One seed: no vertical line." in shown(folder, timed)


def test_methods_without_costs_are_named(scored: Path, timed: Path) -> None:
    text = shown(scored, timed)
    assert "No costs" not in text
    assert "No peak memory of a training pass: baseline. No state size: baseline." in text
    for file in (timed / "runs" / "training-512" / "linear").rglob("result.json"):
        file.unlink()
    shutil.rmtree(timed / "runs" / "training-512" / "relation")
    shutil.rmtree(timed / "runs" / "training-128" / "relation")
    text = shown(scored, timed)
    assert "No costs: relation. No training speed at 512 tokens: linear." in text
    assert "No state size at 512 tokens: linear. No state size: baseline." in text


def test_fractions_have_enough_digits(timed: Path, table_of: MakeTable) -> None:
    """With one decimal the intervals would be points."""
    samples = {name: [level + seed / 1e3 for seed in range(5)] for name, level in LEVELS.items()}
    text = compare(table_of({"MR": samples}), costs=[timed]).markdown()
    assert "| relation | 0.6520 (0.6500 to 0.6540) |" in text
    text = compare(table_of({"MR": samples, "SST-2": samples}), costs=[timed]).markdown()
    assert "| relation | 0.6520 (0.6508 to 0.6532) |" in text


def test_a_network_is_dominated_by_its_own_tests(timed: Path, table_of: MakeTable) -> None:
    """On the loss, relation is worse; over both tasks no pair differs."""
    rising = {name: [level + seed / 1e3 for seed in range(5)] for name, level in LEVELS.items()}
    table = table_of({"MNLI-m": rising, "MNLI-mm": rising, "loss": rising})
    report = compare(table, lower_is_better=["loss"], costs=[timed])
    speed = next(p for p in report.context.pictures if p.name == "trade-offs-speed")
    panels = {panel.title: panel.alt for panel in speed.panels}
    assert panels["MNLI; 128 tokens"].endswith("not dominated: relation, baseline.")


def test_means_leave_out_what_the_reference_does_not_learn(
    fabricate: Fabricate, suite_of: MakeSuite, timed: Path
) -> None:
    """Parity has two classes: 0.5 is chance."""
    learned = {"majority": 0.9, "needle-64": 0.8, "parity": 0.5}
    suite = suite_of(tasks=[*learned], reference="attention", margin=5.0)
    report = make_report(
        fabricate(suite, lambda run, *_: learned[run.task] + run.seed / 1e3), [timed]
    )
    ((title, by_method),) = _mean_scores(report).items()
    assert title == "mean of 2 tasks"
    assert by_method["relation"].value == pytest.approx(85.3)
    assert "which attention does not learn." in " ".join(report.markdown().split())
    (panel, *_) = next(p for p in report.context.pictures if p.name == "trade-offs-speed").panels
    assert "not dominated" not in panel.alt  # the test over tasks includes parity


def test_figures_show_the_shortest_and_the_longest_text(scored: Path, timed: Path) -> None:
    pictures = {each.name: each for each in make_report(scored, [timed]).context.pictures}
    assert {"trade-offs-speed", "trade-offs-memory", "trade-offs-state"} <= {*pictures}
    panels = pictures["trade-offs-speed"].panels
    assert [panel.title for panel in panels] == ["128 tokens", "512 tokens"]
    assert "half of the 95 % interval" in panels[0].alt
    assert "relation 65 ± " in panels[0].alt


def test_scores_of_tables_can_have_costs(timed: Path, tmp_path: Path) -> None:
    rows = [
        ("MR", name, seed, 100 * level + seed / 10)
        for name, level in LEVELS.items()
        for seed in range(5)
    ]
    table = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
    file = tmp_path / "scores.csv"
    table.to_csv(file, index=False)
    report = compare(file, reference="attention", margin=1, costs=[timed])
    assert "- training speed, tokens/s: linear and relation" in str(report.markdown())
    (command,) = report.context.origin["compare command"]
    assert command.endswith(f"--costs {timed}")


def test_without_timed_suites_there_is_no_section(scored: Path) -> None:
    report = make_report(scored)
    assert "trade_offs" not in report.tables
    assert "Score against speed and memory" not in str(report.markdown())


def test_a_suite_that_trains_is_refused(scored: Path) -> None:
    with pytest.raises(SuiteError, match="suite 'made-up' is not a timed suite"):
        make_report(scored, [scored])


def test_methods_without_costs_are_refused(timed: Path) -> None:
    with pytest.raises(SuiteError, match=r"Compared: cnn\. Timed: attention.* matched by name"):
        read_costs([timed], ["cnn"])


def test_two_suites_that_measure_the_same_are_refused(scored: Path, timed: Path) -> None:
    with pytest.raises(SuiteError, match=r"measures training like .*timed\. Time all methods"):
        make_report(scored, [timed, timed])


def test_a_family_without_costs_is_left_out(
    fabricate: Fabricate, suite_of: MakeSuite, timed: Path
) -> None:
    methods = [{"name": name, "mechanism": "relation"} for name in ("attention", "linear")]
    methods += [{"name": name, "mechanism": "relation", "units": 8} for name in ("c", "d")]
    suite = suite_of(method=methods, families=[["attention", "linear"], ["c", "d"]])
    folder = fabricate(suite, score=lambda run, *_: LEVELS.get(run.method, 0.5) + run.seed / 1e4)
    table = make_report(folder, [timed]).tables["trade_offs"]
    assert {*table["method"]} == {"attention", "linear"}
    assert "No costs: c and d." in shown(folder, timed)


def test_a_reference_without_cost_is_named(scored: Path, timed: Path) -> None:
    text = shown(scored, timed)
    assert "was not measured" not in text
    for file in (timed / "runs" / "training-512" / "attention").rglob("result.json"):
        file.unlink()
    text = shown(scored, timed)
    assert "128 tokens: linear and relation; 512 tokens: attention was not measured\n" in text


def test_the_best_score_is_first_where_lower_is_better(timed: Path) -> None:
    rows = [
        (task, name, seed, level + seed / 1e3)
        for task in ("A", "B")
        for name, level in LEVELS.items()
        for seed in range(3)
    ]
    table = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
    report = compare(table, lower_is_better=["A", "B"], costs=[timed])
    text = str(report.markdown())
    shown_table = text[text.index("| Method | Mean of 2 tasks |") :]
    places = [shown_table.index(f"\n| {name} |") for name in ("baseline", "attention", "relation")]
    assert places == sorted(places)


def test_a_suite_without_runs_has_no_section(
    fabricate: Fabricate, suite_of: MakeSuite, timed: Path
) -> None:
    folder = fabricate(suite_of(), score=lambda *_: None)
    assert "trade_offs" not in make_report(folder, [timed]).tables


def test_a_network_with_two_losses_next_to_a_score(timed: Path, table_of: MakeTable) -> None:
    samples = {name: [level + seed / 1e3 for seed in range(3)] for name, level in LEVELS.items()}
    table = table_of({"MNLI-m": samples, "MNLI-mm": samples, "CoLA": samples})
    report = compare(table, lower_is_better=["MNLI-m", "MNLI-mm"], costs=[timed])
    text = str(report.markdown())
    for title, ordered in (("MNLI", ("baseline", "relation")), ("CoLA", ("relation", "baseline"))):
        shown_table = text[text.index(f"| Method | {title} | Training speed") :]
        first, second = (shown_table.index(f"\n| {name} |") for name in ordered)
        assert first < second
    speed = next(p for p in report.context.pictures if p.name == "trade-offs-speed")
    panels = {panel.title: panel.alt for panel in speed.panels}
    assert "lower is better" in panels["MNLI; 128 tokens"]
    assert "lower is better" not in panels["CoLA; 128 tokens"]
