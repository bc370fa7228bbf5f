"""A report in a terminal and in a notebook."""

from __future__ import annotations

from relation_tf.bench.results import read_results
from relation_tf.report import make_report


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
