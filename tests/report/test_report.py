"""A report in a terminal and in a notebook."""

from __future__ import annotations

import json

import pytest

from relation_tf.bench.results import read_results
from relation_tf.report import make_report
from relation_tf.report.report import escape_latex


def test_scores_and_answer(suite_of, fabricate):
    level = {"attention": 0.7, "linear": 0.6, "relation": 0.8, "baseline": 0.5}
    suite = suite_of()
    results = read_results(
        fabricate(suite, lambda config, *_: level[config.method] + config.seed / 100)
    )
    lines = str(make_report(results)).splitlines()
    assert lines[0].split() == [method.name for method in suite.methods()]
    names = lines[0].split()
    assert lines[1].split()[0] == suite.tasks[0]
    assert lines[1].count(" ± ") == len(names)
    assert f"{100 * (level[names[0]] + 0.03):.1f} ± 1.6" in lines[1]
    assert any(line.startswith("- relation is better than attention") for line in lines)
    assert max(map(len, lines[lines.index("") :])) <= 100


def test_one_seed_has_no_spread(suite_of, fabricate):
    results = read_results(fabricate(suite_of(seeds=[1]), lambda config, *_: 0.5))
    table = str(make_report(results)).split("\n\n")[0]
    assert "50.0" in table
    assert "±" not in table


def test_a_notebook_shows_the_answer_the_means_and_every_seed(suite_of, fabricate):
    title = "<b>mine</b>"
    report = make_report(
        fabricate(suite_of(title=title), lambda config, *_: 0.5 + config.seed / 100)
    )
    shown = report._repr_html_()
    assert "&lt;b&gt;mine&lt;/b&gt;" in shown
    assert title not in shown
    assert "No two methods can be separated by 5 seeds" in shown
    assert shown.count("53.0") >= 4 * 2
    assert shown.count('role="img"') == 3
    assert repr(report) == f"<Report: {title}>"


def test_json_holds_the_answer_and_the_tables(suite_of, fabricate):
    report = make_report(fabricate(suite_of(), lambda config, *_: config.seed / 7))
    content = json.loads(report.json())
    assert content["answer"] == report.content.values["answer"]
    assert set(content["tables"]) == {"scores", "table", "pvalues", "ranks", "runs"}
    assert content["tables"]["scores"][0] == {
        "task": "CoLA", "method": "attention", "seed": 1, "metric": "matthews", "value": 1 / 7
    }  # fmt: skip


def test_latex_escapes_what_it_is_given(suite_of, fabricate):
    title = r"50 % of a_b & \write18{rm} #1 $x$ ~^"
    latex = make_report(fabricate(suite_of(title=title), lambda *_: 0.5)).latex()
    assert r"50 \% of a\_b \& \textbackslash{}write18\{rm\} \#1 \$x\$" in latex
    assert r"\write18" not in latex
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2
    for table in latex.split(r"\midrule")[1:]:
        rows = table.split(r"\bottomrule")[0].strip().splitlines()
        assert len({row.count("&") for row in rows}) == 1
        assert all(row.endswith(r" \\") for row in rows)


@pytest.mark.parametrize(
    ("text", "expected"), [("a_b", r"a\_b"), ("−0.5", "$-$0.5"), ("\\", r"\textbackslash{}")]
)
def test_escape_latex(text, expected):
    assert escape_latex(text) == expected
