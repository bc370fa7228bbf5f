"""Runs that several devices or several hosts share."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relation_tf.bench import run_suite
from relation_tf.bench.hosts import Hosts, this_host
from relation_tf.bench.options import RunOptions
from relation_tf.bench.requirements import check_requirements
from relation_tf.config import Method
from relation_tf.errors import SuiteError
from relation_tf.registry import OPTIMIZERS, register_optimizer
from relation_tf.tasks import load_task
from relation_tf.training.checkpoint import Checkpoint
from relation_tf.training.distribution import Distribution
from tests.backends import close
from tests.fuzz.mutations import refusal

TWO = ["10.0.0.1:2222", "10.0.0.2:2222"]


def config_of(cluster, kind="worker", index=0):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


def test_first_worker_is_the_default_chief():
    assert this_host(config_of({"worker": TWO})) == Hosts(tuple(TWO), is_chief=True)
    assert not this_host(config_of({"worker": TWO}, index=1)).is_chief
    led = {"worker": TWO, "chief": ["lead:1"]}
    assert this_host(config_of(led, "chief")) == Hosts(("lead:1", *TWO), is_chief=True)
    assert not this_host(config_of(led)).is_chief


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, r"on each host, such as \{.*\}. Received: nothing$"),
        ({"TF_CONFIG": "{"}, r"must be JSON such as .* Received: '\{'$"),
        ({"TF_CONFIG": "[" * 100_000}, r"must be JSON such as .*'\[\["),
        ({"TF_CONFIG": '{"cluster": 3, "task": {}}'}, r"'cluster': must be .*Received: 3$"),
        ({"TF_CONFIG": '{"cluster": {}, "task": 3}'}, r"'task': must be an object.*Received: 3$"),
        ({"TF_CONFIG": "{}"}, "key 'cluster' is missing"),
        (config_of({"ps": TWO}), r"key 'cluster\.ps': must be 'chief' or 'worker'"),
        (config_of({"worker": []}), r"key 'cluster\.worker': must have at least 1 item"),
        (
            config_of({"worker": ["host"]}),
            r"'cluster\.worker\.1': must be an address host:port.*'host'$",
        ),
        (config_of({"worker": ["host:0"]}), r"must be an address host:port\. Received: 'host:0'$"),
        (config_of({"worker": ["h:1", "h:1"]}), "must not repeat an address"),
        (config_of({"worker": TWO, "chief": ["a:1", "b:1"]}), "'cluster.chief': must be one"),
        (config_of({"worker": TWO}, "chief"), "less than 0, the number of chief addresses .* 0$"),
        (config_of({"worker": TWO}, index=-1), r"key 'task\.index'.*Received: -1$"),
        (
            config_of({"worker": TWO}, "evaluator"),
            r"key 'task\.type': must be 'chief' or 'worker'",
        ),
    ],
)
def test_a_broken_tf_config_is_one_line(environment, message):
    with pytest.raises(SuiteError, match=f"^TF_CONFIG: .*{message}") as error:
        this_host(environment)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([*TWO, "worker", "h:99999"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["cluster", "worker", "task", "type", "index"]), inner)
    ),
    max_leaves=8,
)


@given(JSON)
def test_any_tf_config_gives_a_host_or_one_line(value):
    message = refusal(
        lambda: this_host({"TF_CONFIG": json.dumps(value)}), SuiteError, "TF_CONFIG: "
    )
    if not isinstance(value, dict) or not {"cluster", "task"} <= value.keys():
        assert message is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "mirrored", "settings": {"xla": True}}, "^key 'xla': must be false with"),
        (
            {"strategy": "mirrored", "settings": {"optimizer_options": {"clipnorm": 1.0}}},
            "^key 'optimizer_options': must not clip gradients with --strategy mirrored",
        ),
        ({"strategy": "multi-worker"}, "^TF_CONFIG: "),
    ],
)
def test_options_excluded_by_a_strategy(tmp_path, suite, monkeypatch, options, message):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(SuiteError, match=message):
        run_suite(suite(), tmp_path / "out", data=tmp_path, **options)
    assert not (tmp_path / "out").exists()


def test_penalties_of_a_batch_are_refused_with_a_strategy(suite):
    options = RunOptions(strategy="mirrored")
    (config, *_) = suite(tasks=["RTE"], seeds=[1]).runs()
    changed = config.model_copy(update={"sharing": "adversarial"})
    check_requirements(suite(), [config], options)
    with pytest.raises(SuiteError, match=r"^key 'sharing': must not be 'adversarial' with"):
        check_requirements(suite(), [changed], options)
    transferred = config.model_copy(update={"sharing": "single-channel"})
    with pytest.raises(SuiteError, match=r"^key 'sharing': must not be 'single-channel' with"):
        check_requirements(suite(), [transferred], options)


class Drawing(keras.layers.Layer):
    """A custom layer with noise."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(units)
        self.seeds = keras.random.SeedGenerator(7)

    def build(self, shape):
        self.dense.build(shape)

    def call(self, x):
        return self.dense(x) + 0.1 * keras.random.normal((1, 1, 8), seed=self.seeds)


class Processes:
    """Processes that do the same, each in its environment."""

    def __init__(self, pools):
        self.pools = pools

    def __call__(self, function, *arguments, **options):
        futures = [pool.submit(function, *arguments, **options) for pool in self.pools]
        return [future.result(timeout=600) for future in futures]


def set_environment(values):
    os.environ.update(values)


@contextmanager
def processes(*environments):
    with ExitStack() as stack:
        spawn = get_context("spawn")
        pools = [
            stack.enter_context(
                ProcessPoolExecutor(1, spawn, initializer=set_environment, initargs=(each,))
            )
            for each in environments
        ]
        yield Processes(pools)


def two_hosts():
    """Environment of two processes that act as two hosts."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    return [config_of({"worker": addresses}, index=index) for index in range(2)]


@pytest.fixture(scope="module")
def mirrored():
    with processes({}) as made:
        yield made


@pytest.fixture(scope="module")
def multi_worker():
    with processes(*two_hosts()) as made:
        yield made


MIRRORED = {"strategy": "mirrored", "devices": 2}
DISTRIBUTIONS = {
    "mirrored": Distribution(**MIRRORED),
    "multi_worker": Distribution("multi-worker"),
}


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
    "dense": {"tasks": ["CoLA"], "embedding_updates": "dense", "batch_size": 16},
    "rows": {"tasks": ["CoLA"], "embedding_updates": "rows", "batch_size": 59},
    "pairs": {"tasks": ["STS-B"], "weight_decay": 0.1, "batch_size": 59},
}


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("kind", "case"),
    [
        *(("mirrored", case) for case in CASES),
        *(("multi_worker", case) for case in ("dense", "rows")),
    ],
)
def test_replicas_train_as_one_device(request, small_glue, suite, kind, case):
    (config,) = suite(**EXACT, **CASES[case], method=[RELATION]).runs()
    weights, run = trained(config, small_glue)
    everywhere = request.getfixturevalue(kind)
    for own_weights, own in everywhere(trained, config, small_glue, DISTRIBUTIONS[kind]):
        for one, other in zip(weights, own_weights, strict=True):
            close(other, one, 1e-4)  # Adam divides gradients near zero by their size
        for split, outputs in run.predictions.items():
            close(own.predictions[split], outputs)
        for column in ("loss", "val_loss"):
            close(*([row[column] for row in each.history] for each in (own, run)))


@pytest.mark.slow
@pytest.mark.tensorflow
def test_rows_that_are_right_are_counted_once(mirrored, small_glue, suite):
    asked = {**EXACT, "tasks": ["SST-2"], "batch_size": 59, "stopping": "accuracy_reached"}
    (config,) = suite(**asked, method=[RELATION]).runs()
    ((_, shared),) = mirrored(trained, config, small_glue, DISTRIBUTIONS["mirrored"])
    _, alone = trained(config, small_glue)
    found, expected = ([row["accuracy"] for row in run.history] for run in (shared, alone))
    assert found == expected


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
    arguments = config, small_glue, DISTRIBUTIONS["mirrored"]
    ((fresh, outputs, after, again),) = mirrored(draws, *arguments)
    assert fresh[1] == [fresh[0][0] + 2**32, fresh[0][1]]
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-4
    assert after == again != fresh
    ((epochs, weights),) = mirrored(resumed, *arguments, tmp_path)
    assert epochs == [2]
    for each in zip(*weights, strict=True):
        assert len({array.tobytes() for array in each}) == 1


def call(suite, out, data, methods=None, **options):
    """The runs and failures that a suite gave."""
    options = {"data": data, "quiet": True, "allow_failing_checks": True, **options}
    results = run_suite(suite, out, replace_methods=methods, **options)
    return [run["manifest"] for run in results.runs], results.failures


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_suite_on_two_devices_says_so(mirrored, tmp_path, small_glue, suite):
    """A custom layer draws random numbers too; there is no third device."""
    asked = suite(tasks=["CoLA"], seeds=[1], epochs=2)
    own = Method(mechanism=f"{__name__}:Drawing", units=8)
    ((manifests, failures),) = mirrored(
        call, asked, tmp_path / "out", small_glue, [own, "relation"], **MIRRORED
    )
    assert failures == []
    assert [(each["strategy"], each["replicas"]) for each in manifests] == [("mirrored", 2)] * 2
    with pytest.raises(SuiteError, match="devices: must be at most 2, the CPUs of this process"):
        mirrored(call, asked, tmp_path / "more", small_glue, strategy="mirrored", devices=3)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_saved_model_on_two_devices(mirrored, tmp_path, suite):
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string)])
    def encode(text):
        good = tf.strings.regex_full_match(text, ".*good.*")
        return tf.cast(tf.stack([good, ~good], axis=1), tf.float32)

    encoder = tf.Module()
    encoder.__call__ = encode
    tf.saved_model.save(encoder, str(tmp_path / "encoder"))
    lines = [f"{i % 2} {'good' if i % 2 else 'bad'} film number {i}\n" for i in range(120)]
    (tmp_path / "rt-polarity.all").write_text("".join(lines), encoding="cp1252")
    asked = suite(
        tasks=["MR"], tokens="text", network="plain", dropout=0.0, learning_rate=0.1, seeds=[1],
        validation_split=0.2, batch_size=8,
        method=[Method(mechanism=f"saved-model:{tmp_path}/encoder", name="mine")],
    )  # fmt: skip
    ((manifests, failures),) = mirrored(call, asked, tmp_path / "out", tmp_path, **MIRRORED)
    assert failures == []
    assert manifests[0]["replicas"] == 2
    run_suite(asked, tmp_path / "one", data=tmp_path, quiet=True)
    equal_runs(tmp_path / "out", tmp_path / "one", "MR/mine/seed-1")


def equal_runs(one, other, run):
    """Check that the numbers of a run's tables are equal, apart from seconds."""
    folder = one / "runs" / run
    for path in [folder / "history.csv", *folder.glob("predictions/*.tsv")]:
        places = path, other / path.relative_to(one)
        tables = [pd.read_csv(each, sep="," if each.suffix == ".csv" else "\t") for each in places]
        own, others = (table.loc[:, ~table.columns.str.contains("seconds")] for table in tables)
        assert len(own)
        pd.testing.assert_frame_equal(own, others, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_other_hosts_train_pending_runs(multi_worker, tmp_path, small_glue, suite):
    """Only the chief has a folder with runs, and it alone writes."""
    asked = suite(**EXACT, tasks=["CoLA"], method=[RELATION, {**RELATION, "units": 4}])
    run_suite(asked, tmp_path / "one", data=small_glue, quiet=True)
    chief, other = tmp_path / "chief", tmp_path / "other"
    shutil.copytree(tmp_path / "one", chief)
    shutil.rmtree(chief / "runs/CoLA/relation-4")
    kept = chief / "runs/CoLA/relation-8/seed-1/result.json"
    stamp = kept.stat().st_mtime_ns
    folders = iter([chief, other])
    futures = [
        pool.submit(call, asked, next(folders), small_glue, strategy="multi-worker")
        for pool in multi_worker.pools
    ]
    (manifests, failures), (elsewhere, _) = [future.result(timeout=600) for future in futures]
    assert failures == elsewhere == []
    assert [(each["strategy"], each["replicas"]) for each in manifests] == [
        (None, 1), ("multi-worker", 2),
    ]  # fmt: skip
    assert kept.stat().st_mtime_ns == stamp
    assert not other.exists()
    equal_runs(chief, tmp_path / "one", "CoLA/relation-4/seed-1")


@pytest.mark.slow
@pytest.mark.tensorflow
def test_hosts_that_differ_are_refused(multi_worker, tmp_path, small_glue, suite):
    futures = [
        pool.submit(call, suite(seeds=seeds), tmp_path / "out", small_glue, strategy="multi-worker")
        for pool, seeds in zip(multi_worker.pools, ([1], [1, 2]), strict=True)
    ]
    for future in futures:
        with pytest.raises(SuiteError, match=r"^the hosts differ: all hosts must have the same"):
            future.result(timeout=600)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_lost_host_stops_the_others_with_one_line(tmp_path, small_glue, suite):
    asked = suite(tasks=["CoLA"], epochs=100_000, patience=100_000)
    with processes(*two_hosts()) as hosts:
        futures = [
            pool.submit(call, asked, tmp_path / "out", small_glue, strategy="multi-worker")
            for pool in hosts.pools
        ]
        while not list(tmp_path.glob("out/runs/*/*/*/config.json")):
            assert not futures[0].done(), futures[0].result()
            time.sleep(0.1)
        (pid,) = hosts.pools[1]._processes
        hosts.pools[1]._processes[pid].kill()
        with pytest.raises(BrokenProcessPool):
            futures[1].result(timeout=600)
        with pytest.raises(SuiteError, match=r"^another host has ended or cannot be") as error:
            futures[0].result(timeout=600)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.glob("out/runs/*/*/*/error.json"))


@pytest.mark.tensorflow
def test_a_registered_optimizer_must_not_clip_on_several_devices(
    small_glue, suite, monkeypatch, isolated
):
    """The keys of the suite do not show it."""
    from relation_tf.training.replicas import Replicas
    from relation_tf.training.task_trainer import TaskTrainer

    isolated(OPTIMIZERS)
    monkeypatch.setattr(OPTIMIZERS, "_origins", {**OPTIMIZERS._origins})
    register_optimizer("clipped")(
        lambda learning_rate: keras.optimizers.Adam(learning_rate, clipnorm=1.0)
    )
    monkeypatch.setattr(Replicas, "count", 2)
    (config,) = suite(**EXACT, tasks=["CoLA"], method=[RELATION], optimizer="clipped").runs()
    with pytest.raises(SuiteError, match=r"^optimizer 'clipped' must not clip gradients"):
        TaskTrainer(config, load_task("CoLA", data=small_glue))


def test_networks_with_optimizers_of_users_are_made_for_each_seed(suite, monkeypatch, isolated):
    """Such an optimizer can have state outside of the variables."""
    isolated(OPTIMIZERS)
    monkeypatch.setattr(OPTIMIZERS, "_origins", {**OPTIMIZERS._origins})
    register_optimizer("own")(keras.optimizers.SGD)
    (config,) = suite(**EXACT, tasks=["CoLA"], method=[RELATION]).runs()
    assert config.shares_network
    for name, shares in (("own", False), ("Lion", True), ("adam", True)):
        assert config.model_copy(update={"optimizer": name}).shares_network is shares
