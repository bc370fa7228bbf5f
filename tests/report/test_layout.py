"""Tables in the layout of a paper."""

from __future__ import annotations

import pytest

from relation_tf.config.loading import make_suite
from relation_tf.errors import SuiteError
from relation_tf.report import make_report

GRID = {
    "mechanism": "contextualizer",
    "grid": {"num_steps": [1, 5], "initial_context": ["ones", "uniform"]},
}


def laid_out(report, heads):
    """Return the cells of each table in Markdown by row (the names of `heads` columns) and column.

    Bold is kept, letters are not.
    """
    section = report.markdown().split("Results in the paper's layout\n")[1].split("\n## ")[0]
    tables = []
    for part in section.split("\n\n"):
        lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line[:1] == "|"]
        if lines:
            names = lines[0][heads:]
            tables.append({
                (" ".join(row[:heads]), name): cell.partition("<sup>")[0]
                for row in lines[2:] for name, cell in zip(names, row[heads:], strict=True)
            })  # fmt: skip
    return tables


def test_options_make_rows_and_columns(suite_of, fabricate):
    def level(config, *_):
        options = config.options
        ones = options["initial_context"] == "ones"
        return 0.5 + options.get("num_steps", 0) / 20 + config.seed / 1000 + ones / 10

    layout = {"rows": ["initial_context"], "columns": ["num_steps"]}
    suite = suite_of(tasks=["MR"], method=[GRID], layout=layout)
    report = make_report(fabricate(suite, level))
    (cells,) = laid_out(report, 1)
    assert cells == {
        ("ones", r"num\_steps 1"): "65.3", ("ones", r"num\_steps 5"): "**85.3**",
        ("uniform", r"num\_steps 1"): "55.3", ("uniform", r"num\_steps 5"): "75.3",
    }  # fmt: skip
    assert r"\textbf{85.3}" in report.latex()


def test_measures_have_own_tables(suite_of, fabricate):
    methods = [{"mechanism": name, "units": [8, 16]} for name in ("relation", "attention")]
    layout = {"rows": ["units", "mechanism"], "columns": ["task"],
              "measures": ["score", "seconds per epoch", "milliseconds per batch"]}  # fmt: skip

    def change(config, files):
        files["result"]["seconds"] |= {"epoch": config.units / 8, "batch": config.units / 1000}

    suite = suite_of(tasks=["CoLA", "MNLI"], method=methods, layout=layout)
    report = make_report(fabricate(suite, lambda config, *_: config.units / 20, change))
    scores, epochs, batches = laid_out(report, 2)
    names = ["8 relation", "8 attention", "16 relation", "16 attention"]
    tasks = ["CoLA", "MNLI-m", "MNLI-mm", "mean of these tasks"]
    assert [*scores] == [(name, task) for name in names for task in tasks]
    assert [*epochs] == [(name, task) for name in names for task in ("CoLA", "MNLI")]
    assert epochs["16 relation", "MNLI"].startswith("2.00")
    assert batches["8 attention", "CoLA"].startswith("**8.0**")
    # The lowest time and the highest score are bold.
    assert epochs["8 relation", "CoLA"].startswith("**1.00**")
    assert scores["16 attention", "CoLA"].startswith("**80.0**")


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
    scores, batches = laid_out(report, 1)
    assert "77.0 ± 0.397 (+3.0)" in scores["relation", "MR"]
    assert "12.5" in batches["relation", "MR"]
    assert "paper 9.0 (+3.5)" in batches["relation", "MR"]
    assert r"paper 77.0 $\pm$ 0.397" in report.latex()


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"measures": ["seconds"]}, "such as 'accuracy_reached', with the measure 'seconds'"),
    ],
)
def test_invalid_layout(layout, message):
    methods = [{"mechanism": "relation"}, {"mechanism": "attention"}]
    with pytest.raises(SuiteError, match=message):
        make_suite("it", {"name": "it", "tasks": ["CoLA"], "method": methods, "layout": layout})
