"""Suites whose tasks are timed: causal networks go through a text a token at a time."""

from __future__ import annotations

import keras
import numpy as np
import pandas as pd
import pytest

from relation_tf.bench import Method, SuiteError, plan_suite, run_suite
from relation_tf.bench.suite import make_suite
from relation_tf.report import make_report
from relation_tf.tasks import load_task

pytestmark = pytest.mark.tensorflow

MIXERS = ("relation", "linear-attention", "attention")


def decoder(mechanism, **options):
    return Method(
        mechanism="encoder",
        name=f"decoder-{mechanism}",
        units=8,
        options={"mechanism": mechanism, "num_layers": 2, "norm": "pre", "causal": True, **options},
    )


def asked(**changes):
    values = {
        "name": "small",
        "tasks": ["decode-128"],
        "seeds": [1, 2],
        "batch_size": 2,
        "embedding_dim": 12,
        "method": [decoder("relation"), decoder("attention")],
    }
    return make_suite("small", values | changes)


class RunningSum(keras.Layer):
    """A causal layer of one's own: each token becomes the sum of those up to it."""

    causal = True

    def __init__(self, units=8, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(units)

    def build(self, shape):
        self.dense.build(shape)
        self.built = True

    def call(self, x):
        return keras.ops.cumsum(self.dense(x), axis=1)

    def initial_state(self, batch_size, max_length=None):
        return (keras.ops.zeros((batch_size, 1, self.dense.units)),)

    def step(self, x, state):
        total = state[0] + self.dense(x)
        return total, (total,)


def stepping(method, precision="float32"):
    from relation_tf.bench.decoding import SteppingNetwork

    config = asked(method=[method], precision=precision).runs()[0]
    return SteppingNetwork(config, load_task("decode-128"))


@pytest.mark.parametrize(
    "method",
    [
        *map(decoder, MIXERS),
        Method(mechanism="relation", units=8, options={"causal": True}),
        Method(mechanism=RunningSum, units=8),
    ],
    ids=[*MIXERS, "one layer", "one's own"],
)
def test_steps_give_what_the_whole_text_gives(method):
    network = stepping(method)
    (texts,) = network.task.splits["train"].inputs
    whole = network.model(texts.pad(np.arange(2)))
    assert tuple(whole.shape) == (2, 128, 29)
    np.testing.assert_allclose(network.read(), whole[:, -1], atol=2e-5, rtol=1e-4)


def test_it_can_be_computed_in_bfloat16():
    whole = stepping(decoder("relation")).read()
    assert np.isfinite(stepping(decoder("relation"), "bfloat16").read()).all()
    assert whole.dtype == np.float32


def test_the_state_is_what_the_mechanism_holds():
    held = {name: stepping(decoder(name)).time().state_bytes for name in MIXERS}
    blocks, rows, width, numbers = 2, 2, 8, 4
    # Keys and values of all 128 tokens, and an integer for the place and for each token's mask.
    assert held["attention"] > blocks * rows * 2 * 128 * width * numbers
    assert held["linear-attention"] < held["attention"] / 10
    assert held["relation"] < held["linear-attention"]


def test_passes_are_timed_until_they_tell_something(monkeypatch):
    monkeypatch.setattr("relation_tf.bench.decoding._SECONDS", 0.0)
    timed = stepping(decoder("relation")).time()
    assert len(timed.seconds) == 3
    assert timed.typical == sorted(timed.seconds)[1] > 0


def test_a_suite_of_decoders(tmp_path):
    results = run_suite(asked(tasks=["decode-128", "decode-512"]), tmp_path, quiet=True)
    assert not results.failures
    assert len(results.runs) == 8
    assert (results.scores["score"] > 10).all()  # no fractions, and no mean over lengths
    assert {*results.scores["task"]} == {"decode-128", "decode-512"}
    run = results.runs[0]
    passes = pd.read_csv(f"{run['folder']}/history.csv")
    assert list(passes.columns) == ["epoch", "seconds"]
    score = run["metrics"]["decode-128"]["tokens_per_second"]
    assert score == pytest.approx(2 * 128 / passes["seconds"].median())
    assert run["tokens"] == 256
    assert run["manifest"]["data"]["rows"] == {"train": 2}


def test_its_report_says_what_was_timed(tmp_path):
    run_suite(asked(tasks=["decode-128", "decode-512"]), tmp_path, quiet=True)
    results = run_suite(asked(tasks=["decode-128", "decode-512"]), tmp_path, quiet=True)
    report = make_report(results)
    page = report.html()
    assert "Nothing is learned: the scores are tokens a second" in page
    assert "What a token costs" in page
    assert "Learning curves" not in page
    assert "learning rate" not in page
    assert "epochs:" not in str(report.markdown())
    assert "tokens/s" in page


def test_an_interrupted_suite_goes_on(tmp_path):
    suite = asked()
    first = run_suite(suite, tmp_path, seeds=[1], quiet=True)
    both = run_suite(suite, tmp_path, quiet=True)
    before = {run["method"]: run["metrics"] for run in first.runs}
    after = {run["method"]: run["metrics"] for run in both.runs if run["seed"] == 1}
    assert before == after
    assert len(both.runs) == 4


def test_a_plan_counts_what_is_timed(tmp_path):
    plan = plan_suite(asked(), tmp_path, quiet=True)
    assert plan.total == 4
    assert 0 < plan.hours[0] == plan.hours[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ["decode-128", "CoLA"]}, "beside decode-128, .*Received: 'CoLA'"),
        ({"epochs": 3}, "key 'epochs' has no meaning for decode-128.*Received: 3"),
        ({"start_token": True}, "key 'start_token' has no meaning for decode-128"),
        ({"method": [{"mechanism": "gru-encoder-decoder"}]}, "expected no encoder-decoder"),
        ({"method": [{"mechanism": "relation", "size": 999}]}, "key 'size' of method relation"),
        (
            {
                "group": [{"name": "g", "tasks": ["decode-128", "decode-512"]}],
                "tasks": ["g"],
            },
            "key 'group': expected none for decode-128",
        ),
    ],
)
def test_what_means_nothing_for_it_is_refused(changes, message):
    with pytest.raises(SuiteError, match=message):
        asked(**changes)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"mechanism": "relation"}, "method relation-64: expected a causal mechanism"),
        ({"mechanism": "fcsr"}, "method fcsr-64: expected a causal mechanism"),
        (
            {"mechanism": "encoder", "options": {"mechanism": "relation"}},
            "method encoder-64: expected a causal mechanism",
        ),
        (
            {"mechanism": "encoder", "options": {"mechanism": "baseline", "causal": True}},
            "method encoder-64: ",
        ),
    ],
)
def test_a_mechanism_without_steps_is_said_before_the_first_run(tmp_path, method, message):
    with pytest.raises(SuiteError, match=message):
        run_suite(asked(method=[method]), tmp_path, quiet=True)
    assert not list(tmp_path.glob("runs/*/*/*"))
