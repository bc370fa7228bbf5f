"""The short answer claims what the tests show, and no more."""

from __future__ import annotations

import pytest

from relation_tf.report import compare as compare_sources
from relation_tf.report import make_report
from relation_tf.report.answer import design_sentence, short_answer
from relation_tf.report.comparisons import compare
from relation_tf.report.scores import Scores

LEVEL = {"attention": 0.7, "linear": 0.6, "relation": 0.8, "baseline": 0.5}


@pytest.fixture
def answer(suite_of, fabricate):
    def answer_to(score, **suite):
        report = make_report(fabricate(suite_of(**suite), score))
        return report.context.answer

    return answer_to


@pytest.fixture
def answer_of(table_of):
    """Answer to levels: of each task each method's, and how many seeds it has."""

    def answer_to(levels):
        samples = {
            task: {
                name: [level + seed / 100 for seed in range(n)] for name, (level, n) in own.items()
            }
            for task, own in levels.items()
        }
        table = table_of(samples)
        seeds = int(table["seed"].max()) + 1
        scores = Scores(table, [*table["method"].unique()], [*levels], seeds)
        comparisons = compare(scores)
        return short_answer(scores, comparisons), design_sentence(scores, comparisons)

    return answer_to


def test_everything_separated(answer):
    sentences = answer(lambda config, *_: LEVEL[config.method] + config.seed / 100)
    assert sentences[0] == (
        "Mean of the tasks in points, highest first: "
        "relation 83.0, attention 73.0, linear 63.0, baseline 53.0."
    )
    assert "relation is better than attention on both dev sets (p < .05)." in sentences
    assert "linear is better than baseline on both dev sets (p < .05)." in sentences
    assert len(sentences) == 1 + 6 + 1 + 1
    assert sentences[-1] == (
        "Each task is tested by itself: at most about one task in 20 shows a separated pair by "
        "chance where methods do not differ."
    )
    assert not any("cannot be separated" in sentence for sentence in sentences)


def test_nothing_separated_is_not_called_equal(answer):
    sentences = answer(lambda config, *_: config.seed / 10)
    assert sentences[1] == "No two methods can be separated by 5 seeds on any of the 2 dev sets."
    assert sentences[2] == "On the mean of the tasks, no two methods can be separated by 5 seeds."
    assert not any(word in " ".join(sentences) for word in ("no difference", "equal", "same"))


def test_higher_here_and_lower_there(answer):
    def score(config, task, metric):
        sign = -1 if config.task == "RTE" else 0 if config.task == "WNLI" else 1
        return 0.5 + config.seed / 100 + sign * {"relation": 0.2, "baseline": 0}[config.method]

    methods = [{"name": name, "mechanism": name} for name in ("baseline", "relation")]
    sentences = answer(score, tasks=["CoLA", "SST-2", "RTE", "WNLI"], method=methods)
    assert (
        "relation is better than baseline on 2 of 4 dev sets (p < .05: CoLA, SST-2), worse on "
        "1 (RTE) and cannot be separated from it by 5 seeds on 1."
    ) in sentences


def test_design_that_can_show_nothing(answer):
    """Separated on every task, and yet five methods with five seeds are never significant."""
    methods = [{"mechanism": "relation", "units": [8, 16, 32, 64, 128]}]
    sentences = answer(lambda config, *_: config.units / 200 + config.seed / 1e4, method=methods)
    assert sentences[1].startswith(
        "No pair can be significant on a task by itself: 5 methods x 5 seeds: "
        "Steel-Dwass can never reach p < .05"
    )
    assert not any("better" in sentence for sentence in sentences)


def test_ties_can_separate_what_seeds_alone_cannot(answer):
    """Two constant methods among five: p falls below what five separated methods reach."""
    methods = [{"mechanism": "relation", "units": [8, 16, 32, 64, 128]}]

    def score(config, *_):
        return config.units / 200 + (config.seed / 1e4 if config.units < 64 else 0)

    sentences = answer(score, method=methods)
    assert any("better" in sentence for sentence in sentences)
    assert not any("can never reach" in sentence for sentence in sentences)
    ties = "On CoLA, MRPC and the mean of the tasks equal scores (rounded, or of a constant method)"
    assert any(sentence.startswith(ties) for sentence in sentences)
    sentences = answer(score, method=methods, tasks=["CoLA", "MRPC", "RTE", "WNLI"])
    assert "On 5 columns, whose notes say so, equal scores (rounded" in " ".join(sentences)


def test_a_better_one_whose_mean_is_worse_is_said_so(table_of):
    samples = {"a": [0.90 + i / 1000 for i in range(9)] + [0.05], "b": [0.85] * 9 + [0.86]}
    table = table_of({"A": samples})
    said = " ".join(compare_sources(table).context.answer)
    assert "a is better than b on A (p < .05)" in said
    by_ranks = "Better by ranks, which the test is of, with the worse mean, as some seeds are far "
    assert f"{by_ranks}off: a and b on A." in said
    table["score"] = -table["score"]
    said = " ".join(compare_sources(table, lower_is_better="A").context.answer)
    assert by_ranks in said
    table.loc[9, "score"] = -0.91
    said = " ".join(compare_sources(table, lower_is_better="A").context.answer)
    assert by_ranks not in said


def test_what_only_the_approximation_separates_is_not_counted(answer_of):
    """Three seeds of two methods: asymptotic .0495, in truth 2 of 20 arrangements."""
    sentences, design = answer_of({"MR": {"a": (0.7, 3), "b": (0.8, 3)}})
    assert design.startswith("2 methods x 3 seeds: Steel-Dwass can never reach p < .05 (p = .100")
    assert sentences == [
        f"No pair can be significant on a task by itself: {design}",
        "Cannot be separated by 3 seeds on MR: a and b.",
        "Below .05 by approximation only, so not counted: a and b on MR (p = .0495, by permutation "
        "p = .100).",
    ]


def test_each_pair_is_said_of_the_tasks_that_test_it(answer_of):
    both = {"a": (0.7, 5), "b": (0.8, 5)}
    levels = {
        "t1": {**both, "c": (0.701, 4), "d": (0.8, 5)},
        "t2": {**both, "d": (0.8, 5)},
        "t3": both,
        "t4": {},
    }
    sentences, design = answer_of(levels)
    assert design is None
    assert sentences == [
        "b is better than a on all 3 tasks where the two are tested (p < .05).",
        "d is better than a on both tasks where the two are tested (p < .05).",
        "Cannot be separated by 4 to 5 seeds on t1: a and c; b and c; c and d.",
        "Cannot be separated by 5 seeds on any of the 2 tasks where the two are tested: b and d.",
        "Each task is tested by itself: at most about one task in 20 shows a separated pair by "
        "chance where methods do not differ.",
    ]


def test_a_design_is_of_methods_and_seeds_that_were_tested_together(answer_of):
    first = {"a": (0.1, 5), "b": (0.9, 5)}
    second = {name: (number / 4, 5) for number, name in enumerate("cdef")}
    sentences, design = answer_of({"T1": first, "T2": second})
    assert design is None
    assert sum("is better than" in sentence for sentence in sentences) == 7
    assert answer_of({"T": {"a": (0.1, 1), "b": (0.5, 1)}})[1] is None
    assert answer_of({"T": {"a": (0.1, 10), "b": (0.5, 2), "c": (0.9, 1)}}) == (
        [
            "No pair can be significant with so few seeds for so many methods.",
            "No two methods can be separated by 1 to 10 seeds on T.",
        ],
        None,
    )


def test_with_a_control_nothing_is_said_of_other_pairs(table_of):
    """Steel-Dwass of all pairs would separate b and c."""
    scores = {"base": [4, 5, 5.5, 6, 6.5], "b": [5.1, 6.1, 7, 8, 9], "c": [1, 2, 3, 4.5, 4.9]}
    said = compare_sources(table_of({"T": scores}), control="base").context.answer
    assert "No method can be separated from base by 5 seeds on T." in said
    assert not any("two methods" in sentence for sentence in said)


def test_whom_all_tasks_together_separate_is_said(table_of):
    samples = {f"m{i}": [i / 100 + seed / 1000 for seed in range(5)] for i in range(9)}
    table = table_of(dict.fromkeys(("t0", "t1", "t2"), samples))
    first, *_, last = compare_sources(table).context.answer
    assert first.startswith("No pair can be significant on a task by itself: ")
    assert last.startswith("Over the 3 tasks together, by ranks of their means, Nemenyi's test")
    assert "m8 from m0" in last
    two = table[table["method"].isin(["m0", "m1"])]
    for own, control in ((table[table["seed"] == 0], None), (table, "m0"), (two, None)):
        assert "Nemenyi" not in " ".join(compare_sources(own, control=control).context.answer)


@pytest.mark.parametrize(
    ("only", "control", "words"),
    [
        (("relation", "baseline"), None, "2 of the suite's 4 methods that have runs; among all 4 p "
         "is larger (p = .045 at best with 5 seeds)."),
        (("relation", "baseline", "linear"), None, "3 of the suite's 4 methods"),
        (("relation", "baseline"), "baseline", "larger (p = .025 at best with 5 seeds)."),
        (tuple(LEVEL), None, ""),
    ],
)  # fmt: skip
def test_a_part_of_a_suite_is_tested_among_that_part(answer, only, control, words):
    """Two methods alone reach p = .009, which no pair of the suite's four ever can."""
    sentences = answer(
        lambda config, *_: (
            LEVEL[config.method] + config.seed / 100 if config.method in only else None
        ),
        control=control,
    )
    found = [sentence for sentence in sentences if "Tested among the " in sentence]
    assert len(found) == bool(words)
    assert words in "".join(found)


@pytest.mark.parametrize(
    ("suite", "there", "expected"),
    [
        ({}, lambda run: run.seed < 3,
         ["Preliminary: 16 of 40 runs are done, 24 not done.",
          "No pair can be significant with so few seeds for so many methods."]),
        ({}, lambda run: run.seed == 1,
         ["No task has two methods with two seeds yet: no test. Any difference between these "
          "scores may be chance."]),
        ({}, lambda run: False,
         ["Preliminary: 0 of 40 runs are done, 40 not done.", "There is nothing to say yet."]),
        ({"seeds": 1}, lambda run: True,
         ["One seed a method: no standard deviation and no test. Any difference between these "
          "scores may be chance."]),
        ({"method": [{"name": "relation", "mechanism": "relation"}]}, lambda run: True,
         ["One method only: there is nothing to compare it with."]),
        ({"control": "baseline"}, lambda run: run.method != "baseline",
         ["The control baseline has no finished runs yet: no test. Any difference between these "
          "scores may be chance."]),
    ],
)  # fmt: skip
def test_what_too_few_runs_show(answer, suite, there, expected):
    def score(config, *_):
        return LEVEL[config.method] + config.seed / 100 if there(config) else None

    assert {*expected} <= {*answer(score, **suite)}
