"""Tables in the layout of a paper."""

from __future__ import annotations

import re

import pytest

from relation_tf.config.loading import make_suite
from relation_tf.errors import SuiteError
from relation_tf.report import make_report

GRID = {
    "mechanism": "contextualizer",
    "grid": {"num_steps": [1, 5], "initial_context": ["ones", "uniform"]},
}


def laid_out(report):
    """Return the cells of each table by row (joined names) and column."""
    tables = []
    for table in report.context.blocks["layout"][1::3]:
        heads = sum(column.kind == "head" for column in table.columns)
        names = [column.name for column in table.columns[heads:]]
        cells = {}
        for row in table.rows:
            texts = [*row]
            name = " ".join(cell.text for cell in texts[:heads])
            cells |= {(name, of): cell for of, cell in zip(names, texts[heads:], strict=True)}
        tables.append(cells)
    return tables


def level(config, task, metric):
    steps = config.options.get("num_steps", 0)
    return (
        0.5 + steps / 20 + config.seed / 1000 + (config.options["initial_context"] == "ones") / 10
    )


def test_options_make_rows_and_columns(suite_of, fabricate):
    layout = {"rows": ["initial_context"], "columns": ["num_steps"]}
    suite = suite_of(tasks=["MR"], method=[GRID], layout=layout)
    report = make_report(fabricate(suite, level))
    (cells,) = laid_out(report)
    assert [*cells] == [(x, f"num_steps {n}") for x in ("ones", "uniform") for n in (1, 5)]
    cell = cells["ones", "num_steps 5"]
    assert (cell.text, cell.deviation, cell.bold) == ("85.3", "0.2", True)
    assert cells["uniform", "num_steps 1"].text == "55.3"
    assert re.search(
        r"\| ones \| 65.3<sup>[a-d]</sup> ± 0.2 \| \*\*85.3\*\*<sup>[a-d]</sup> ± 0.2",
        report.markdown(),
    )
    latex = r"ones & 65.3\\textsuperscript{[a-d]} {\\footnotesize \$\\pm\$ 0.2} & \\textbf{85.3}"
    assert re.search(latex, report.latex())


def test_nested_rows_are_grouped(suite_of, fabricate):
    methods = [{"mechanism": name, "units": [8, 16]} for name in ("relation", "attention")]
    layout = {"rows": ["units", "mechanism"], "columns": ["task"],
              "measures": ["score", "seconds per epoch", "milliseconds per batch"]}  # fmt: skip

    def change(config, files):
        files["result"]["seconds"] |= {"epoch": config.units / 8, "batch": config.units / 1000}

    suite = suite_of(tasks=["CoLA", "MNLI"], method=methods, layout=layout)
    report = make_report(fabricate(suite, lambda config, *_: config.units / 20, change))
    scores, epochs, batches = laid_out(report)
    names = ["8 relation", "8 attention", "16 relation", "16 attention"]
    tasks = ["CoLA", "MNLI-m", "MNLI-mm", "mean of these tasks"]
    assert [*scores] == [(name, task) for name in names for task in tasks]
    assert [*epochs] == [(name, task) for name in names for task in ("CoLA", "MNLI")]
    assert epochs["16 relation", "MNLI"].text == "2.00"
    assert batches["8 attention", "CoLA"].text == "8.0"
    # The lowest time and the highest score are bold.
    assert epochs["8 relation", "CoLA"].bold
    assert not epochs["16 relation", "CoLA"].bold
    assert scores["16 attention", "CoLA"].bold


def test_cells_show_published_figures(suite_of, fabricate, tmp_path):
    figures = tmp_path / "figures.toml"
    figures.write_text(
        'source = "A paper"\nsplit = "test"\n'
        '[[figure]]\nmethod = "Char-CNN"\ntask = "MR"\nvalue = 76.0\nsd = 0.5\n'
        '[[figure]]\nmethod = "relation"\ntask = "MR"\nvalue = 77.0\nsd = 0.397\n'
        '[[figure]]\nmethod = "relation"\ntask = "MR"\n'
        'metric = "milliseconds per batch"\nvalue = 9\n',
        encoding="utf-8",
    )
    layout = {"measures": ["score", "milliseconds per batch"]}
    method = [{"name": "relation", "mechanism": "relation"}]
    suite = suite_of(tasks=["MR"], method=method, layout=layout, published=str(figures), seeds=5)

    def change(config, files):  # the median of the times is 10 ms, the mean 12.5 ms
        files["result"]["seconds"]["batch"] = 0.0225 if config.seed == 5 else 0.01

    report = make_report(fabricate(suite, lambda *_: 0.8, change))
    score, batch = (cells["relation", "MR"] for cells in laid_out(report))
    assert (score.text, score.paper_note) == ("80.0", "77.0 ± 0.397")
    assert [*score.notes] == ["paper 77.0 ± 0.397 (+3.0)"]
    assert (batch.text, batch.paper_note, *batch.notes) == ("12.5", "9.0", "paper 9.0 (+3.5)")
    assert "paper 77.0 ± 0.397 (+3.0)" in report.html()
    assert r"(77.0 $\pm$ 0.397)" in report.latex()
    text = report.markdown()
    assert "| MR | accuracy | Char-CNN | 76.0 ± 0.5 | – | – | – |" in text
    assert "| MR | milliseconds per batch | relation | 9.00 | 12.5 ± 5.59 | +3.50 | – |" in text
    assert "may differ because: times depend on the hardware and the program." in text


def test_no_time_if_a_seed_missed_the_target(suite_of, fabricate):
    layout = {"rows": ["mechanism"], "measures": ["seconds"]}
    methods = [{"mechanism": name, "units": 8} for name in ("relation", "attention")]

    def change(config, files):
        files["result"]["reached"] = config.seed > 1 or config.mechanism == "relation"
        files["result"]["seconds"]["input"] = 0.1

    suite = suite_of(tasks=["RTE"], method=methods, layout=layout, stopping="accuracy_reached")
    report = make_report(fabricate(suite, lambda *_: 0.9, change))
    (cells,) = laid_out(report)
    assert [bool(cell.text) for cell in cells.values()] == [True, False]


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"rows": ["depth"]}, "must be one of .*mechanism.* Received: 'depth'"),
        ({"rows": ["task"], "columns": ["units"]}, "its own cell.* 2 in row CoLA"),
        ({"measures": ["seconds"]}, "such as 'accuracy_reached', with the measure 'seconds'"),
    ],
)
def test_invalid_layout(layout, message):
    methods = [{"mechanism": "relation"}, {"mechanism": "attention"}]
    with pytest.raises(SuiteError, match=message):
        make_suite("it", {"name": "it", "tasks": ["CoLA"], "method": methods, "layout": layout})


def test_letters_of_families_are_explained(suite_of, fabricate):
    methods = [{"mechanism": name, "units": [8, 16]} for name in ("relation", "attention")]
    layout = {"rows": ["units", "mechanism"], "columns": ["task"]}
    suite = suite_of(tasks=["CoLA"], method=methods, layout=layout, families="units")

    def score(config, *_):
        ahead = config.mechanism == "relation" and config.units == 8
        return (
            None if (config.units, config.seed) == (16, 5) else 0.5 + ahead / 5 + config.seed / 99
        )

    page = make_report(fabricate(suite, score)).markdown()
    assert "Mean ± standard deviation over at most 5 seeds; " in page
    assert "methods of a family that share a letter on a task do not differ" in page


def test_marks_of_the_cells_are_explained(suite_of, fabricate):
    layout = {"rows": ["initial_context"], "columns": ["num_steps"]}
    suite = suite_of(tasks=["MR"], method=[GRID], layout=layout)
    report = make_report(fabricate(suite, level))
    said = (
        "ean ± standard deviation over 5 seeds; bold: best of a task; methods that share a letter "
        "on a task do not differ significantly (Steel-Dwass, p \\< .05)."
    )
    assert f"M{said}" in report.markdown()
    caption = report.latex().partition(r"\label{tab:layout-1}")[0].rpartition(r"\caption")[2]
    assert "bold: best of a task; methods that share a letter" in caption
