"""The comparison in a terminal."""

from __future__ import annotations

from relation_tf.bench.results import read_results
from relation_tf.report.console import summarize


def test_scores_and_answer(suite_of, fabricate):
    level = {"attention": 0.7, "linear": 0.6, "relation": 0.8, "baseline": 0.5}
    suite = suite_of()
    results = read_results(
        fabricate(suite, lambda config, *_: level[config.method] + config.seed / 100)
    )
    lines = summarize(results).splitlines()
    assert lines[0].split() == [method.name for method in suite.methods()]
    names = lines[0].split()
    assert lines[1].split()[0] == suite.tasks[0]
    assert lines[1].count(" ± ") == len(names)
    assert f"{100 * (level[names[0]] + 0.03):.1f} ± 1.6" in lines[1]
    assert any(line.startswith("- relation scores higher than attention") for line in lines)
    assert max(map(len, lines[lines.index("") :])) <= 100


def test_one_seed_has_no_spread(suite_of, fabricate):
    results = read_results(fabricate(suite_of(seeds=[1]), lambda config, *_: 0.5))
    table = summarize(results).split("\n\n")[0]
    assert "50.0" in table
    assert "±" not in table
