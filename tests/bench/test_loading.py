"""Models of finished runs: kept, loaded, and their predictions."""

from __future__ import annotations

import functools
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import relation_tf
from relation_tf.bench import run_suite
from relation_tf.bench import train as training
from relation_tf.bench.run_folder import write_result
from relation_tf.config import Method
from relation_tf.config.suite import make_suite
from relation_tf.errors import DataError, SuiteError
from relation_tf.files import read_json
from relation_tf.registry import MECHANISMS, STOPPING_RULES
from relation_tf.tasks import find_source
from tests.backends import close
from tests.programs import python

pytestmark = pytest.mark.tensorflow

RELATION = Method(mechanism="relation", units=8)
SMALL = {
    "name": "small",
    "seeds": [1],
    "epochs": 4,
    "batch_size": 16,
    "embedding_dim": 12,
    "learning_rate": 0.01,
    "save_models": True,
}


def train(folder, data, **changes):
    """Train a suite and return the folder of its only run."""
    suite = make_suite("small", {**SMALL, "method": [RELATION], **changes})
    results = run_suite(suite, folder, data=data, quiet=True)
    assert not results.failures
    return Path(results.runs[0]["folder"])


@pytest.fixture(scope="module")
def trained(small_glue, tmp_path_factory):
    """Return a function that trains a task once."""

    @functools.cache
    def make(task):
        return train(tmp_path_factory.mktemp(task), small_glue, tasks=[task])

    return make


@pytest.fixture
def run(trained, tmp_path):
    """Return a copy of a run's folder."""
    return shutil.copytree(trained("CoLA"), tmp_path / "seed-1")


def texts_of(name, data, split="dev"):
    columns = find_source(name, data=data).read().splits[split].texts
    return [*columns[0]] if len(columns) == 1 else [*zip(*columns, strict=True)]


def predictions(run, name):
    return pd.read_csv(run / "predictions" / f"{name}.tsv", sep="\t", dtype={"prediction": str})


@pytest.mark.parametrize("name", ["CoLA", "RTE"])
def test_labels_and_probabilities_are_those_of_the_run(trained, small_glue, name):
    model, found = relation_tf.load(trained(name)), predictions(trained(name), f"{name}.dev")
    texts = texts_of(name, small_glue)
    assert model.predict(texts).tolist() == found["prediction"].tolist()
    expected = found[[f"probability_{label}" for label in model.labels]].to_numpy()
    assert np.ptp(expected[:, 0]) > 1e-3  # the texts differ
    close(model.predict_proba(texts), expected)
    tests = predictions(trained(name), f"{name}.test")["prediction"]
    assert model.predict(texts_of(name, small_glue, "test")).tolist() == tests.tolist()
    few = model.predict_proba(texts[:3])  # other batches
    close(few, expected[:3])


def test_scores_of_a_regression_are_those_of_the_run(trained, small_glue):
    model = relation_tf.load(trained("STS-B"))
    expected = predictions(trained("STS-B"), "STS-B.dev")["prediction"].astype(float)
    assert np.ptp(expected) > 1e-3  # the texts differ
    close(model.predict(texts_of("STS-B", small_glue)), expected)
    with pytest.raises(DataError, match="STS-B has no classes: a score from 0 to 5"):
        model.predict_proba([("a", "b")])


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": "wordpiece", "start_token": True, "max_length": 5, "vocabulary_size": 90},
        {"precision": "bfloat16", "network": "plain"},
    ],
    ids=["pieces", "words"],
)
def test_texts_are_encoded_as_in_the_run(small_glue, tmp_path, changes):
    run = train(tmp_path, small_glue, tasks=["CoLA"], **changes)
    model, texts = relation_tf.load(run), texts_of("CoLA", small_glue)
    found = predictions(run, "CoLA.dev")
    assert model.predict(texts).tolist() == found["prediction"].tolist()
    (ids,) = model.encode(texts[:2])
    close(np.array(model.model(ids)), model.predict_proba(texts[:2]), 1e-2)


def test_nothing_else_of_a_run_changes(trained, small_glue, tmp_path):
    kept = trained("CoLA")
    plain = train(tmp_path, small_glue, tasks=["CoLA"], save_models=False)
    for name in ("config.json", "predictions/CoLA.dev.tsv", "predictions/CoLA.test.tsv"):
        assert (plain / name).read_bytes() == (kept / name).read_bytes()
    results = [json.loads((run / "result.json").read_text()) for run in (plain, kept)]
    assert results[0].keys() == results[1].keys()
    assert results[0]["metrics"] == results[1]["metrics"]
    before = (plain / "result.json").stat().st_mtime_ns
    assert train(tmp_path, small_glue, tasks=["CoLA"]) == plain  # finished: not trained again
    assert (plain / "result.json").stat().st_mtime_ns == before
    with pytest.raises(SuiteError, match=r"has no model.keras. Set save_models = true"):
        relation_tf.load(plain)


def test_a_run_that_ends_after_its_model_is_written_resumes(small_glue, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "_result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, small_glue, tasks=["CoLA"])
    (model,) = tmp_path.glob("runs/*/*/*/model.keras")
    with pytest.raises(SuiteError, match=r"not finished \(no result.json\)"):
        relation_tf.load(model.parent)
    run = train(tmp_path, small_glue, tasks=["CoLA"])
    assert relation_tf.load(run).predict(["so good"]).shape == (1,)


LAYER = """
import keras

@keras.saving.register_keras_serializable(package="kept_layer")
class Mine(keras.layers.Dense):
    def call(self, x, mask=None):
        return super().call(x)

class Unsaved(keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(units)
    def build(self, shape):
        self.dense.build(shape)
    def call(self, x, mask=None):
        return self.dense(x)
"""


@pytest.mark.usefixtures("unchecked_layers")
def test_custom_layers(small_glue, tmp_path, monkeypatch):
    (tmp_path / "kept_layer.py").write_text(LAYER)
    monkeypatch.syspath_prepend(str(tmp_path))
    one = {"tasks": ["CoLA"], "epochs": 1}
    saved = {"mechanism": "kept_layer:Mine", "units": 8}
    run = train(tmp_path / "a", small_glue, **one, method=[saved])
    found = predictions(run, "CoLA.dev")["prediction"]
    assert relation_tf.load(run).predict(texts_of("CoLA", small_glue)).tolist() == found.tolist()
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "mechanism_digest": "0" * 16}))
    with pytest.raises(SuiteError, match="its layer has changed since the run"):
        relation_tf.load(run)
    method = {"mechanism": "kept_layer:Unsaved", "units": 8}
    suite = make_suite("small", SMALL | one | {"method": [method]})
    ((_, error),) = run_suite(suite, tmp_path / "b", data=small_glue, quiet=True).failures
    assert error.startswith("key 'save_models': must be false for method Unsaved-8, which Keras")


def test_folders_without_a_model_are_refused(run, trained, tmp_path):
    with pytest.raises(SuiteError, match=r"not the folder of a run.*no config.json"):
        relation_tf.load(tmp_path)
    suite = trained("CoLA").parents[3]
    with pytest.raises(SuiteError, match=r"Did you mean '.*runs/CoLA/relation-8/seed-1'\?"):
        relation_tf.load(suite)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "units": 0}))
    with pytest.raises(SuiteError, match=r"config.json: key 'units'"):
        relation_tf.load(run)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["versions"]["relation_tf"] = "99.1.0"
    (run / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(SuiteError, match=r"written by relation_tf 99.1.0. Received: relation_tf"):
        relation_tf.load(run)


@pytest.mark.usefixtures("few_rows")
def test_models_of_generated_tasks_are_refused(tmp_path):
    run = train(tmp_path, None, tasks=["parity"])
    with pytest.raises(SuiteError, match=r"one task with texts\. Received: parity\. .*load_model"):
        relation_tf.load(run)


def test_a_broken_file_is_one_line(run):
    (run / "model.keras").write_bytes(b"broken")
    write_result(run, read_json(run / "result.json"))  # as if it had been written broken
    with pytest.raises(SuiteError, match=r"model\.keras: cannot be loaded") as caught:
        relation_tf.load(run)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("task", "texts", "message"),
    [
        ("CoLA", "so good", "texts must be a list. Received: a string"),
        ("CoLA", pd.DataFrame({"text": ["so"]}), "texts must be a list. Received: a DataFrame"),
        ("CoLA", ["so", "ok \ud83d"], "text 1: expected text, found a lone surrogate"),
        ("CoLA", [], "texts must have one or more texts"),
        ("CoLA", [("so", "good")], "text 0 must be a string for task CoLA"),
        ("RTE", ["so"], "text 0 must be a pair of strings for task RTE. Received: 'so'"),
    ],
)
def test_texts_of_a_wrong_form_are_refused(trained, task, texts, message):
    with pytest.raises(DataError, match=message):
        relation_tf.load(trained(task)).predict(texts)


PLUGIN = """
import keras
from relation_tf.registry import register_mechanism, register_stopping_rule
from relation_tf.training.stopping import Stop, StoppingRule

@register_mechanism("max-pool", output_type="vector", head="vector", positions=None)
@keras.saving.register_keras_serializable(package="kept_parts")
class MaxPool(keras.layers.Dense):
    def call(self, x, mask=None):
        y = keras.ops.where(mask[..., None], super().call(x), -1e9)
        return keras.ops.max(y, axis=1)
    def compute_output_shape(self, input_shape):
        return input_shape[0], self.units

@register_stopping_rule("kept-once", fewest_epochs=lambda settings: 1, description="One epoch.")
class Once(StoppingRule):
    def update(self, epoch, value, weights):
        return Stop("one epoch", epoch)
"""

LOADING = """
import sys
import relation_tf
model = relation_tf.load(sys.argv[1])
print(model.predict(sys.argv[2:]).tolist())
"""


@pytest.fixture
def plugged(tmp_path, small_glue, monkeypatch, isolated):
    """Train with a plugin and without a test file; return the folder of the run."""
    for registry in (MECHANISMS, STOPPING_RULES):
        isolated(registry)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("relation_tf.bench.runner.record_layer_checks", lambda *_: [])
    (tmp_path / "kept_parts.py").write_text(PLUGIN)
    data = tmp_path / "data"
    shutil.copytree(small_glue / "CoLA", data / "CoLA", ignore=shutil.ignore_patterns("test.tsv"))
    changes = {"plugins": ["kept_parts"], "tasks": ["CoLA"], "stopping": "kept-once"}
    yield train(tmp_path / "out", data, method=[{"mechanism": "max-pool", "units": 8}], **changes)
    sys.modules.pop("kept_parts", None)


@pytest.mark.slow
def test_another_process_imports_the_plugins_of_the_model(
    plugged, small_glue, tmp_path, monkeypatch
):
    """Keras finds the layers of a file only if their modules are imported; nothing is printed."""
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    found = predictions(plugged, "CoLA.dev")["prediction"][:4].tolist()
    answer = python(LOADING, tmp_path, str(plugged), *texts_of("CoLA", small_glue)[:4])
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, f"{found}\n", "")


def test_a_changed_plugin_is_refused(plugged, tmp_path):
    relation_tf.load(plugged)
    (tmp_path / "kept_parts.py").write_text(f"{PLUGIN}\nCHANGED = True\n")
    with pytest.raises(SuiteError, match="method max-pool-8: its plugins have changed"):
        relation_tf.load(plugged)
