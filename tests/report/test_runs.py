"""Costs of runs, and warnings about them."""

from __future__ import annotations

import pytest

from relation_tf.report import make_report
from tests.report.conftest import TWO, content, noisy, rows_of, separated


def test_costs_are_medians_over_seeds_and_the_most_memory(suite_of, fabricate):
    def change(config, files):
        files["result"]["epochs"] = [10, 15, 50][config.seed - 1]
        files["result"]["peak_memory_mib"] = 100 * config.seed
        files["result"]["stopped"] = "reached the end" if config.seed == 3 else "not better"

    report = make_report(fabricate(suite_of(method=TWO, seeds=3), noisy, change))
    ((*cells, memory, stopped),) = rows_of(report, "CoLA", "baseline", "3")
    assert cells[:4] == ["569,186", "27,586", "23,296", "15"]
    assert memory == "300"
    assert stopped.split("; ") == ["not better (2)", "reached the end (1)"]


@pytest.mark.parametrize(
    ("cpu", "device", "warned"),
    [
        (4.0, None, True),
        (9.5, None, False),
        (20.0, None, False),  # two threads
        (None, None, False),  # an earlier version
        (4.0, 1.0, False),  # a GPU
    ],
)
def test_runs_next_to_other_load_are_named(suite_of, fabricate, cpu, device, warned):
    """Times are shown only if all runs had the processor."""

    def change(config, files):
        own = cpu if config.seed == 2 and config.task == "CoLA" else 9.5
        files["result"]["seconds"] |= {"cpu": cpu and own, "wall": 10.0}
        files["result"]["peak_device_memory_mib"] = device

    suite = suite_of(method=TWO, seeds=3, reference="baseline")
    report = make_report(fabricate(suite, separated, change))
    found = [each for each in content(report)["warnings"] if "processor" in each]
    assert len(found) == warned
    assert all(part in each for each in found for part in ("2 of 12", "lowest: 40 %"))
    assert ("(per epoch, baseline" in report.markdown()) == (cpu is not None and not warned)


def test_figures_of_cost_have_spread_and_only_real_differences(suite_of, fabricate):
    def change(config, files):
        files["result"]["seconds"]["epoch"] = config.seed * (2 if config.task == "CoLA" else 1)
        more = 10 if config.task == "CoLA" and config.method == "relation" else 0
        files["result"]["parameters"] = {"total": 90 + more, "embedding": 50, "mechanism": 9}

    report = make_report(fabricate(suite_of(method=TWO, seeds=3), noisy, change))
    pictures = {picture.name: picture for picture in report.data.pictures}
    assert [panel.title for panel in pictures["parameters"].panels] == ["CoLA"]
    assert "4 (2 to 6)" in pictures["time"].panels[0].alt


def test_generated_tasks_are_not_taken_for_glue(suite_of, fabricate):
    suite = suite_of(tasks=["CoLA"], source="miniglue", reference="relation", margin=1.0)
    report = make_report(fabricate(suite, noisy))
    assert "generated text (miniglue)" in report.markdown().partition("## Scores")[0]
    assert report.latex().count("generated text (miniglue)") == 2  # verdicts and scores
    own = make_report(fabricate(suite_of(tasks=["CoLA"]), noisy))
    assert "generated text" not in own.html()
