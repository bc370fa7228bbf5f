"""Tests of Ctrl-C while a network is built, traced and trained."""

from __future__ import annotations

import contextlib
import signal

import keras
import pytest

from relation_tf.bench import plan_suite, read_results, run_suite, runner
from relation_tf.bench.pretraining import pretrain
from relation_tf.config import Method
from relation_tf.networks import check_layer
from relation_tf.training.pretraining_settings import PretrainingSettings

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("ctrl_c")]


def press():
    """Press Ctrl-C where the caller converts a `KeyboardInterrupt`, as Keras's C++ parts do."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise TypeError("converted") from None


class Pressed(keras.layers.Dense):
    """A layer during which Ctrl-C is pressed, once."""

    place = ""

    def __init__(self, units, **kwargs):
        super().__init__(units, **kwargs)
        self.at("init")

    def at(self, place):
        if type(self).place == place:
            type(self).place = ""
            press()

    def build(self, shape):
        super().build(shape)
        self.at("build")

    def call(self, x, training=False):
        self.at("tracing" if training else "call")
        return super().call(x)


@pytest.mark.parametrize("place", ["init", "build", "call", "tracing"])
def test_a_run_is_not_failed(place, tmp_path, small_glue, suite, monkeypatch):
    """The suite ends at the first press; it must not continue after a `TypeError`."""
    monkeypatch.setattr(Pressed, "place", place)
    monkeypatch.setattr(runner, "check_layers", lambda *_: [])
    one = suite(tasks=["CoLA"], seeds=[1, 2], epochs=1)
    with pytest.raises(KeyboardInterrupt):
        run_suite(one, tmp_path, replace_methods=[Pressed, "relation"], data=small_glue, quiet=True)
    results = read_results(tmp_path)
    assert (results.runs, results.failures) == ([], [])


def test_a_press_between_steps_stops_in_the_epoch(tmp_path, small_glue, suite, monkeypatch):
    from relation_tf.training.task_trainer import TaskTrainer

    train, steps = TaskTrainer.train, []

    def pressed(trainer, *batch):
        steps.append(batch)
        with contextlib.suppress(KeyboardInterrupt):  # it disappears
            signal.raise_signal(signal.SIGINT)
        return train(trainer, *batch)

    monkeypatch.setattr(TaskTrainer, "train", pressed)
    one = suite(tasks=["CoLA"], seeds=[1], epochs=1, method=[Method(mechanism="relation", units=4)])
    with pytest.raises(KeyboardInterrupt):
        run_suite(one, tmp_path, data=small_glue, quiet=True)
    assert len(steps) == 1


def test_a_plan(tmp_path, small_glue, suite, monkeypatch):
    monkeypatch.setattr(Pressed, "place", "tracing")
    with pytest.raises(KeyboardInterrupt):
        plan_suite(
            suite(tasks=["CoLA"], epochs=1), tmp_path, replace_methods=[Pressed],
            data=small_glue, quiet=True,
        )  # fmt: skip


@pytest.mark.parametrize("place", ["init", "call"])
def test_the_check_of_a_layer(place, monkeypatch):
    """A press must not count as a fault of the layer."""
    monkeypatch.setattr(Pressed, "place", place)
    with pytest.raises(KeyboardInterrupt):
        check_layer(Pressed)


@pytest.mark.parametrize("place", ["build", "tracing"])
def test_pretraining(place, tmp_path, monkeypatch):
    monkeypatch.setattr(Pressed, "place", place)
    (tmp_path / "a.txt").write_text("so good it is\n" * 99)
    settings = PretrainingSettings(
        num_layers=1, units=4, length=8, batch_size=2, steps=2, vocabulary_size=50
    )
    layer = f"{Pressed.__module__}:Pressed"
    with pytest.raises(KeyboardInterrupt):
        pretrain([tmp_path / "a.txt"], tmp_path / "out", [layer], [1], settings, quiet=True)
    assert not list(tmp_path.rglob("error.json"))
