"""The sentence above the opening table of a page without a reference."""

from __future__ import annotations

import pandas as pd
import pytest

from relation_tf.report import compare, make_report
from relation_tf.report.blocks import Paragraph, Table
from relation_tf.report.comparisons import compare_methods
from relation_tf.report.scores import Scores
from relation_tf.report.standings import leading, standings
from relation_tf.stats.directions import Direction

LOW = [2.0, 3, 4, 5, 6]
MIDDLE = [11.0, 12, 13, 14, 15]
HIGH = [21.0, 22, 23, 24, 25]
OVER = "Stratified Steel-Dwass, p < .05"
ONE = "Steel-Dwass, p < .05"


def on_both(samples):
    return {"x": samples, "y": samples}


@pytest.fixture
def opened(table_of):
    return lambda samples, **options: compare(table_of(samples), **options).context


@pytest.mark.parametrize(
    ("samples", "options", "sentence"),
    [
        ({"x": {"a": LOW, "b": HIGH}}, {},
         f"b has the highest mean on x; b is significantly better than a ({ONE})."),
        ({"x": {"a": LOW, "b": HIGH}}, {"lower_is_better": "x"},
         f"a has the lowest mean on x; a is significantly better than b ({ONE})."),
        ({"x": {"a": LOW, "b": [2.5, 3.5, 4.5, 5.5, 6.5]}}, {},
         f"b has the highest mean on x; the difference is not significant ({ONE})."),
        ({"x": {"a": LOW, "b": LOW}}, {},
         f"a and b have the highest mean on x; the difference is not significant ({ONE})."),
        ({"x": {"a": LOW[:3], "b": HIGH[:3]}}, {},
         "b has the highest mean on x, but no difference can be significant with so few seeds "
         f"({ONE})."),
        ({"x": {"a": LOW[:1], "b": HIGH[:1]}}, {}, "b has the highest mean on x; no test yet."),
        ({"x": {"a": LOW, "b": MIDDLE, "c": HIGH}}, {},
         "c has the highest mean on x and is significantly better than both other methods; all 3 "
         f"pairs of methods differ significantly ({ONE})."),
        ({"x": {"a": LOW, "b": LOW[::-1], "c": HIGH}}, {},
         "c has the highest mean on x and is significantly better than both other methods; 2 of 3 "
         f"pairs of methods differ significantly ({ONE})."),
        ({"x": {"a": [1.0] * 9 + [500], "b": [*HIGH, *HIGH], "c": [*LOW, *LOW]}}, {},
         "a has the highest mean on x but is not significantly better than any other method and is "
         f"significantly worse than b and c; all 3 pairs of methods differ significantly ({ONE})."),
        ({"x": {"a": LOW, "b": [2.1, 3.1, 4.1, 5.1, 6.1], "c": LOW}}, {},
         f"b has the highest mean on x, but no two methods differ significantly ({ONE})."),
        (on_both({"a": LOW, "b": MIDDLE, "c": HIGH}), {},
         "c has the highest mean over 2 tasks and is significantly better than both other methods; "
         f"all 3 pairs of methods differ significantly ({OVER})."),
        ({"x": {"a": LOW, "b": HIGH}, "y": {"a": HIGH, "b": LOW}}, {"lower_is_better": "y"},
         f"b has the best mean rank over 2 tasks; b is significantly better than a ({OVER})."),
        ({"x": {"a": LOW}}, {}, ""),
    ],
)  # fmt: skip
def test_sentence_states_who_leads_and_what_differs(opened, samples, options, sentence):
    context = opened(samples, **options)
    assert context.headline == sentence
    blocks = context.sections["answer"].blocks(context)
    if sentence:
        assert isinstance(blocks[0], Paragraph)
        assert blocks[0].text == sentence
        assert isinstance(blocks[1], Table)


def test_a_leader_by_the_mean_need_not_be_better(opened):
    """An outlier makes c the highest mean, and only b is better than a."""
    samples = {"a": LOW, "b": MIDDLE, "c": [*LOW[:4], 500.0]}
    assert opened({"x": samples}).headline.startswith(
        "c has the highest mean on x but is not significantly better than any other method; 1 of 3 "
        "pairs of methods differs significantly"
    )


def test_each_family_has_its_sentence(suite_of, fabricate):
    methods = [{"mechanism": name, "units": [8, 16]} for name in ("attention", "relation")]
    suite = suite_of(method=methods, families="units", tasks=["RTE"])
    level = {"attention": 0.5, "relation": 0.7}
    folder = fabricate(suite, lambda run, *_: level[run.mechanism] + run.seed / 100)
    said = [f"Units {units}: relation-{units} has the highest mean on RTE; " for units in (8, 16)]
    assert all(each in make_report(folder).context.headline for each in said)


def test_what_p_covers_is_stated_once_next_to_it(opened, suite_of, fabricate):
    scope = "Scope: p, intervals and verdicts generalize to other seeds on the same evaluation rows"
    for options in ({}, {"reference": "a"}):
        context = opened({"x": {"a": LOW, "b": HIGH}}, **options)
        texts = ["".join(map(str, each.text)) for each in context.blocks["answer"]
                 if isinstance(each, Paragraph)]  # fmt: skip
        assert sum(text.startswith(scope) for text in texts) == 1
    untested = opened({"x": {"a": LOW[:1], "b": HIGH[:1]}})
    assert "Scope: " not in make_text(untested)


def make_text(context):
    blocks = context.blocks["answer"]
    return " ".join(str(each.text) for each in blocks if isinstance(each, Paragraph))


def test_means_and_ranks_count_a_network_once(opened):
    means = {"MNLI-m": {"r": 40, "a": 44}, "MNLI-mm": {"r": 40, "a": 44}, "RTE": {"r": 50, "a": 40}}
    samples = {
        task: {name: [mean + x / 2 for x in range(-2, 3)] for name, mean in own.items()}
        for task, own in means.items()
    }
    context = opened(samples)
    table = standings(context.scores)
    assert table["mean"].to_dict() == pytest.approx({"r": 45, "a": 42})
    assert table["rank"].to_dict() == {"r": 1.5, "a": 1.5}
    assert table.attrs["tasks"] == ["MNLI", "RTE"]
    section = context.sections["answer"].blocks(context)
    assert [column.name for column in section[1].columns] == ["Method", "Mean", "Mean rank"]
    lower = opened({"x": {"r": LOW, "a": MIDDLE}}, lower_is_better="x")
    assert standings(lower.scores)["rank"].to_dict() == {"r": 1, "a": 2}


def test_a_network_with_two_units_is_ranked_by_its_first_task(table_of):
    """The mean of an accuracy and a negative perplexity has no meaning."""
    table = table_of({"accuracy": {"a": [0.9], "b": [0.8]}, "text": {"a": [60.0], "b": [50.0]}})
    scores = Scores(
        table, ["a", "b"], ["accuracy", "text"], 1,
        directions={"text": Direction(False, "declared")},
        networks={"accuracy": "both", "text": "both"},
    )  # fmt: skip
    assert standings(scores)["rank"].to_dict() == {"a": 1, "b": 2}


def test_a_network_is_ranked_where_lower_is_better(table_of):
    table = table_of({"text": {"a": [60.0], "b": [50.0]}, "more": {"a": [60.0], "b": [50.0]}})
    scores = Scores(
        table, ["a", "b"], ["text", "more"], 1,
        directions=dict.fromkeys(["text", "more"], Direction(False, "declared")),
        networks={"text": "both", "more": "both"},
    )  # fmt: skip
    assert standings(scores)["rank"].to_dict() == {"a": 2, "b": 1}


def test_methods_without_scores_are_not_counted(table_of):
    table = table_of({"x": {"a": LOW, "b": MIDDLE, "c": HIGH}})
    scores = Scores(table, ["a", "b", "c", "d"], ["x"], 5)
    assert "better than both other methods" in leading(scores, None, compare_methods(scores))


def test_means_that_differ_by_rounding_share_a_rank():
    rows = [("X", "a", seed, score) for seed, score in enumerate([0.1, 0.2, 0.3])]
    rows += [("X", "b", seed, 0.2) for seed in range(3)]
    table = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
    assert standings(compare(table).context.scores)["rank"].to_list() == [1.5, 1.5]


def test_failed_runs_of_a_better_method_are_named():
    rows = [("x", "a", seed, 80 + seed) for seed in range(10)]
    rows += [("x", "b", seed, 90 + seed if seed < 5 else None) for seed in range(10)]
    table = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
    assert compare(table, drop_failed=True).context.caveats == [
        "The test leaves out failed runs of b (5 failed runs). A method whose runs fail can look "
        "better than it is.",
        "5 of 10 runs of b failed.",
    ]
    assert compare(table[table["method"] != "b"].assign(method="c").pipe(
        lambda other: pd.concat([table.iloc[:15], other]))).context.caveats == []  # fmt: skip
