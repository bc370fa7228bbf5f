"""A report in a terminal and in a notebook."""

from __future__ import annotations

import json
import os
import re
import tempfile
from errno import EACCES, ENOSPC
from pathlib import Path

import pytest
from matplotlib import get_data_path
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from relation_tf.bench.results import read_results
from relation_tf.errors import SuiteError
from relation_tf.files import write_bytes
from relation_tf.report import compare, make_report, render
from relation_tf.report.report import check_folder


@pytest.fixture
def small(table_of):
    """Make a small report."""
    return lambda task="MR", methods=("CNN", "GRU"): compare(
        table_of({task: dict.fromkeys(methods, (0, 1 / 7))})
    )


@pytest.fixture
def wide(table_of):
    """Make a table of three methods and many tasks."""
    scores = {f"method-{name}": [80 + seed / 7 for seed in range(3)] for name in range(3)}
    return lambda tasks: table_of({f"Task {task}": scores for task in range(tasks)})


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


def test_a_page_without_reference_shows_differences_from_the_best_method(table_of):
    level = {"worst": 1.0, "best": 3.0, "middle": 2.0}
    samples = {name: [own + seed / 10 for seed in range(9)] for name, own in level.items()}
    table = table_of({"A": samples, "B": samples, "C": samples})
    for lower, best in (([], "best"), ([*"ABC"], "worst")):
        context = compare(table, lower_is_better=lower).context
        (picture,) = (each for each in context.pictures if each.name == "answer")
        (panel,) = picture.panels
        assert panel.title == "All 3 tasks"
        others = [name for name in level if name != best]
        assert all(f"{best} and {name} −" in panel.alt for name in others)
        assert f"{best} and middle −1.00 (" in panel.alt


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_shows_twelve_methods_within_its_width(twelve, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = str(twelve).splitlines()
    assert max(map(len, lines)) <= columns
    starts = [line.split()[0] for line in lines if line.startswith("encoder-")]
    assert len({*starts}) == 12  # a row for each method, in each part of the table
    sentences = [line for line in lines if line.startswith("- ")]
    assert len(sentences) < 8
    assert max(line.count("encoder-") for line in sentences) < 5


def test_a_page_opens_with_question_answer_figure_and_contents(suite_of, fabricate):
    suite = suite_of(reference="attention", margin=1.0, seeds=3)
    page = make_report(fabricate(suite, lambda config, *_: 0.5 + config.seed / 100)).html()
    assert "<h1>Does it show what it holds?</h1>" in page
    headline = page.index('<p class="headline">')
    table, figure = page.index("<table"), page.index('<svg role="img"')
    assert page.index("<h1>") < headline < table < figure < page.index("<nav")
    opened, folded = page[page.index("<main>") :].split("<nav", 1)
    assert "<li>" not in opened  # p is in the table of pairs
    assert len(re.findall("<p[ >]", opened)) < 8
    for name in ("scores", "differences", "made"):
        assert f'<a href="#{name}">' in folded
        assert f'<details class="section" id="{name}"' in folded
    for name in ("report.md", "report.tex", "report.json", "verdicts.csv", "pvalues.csv"):
        assert f'<a href="{name}">' in folded
    assert re.findall(r"<details[^>]* open", page) == ['<details class="section" id="scores" open']


def test_collapsed_runs_are_marked_next_to_the_scores(table_of):
    samples = {"a": [0.5, 0.6, 0.7], "b": [0.6, 0.7, 0.8]}
    table = table_of({"CoLA": samples, "RTE": samples})
    report = compare(table, reference="a", margin=0.05)
    lost = table.iloc[[3]].assign(reason="all predictions are 0")
    report.context.__dict__["collapsed"] = lost  # of predictions, which a table does not have
    for name in ("cells", "blocks", "collapsed_of"):
        report.context.__dict__.pop(name, None)
    assert re.search(r"0.70+ ± 0.10+ \(1 collapsed\)", str(report))
    opened = report.html().partition("<nav")[0]
    assert "1 of 3 collapsed; 3 seeds do not show how often" in opened
    paper = report.latex()
    assert r"(1\dag{})" in paper
    assert r"\dag{}: number of collapsed runs, which learned nothing; their scores are" in paper
    del report.context.__dict__["collapsed_of"]
    report.context.__dict__["collapsed"] = lost.assign(method="a")
    assert re.search(r"^a +reference \(1 collapsed\)", str(report), re.M)


def test_a_terminal_shows_the_mean_of_tasks(table_of):
    samples = {"a": [0.5, 0.6, 0.7], "b": [0.6, 0.7, 0.8]}
    printed = str(compare(table_of({"MR": samples, "SST-2": samples}), reference="a", margin=0.1))
    assert re.search(r"^mean of 2 tasks +0.60 +0.70$", printed, re.M)
    assert "Difference (mean of 2 tasks)" in printed
    assert "mean of" not in str(compare(table_of({"MR": samples})))


def test_a_terminal_ends_with_the_verdicts(table_of, monkeypatch):
    """Warnings stand above, in whole sentences; costs are only in the report."""
    wide = {f"method-{i}": [0.5 + i / 50 + seed / 10**i for seed in range(5)] for i in range(1, 5)}
    report = compare(table_of({"MR": wide, "SST-2": wide}), reference="method-1", margin=0.1)
    assert report.context.warnings
    for columns in (80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        *first, headline, table = str(report).split("\n\n")[-3:]
        assert " ".join(headline.split()).startswith(report.context.headline)
        assert table.splitlines()[-1].startswith("method-4 ")
        warning = first[0].partition("Warning: ")[2]
        assert len(warning.splitlines()) <= 4
        assert warning.endswith("(More in the report.)")
        assert report.context.headline not in first[0]


def test_json_has_answer_and_tables(suite_of, fabricate):
    report = make_report(fabricate(suite_of(), lambda config, *_: config.seed / 7))
    content = json.loads(report.json())
    assert content["answer"] == report.context.answer
    assert set(content["tables"]) == {"scores", "table", "pvalues", "over_tasks", "runs"}
    assert content["tables"]["scores"][0] == {
        "task": "CoLA", "method": "attention", "seed": 1, "metric": "matthews", "value": 1 / 7,
            "split": "dev",
    }  # fmt: skip


def test_latex_is_escaped(suite_of, fabricate):
    title = r"50 % of a_b & \write18{rm} #1 $x$ ~^"
    latex = make_report(fabricate(suite_of(title=title), lambda *_: 0.5)).latex()
    assert r"50 \% of a\_b \& \textbackslash{}write18\{rm\} \#1 \$x\$" in latex
    assert r"\write18" not in latex
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 3
    for table in latex.split(r"\midrule")[1:]:
        rows = table.split(r"\bottomrule")[0].strip().splitlines()
        assert len({row.count("&") for row in rows}) == 1
        assert all(row.endswith(r" \\") for row in rows)


@pytest.mark.parametrize("name", ["[a]", "*a"])
def test_a_latex_row_does_not_begin_with_an_argument(table_of, name):
    r"""LaTeX reads [a] on the next line as the argument of \\, and * as its starred form."""
    latex = compare(table_of({"T": {name: [1.0, 2.0], "b": [1.5, 2.5]}})).latex()
    assert latex.count(f"\n{{}}{name} & ") == 2  # scores, pairs
    assert f"\n{name}" not in latex


@pytest.mark.parametrize(("tasks", "small", "tables"), [(2, 0, 1), (4, 1, 1), (9, 3, 3)])
def test_latex_tables_fit_the_line(table_of, tasks, small, tables):
    """Wide tables get a small font, and are split if necessary."""
    level = {"attention-64": 60, "relation-64": 62, "linear-attention-64": 64}
    samples = {name: [mean + seed / 7 for seed in range(5)] for name, mean in level.items()}
    latex = compare(table_of({f"Task {task}": samples for task in range(tasks)})).latex()
    scores = latex.partition(":pairs}")[0].rpartition(r"\begin{table}")[0]
    assert scores.count(r"\begin{table}") == scores.count(r"\end{table}") == tables
    assert scores.count(r"\footnotesize\setlength{\tabcolsep}{3pt}") == small
    assert scores.count(r"\label{tab:scores}") == 1
    assert scores.count("(continued)") == tables - 1
    for name in range(tasks):
        assert scores.count(f" & Task {name}") == 1
    parts = scores.split(r"\toprule")[1:]
    assert len(parts) == tables
    for part in parts:
        rows = [line.rstrip("\\ ").split(" & ") for line in part.splitlines() if " & " in line]
        widths = [max(map(width_in_latex, column)) for column in zip(*rows, strict=True)]
        assert sum(width + 6 for width in widths) < 345 or not small


def width_in_latex(cell: str) -> float:
    """Width in points, in Computer Modern of 8 points, whose digits are 4.25 points wide."""
    text = re.sub(r"\\(textbf|textsuperscript|footnotesize)|[{}$]", "", cell).replace(r"\pm", "+")
    font = FontProperties(fname=str(Path(get_data_path(), "fonts/ttf/cmr10.ttf")))
    return TextPath((0, 0), text, size=8.5, prop=font).get_extents().width


def test_a_folder_that_cannot_be_written(suite_of, fabricate, small, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("mine")
    for out in (file, file / "out"):
        with pytest.raises(SuiteError, match=r"file.*: cannot be written: "):
            small().write(out)
        with pytest.raises(SuiteError, match=r"file: cannot be written: must be a folder"):
            check_folder(out)
    with pytest.raises(SuiteError, match="xxx: cannot be written: File name too long"):
        check_folder(tmp_path / ("x" * 300))

    def refuse(*_, **__):
        raise PermissionError(EACCES, os.strerror(EACCES), "/another/name")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", refuse)
    with pytest.raises(SuiteError, match=r"cannot be written: Permission denied"):
        check_folder(tmp_path / "new" / "out")
    with pytest.raises(SuiteError, match=f"{tmp_path}: cannot be written"):
        check_folder(tmp_path)
    # The folder is checked before the report is computed.
    with pytest.raises(SuiteError, match=r"cannot be written: Permission denied"):
        render(read_results(fabricate(suite_of(), lambda *_: None)))
    assert file.read_text() == "mine"
    assert not (tmp_path / "new").exists()


def test_the_home_folder_is_expanded(suite_of, fabricate, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = fabricate(suite_of(tasks=["CoLA"]), lambda *_: 0.5)
    page = render(f"~/{folder.name}", "~/page")
    assert page == tmp_path / "page" / "report.html"
    make_report(folder).check_files("~/page")
    assert make_report(folder).write("~/page") == page


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


def test_failed_write_keeps_the_earlier_report(small, tmp_path, monkeypatch):
    small().write(tmp_path)
    before = sorted(tmp_path.rglob("*"))

    def full(*_):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("relation_tf.report.report.write_bytes", full)
    with pytest.raises(SuiteError, match="cannot be written: No space left on device"):
        small().write(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("written", [0, 1, 7])
@pytest.mark.parametrize("error", [OSError(ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_ends_early_leaves_nothing_new(small, tmp_path, monkeypatch, written, error):
    def contents():
        return {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}

    small().write(tmp_path / "old")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("")
    before, left = contents(), iter([True] * written)

    def full(path, content):
        if next(left, False):
            return write_bytes(path, content)
        raise error

    monkeypatch.setattr("relation_tf.report.report.write_bytes", full)
    for folder in ("old", "mine", "new", "above/new"):
        left = iter([True] * written)
        with pytest.raises((SuiteError, KeyboardInterrupt)):
            small("other", ("first", "second")).write(tmp_path / folder)
    assert contents() == before


@pytest.mark.parametrize("text", ["", "[]", '{"tables": 1, "figures": 2}', '{"tables": {"x": []}}'])
def test_invalid_report_json_is_ignored(small, tmp_path, text):
    (tmp_path / "report.json").write_text(text)
    (tmp_path / "x.csv").write_text("")
    small().write(tmp_path)
    assert (tmp_path / "x.csv").is_file()


def test_non_latin_names(small):
    report = small("日本語", ("模型🚀", "тест"))
    picture = report.context.pictures[0]
    assert "日本語" in picture.svg()
    assert picture.png()


def test_printed_report(suite_of, fabricate, monkeypatch):
    level = {"attention": 0.7, "linear": 0.6, "relation": 0.8, "baseline": 0.5}
    score = lambda config, *_: level[config.method] + config.seed / 100  # noqa: E731
    report = make_report(fabricate(suite_of(), score))
    monkeypatch.setenv("COLUMNS", "140")
    printed = str(report)
    lines = printed.splitlines()
    assert lines[0].split() == [*level]
    assert lines[1].count(" ± ") == len(level)
    assert "73.0 ± 1.6" in lines[1]
    # With a test over tasks, no sentences on single tasks.
    assert [line[:24] for line in lines if line.startswith("- ")] == ["- Over the 2 tasks toget"]
    monkeypatch.setenv("COLUMNS", "100")
    assert max(map(len, str(report).splitlines())) <= 100
    assert "\nCoLA (Matthews) " in printed
    assert "\nMRPC (F1 / acc.) " in printed


def test_latex_labels_are_the_same_for_all_reports(wide, table_of):
    latex = compare(wide(1), title="My_table 2").latex()
    assert re.findall(r"\\label{(.*)}", latex) == ["tab:scores", "tab:pairs"]
    assert (
        r"\caption{Scores: mean $\pm$ standard deviation over 3 seeds; bold: best mean.}" in latex
    )
    assert "share a letter" not in latex
    separated = {f"m{m}": [m + seed / 9 for seed in range(5)] for m in range(2)}
    assert "share a letter" in compare(table_of({"T": separated})).latex()
