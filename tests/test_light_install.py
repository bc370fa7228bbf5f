"""Tests of an installation without extras: no TensorFlow; for reports, not even Keras."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs import COMMANDS, Answer, python
from tests.test_release import setup_cfg
from tests.test_system import AS_ON_WINDOWS

OF_RUNS = {
    name.partition(">")[0].replace("-", "_")
    for name in setup_cfg("options.extras_require", "tensorflow")
}
# Python then finds no such packages, as if they were not installed.
HIDE = """
import sys
from importlib.machinery import PathFinder
hidden = {hidden!r}
class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, *rest):
        return None if name.partition(".")[0] in hidden else super().find_spec(name, *rest)
    @staticmethod
    def find_distributions(*of):
        found = PathFinder.find_distributions(*of)
        return (each for each in found if each.name.replace("-", "_") not in hidden)
sys.meta_path[sys.meta_path.index(PathFinder)] = Installed
"""
LAYERS = """
import numpy as np
import relation_tf
from relation_tf.networks import sequence_classifier
from tests.layers.cases import MIXERS
assert relation_tf.layers.Relation in MIXERS
for mixer in (relation_tf.layers.Relation, relation_tf.layers.Mamba2):
    assert mixer(4)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 4)
model = sequence_classifier("relation", vocabulary_size=9, num_classes=2, units=4)
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(np.ones((4, 5), "int32"), np.ones(4, "int32"), verbose=0)
"""


def without(
    hidden: set[str], folder: Path, program: str, *arguments: str, backend: str = "tensorflow"
) -> Answer:
    """Run a program with arguments where some packages are not installed."""
    hide = HIDE.format(hidden=hidden)
    environment = {"KERAS_BACKEND": backend, "JAX_DISABLE_MOST_OPTIMIZATIONS": "true"}  # faster
    return python(hide + program, folder, *arguments, **environment)


def test_runs_on_another_backend_are_refused_before_the_first(tmp_path):
    answer = python(COMMANDS, tmp_path, "run demo --out out", KERAS_BACKEND="jax")
    assert answer.returncode == 2
    assert answer.stderr.startswith("relation-tf: runs need KERAS_BACKEND=tensorflow. Received: ")
    assert not (tmp_path / "out").exists()


def test_reports_need_no_keras_and_nothing_that_windows_lacks(scored_folder):
    hidden = OF_RUNS | {"keras", "jax", "torch"}
    lines = "compare scores.csv --out compared", "report runs", "status runs"
    answer = without(hidden, scored_folder, AS_ON_WINDOWS + COMMANDS, *lines)
    assert (answer.returncode, answer.stderr) == (0, "")
    for folder in ("compared", "runs/report"):
        for name in ("report.html", "report.md", "report.tex", "scores.csv"):
            assert (scored_folder / folder / name).is_file()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_layers_and_networks_on_another_backend(tmp_path, backend):
    pytest.importorskip(backend, reason=f"pip install '.[{backend}]' brings the backend")
    hidden = OF_RUNS | {"jax", "torch"} - {backend}
    answer = without(hidden, tmp_path, LAYERS, backend=backend)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "what", "others"),
    [
        ("run demo", "training or loading a model", ""),
        ("check-layer relation", "the backend of Keras", ", or set KERAS_BACKEND to jax or torch"),
    ],
)
def test_commands_name_what_to_install(scored_folder, line, what, others):
    before = sorted(scored_folder.rglob("*"))
    answer = without(OF_RUNS, scored_folder, COMMANDS, line)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == (
        f"relation-tf: {what} needs the package tensorflow, which is not installed: "
        f"pip install 'relation-tf[tensorflow]'{others}.\n"
    )
    assert sorted(scored_folder.rglob("*")) == before
