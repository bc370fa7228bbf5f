"""Comparison with published figures, and the check of a paper's claims."""

from __future__ import annotations

import pytest

from relation_tf.config import load_suite
from relation_tf.config.suite import load_published
from relation_tf.report import make_report
from tests.report.conftest import rows_of

PAPER = """
source = "A paper"
seeds = 5
[[figure]]
method = "attention"
units = 64
task = "RTE"
metric = "seconds"
value = 0.3
sd = 0.02
[[figure]]
method = "attention"
units = 64
task = "RTE"
metric = "seconds per epoch"
value = 15.3
sd = 0.0108
[[figure]]
method = "attention"
units = 128
task = "RTE"
metric = "seconds"
value = 1316
[[figure]]
method = "linear-attention"
units = 64
task = "RTE"
metric = "seconds"
value = 900
"""


def test_figures_are_compared(suite_of, fabricate):
    suite = suite_of(tasks=["CoLA", "MNLI", "SST-2"], seeds=2, published="relation-table1")
    scores = {"CoLA": -0.02, "SST-2": 0.81, "MNLI-m": 0.5, "MNLI-mm": 0.6}

    def change(config, files):
        if config.task == "MNLI":
            files["manifest"]["data"]["notes"] = ["a sample: 10 of 392,702 training rows"]

    def score(config, task, metric):
        return scores[task] + config.seed / 500

    report = make_report(fabricate(suite, score, change))
    table = report.tables["published"]
    assert len(table) == 180
    compared = table[table["n"] > 0].set_index(["task", "method"])
    assert len(compared) == 4 * 4
    row = compared.loc[("SST-2", "relation")]
    assert (row["published"], row["published_sd"], row["mean"]) == pytest.approx(
        (80.6, 0.397, 81.3)
    )
    assert row["difference"] == pytest.approx(0.7)
    assert row["within_2_sd"]
    assert not compared.loc[("SST-2", "attention"), "within_2_sd"]
    assert compared.loc[("CoLA", "baseline"), "difference"] == pytest.approx(-1.7 + 0.38)
    for reason in ("word vectors of width 100", "this suite dev sets"):
        assert reason in row["reason"]
    sampled = "a sample: 10 of 392,702"
    assert sampled not in row["reason"]
    assert sampled in compared.loc[("MNLI-mm", "relation"), "reason"]
    rows = rows_of(report, "SST-2", "accuracy")
    assert len(rows) == 4  # no other widths
    assert ["baseline", "59.6 ± 1.01", "81.3 ± 0.1", "+21.7", "no"] in rows
    assert rows_of(report, "CoLA", "matthews", "baseline") == [
        ["−0.38 ± 0.85", "−1.70 ± 0.14", "−1.32", "yes"]
    ]
    assert r"$\pm$ 1.01 & 81.3" in report.latex()


def test_the_glue_average_is_compared_and_missing_seeds_are_shown(suite_of, fabricate):
    tasks = ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI"]
    suite = suite_of(tasks=tasks, seeds=2, published="relation-table1")

    def score(config, task, metric):
        if config.method == "linear" and config.task == "RTE" and config.seed == 2:
            return None
        return 0.5 + config.seed / 100

    report = make_report(fabricate(suite, score))
    table = report.tables["published"].set_index(["task", "method"])
    row = table.loc[("GLUE average", "relation")]
    assert (row["metric"], row["mean"], row["published"]) == ("score", pytest.approx(51.5), 53.5)
    assert table.loc[("RTE", "linear"), "n"] == 1
    ((_, ours, difference, _),) = rows_of(report, "RTE", "accuracy", "linear")
    assert (ours, difference) == ("51.0 (n = 1)", "−0.3")
    assert "1 of 2 seeds" in table.loc[("RTE", "linear"), "reason"]


def test_a_figure_needs_a_unique_method_of_its_width(suite_of, fabricate):
    methods = [
        {"name": "mine", "mechanism": "attention"},
        {"mechanism": "relation", "units": [64, 128]},
        {"name": "twice", "mechanism": "baseline"},
        {"name": "again", "mechanism": "baseline", "options": {"variant": "equations"}},
        {"mechanism": "linear-attention", "units": [8]},
    ]
    suite = suite_of(tasks=["SST-2"], seeds=1, method=methods, published="relation-table1")
    table = make_report(fabricate(suite, lambda *_: 0.5)).tables["published"]
    table = table[(table["task"] == "SST-2") & (table["n"] > 0)]
    assert table["method"].tolist() == ["mine", "relation-64", "relation-128"]


def test_the_mean_over_tasks_needs_all_of_them(suite_of, fabricate, tmp_path):
    path = tmp_path / "figures.toml"
    path.write_text(
        'source = "A paper"\nfigure = [\n'
        '{ method = "relation", task = "MR", value = 77 },\n'
        '{ method = "relation", task = "CR", value = 79 },\n'
        '{ method = "relation", task = "mean of these tasks", metric = "score", value = 78 },\n]\n'
    )
    for name, tasks, seen in (("both", ["MR", "CR"], 3), ("other", ["MR", "SUBJ"], 1)):
        suite = suite_of(tasks=tasks, seeds=1, published=str(path))
        report = make_report(fabricate(suite, lambda *_: 0.5, name=name))
        assert (report.tables["published"]["n"] > 0).sum() == seen
        assert len(rows_of(report, "mean of these tasks", "score")) == (seen == 3)


def test_times_are_compared(suite_of, fabricate, tmp_path):
    path = tmp_path / "times.toml"
    path.write_text(PAPER, encoding="utf-8")

    def change(config, files):
        files["result"]["reached"] = config.seed > 1 or config.mechanism == "attention"
        files["result"] |= {"epochs": 2}
        files["result"]["seconds"] |= {"input": 0.1, "training": 0.2, "evaluation": 0.08}

    suite = suite_of(tasks=["RTE"], seeds=2, stopping="accuracy_reached", published=str(path))
    report = make_report(fabricate(suite, lambda *_: 0.9, change))
    table = report.tables["published"].set_index(["method", "metric"])
    seconds = table.loc[("attention", "seconds")]
    assert (seconds["mean"], seconds["within_2_sd"]) == (pytest.approx(0.28), True)
    assert "depend on the hardware" in seconds["reason"]
    # Linear Attention missed the target once: it has no mean time.
    assert table.loc[("linear", "seconds"), "n"] == 0
    assert table.loc[("attention-128", "seconds"), "n"] == 0
    assert rows_of(report, "RTE", "seconds", "attention") == [
        ["0.300 ± 0.020", "0.280 ± 0.000", "−0.020", "yes"]
    ]
    assert rows_of(report, "RTE", "seconds per epoch", "attention") == [
        ["15.3 ± 0.0108", "0.140 ± 0.000", "−15.2", "no"]
    ]
    assert "1,316" not in report.markdown()


def test_the_sd_of_a_time_can_be_below_the_rounding_of_its_mean(fabricate):
    methods = [{"mechanism": name, "units": [64, 128, 256]} for name in ("attention", "relation")]
    suite = load_suite("relation-table2", {"seeds": [1, 2], "method": methods})
    figures = {
        (figure.name, figure.task, figure.metric): figure.value
        for figure in load_published("relation-table2").figure
    }

    def change(config, files):
        total, epoch = (
            figures[config.method, config.task, metric]
            for metric in ("seconds", "seconds per epoch")
        )
        epochs = round(total / epoch)
        training = epochs * (0.9 * epoch + 0.001 * (2 * config.seed - 3))
        spent = {"training": training, "evaluation": epochs * 0.1 * epoch, "input": 0.0}
        files["result"] |= {"reached": True, "epochs": epochs}
        files["result"]["seconds"] |= spent

    report = make_report(fabricate(suite, lambda *_: 0.9, change))
    own = report.tables["published"].query("n == 2")
    assert len(own) == 2 * 3 * 3 * 2
    assert own["within_2_sd"].all()
    for task, metric, method, figures_shown in [
        ("IMDb", "seconds per epoch", "attention-128", ["17.2 ± 0.008", "17.2 ± 0.00141"]),
        ("WikiText-103", "seconds", "attention-256", ["51,000 ± 1,110", "50,820 ± 0.0467"]),
    ]:
        assert rows_of(report, task, metric, method)[0][:2] == figures_shown
    assert r"17.2 $\pm$ 0.008" in report.latex()


@pytest.mark.parametrize(("score", "within", "outside"), [
    # Our mean is rounded like the published one.
    (0.7704, "value = 77.0, sd = 0.01", "value = 77.1, sd = 0.01"),
    # In floating point, 80.4 - 80.1 is more than 2 * 0.15.
    (0.804, "value = 80.1, sd = 0.15", "value = 80.1, sd = 0.14"),
])  # fmt: skip
def test_a_difference_of_at_most_two_sds_is_within(
    suite_of, fabricate, tmp_path, score, within, outside
):
    path = tmp_path / "figures.toml"
    path.write_text(
        'source = "A paper"\nfigure = [\n'
        f'{{ method = "relation", task = "MR", {within} }},\n'
        f'{{ method = "attention", task = "MR", {outside} }},\n]\n'
    )
    suite = suite_of(tasks=["MR"], seeds=1, published=str(path))
    table = make_report(fabricate(suite, lambda *_: score)).tables["published"]
    assert table["within_2_sd"].tolist() == [True, False]


def test_an_unfinished_suite_has_no_comparison(suite_of, fabricate):
    suite = suite_of(tasks=["RTE"], published="relation-table1")
    assert "published" not in make_report(fabricate(suite, lambda *_: None)).tables
