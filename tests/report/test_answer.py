"""The short answer claims what the tests show, and no more."""

from __future__ import annotations

import pytest

from relation_tf.bench.results import read_results
from relation_tf.report import make_report
from relation_tf.report.answer import design_sentence, listed
from relation_tf.report.scores import Scores

LEVEL = {"attention": 0.7, "linear": 0.6, "relation": 0.8, "baseline": 0.5}


@pytest.fixture
def answer(suite_of, fabricate):
    def answer_to(score, **suite):
        report = make_report(fabricate(suite_of(**suite), score))
        return report.content.values["answer"]

    return answer_to


def test_everything_separated(answer):
    sentences = answer(lambda config, *_: LEVEL[config.method] + config.seed / 100)
    assert sentences[0] == (
        "Mean of the tasks in points, highest first: "
        "relation 83.0, attention 73.0, linear 63.0, baseline 53.0."
    )
    assert "relation is better than attention on all 2 dev sets (p < .05)." in sentences
    assert "linear is better than baseline on all 2 dev sets (p < .05)." in sentences
    assert len(sentences) == 1 + 6 + 1
    assert not any("separated" in sentence for sentence in sentences)


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


def test_one_dev_set_is_named(answer):
    def score(config, *_):
        return LEVEL[config.method if config.method != "linear" else "attention"] + config.seed / 99

    sentences = answer(score, tasks=["CoLA"])
    assert "relation is better than baseline on CoLA (p < .05)." in sentences
    assert "Cannot be separated by 5 seeds on CoLA: attention and linear." in sentences


def test_design_that_can_show_nothing(answer):
    """Separated on every task, and yet five methods with five seeds are never significant."""
    methods = [{"mechanism": "relation", "units": [8, 16, 32, 64, 128]}]
    sentences = answer(lambda config, *_: config.units / 200 + config.seed / 1e4, method=methods)
    assert sentences[1].startswith(
        "Nothing can be significant here: 5 methods x 5 seeds: Steel-Dwass can never reach p < .05"
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


def test_too_few_seeds_so_far(answer):
    def score(config, *_):
        return LEVEL[config.method] + config.seed / 100 if config.seed < 3 else None

    sentences = answer(score)
    assert sentences[0] == "Preliminary: 16 of 40 runs are done, 24 not done."
    assert sentences[2] == "Nothing can be significant with so few seeds for so many methods."


def test_one_seed_so_far(answer):
    sentences = answer(lambda config, *_: LEVEL[config.method] if config.seed == 1 else None)
    assert sentences[-1] == (
        "No task has two methods with two seeds yet: no test. "
        "Any difference between these scores may be chance."
    )


def test_many_pairs_are_counted(answer):
    methods = [{"mechanism": "relation", "units": [8, 16, 32, 64, 128, 256]}]
    sentences = answer(lambda config, *_: config.seed / 10, method=methods)
    assert "No two methods can be separated by 5 seeds on any of the 2 dev sets." in sentences


def test_design_sentence_needs_something_to_compare(suite_of, fabricate):
    results = read_results(fabricate(suite_of(seeds=1), lambda *_: None))
    assert design_sentence(Scores.of(results)) is None


@pytest.mark.parametrize(
    ("names", "expected"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_listed(names, expected):
    assert listed(names) == expected
