"""Runs that several devices share."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import keras
import numpy as np
import pytest

from relation_tf.bench import run_suite
from relation_tf.bench.options import RunOptions
from relation_tf.bench.runner import check_requirements
from relation_tf.errors import SuiteError
from relation_tf.registry import OPTIMIZERS, register_optimizer
from relation_tf.tasks import load_task
from relation_tf.training.session import Distribution
from relation_tf.training.trainer import Checkpoint
from tests.backends import close


def test_penalties_of_a_batch_are_refused_with_a_strategy(suite):
    options = RunOptions(strategy="mirrored")
    (config, *_) = suite(tasks=["RTE"], seeds=[1]).runs()
    changed = config.model_copy(update={"sharing": "adversarial"})
    check_requirements(suite(), [config], options)
    with pytest.raises(SuiteError, match=r"^key 'sharing': must not be 'adversarial' with"):
        check_requirements(suite(), [changed], options)
    with pytest.raises(SuiteError, match=r"^key 'xla': must be false with"):
        check_requirements(suite(), [config.model_copy(update={"xla": True})], options)


@pytest.fixture(scope="module")
def mirrored():
    """Call a function in a process that divides its CPU into devices."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield lambda *arguments, **options: pool.submit(*arguments, **options).result(timeout=600)


MIRRORED = {"strategy": "mirrored", "devices": 2}
TWO = Distribution(**MIRRORED)


def network_of(config, data, distribution):
    from relation_tf.training.session import start_tensorflow

    replicas = start_tensorflow(Path(os.devnull), 1, distribution)
    from relation_tf.training.task_trainer import TaskTrainer

    return TaskTrainer(config, load_task(config.task, data=data), replicas=replicas)


def trained(config, data, distribution=None):
    """The weights and what a run gave."""
    network = network_of(config, data, distribution)
    run = network.run(config.seed)
    return network.weights(), run


EXACT = {"dropout": 0.0, "learning_rate": 0.01, "seeds": [1]}
RELATION = {"mechanism": "relation", "units": 8, "options": {"dropout": 0.0}}
CASES = {
    # Of 60 rows: batches of 16 and one of 12; of 59 and one of a row, so that a replica has none.
    "one text": {"tasks": ["CoLA"], "batch_size": 16},
    "pairs": {"tasks": ["STS-B"], "weight_decay": 0.1, "batch_size": 59},
    "right rows": {"tasks": ["SST-2"], "batch_size": 59, "stopping": "accuracy_reached"},
}


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("case", CASES)
def test_replicas_train_as_one_device(mirrored, small_glue, suite, case):
    (config,) = suite(**EXACT, **CASES[case], method=[RELATION]).runs()
    weights, run = trained(config, small_glue)
    own_weights, own = mirrored(trained, config, small_glue, TWO)
    for one, other in zip(weights, own_weights, strict=True):
        close(other, one, 1e-4)  # Adam divides gradients near zero by their size
    for split, outputs in run.predictions.items():
        close(own.predictions[split], outputs)
    for column in ("loss", "val_loss"):
        close(*([row[column] for row in each.history] for each in (own, run)))
    if case == "right rows":
        assert [row["accuracy"] for row in own.history] == [row["accuracy"] for row in run.history]


def draws(config, data, distribution):
    """The outputs of both replicas for the same rows, and seeds before and after a state."""
    network = network_of(config, data, distribution)
    strategy = network.replicas._strategy
    ids = network.task.splits["train"].inputs[0].pad(np.arange(4))
    (state, *_) = (v for v in network.model.variables if v.name == "seed_generator_state")

    def seeds():
        return [each.numpy().tolist() for each in strategy.experimental_local_results(state.value)]

    network.reset(3)
    fresh = seeds()
    outputs = strategy.run(lambda: network.model(ids, training=True))
    outputs = [each.numpy() for each in strategy.experimental_local_results(outputs)]
    kept, after = network.state(), seeds()
    network.reset(4)
    network.restore_state(kept)
    return fresh, outputs, after, seeds()


class KilledError(Exception):
    """Stands for a kill."""


def resumed(config, data, distribution, folder):
    """The weights of a run, of the same one again, and of one that was killed and taken up."""
    network = network_of(config, data, distribution)
    found = []
    for _ in range(2):
        network.run(config.seed)
        found.append(network.weights())
    checkpoint = Checkpoint(folder / "state.npz", {}, every=0)

    def kill(epoch, row):
        if epoch == 3:
            raise KilledError

    try:
        network.run(config.seed, kill, checkpoint)
    except KilledError:
        run = network.run(config.seed, checkpoint=checkpoint)
    return run.resumed, [*found, network.weights()]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_replicas_have_different_dropout_and_resume_with_it(mirrored, tmp_path, small_glue, suite):
    config = suite(tasks=["CoLA"], dropout=0.5).runs()[0]
    arguments = config, small_glue, TWO
    fresh, outputs, after, again = mirrored(draws, *arguments)
    assert fresh[1] == [fresh[0][0] + 2**32, fresh[0][1]]
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-4
    assert after == again != fresh
    epochs, weights = mirrored(resumed, *arguments, tmp_path)
    assert epochs == [2]
    for each in zip(*weights, strict=True):
        assert len({array.tobytes() for array in each}) == 1


def call(suite, out, data, **options):
    """The runs and failures that a suite gave."""
    results = run_suite(suite, out, data=data, quiet=True, **options)
    return [run["manifest"] for run in results.runs], results.failures


def divide_twice(config, data):
    """Build a network for two devices, then one for three."""
    for devices in (2, 3):
        network_of(config, data, Distribution("mirrored", devices))


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_suite_on_two_devices_says_so(mirrored, tmp_path, small_glue, suite):
    """A process divides its CPU once."""
    asked = suite(tasks=["CoLA"], seeds=[1], epochs=1, method=[RELATION])
    manifests, failures = mirrored(call, asked, tmp_path / "out", small_glue, **MIRRORED)
    assert failures == []
    assert [(each["strategy"], each["replicas"]) for each in manifests] == [("mirrored", 2)]
    with pytest.raises(SuiteError, match="devices: must be at most 2, the CPUs of this process"):
        mirrored(divide_twice, asked.runs()[0], small_glue)


@pytest.mark.tensorflow
def test_a_registered_optimizer_must_not_clip_on_several_devices(
    small_glue, suite, monkeypatch, isolated
):
    """The keys of the suite do not show it."""
    from relation_tf.training.replicas import Replicas
    from relation_tf.training.task_trainer import TaskTrainer

    isolated(OPTIMIZERS)
    register_optimizer("clipped")(
        lambda learning_rate: keras.optimizers.Adam(learning_rate, clipnorm=1.0)
    )
    monkeypatch.setattr(Replicas, "count", 2)
    (config,) = suite(**EXACT, tasks=["CoLA"], method=[RELATION], optimizer="clipped").runs()
    with pytest.raises(SuiteError, match=r"^optimizer 'clipped' must not clip gradients"):
        TaskTrainer(config, load_task("CoLA", data=small_glue))


def test_networks_with_optimizers_of_users_are_made_for_each_seed(suite, isolated):
    """Such an optimizer can have state outside of the variables."""
    isolated(OPTIMIZERS)
    register_optimizer("own")(keras.optimizers.SGD)
    (config,) = suite(**EXACT, tasks=["CoLA"], method=[RELATION]).runs()
    assert config.shares_network
    for name, shares in (("own", False), ("Lion", True), ("adam", True)):
        assert config.model_copy(update={"optimizer": name}).shares_network is shares
