"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from relation_tf.config import Method, Suite

ROOT = Path(__file__).resolve().parents[1]
# The same examples in every run, and no limit on the time of an example: machines differ.
settings.register_profile(
    "tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")


def pytest_collection_finish() -> None:
    """Make small networks start faster.

    Tracing takes a third less time if garbage is collected less often. TensorFlow's optimization of
    graphs takes longer than it saves: without it, tests of training take a fifth less time.
    """
    gc.collect()
    gc.freeze()  # imported modules are never garbage
    gc.set_threshold(50_000, 20, 100)
    if tensorflow := sys.modules.get("tensorflow"):
        tensorflow.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[bool]:
    """Leave objects of earlier modules out of garbage collection, which each new network starts.

    At the end of a fixture, pytest would still hold the networks of the last test: frozen, they
    would never be freed.
    """
    ran = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return ran


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Return a function that finds a shared file of golden values or data; skip if it is missing.

    The files are in `RELATION_TF_SHARED`, by default the folder `shared` next to the checkout.
    """
    folder = Path(os.environ.get("RELATION_TF_SHARED", ROOT.parent / "shared"))

    def find(name: str) -> Path:
        path = folder / name
        if not path.exists():
            pytest.skip(
                f"needs {name} of the shared golden values and data, looked for in {folder}"
            )
        return path

    return find


@pytest.fixture(autouse=True)
def _same_draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed initializers, dropout and the generators of the module: tests run in any order.

    Tests without Keras do not import it for this.
    """
    if keras := sys.modules.get("keras"):
        keras.utils.set_random_seed(0)
    module = getattr(request.node, "module", None)  # none in examples of docstrings
    for name, value in [*vars(module).items()] if module else ():
        if isinstance(value, np.random.Generator):
            monkeypatch.setattr(module, name, np.random.default_rng(0))


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk():
    """Leave out `os.fsync`, half of the time of tests of reports: no test cuts the power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Use temporary folders instead of the user's cache and data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELATION_TF_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("TFDS_DATA_DIR", str(tmp_path_factory.mktemp("tfds")))
        yield


@pytest.fixture(scope="session")
def small_glue(tmp_path_factory):
    """Return a GLUE folder in the official layout with few rows."""
    from relation_tf.tasks import miniglue

    folder = tmp_path_factory.mktemp("glue_data")
    miniglue.write(folder, seed=3, train_rows=60, dev_rows=20, test_rows=8)
    return folder


@pytest.fixture(scope="session")
def label_diagnostic():
    """Return a function that writes AX's labelled file in the official format."""

    def write(glue):
        words = ("contradiction", "neutral", "entailment")
        rows = (glue / "diagnostic" / "diagnostic.tsv").read_text("utf-8").splitlines()[1:]
        lines = ["Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\t"
                 "Premise\tHypothesis\tLabel"]  # fmt: skip
        for row, line in enumerate(rows):
            texts = line.partition("\t")[2]
            lines.append(f"Negation\t\t\t\tNews\t{texts}\t{words[row % 3]}")
        path = glue / "diagnostic" / "diagnostic-full.tsv"
        path.write_text("\n".join([*lines, ""]), "utf-8")
        return path

    return write


@pytest.fixture
def call(monkeypatch, capsys):
    """Return a function that runs a command: its exit code, what it printed, and its errors."""
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*arguments):
        from relation_tf import cli

        monkeypatch.setattr(sys, "argv", ["relation-tf", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def ctrl_c():
    """Handle Ctrl-C as Python does; a background shell may ignore it. It must stay so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    after = signal.signal(signal.SIGINT, before)
    assert after is signal.default_int_handler


@pytest.fixture
def isolated(monkeypatch):
    """Return a function that restores a registry after the test."""

    def isolate(registry):
        monkeypatch.setattr(registry, "_entries", dict(registry))  # loads the built-in parts
        monkeypatch.setattr(registry, "_origins", dict(registry._origins))

    return isolate


@pytest.fixture
def unchecked_layers(monkeypatch):
    """Leave out the checks of custom layers, which train networks."""
    monkeypatch.setattr("relation_tf.bench.runner.record_layer_checks", lambda *_: [])


@pytest.fixture
def suite():
    """Return a function that creates a small suite of two methods."""

    def make(**changes):
        values = {
            "name": "small",
            "tasks": ["CoLA", "STS-B", "MNLI"],
            "seeds": [1, 2],
            "epochs": 3,
            "batch_size": 16,
            "embedding_dim": 12,
            "method": [
                Method(mechanism="relation", units=8),
                Method(mechanism="baseline", units=8),
            ],
        }
        return Suite(**(values | changes))

    return make


@pytest.fixture
def network(small_glue, suite):
    """Return a function that builds the compiled network of the first run of a task."""
    from relation_tf.tasks import load_task
    from relation_tf.training.task_trainer import TaskTrainer

    def make(name="CoLA", **changes):
        config = suite(tasks=[name], **changes).runs()[0]
        return TaskTrainer(config, load_task(name, data=small_glue)), config

    return make


@pytest.fixture
def scored_folder(suite, tmp_path):
    """Return a folder with a table of scores, scores.csv, and the runs of a suite, runs."""
    from tests.bench.finished_runs import finish_suite

    scores = [f"MR,{name},{seed},.{seed}" for name in ("CNN", "GRU") for seed in (1, 2, 3)]
    table = "\n".join(["task,method,seed,score", *scores, ""])
    (tmp_path / "scores.csv").write_text(table, encoding="utf-8")
    finish_suite(tmp_path / "runs", suite(tasks=["CoLA"]))
    return tmp_path
