"""A report in a terminal and in a notebook."""

from __future__ import annotations

import json
import os
import re
import tempfile
from errno import EACCES

import pytest

from relation_tf.errors import SuiteError
from relation_tf.report import compare, make_report
from relation_tf.report.report import check_folder
from tests.report.conftest import content


@pytest.fixture
def small(table_of):
    """Make a small report."""
    return lambda task="MR", methods=("CNN", "GRU"): compare(
        table_of({task: dict.fromkeys(methods, (0, 1 / 7))})
    )


def test_notebook_shows_answer_means_and_seeds(suite_of, fabricate):
    title = "<b>mine</b>"
    report = make_report(
        fabricate(suite_of(title=title), lambda config, *_: 0.5 + config.seed / 100)
    )
    shown = report._repr_html_()
    assert "&lt;b&gt;mine&lt;/b&gt;" in shown
    assert title not in shown
    assert shown.count("53.0") >= 4 * 2
    assert shown.count('role="img"') == 1 + 3
    assert repr(report) == f"<Report: {title}>"


@pytest.fixture
def twelve(table_of):
    """Make a report of twelve methods with long names and ten tasks."""
    names = [f"encoder-linear-attention-layers{i}" for i in range(12)]
    scores = {
        name: [0.5 + i / 50 + seed / 1000 for seed in range(3)] for i, name in enumerate(names)
    }
    return compare(table_of({f"Task {task}": scores for task in range(10)}), title="Twelve")


@pytest.mark.parametrize(("lower", "best"), [([], "best"), ([*"ABC"], "worst")])
def test_a_page_without_reference_shows_differences_from_the_best_method(table_of, lower, best):
    level = {"worst": 1.0, "best": 3.0, "middle": 2.0}
    samples = {name: [own + seed / 10 for seed in range(9)] for name, own in level.items()}
    page = compare(table_of(dict.fromkeys("ABC", samples)), lower_is_better=lower).html()
    (label, *_) = re.findall(r'role="img" aria-label="([^"]+)"', page)
    assert f"{best} and middle −1.00" in label
    assert f"middle and {best}" not in label


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_shows_twelve_methods_within_its_width(twelve, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = str(twelve).splitlines()
    assert max(map(len, lines)) <= columns
    starts = [line.split()[0] for line in lines if line.startswith("encoder-")]
    assert len({*starts}) == 12  # a row for each method, in each part of the table
    assert sum(line.startswith("- ") for line in lines) < 8


def test_a_page_opens_with_question_answer_figure_and_contents(suite_of, fabricate):
    suite = suite_of(reference="attention", margin=1.0, seeds=3)
    page = make_report(fabricate(suite, lambda config, *_: 0.5 + config.seed / 100)).html()
    headline = page.index('<p class="headline">')
    table, figure = page.index("<table"), page.index('<svg role="img"')
    assert page.index("<h1>") < headline < table < figure < page.index("<nav")
    assert "<li>" not in page[page.index("<main>") : page.index("<details")]
    folded = page[page.index("<nav") :]
    for name in ("scores", "differences", "made"):
        assert f'<a href="#{name}">' in folded
        assert f'<details class="section" id="{name}"' in folded
    for name in ("report.md", "report.tex", "report.json", "verdicts.csv", "pvalues.csv"):
        assert f'<a href="{name}">' in folded


@pytest.mark.parametrize("columns", [80, 100])
def test_a_terminal_ends_with_the_verdicts(table_of, monkeypatch, columns):
    """Warnings stand above, in a few lines; costs are only in the report."""
    wide = {f"method-{i}": [0.5 + i / 50 + seed / 10**i for seed in range(5)] for i in range(1, 5)}
    report = compare(table_of({"MR": wide, "SST-2": wide}), reference="method-1", margin=0.1)
    monkeypatch.setenv("COLUMNS", str(columns))
    *first, headline, table = str(report).split("\n\n")[-3:]
    assert " ".join(headline.split()).startswith(content(report)["headline"])
    assert table.splitlines()[-1].startswith("method-4 ")
    assert 0 < len(first[0].partition("Warning: ")[2].splitlines()) <= 5


def test_json_has_what_pages_say(suite_of, fabricate):
    report = make_report(fabricate(suite_of(), lambda config, *_: config.seed / 7))
    sections = content(report)["sections"]
    assert [*sections] == [*report.data.blocks]
    (table, _) = sections["scores"]["blocks"]
    assert table["columns"][:2] == ["Method", "CoLA (Matthews)"]
    assert table["rows"][0][:2] == ["attention", "42.9 ± 22.6"]
    figures = [each["name"] for own in sections.values() for each in _inside(own["blocks"])
               if each["kind"] == "figure"]  # fmt: skip
    assert figures == content(report)["figures"]


def _inside(blocks):
    for block in blocks:
        yield block
        yield from _inside(block.get("blocks", ()))


def test_latex_is_escaped(suite_of, fabricate):
    title = r"50 % of a_b & \write18{rm} #1 $x$ ~^"
    latex = make_report(fabricate(suite_of(title=title), lambda *_: 0.5)).latex()
    assert r"of a\_b \&" in latex
    assert r"write18\{rm\} \#1 \$x\$" in latex
    assert r"\write18" not in latex
    for table in latex.split(r"\midrule")[1:]:
        rows = table.split(r"\bottomrule")[0].strip().splitlines()
        assert len({row.count("&") for row in rows}) == 1


@pytest.mark.parametrize("name", ["[a]", "*a"])
def test_a_latex_row_does_not_begin_with_an_argument(table_of, name):
    r"""LaTeX reads [a] on the next line as the argument of \\, and * as its starred form."""
    latex = compare(table_of({"T": {name: [1.0, 2.0], "b": [1.5, 2.5]}})).latex()
    assert latex.count(f"\n{{}}{name} & ") == 2  # scores, pairs
    assert f"\n{name}" not in latex


def test_a_folder_that_cannot_be_written(suite_of, fabricate, small, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("mine")
    for out in (file, file / "out"):
        with pytest.raises(SuiteError, match=r"file.*: cannot be written: "):
            small().write(out)
    with pytest.raises(SuiteError, match="xxx: cannot be written: File name too long"):
        small().write(tmp_path / ("x" * 300))

    def refuse(*_, **__):
        raise PermissionError(EACCES, os.strerror(EACCES), "/another/name")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", refuse)
    with pytest.raises(SuiteError, match=f"{tmp_path}.*cannot be written: Permission denied"):
        check_folder(tmp_path / "report")
    assert file.read_text() == "mine"


def test_files_of_an_earlier_report_are_removed(small, tmp_path):
    def files():
        return {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}

    small().write(tmp_path)
    fresh = files()
    (tmp_path / "mine.csv").write_text("")
    (tmp_path / "figures" / "mine.svg").write_text("")
    said = json.loads((tmp_path / "report.json").read_text())
    said["tables"] |= {"runs": [], "../outside": [], "..\\outside": [], "C:outside": []}
    said["figures"] += ["roc-MR", "../../outside"]
    (tmp_path / "report.json").write_text(json.dumps(said))
    for name in ("runs.csv", "figures/roc-MR.svg"):
        (tmp_path / name).write_text("")
    small().write(tmp_path)
    assert files() == fresh | {"mine.csv", "figures/mine.svg"}
