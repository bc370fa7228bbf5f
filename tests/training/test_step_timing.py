"""Suites whose tasks are timed: causal networks go through a text a token at a time."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest

from relation_tf.bench import plan_suite, run_suite
from relation_tf.config import Method
from relation_tf.config.loading import make_suite
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


class Growing(RunningSum):
    """One that keeps every token, and makes no room for them."""

    def step(self, x, state):
        kept = keras.ops.concatenate([state[0], self.dense(x)], axis=1)
        return keras.ops.sum(kept, axis=1, keepdims=True), (kept,)


def stepping(method):
    from relation_tf.training.step_timing import StepTimer

    config = asked(method=[method]).runs()[0]
    return StepTimer(config, load_task("decode-128"))


@pytest.mark.parametrize(
    "method",
    [
        *map(decoder, MIXERS),
        Method(mechanism="relation", units=8, options={"causal": True}),
        Method(mechanism=RunningSum, units=8),
    ],
    ids=[*MIXERS, "one layer", "custom"],
)
def test_steps_equal_the_whole_text(method):
    network = stepping(method)
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


class Unstarted(RunningSum):
    """One with steps and nothing to start from."""

    @property
    def initial_state(self):
        raise AttributeError


def test_steps_need_a_start():
    with pytest.raises(
        ValueError, match="must be causal and have the methods `initial_state` and `step`"
    ):
        stepping(Method(mechanism=Unstarted, units=8))


def test_a_state_that_grows_is_refused():
    expected = r"float32 \(1, 1, 8\) before, float32 \(1, 2, 8\) after a step"
    with pytest.raises(ValueError, match=f"step. of Growing changes the shapes .*: {expected}"):
        stepping(Method(mechanism=Growing, units=8))


def test_state_size_depends_on_the_mechanism(monkeypatch):
    monkeypatch.setattr("relation_tf.training.pass_timing.SECONDS", 0.0)
    held = {name: stepping(decoder(name)).run(1).facts["state_bytes"] for name in MIXERS}
    blocks, rows, width, numbers = 2, 2, 8, 4
    # Keys and values of all 128 tokens, and an integer for the place and for each token's mask.
    assert held["attention"] > blocks * rows * 2 * 128 * width * numbers
    assert held["linear-attention"] < held["attention"] / 10
    assert held["relation"] < held["linear-attention"]


def test_passes_are_timed_until_they_tell_something(monkeypatch):
    monkeypatch.setattr("relation_tf.training.pass_timing.SECONDS", 0.0)
    timed = stepping(decoder("relation")).run(1)
    seconds = [row["seconds"] for row in timed.history]
    assert len(seconds) == 3
    assert timed.seconds["epoch"] == sorted(seconds)[1] > 0


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two mechanisms on two lengths, continued after the first seed; and that seed's metrics."""
    folder, lengths = tmp_path_factory.mktemp("timed"), ["decode-128", "decode-512"]
    first = run_suite(asked(tasks=lengths), folder, seeds=[1], quiet=True)
    return run_suite(asked(tasks=lengths), folder, quiet=True), first


@pytest.mark.slow
def test_a_suite_of_decoders(results):
    results, first = results
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


@pytest.mark.slow
def test_report_of_a_timed_suite(results):
    results, _ = results
    report = make_report(results)
    page, text = report.html(), str(report.markdown())
    assert "the scores are tokens per second of untrained networks" in page
    assert "Time and memory by length" in page
    for nothing in ("Learning curves", "learning_rate", "Friedman", "The average includes"):
        assert nothing not in page
    assert r"batch\_size: 2" in text
    run = next(run for run in results.runs if run["method"] == "decoder-attention")
    held = f"{run['state_bytes'] / 1024:,.1f}"
    assert f"| {held} |" in text
    assert held in page


@pytest.mark.slow
def test_methods_are_timed_in_turn(tmp_path):
    results = run_suite(asked(), tmp_path, quiet=True)
    order = sorted(results.runs, key=lambda run: Path(run["folder"], "result.json").stat().st_mtime)
    assert [(run["seed"], run["method"]) for run in order] == [
        (seed, f"decoder-{name}") for seed in (1, 2) for name in ("relation", "attention")
    ]


@pytest.mark.slow
def test_timed_suites_are_not_compared_with_trained_ones(results, tmp_path, suite):
    timed, _ = results
    trained = suite(source="miniglue", tasks=["WNLI"], seeds=[1], epochs=1)
    trained = run_suite(trained, tmp_path / "trained", quiet=True)
    with pytest.raises(SuiteError, match="timed suites cannot be compared with trained ones"):
        compare(timed, trained, labels=["timed", "trained"])
    again = str(compare(timed, timed, labels=["a", "b"]))
    assert "decoder-relation (b)" in again


def test_a_plan_times_every_length(tmp_path, monkeypatch):
    from relation_tf.training.step_timing import StepTimer

    monkeypatch.setattr(StepTimer, "_time_pass", lambda timer: timer.tokens / 100)
    plan = plan_suite(asked(tasks=["decode-128", "decode-2048"]), tmp_path, quiet=True)
    assert plan.total == 8
    assert 0 < plan.hours[0] == plan.hours[1]
    assert all(cost.measured for cost in plan.costs.values())
    short, long = (plan.costs[f"decode-{n}", "decoder-attention"].fewest for n in (128, 2048))
    assert short < long
    assert "epochs" not in str(plan)


def test_a_plan_says_in_a_line_which_layer_has_no_steps(tmp_path):
    plain = Method(mechanism=keras.layers.Dense, units=8)
    with pytest.raises(
        SuiteError, match=r"method Dense-8: ValueError: mechanism .* must be causal"
    ):
        plan_suite(asked(method=[plain]), tmp_path, quiet=True)


def test_devices_are_refused_before_the_first_run(tmp_path):
    with pytest.raises(SuiteError, match=r"strategy: .* decode-128.*mirrored"):
        run_suite(asked(), tmp_path, strategy="mirrored", devices=2, quiet=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"mechanism": "relation"}, "method relation-64: mechanism .* must be causal"),
        ({"mechanism": "fcsr"}, "method fcsr-64: mechanism .* must be causal"),
        (
            {"mechanism": "encoder", "options": {"mechanism": "relation"}},
            "method encoder-64: mechanism .* must be causal",
        ),
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
