"""Suites whose tasks are timed: causal networks go through a text a token at a time."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest

from relation_tf.bench import run_suite
from relation_tf.config import Method
from relation_tf.config.suite import make_suite
from relation_tf.errors import SuiteError
from relation_tf.report import compare, make_report
from relation_tf.tasks import load_task
from tests.backends import close

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
    """A custom causal layer: each token becomes the sum of the tokens up to it."""

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


class Tired(RunningSum):
    """One whose steps stop adding after a while."""

    def initial_state(self, batch_size, max_length=None):
        return (*super().initial_state(batch_size), keras.ops.zeros((), "int32"))

    def step(self, x, state):
        total, place = state
        total = keras.ops.where(place < 20, total + self.dense(x), total)
        return total, (total, place + 1)


class Lost(RunningSum):
    """One whose steps give no number."""

    def step(self, x, state):
        return state[0] * float("nan"), state


def stepping(method):
    from relation_tf.training.timing import StepTimer

    config = asked(method=[method]).runs()[0]
    return StepTimer(config, load_task("decode-128"))


@pytest.fixture(scope="module")
def decoders():
    return {name: stepping(decoder(name)) for name in MIXERS}


ALONE = {
    "one layer": Method(mechanism="relation", units=8, options={"causal": True}),
    "custom": Method(mechanism=RunningSum, units=8),
}


@pytest.mark.parametrize("name", [*MIXERS, *ALONE])
def test_steps_equal_the_whole_text(decoders, name):
    network = decoders[name] if name in MIXERS else stepping(ALONE[name])
    (texts,) = network.task.splits["train"].inputs
    whole = network.model(texts.pad(np.arange(2)))
    assert tuple(whole.shape) == (2, 128, 29)
    close(network.read(), whole[:, -1])


@pytest.mark.parametrize("layer", [Tired, Lost])
def test_steps_that_compute_something_else_are_refused(layer):
    with pytest.raises(
        SuiteError, match=f"method {layer.__name__}-8: the steps must give the same"
    ):
        stepping(Method(mechanism=layer, units=8))


def test_state_size_depends_on_the_mechanism(decoders, monkeypatch):
    monkeypatch.setattr("relation_tf.training.timing.SECONDS", 0.0)
    held = {name: network.run(1).facts["state_bytes"] for name, network in decoders.items()}
    blocks, rows, width, numbers = 2, 2, 8, 4
    # Keys and values of all 128 tokens, and an integer for the place and for each token's mask.
    assert held["attention"] > blocks * rows * 2 * 128 * width * numbers
    assert held["linear-attention"] < held["attention"] / 10
    assert held["relation"] < held["linear-attention"]


@pytest.mark.slow
def test_a_suite_of_decoders(tmp_path, suite):
    """Two mechanisms on two lengths, continued after the first seed."""
    lengths = ["decode-128", "decode-512"]
    first = run_suite(asked(tasks=lengths), tmp_path, seeds=[1], quiet=True)
    results = run_suite(asked(tasks=lengths), tmp_path, quiet=True)
    assert not results.failures
    assert len(results.runs) == 8
    assert (results.scores["score"] > 10).all()  # no fractions, and no mean over lengths
    assert {*results.scores["task"]} == {"decode-128", "decode-512"}
    run = results.runs[0]
    passes = pd.read_csv(f"{run['folder']}/history.csv")
    assert list(passes.columns) == ["pass", "seconds"]
    score = run["metrics"]["decode-128"]["tokens_per_second"]
    assert score == pytest.approx(2 * 128 / passes["seconds"].median())
    assert run["tokens"] == 256
    assert run["manifest"]["data"]["rows"] == {"train": 2}
    # What was done before it was continued is kept.
    continued = [run["metrics"] for run in results.runs if run["seed"] == 1]
    assert continued == [run["metrics"] for run in first.runs]
    text = str(make_report(results).markdown())
    run = next(run for run in results.runs if run["method"] == "decoder-attention")
    assert f"| {run['state_bytes'] / 1024:,.1f} |" in text
    for nothing in ("Learning curves", "Friedman"):
        assert nothing not in text
    # Methods are timed in turn.
    order = sorted(first.runs, key=lambda run: Path(run["folder"], "result.json").stat().st_mtime)
    names = [run["method"] for run in order if run["task"] == "decode-128"]
    assert names == ["decoder-relation", "decoder-attention"]
    trained = suite(source="miniglue", tasks=["WNLI"], seeds=[1], epochs=1)
    trained = run_suite(trained, tmp_path / "trained", quiet=True)
    with pytest.raises(SuiteError, match="timed suites cannot be compared with trained ones"):
        compare(results, trained, labels=["timed", "trained"])


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"mechanism": "relation"}, "method relation-64: mechanism .* must be causal"),
        ({"mechanism": "fcsr"}, "method fcsr-64: mechanism .* must be causal"),
        (
            {"mechanism": "encoder", "options": {"mechanism": "baseline", "causal": True}},
            "method encoder-64: .*has no causal form",
        ),
    ],
)
def test_a_mechanism_without_steps_is_said_before_the_first_run(tmp_path, method, message):
    with pytest.raises(SuiteError, match=message):
        run_suite(asked(method=[method]), tmp_path, quiet=True)
    assert not list(tmp_path.glob("runs/*/*/*"))
