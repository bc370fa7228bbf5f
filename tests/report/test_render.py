"""Files of a report: complete, escaped, reproducible, also for unfinished suites."""

from __future__ import annotations

import html
import itertools
import json
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt

from relation_tf.bench.results import read_results
from relation_tf.bench.run_folder import RunFolder
from relation_tf.files import write_json
from relation_tf.report import compare, make_report
from relation_tf.report.formats import escape_latex
from tests.report.conftest import LEVEL

FILES = {
    "report.html", "report.md", "report.tex", "report.json",
    "scores.csv", "table.csv", "pvalues.csv", "runs.csv", "over_tasks.csv",
    "figures/scores.svg", "figures/scores.png", "figures/differences.svg",
    "figures/answer.svg", "figures/learning.svg", "figures/time.svg",
    "references.bib", "figures/answer.pdf", "figures/scores.pdf",
}  # fmt: skip


def separated(config, task, metric):
    """Scores without overlap between methods."""
    return LEVEL[config.method] + config.seed / 100 + (0.03 if metric == "accuracy" else 0)


@pytest.fixture(scope="module")
def folder(suite_of, fabricate_in, tmp_path_factory):
    """Report of a finished suite, for tests that do not change it."""
    suite = fabricate_in(tmp_path_factory.mktemp("whole"))(suite_of(), separated)
    return make_report(str(suite)).write(suite / "report").parent


def files_of(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_page_is_self_contained_and_has_each_section_once(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert not re.findall(r"<(?:script \w|link|img|iframe)\b|@import|url\(['\"]?http", page)
    assert not re.findall(r"(?:src|href)=[\"'](?!#|report\.(?:md|tex|json)|\w+\.csv)", page)
    headings = re.findall(r'<details class="section" id="(\w+)"(?: open)?>\n<summary><h2>', page)
    assert headings == [
        "paper", "scores", "seeds", "differences", "several", "learning", "time",
        "tests", "run", "made",
    ]  # fmt: skip
    assert all(page.count(f'id="{heading}"') == 1 for heading in headings)


def test_text_is_escaped_in_page_and_markdown(suite_of, fabricate):
    nasty = "<script>alert('x')</script>|*b*&\"q\""
    folder = fabricate(
        suite_of(title=nasty, question=nasty, seeds=2),
        separated,
        lambda config, files: files["manifest"].update(processor=nasty, command=f"run {nasty}"),
    )
    failed = RunFolder(folder).with_file("result.json")[0]
    (failed / "result.json").unlink()
    write_json(failed / "error.json", {"error": f"DataError: {nasty}"})
    report = make_report(folder)
    page, markdown = report.html(), report.markdown()
    assert page.count("<script") == 1  # the script of the page
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;|*b*&amp;&#34;q&#34;" in page
    text, _, code = markdown.partition("```toml")
    assert "<script" not in (text + code.partition("\n```\n")[2]).replace(r"\<script", "")
    assert r"# \<script\>alert('x')\</script\>\|\*b\*&" in markdown


def test_tables_have_full_precision(suite_of, fabricate):
    suite = fabricate(suite_of(), lambda config, *_: config.seed / 7)
    folder = make_report(suite).write(suite / "report").parent
    scores = pd.read_csv(folder / "scores.csv")
    assert list(scores) == ["task", "method", "seed", "metric", "value", "split"]
    # Five seeds of four methods: one metric, two metrics, the average.
    assert scores.groupby("task").size().to_dict() == {
        "CoLA": 20, "MRPC": 40, "mean of these tasks": 20
    }  # fmt: skip
    # Older versions of pandas round on reading.
    np.testing.assert_allclose(scores["value"], scores["seed"] / 7, rtol=1e-15)
    table = pd.read_csv(folder / "table.csv")
    assert table["mean"].to_numpy() == pytest.approx(3 / 7)
    assert table["sd"].to_numpy() == pytest.approx(2.5**0.5 / 7)


def test_differences_in_tables_have_ten_digits(table_of, tmp_path):
    samples = {"A": {"r": [70.1, 70.2, 70.4], "a": [69.5, 69.6, 69.8]}}
    report = compare(table_of(samples), reference="r")
    assert report.tables["verdicts"]["difference"].tolist() != [-0.6]
    report.write(tmp_path)
    for name in ("verdicts", "pvalues"):
        assert "-0.6" in (tmp_path / f"{name}.csv").read_text().splitlines()[1].split(",")
    assert json.loads(report.json())["tables"]["verdicts"][0]["difference"] == -0.6


@pytest.mark.parametrize(
    ("tasks", "biased", "unbiased"),
    [(["CoLA"], True, False), (["MR"], False, True), (["CoLA", "MR"], True, True)],
)
def test_scores_on_rows_of_early_stopping_are_named(suite_of, fabricate, tasks, biased, unbiased):
    text = make_report(fabricate(suite_of(tasks=tasks, seeds=1), separated)).markdown()
    assert ("used for early" in text) == biased
    assert ("not used in training" in text) == unbiased


def test_writing_is_reproducible(folder, tmp_path):
    again = make_report(read_results(folder.parent)).write(tmp_path / "elsewhere" / "here").parent
    assert files_of(folder) == files_of(again) == FILES
    for name in FILES:
        assert (folder / name).read_bytes() == (again / name).read_bytes(), name


def test_markdown_links_and_tables(folder):
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", markdown)
    drawn = ["answer", "scores", "differences", "learning", "time"]
    assert links == [f"figures/{name}.svg" for name in drawn]
    for link in links:
        assert ElementTree.parse(folder / link).getroot().get("aria-label")
    assert (folder / "figures" / "scores.png").read_bytes().startswith(b"\x89PNG")
    for table in re.findall(r"(?:^\|.*\n)+", markdown, re.MULTILINE):
        assert len({row.replace(r"\|", "").count("|") for row in table.splitlines()}) == 1


@pytest.mark.parametrize(
    ("score", "bold"),
    [
        # F1 0.83, accuracy 0.86; the average is the mean of 0.83 and their mean.
        (separated, ["83.0", "83.0 / 86.0", "83.8"]),
        (lambda *_: 0.5, []),  # no best mean if all are equal
        (lambda *_: -0.0002, []),  # rounds to zero: no sign
    ],
)
def test_best_means_are_bold(suite_of, fabricate, score, bold):
    page = make_report(fabricate(suite_of(), score)).html()
    assert re.findall(r'<span class="mean"><b>([^<]+)</b>', page) == bold
    assert '"mean">\N{MINUS SIGN}' not in page


NAMES = [
    *("a`b`c", "x|y", "p*q*r", "s_t_u", "<b>bold</b>", "back\\slash", "end\\", "{{ 7*7 }}", "a``b"),
    *("<script>alert(1)</script>", "1 & 2", "&copy;", "$x$ #1 ~z^2", "[l](m)", "`", "1. one"),
    *("---", "- dash", "a\\|b", "=1+1", "``` x", "a\\`b`", "*", "|", "50 %", "{}"),
]  # fmt: skip


@pytest.mark.parametrize("names", [NAMES[i::4] for i in range(4)], ids=["a", "b", "c", "d"])
def test_names_come_through_unchanged(names):
    tasks = ["T`1`|*x*_y_<z>", "\\RTE"]
    rows = [
        (task, name, seed, (seed + place % 5) / 10)
        for task in tasks
        for place, name in enumerate(names)
        for seed in (1, 2)
    ]
    report = compare(pd.DataFrame(rows, columns=["task", "method", "seed", "score"]))
    tokens = MarkdownIt().enable("table").parse(report.markdown())
    cells = {
        "".join(part.content for part in token.children or ())
        for before, token in itertools.pairwise(tokens)
        if before.type in ("td_open", "th_open")
    }
    assert {*names, *tasks} <= cells
    page = report.html()
    shown = {
        html.unescape(re.sub("<[^>]*>", "", cell)).strip()
        for cell in re.findall(r"<th scope.*?</th>", page, re.DOTALL)
    }
    assert {*names} <= {" ".join(cell.split()) for cell in shown}
    assert "<script>alert" not in page
    rows_of_table = [line.partition(" & ")[0] for line in report.latex().split("\n")]
    assert {escape_latex(name).removeprefix("{}") for name in names} <= {
        row.removeprefix("{}") for row in rows_of_table
    }
