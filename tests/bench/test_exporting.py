"""Exported models, read by the libraries of their formats, and their model cards."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import relation_tf
from relation_tf import cli
from relation_tf.bench import export_model, exporting, run_suite
from relation_tf.bench.checksums import write_result
from relation_tf.config.loading import make_suite
from relation_tf.errors import SuiteError
from relation_tf.networks import sequence_classifier, token_classifier
from relation_tf.registry import MECHANISMS
from relation_tf.stats.summary import mean_interval
from tests.backends import close

ROOT = Path(__file__).resolve().parents[2]
LENGTHS = (1, 5, 33, 130)

pytestmark = pytest.mark.tensorflow


def has(*modules):
    """Skip a test if a package of an extra is missing."""
    for module in modules:
        pytest.importorskip(module, reason=f"needs the package {module}, an extra")


@pytest.fixture(scope="module")
def runs(small_glue, tmp_path_factory):
    """Train two tasks with two seeds; return the folders of the runs by task, of seed 1."""
    values = {
        "name": "small",
        "tasks": ["CoLA", "RTE"],
        "seeds": [1, 2],
        "epochs": 3,
        "batch_size": 16,
        "embedding_dim": 12,
        "learning_rate": 0.01,
        "start_token": True,
        "save_models": True,
        "method": [{"mechanism": "relation", "units": 8}],
    }
    folder = tmp_path_factory.mktemp("runs")
    run_suite(make_suite("small", values), folder, data=small_glue, quiet=True)
    return {name: folder / "runs" / name / "relation-8" / "seed-1" for name in ("CoLA", "RTE")}


@pytest.fixture(scope="module", params=["CoLA", "RTE"], ids=["text", "pair"])
def trained(request, runs):
    return relation_tf.load(runs[request.param])


def inputs_of(trained, length):
    """Return two rows of ids for each input, one of them padded."""
    random = np.random.default_rng(length)
    ids = random.integers(1, trained.vocabulary.size, (2, 2, length), dtype=np.int32)
    ids[:, 1, length // 2 + 1 :] = 0
    return [*ids[: len(trained.model.inputs)]]


def outputs_of(model, inputs):
    return np.array(model(inputs[0] if len(inputs) == 1 else inputs))


def same(trained, compute):
    """Check outputs at several lengths."""
    for length in LENGTHS:
        inputs = inputs_of(trained, length)
        expected = outputs_of(trained.model, inputs)
        close(compute(inputs), expected)


def test_keras_reads_the_model(trained, tmp_path):
    out = export_model(trained.folder, tmp_path / "out")
    model = keras.saving.load_model(out / "model.keras")
    same(trained, lambda inputs: outputs_of(model, inputs))
    again = relation_tf.load(out)  # without the folder of the suite
    texts = ["so good it is"] if len(trained.model.inputs) == 1 else [("so good", "it is")]
    np.testing.assert_array_equal(again.predict_proba(texts), trained.predict_proba(texts))


def test_tensorflow_reads_the_model(trained, tmp_path):
    out = export_model(trained.folder, tmp_path / "out", "saved-model")
    model = tf.saved_model.load(out / "saved-model")
    same(trained, lambda ids: np.array(model.serve(ids[0] if len(ids) == 1 else ids)))


def test_onnxruntime_reads_the_model(trained, tmp_path, monkeypatch):
    has("onnx", "tf2onnx", "onnxruntime")
    import onnxruntime

    monkeypatch.delenv("ORT_DISABLE_TELEMETRY")
    out = export_model(trained.folder, tmp_path / "out", "onnx")
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
    session = onnxruntime.InferenceSession(out / "model.onnx")
    names = [each.name for each in session.get_inputs()]
    same(trained, lambda ids: session.run(None, dict(zip(names, ids, strict=True)))[0])


def test_safetensors_reads_the_weights(trained, tmp_path):
    has("safetensors")
    from safetensors.numpy import load_file

    out = export_model(trained.folder, tmp_path / "out", "safetensors")
    tensors = load_file(out / "model.safetensors")
    model = keras.models.model_from_json((out / "architecture.json").read_text())
    for weight, name in zip(model.weights, sorted(tensors), strict=True):
        assert weight.shape == tensors[name].shape
        weight.assign(tensors[name])
    same(trained, lambda inputs: outputs_of(model, inputs))
    (embedding,) = [name for name in tensors if "embedding" in name]
    assert tensors[embedding].shape == (trained.vocabulary.size, 12)


def code_of(card):
    return re.findall(r"^```python\n(.*?)^```$", card.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("kind", ["saved-model", "onnx", "safetensors"])
def test_the_code_of_the_card_runs(runs, tmp_path, monkeypatch, kind):
    has(*exporting._FORMATS[kind].packages)
    out = export_model(runs["CoLA"], tmp_path / "out", kind)
    loading, encoding = code_of(out / "README.md")
    (tmp_path / "program.py").write_text(encoding + loading)
    monkeypatch.chdir(out)
    made = runpy.run_path(str(tmp_path / "program.py"))
    trained = relation_tf.load(runs["CoLA"])
    np.testing.assert_array_equal(made["ids"], trained.encode(["a text"])[0])
    close(made["outputs"], trained.predict_proba(["a text"]))


@pytest.mark.slow
def test_another_process_reads_the_model_with_keras_alone(runs, tmp_path):
    out = export_model(runs["RTE"], tmp_path / "out")
    first, second = code_of(out / "README.md")
    assert 'relation_tf.load("FOLDER")' in first
    assert 'trained.predict([["a text", "another text"]])' in first
    program = f"{second}\nprint(model.count_params())"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=out,
        env={"PATH": "", "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    assert int(answer.stdout) == relation_tf.load(runs["RTE"]).model.count_params()


def test_the_card(runs, tmp_path):
    suite = shutil.copytree(runs["RTE"].parents[3], tmp_path / "runs")
    run = suite / runs["RTE"].relative_to(runs["RTE"].parents[3])
    other = run.with_name("seed-2") / "result.json"
    changed = json.loads(other.read_text())
    changed["metrics"]["RTE"]["accuracy"] += 0.1
    write_result(other.parent, changed)
    text = (export_model(run, tmp_path / "out") / "README.md").read_text()
    manifest = json.loads((run / "manifest.json").read_text())
    values = [
        100 * json.loads((each / "result.json").read_text())["metrics"]["RTE"]["accuracy"]
        for each in (run, run.with_name("seed-2"))
    ]
    low, high = mean_interval(values)
    assert high - low > 1
    assert text.startswith("---\nlibrary_name: keras\n")
    assert "# license: add the license of your model" in text
    assert "| task | metric | seed 1 (this model) | mean of 2 seeds | 95 % interval of" in text
    assert (
        f"| RTE | acc. | {values[0]:.2f} | {np.mean(values):.2f} | {low:.2f} to {high:.2f} |"
    ) in text
    for fact in (
        "| labels, in the order of the outputs | entailment, not_entailment |",
        f"| SHA-256 of train | `{manifest['data']['digests']['train']}` |",
        f"tensorflow {manifest['versions']['tensorflow']}",
        f"| command | `{manifest['command']}` |",
        f"{json.loads((run / 'result.json').read_text())['parameters']['total']:,} total",
    ):
        assert fact in text
    assert "safe_mode" not in text
    unsafe = (export_model(run, tmp_path / "unsafe", safe_mode=False) / "README.md").read_text()
    assert unsafe.count(", safe_mode=False)") == 2
    alone = shutil.copytree(run, tmp_path / "seed-1")
    text = (export_model(alone, tmp_path / "alone") / "README.md").read_text()
    assert f"| --- | --- | --- |\n| RTE | acc. | {values[0]:.2f} |\n" in text


def test_the_card_of_a_group_names_its_tasks(small_glue, tmp_path):
    values = {
        "name": "small", "tasks": ["both"], "seeds": [1], "epochs": 1, "save_models": True,
        "group": [{"name": "both", "tasks": ["CoLA", "RTE"]}],
        "method": [{"mechanism": "baseline", "units": 4}],
    }  # fmt: skip
    results = run_suite(make_suite("small", values), tmp_path / "out", data=small_glue, quiet=True)
    folder = results.runs[0]["folder"]
    text = (export_model(folder, tmp_path / "model", task="RTE") / "README.md").read_text()
    assert "trained on the tasks CoLA, RTE together with seed 1" in text
    assert "| parameters of the networks of all tasks |" in text


def test_the_code_of_an_unsafe_card_runs(runs, tmp_path, monkeypatch):
    has("safetensors")
    out = export_model(runs["CoLA"], tmp_path / "out", "safetensors", safe_mode=False)
    loading, encoding = code_of(out / "README.md")
    assert "safe_mode=False" in loading
    (tmp_path / "program.py").write_text(encoding + loading)
    monkeypatch.chdir(out)
    assert len(runpy.run_path(str(tmp_path / "program.py"))["outputs"]) == 1


def test_what_cannot_be_exported_is_refused(runs, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="unknown format 'pickle'"):
        export_model(runs["CoLA"], tmp_path / "out", "pickle")
    (tmp_path / "there").mkdir()
    with pytest.raises(SuiteError, match=r"there: exists already. Choose another --out"):
        export_model(runs["CoLA"], tmp_path / "there")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if "onnx" in name else find(name)
    )
    with pytest.raises(SuiteError, match=r"onnx, which is not .* 'relation-tf\[onnx\]'"):
        export_model(runs["CoLA"], tmp_path / "out", "onnx")


def test_a_mechanism_that_onnx_lacks_leaves_no_files(small_glue, tmp_path):
    has("onnx", "tf2onnx", "onnxruntime")
    values = {"name": "small", "tasks": ["CoLA"], "seeds": [1], "epochs": 1, "embedding_dim": 12,
              "save_models": True, "method": [{"mechanism": "gmlp", "units": 8}]}  # fmt: skip
    results = run_suite(make_suite("small", values), tmp_path / "a", data=small_glue, quiet=True)
    with pytest.raises(SuiteError, match="format 'onnx': cannot export gmlp-8: ") as caught:
        export_model(results.runs[0]["folder"], tmp_path / "out", "onnx")
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_command(runs, tmp_path, monkeypatch, capsys):
    def typed(*words):
        monkeypatch.setattr(sys, "argv", ["relation-tf", "export", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code

    assert not typed(runs["CoLA"], "--format", "saved-model", "--out", tmp_path / "out")
    assert capsys.readouterr().out == f"exported to {tmp_path / 'out'}\n"
    assert (tmp_path / "out" / "saved-model" / "saved_model.pb").is_file()
    assert typed(tmp_path, "--out", tmp_path / "other") == 2
    assert "not the folder of a run" in capsys.readouterr().err
    assert typed(runs["CoLA"], "--format", "pickle", "--out", tmp_path / "other") == 2
    assert "'keras', 'saved-model', 'onnx', 'safetensors'" in capsys.readouterr().err


@pytest.mark.slow
def test_rounding_is_relative_to_large_outputs(tmp_path):
    has("onnx", "tf2onnx", "onnxruntime")
    keras.utils.set_random_seed(1)
    model = token_classifier("relation", 64, 32, embedding_dim=64, units=64)
    for name, factor in (("output", 32), ("embedding", 160)):
        layer = model.get_layer(name)
        layer.set_weights([factor * weight for weight in layer.get_weights()])
    stub = SimpleNamespace(
        model=model, vocabulary=SimpleNamespace(size=64), config=SimpleNamespace(method="relation")
    )
    assert np.abs(model(exporting._some_ids(stub, 40)[0])).max() > 100
    exporting._write_onnx(stub, tmp_path)


@pytest.mark.slow
def test_the_page_names_the_mechanisms_that_onnx_lacks(tmp_path):
    has("onnx", "tf2onnx", "onnxruntime")
    options = {"encoder": {"mechanism": "relation"}}
    lacking = set()
    for name in MECHANISMS:
        origin = MECHANISMS.origin(name)
        if "networks" not in origin or MECHANISMS[name].output_type == "sequence":
            continue
        keras.utils.set_random_seed(1)
        model = sequence_classifier(
            name, 50, 3, units=16, embedding_dim=12, options=options.get(name, {})
        )
        for weight in model.weights:  # outputs of initial weights hardly differ
            weight.assign(weight + keras.random.normal(weight.shape, stddev=0.2))
        stub = SimpleNamespace(
            model=model,
            vocabulary=SimpleNamespace(size=50),
            config=SimpleNamespace(method=name),
        )
        try:
            exporting._write_onnx(stub, tmp_path)
        except SuiteError:
            lacking.add(name)
    text = (ROOT / "docs" / "how-to" / "models.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"ONNX cannot represent ([^.]*)\.", text)
    assert set(re.findall(r"`([^`]+)`", sentence)) == lacking
