"""Suites whose tasks time the forward and backward pass of a mechanism."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf

from relation_tf.config import Method
from relation_tf.config.suite import make_suite
from relation_tf.tasks import load_task
from relation_tf.training import timing
from relation_tf.training.session import memory_of
from tests.backends import close

pytestmark = pytest.mark.tensorflow


MECHANISMS = ("relation", "attention", "fcsr")


class Doubled(keras.layers.Layer):
    """A custom layer without weights and masks."""

    def __init__(self, units: int = 8, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units

    def call(self, x: Any) -> Any:
        return 2 * x


def asked(*methods: Method) -> Any:
    return make_suite(
        "small",
        {
            "name": "small",
            "tasks": ["training-128"],
            "seeds": [1, 2],
            "batch_size": 2,
            "embedding_dim": 12,
            "method": [*methods],
        },
    )


def timer(method: Method) -> Any:
    from relation_tf.training.timing import LayerTimer

    return LayerTimer(asked(method).runs()[0], load_task("training-128"))


@pytest.mark.parametrize("mechanism", ["relation", "lstm", Doubled])
def test_passes_are_timed(mechanism: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SECONDS", 0.0)
    timed = timer(Method(mechanism=mechanism, units=8)).run(1)
    seconds = [row["seconds"] for row in timed.history]
    assert len(seconds) == timing.PASSES
    speed = timed.metrics["training-128"]["tokens_per_second"]
    assert speed == pytest.approx(2 * 128 / sorted(seconds)[1])


def test_a_pass_computes_all_gradients() -> None:
    own = timer(Method(mechanism="relation", units=8))
    to_tokens, *to_weights = own._pass(own._tokens)
    assert tuple(to_tokens.shape) == (2, 128, 12)
    shapes = [tuple(weight.shape) for weight in own.model.trainable_variables]
    assert [tuple(gradient.shape) for gradient in to_weights] == shapes
    doubled = timer(Method(mechanism=Doubled))
    (gradient,) = doubled._pass(doubled._tokens)
    close(gradient, 8 * doubled._tokens)  # of sum (2 x)^2


def test_a_pass_has_its_memory_and_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relation_tf.training.timing.SECONDS", 0.0)
    facts = {name: timer(Method(mechanism=name, units=8)).run(1).facts for name in MECHANISMS}
    measured = memory_of(lambda: tf.ones(2**20)) is not None
    wide = timer(Method(mechanism="relation", units=1024)).run(1).facts  # arrays of 1 MiB
    assert (wide["pass_bytes"] is not None) == measured
    states = {name: own["state_bytes"] for name, own in facts.items()}
    assert states == {
        "relation": 4 * (12 + 1),
        "attention": 4 * 2 * 128 * 8 + 128 + 4,
        "fcsr": None,
    }
