"""The short answer states only what the tests show."""

from __future__ import annotations

import itertools

import pytest

from relation_tf.report import compare, make_report
from relation_tf.report.answer import design_sentence, first_sentences, on_tests
from relation_tf.report.comparisons import compare_methods
from relation_tf.report.scores import Scores

LEVEL = {"attention": 0.7, "linear": 0.6, "relation": 0.8, "baseline": 0.5}


@pytest.fixture
def answer(suite_of, fabricate):
    def answer_to(score, **suite):
        report = make_report(fabricate(suite_of(**suite), score))
        # Other tests are about the sentence on all tasks together.
        return [said for said in report.context.answer if not said.startswith("Over the ")]

    return answer_to


@pytest.fixture
def answer_of(table_of):
    """Make an answer from the level and number of seeds of each method, by task."""

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
        comparisons = compare_methods(scores)
        return [*on_tests(scores, comparisons)], design_sentence(scores, comparisons)

    return answer_to


def test_all_pairs_significant(answer):
    sentences = answer(lambda config, *_: LEVEL[config.method] + config.seed / 100)
    assert sentences[0] == (
        "Mean of the tasks in points, highest first: "
        "relation 83.0, attention 73.0, linear 63.0, baseline 53.0."
    )
    assert "relation is better than attention on both dev sets (p < .05)." in sentences
    assert "linear is better than baseline on both dev sets (p < .05)." in sentences
    assert len(sentences) == 1 + 6 + 1 + 1
    assert sentences[1] == (
        "Each task is tested separately. If the methods do not differ, on average at most "
        "5 % of tasks show a significant pair by chance."
    )
    assert not any("not significant" in sentence for sentence in sentences)


def test_no_significant_pair_is_not_called_equal(answer):
    sentences = answer(lambda config, *_: config.seed / 10)
    assert sentences[1] == (
        "No two methods differ significantly with 5 seeds on any of the 2 dev sets."
    )
    assert sentences[2] == (
        "On the mean of the tasks, no two methods differ significantly with 5 seeds."
    )
    assert not any(word in " ".join(sentences) for word in ("no difference", "equal", "same"))


def test_better_and_worse_tasks_are_counted(answer):
    def score(config, task, metric):
        sign = -1 if config.task == "RTE" else 0 if config.task == "WNLI" else 1
        return 0.5 + config.seed / 100 + sign * {"relation": 0.2, "baseline": 0}[config.method]

    methods = [{"name": name, "mechanism": name} for name in ("baseline", "relation")]
    sentences = answer(score, tasks=["CoLA", "SST-2", "RTE", "WNLI"], method=methods)
    assert (
        "relation is better than baseline on 2 of 4 dev sets (p < .05: CoLA, SST-2), worse on "
        "1 (RTE) and not significantly different on 1 (5 seeds)."
    ) in sentences


def test_design_that_cannot_reach_significance(answer):
    """Scores never overlap, but five methods with five seeds cannot reach p < .05."""
    methods = [{"mechanism": "relation", "units": [8, 16, 32, 64, 128]}]
    sentences = answer(lambda config, *_: config.units / 200 + config.seed / 1e4, method=methods)
    assert sentences[1].startswith(
        "With 5 seeds and 5 methods, no difference can be significant on any task (smallest "
        "possible p: .062). Use at least 6 seeds or fewer methods."
    )
    assert not any("better" in sentence for sentence in sentences)


def test_ties_can_lower_p_below_the_attainable_one(answer):
    """Two constant methods among five give a smaller p than five methods without overlap."""
    methods = [{"mechanism": "relation", "units": [8, 16, 32, 64, 128]}]

    def score(config, *_):
        return config.units / 200 + (config.seed / 1e4 if config.units < 64 else 0)

    sentences = answer(score, method=methods)
    assert any("better" in sentence for sentence in sentences)
    assert not any("no difference can be" in sentence for sentence in sentences)
    ties = "On CoLA, MRPC and the mean of the tasks, some scores are equal (rounded, or from a"
    assert any(sentence.startswith(ties) for sentence in sentences)
    sentences = answer(score, method=methods, tasks=["CoLA", "MRPC", "RTE", "WNLI"])
    assert "On 5 columns (see their notes), some scores are equal" in " ".join(sentences)


def test_significantly_better_with_worse_mean_is_reported(table_of):
    samples = {"a": [0.90 + i / 1000 for i in range(9)] + [0.05], "b": [0.85] * 9 + [0.86]}
    table = table_of({"A": samples})
    said = " ".join(compare(table).context.answer)
    assert "a is better than b on A (p < .05)" in said
    by_ranks = "by ranks but with the worse mean, because of outliers or failed runs: "
    assert f"{by_ranks}a over b on A." in said
    table["score"] = -table["score"]
    said = " ".join(compare(table, lower_is_better="A").context.answer)
    assert by_ranks in said
    table.loc[9, "score"] = -0.91
    said = " ".join(compare(table, lower_is_better="A").context.answer)
    assert by_ranks not in said


def test_pair_with_only_asymptotic_significance_is_not_counted(answer_of):
    """Three seeds of two methods: asymptotic p .0495, exact p 2 / 20."""
    sentences, design = answer_of({"MR": {"a": (0.7, 3), "b": (0.8, 3)}})
    assert design.startswith("2 methods x 3 seeds: without ties no difference can be significant")
    assert sentences == [
        "With 3 seeds, no difference can be significant on MR (smallest possible p: .100). Use at "
        "least 4 seeds.",
        "No significant difference with 3 seeds on MR: a and b.",
    ]


def test_each_sentence_counts_only_tasks_with_both_methods(answer_of):
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
        "Each task is tested separately. If the methods do not differ, on average at most "
        "5 % of tasks show a significant pair by chance.",
        "b is better than a on all 3 tasks with both methods (p < .05).",
        "d is better than a on both tasks with both methods (p < .05).",
        "No significant difference with 4 to 5 seeds on t1: a and c; b and c; c and d.",
        "No significant difference with 5 seeds on any of the 2 tasks with both methods: b and d.",
    ]


def test_design_sentence_needs_all_methods_on_each_task(answer_of):
    first = {"a": (0.1, 5), "b": (0.9, 5)}
    second = {name: (number / 4, 5) for number, name in enumerate("cdef")}
    sentences, design = answer_of({"T1": first, "T2": second})
    assert design is None
    assert (
        "7 of 7 pairs of methods differ significantly on at least one of the 2 tasks"
        in " ".join(sentences)
    )
    assert answer_of({"T": {"a": (0.1, 1), "b": (0.5, 1)}})[1] is None
    assert answer_of({"T": {"a": (0.1, 4), "b": (0.5, 2), "c": (0.9, 1)}}) == (
        [
            "With so few seeds and so many methods, no pair can reach significance on T.",
            "No two methods differ significantly with 1 to 4 seeds on T.",
        ],
        None,
    )


def test_with_a_control_other_pairs_are_not_mentioned(table_of):
    """Without a control, b and c would differ significantly."""
    scores = {"base": [4, 5, 5.5, 6, 6.5], "b": [5.1, 6.1, 7, 8, 9], "c": [1, 2, 3, 4.5, 4.9]}
    said = compare(table_of({"T": scores}), control="base").context.answer
    assert "No method differs significantly from base with 5 seeds on T." in said
    assert not any("two methods" in sentence for sentence in said)


def test_significant_pairs_over_all_tasks_are_named(table_of):
    samples = {f"m{i}": [i / 100 + seed / 1000 for seed in range(5)] for i in range(9)}
    table = table_of(dict.fromkeys(("t0", "t1", "t2"), samples))
    report = compare(table)
    assert "from m8, the method with the best mean, positive: better" in report.markdown()
    assert "differ only in location, by the same shift on every task." in report.markdown()
    first, second, *_ = report.context.answer
    assert first.startswith("Over the 3 tasks together (Stratified Steel-Dwass, p < .05): ")
    assert "m1 better than m0" in first
    assert first.endswith("m6 better than m0, 30 more pairs.")
    assert second.startswith(
        "With 5 seeds and 9 methods, no difference can be significant on any task "
    )
    against = compare(table, control="m0").context.answer[0]
    assert against.startswith("Over the 3 tasks together (Stratified Steel, p < .05): m1 better")


@pytest.mark.parametrize(
    ("only", "control", "words"),
    [
        (("relation", "baseline"), None, "2 of 4 methods that have scores. With all 4, p "
         "is larger (with 5 seeds without ties p = .040 or more)."),
        (("relation", "baseline", "linear"), None, "3 of 4 methods"),
        (("relation", "baseline"), "baseline", "without ties p = .022 or more)."),
        (tuple(LEVEL), None, ""),
    ],
)  # fmt: skip
def test_missing_methods_are_named_because_p_is_smaller(answer, only, control, words):
    """Two methods alone reach p = .008; no pair of the suite's four methods can."""
    sentences = answer(
        lambda config, *_: (
            LEVEL[config.method] + config.seed / 100 if config.method in only else None
        ),
        control=control,
    )
    found = [sentence for sentence in sentences if "Tests include only the " in sentence]
    assert len(found) == bool(words)
    assert words in "".join(found)


@pytest.mark.parametrize(
    ("suite", "there", "expected"),
    [
        ({}, lambda run: run.seed < 3,
         ["Preliminary: 16 of 40 runs are done, 24 not done.",
          "With so few seeds and so many methods, no pair can reach significance on a single "
          "task."]),
        ({}, lambda run: run.seed == 1,
         ["No test of single tasks yet: no task has two methods with at least two seeds. "
          "Differences on single tasks may be due to chance."]),
        ({"tasks": ["CoLA"]}, lambda run: run.seed == 1,
         ["No test yet: no task has two methods with at least two seeds. Differences between "
          "these scores may be due to chance."]),
        ({}, lambda run: False,
         ["Preliminary: 0 of 40 runs are done, 40 not done.", "No results yet."]),
        ({"seeds": 1}, lambda run: True,
         ["One seed per method: no standard deviation and no test of single tasks. Differences "
          "on single tasks may be due to chance."]),
        ({"seeds": 1, "tasks": ["CoLA"]}, lambda run: True,
         ["One seed per method: no standard deviation and no test. Differences between these "
          "scores may be due to chance."]),
        ({"method": [{"name": "relation", "mechanism": "relation"}]}, lambda run: True,
         ["Only one method has scores, so there is no comparison."]),
        ({"control": "baseline"}, lambda run: run.method != "baseline",
         ["No test yet: the control baseline has no finished runs. Differences between these "
          "scores may be due to chance."]),
    ],
)  # fmt: skip
def test_answer_with_too_few_runs(answer, suite, there, expected):
    def score(config, *_):
        return LEVEL[config.method] + config.seed / 100 if there(config) else None

    assert {*expected} <= {*answer(score, **suite)}


@pytest.mark.parametrize(
    ("tasks", "found"),
    [
        (10, ", p < .05): b better than a"),
        (2, "): without ties no difference can be significant with so few tasks"),
    ],
)
def test_one_seed_on_several_tasks_has_a_test_over_tasks(table_of, tasks, found):
    report = compare(table_of({f"T{i}": {"a": [0.1], "b": [0.2]} for i in range(tasks)}))
    assert report.context.answer[0] == (
        f"Over the {tasks} tasks together (Stratified Steel-Dwass{found}."
    )
    assert "Scope: p, intervals and verdicts" in report.markdown()


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("One run failed. It ran out of memory.", 80, "One run failed. It ran out of memory."),
        ("One run failed. It is lost. " + 9 * "And so on. ", 30,
         "One run failed. It is lost. (More in the report.)"),
        ("A sentence, longer than allowed, stays whole.", 10,
         "A sentence, longer than allowed, stays whole."),
    ],
)  # fmt: skip
def test_a_text_is_cut_between_sentences(text, most, shown):
    assert first_sentences(text, most) == shown


def test_fewer_methods_are_suggested_only_if_they_suffice(answer_of):
    names = ["a", "b", "c"]
    (said,) = answer_of({"MR": dict.fromkeys(names, (0.5, 3))})[0][:1]
    assert said.endswith("Use at least 5 seeds.")
    (said,) = answer_of({"MR": dict.fromkeys(names, (0.5, 4))})[0][:1]
    assert said.endswith("Use at least 5 seeds or fewer methods.")


def test_runs_of_chosen_tasks_are_not_preliminary(suite_of, fabricate):
    """`--tasks` and `--seeds` train a part of a suite."""

    def said(there):
        folder = fabricate(
            suite_of(tasks=["CoLA", "RTE", "MRPC"]),
            lambda run, *_: run.seed / 10 if there(run) else None,
            name=f"suite-{next(numbers)}",
        )
        return make_report(folder).context.answer[0]

    numbers = itertools.count()
    assert said(lambda run: run.task != "CoLA") == (
        "Runs exist only for 2 of 3 tasks; all 40 are done."
    )
    assert said(lambda run: run.task == "RTE" and run.seed < 4) == (
        "Runs exist only for 1 of 3 tasks and 3 of 5 seeds; all 12 are done."
    )
    assert said(lambda run: run.task == "RTE" and run.seed < 4 - (run.method == "linear")) == (
        "Preliminary: 11 of 60 runs are done, 49 not done."
    )
    assert said(lambda run: run.seed < 4) == "Preliminary: 36 of 60 runs are done, 24 not done."


def test_two_methods_with_few_seeds_are_not_called_many(answer_of):
    said, _ = answer_of({"MR": {"a": (0.5, 3), "b": (0.6, 2)}})
    assert said[0] == "With so few seeds, no pair can reach significance on MR."


def test_names_of_tasks_are_not_changed(table_of):
    samples = {
        name: [level + seed / 100 for seed in range(9)] for level, name in enumerate("abcde")
    }
    scores = Scores(table_of({"company": samples}), [*"abcde"], ["company"], 9)
    assert "10 of 10 pairs of methods differ significantly on company." in [
        *on_tests(scores, compare_methods(scores))
    ]


def test_tests_without_a_smallest_p_also_name_missing_methods(answer):
    sentences = answer(
        lambda config, *_: (
            None if config.method == "linear" else LEVEL[config.method] + config.seed / 100
        ),
        test="welch",
    )
    assert "Tests include only the 3 of 4 methods that have scores." in sentences
