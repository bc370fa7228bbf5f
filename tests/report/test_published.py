"""Tests of the comparison with published figures, and of the check of a paper's claims."""

from __future__ import annotations

import pytest

from relation_tf.bench import read_results
from relation_tf.config import load_suite
from relation_tf.config.published import Published, load_published
from relation_tf.report import make_report
from relation_tf.report.published import check_claims, reasons

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
    vectors = "the paper uses word vectors of width 100, this suite random embeddings"
    splits = "the paper reports test sets, this suite dev sets"
    assert row["reason"] == f"{vectors}; {splits}"
    sampled = "a sample: 10 of 392,702 training rows"
    assert compared.loc[("MNLI-mm", "relation"), "reason"] == f"{vectors}; {splits}; {sampled}"
    page, text = report.html(), report.markdown()
    for written in (page, text):
        assert f"may differ because: {vectors}; {splits}; MNLI-m, MNLI-mm: {sampled}." in written
        assert "frai.2022.924688" in written
    lines = [line for line in text.splitlines() if "| SST-2 | accuracy |" in line]
    assert len(lines) == 4  # no other widths
    assert "| SST-2 | accuracy | baseline | 59.6 ± 1.01 | 81.3 ± 0.1 | +21.7 | no |" in lines
    name = "| CoLA | matthews | baseline |"
    assert f"{name} −0.38 ± 0.85 | −1.70 ± 0.14 | −1.32 | yes |" in text
    assert r"SST-2 & accuracy & baseline & 59.6 $\pm$ 1.01 & 81.3 $\pm$ 0.1" in report.latex()


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
    (line,) = [text for text in report.markdown().splitlines() if "RTE | accuracy | linear" in text]
    assert "| 51.0 (n = 1) | −0.3 | yes |" in line
    assert "1 of 2 seeds" in table.loc[("RTE", "linear"), "reason"]


def test_longer_test_sets_do_not_change_the_split_of_a_task(suite_of):
    published = load_published("mad")
    suite = suite_of(source="auto", tasks=["recall", "compress"])
    unlike = "the paper reports test sets, this suite dev sets"
    assert [name for name, why in reasons(published, suite).items() if unlike in why] == []


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
        suite = suite_of(tasks=tasks, seeds=1, published=str(path), layout={"columns": ["task"]})
        report = make_report(fabricate(suite, lambda *_: 0.5, name=name))
        assert (report.tables["published"]["n"] > 0).sum() == seen
        text = report.markdown()
        assert ("paper 78.0" in text) is (seen == 3)
        assert ("| mean of these tasks | score | relation | 78.0 |" in text) is (seen == 3)


def test_times_next_to_scores_have_their_own_table(fabricate):
    suite = load_suite("contextualizer-table2").model_copy(update={"seeds": [1]})
    report = make_report(
        fabricate(
            suite, lambda *_: 0.5, lambda run, files: files["result"]["seconds"].update(batch=0.01)
        )
    )
    assert "{tab:published}" in report.latex()
    assert "{tab:published-times}" in report.latex()


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
    assert "times depend on the hardware and the program" in seconds["reason"]
    # Linear Attention missed the target once: it has no mean time.
    assert table.loc[("linear", "seconds"), "n"] == 0
    assert table.loc[("attention-128", "seconds"), "n"] == 0
    text = report.markdown()
    assert "| RTE | seconds | attention | 0.300 ± 0.020 | 0.280 ± 0.000 | −0.020 | yes |" in text
    epochs = "| RTE | seconds per epoch | attention | 15.3 ± 0.0108 | 0.140 ± 0.000 | −15.2 | no |"
    assert epochs in text
    assert "may differ because: times depend on the hardware and the program." in text
    assert "1,316" not in text


def test_table_2_of_the_relation_paper(fabricate):
    """All widths and tasks; the SD of an epoch's time can be below the rounding of its mean."""
    figures = {
        (figure.name, figure.task, figure.metric): figure.value
        for figure in load_published("relation-table2").figure
    }
    methods = [{"mechanism": name, "units": [64, 128, 256]} for name in ("attention", "relation")]
    suite = load_suite("relation-table2", {"seeds": [1, 2], "method": methods})

    def change(config, files):
        total, epoch = (
            figures[config.method, config.task, metric]
            for metric in ("seconds", "seconds per epoch")
        )
        epochs = round(total / epoch)
        apart = 0.001 * (2 * config.seed - 3)  # per epoch
        spent = {"training": epochs * (0.9 * epoch + apart), "evaluation": epochs * 0.1 * epoch}
        spent["input"] = 0.0
        files["result"] |= {"reached": True, "epochs": epochs}
        files["result"]["seconds"] |= spent

    report = make_report(fabricate(suite, lambda *_: 0.9, change))
    table = report.tables["published"]
    own = table[table["n"] == 2]
    assert len(own) == 2 * 3 * 3 * 2
    assert own["within_2_sd"].all()
    text = report.markdown()
    assert "| IMDb | seconds per epoch | attention-64 | 15.3 ± 0.0108 | 15.3 ± 0.00141 |" in text
    assert "| IMDb | seconds per epoch | attention-128 | 17.2 ± 0.008 | 17.2 ± 0.00141 |" in text
    assert "| WikiText-103 | seconds | attention-256 | 51,000 ± 1,110 | 50,820 ± 0.0467 |" in text
    assert "15.3 ± 0.00141 (paper 15.3 ± 0.0108 (" in text  # in the paper's layout
    assert "its figures are from validation sets" in text
    assert "17.2 ± 0.00141" in report.html()
    assert r"(17.2 $\pm$ 0.008)" in report.latex()


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
    results = read_results(fabricate(suite, lambda *_: None))
    assert "published" not in make_report(results).tables


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        ("relation-table1", {"certain": 18, "undetermined": 6}),
        ("relation-table2", {"certain": 38, "undetermined": 3}),
    ],
)
def test_claims_of_the_relation_paper(name, verdicts):
    claims = check_claims(load_published(name)).claims()
    assert claims["significance"].value_counts().to_dict() == verdicts


def test_claims_are_shown(suite_of, fabricate):
    suite = suite_of(tasks=["CoLA"], published="relation-table2", seeds=1)
    report = make_report(fabricate(suite, lambda *_: 0.5))
    assert len(report.tables["published-claims"]) == 41
    text = report.markdown()
    assert "Claims of the paper: 41 (38 certain, 3 undetermined)" in text
    row = "| WikiText-103, seconds, 256 units | linear-attention, relation | undetermined |"
    assert row in text
    assert "128 units" not in text.split("Claims of the paper")[1]  # all certain


def test_no_claims_without_deviations():
    assert check_claims(load_published("fcsr-table4")) is None
    assert check_claims(Published(source="A paper", seeds=5)) is None
