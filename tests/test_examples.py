"""Tests of the scripts in examples/ and of the converted notebook."""

from __future__ import annotations

import importlib.util
import itertools
import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.backends import close
from tests.training.test_generation import LENGTH, PROMPT, write_folder

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
TUTORIAL = EXAMPLES / "replace_attention.py"
MECHANISMS = ("attention", "linear-attention", "relation")
REASON = "pip install '.[examples]' brings KerasHub and KerasTuner"

pytestmark = pytest.mark.tensorflow


def load(name):
    """Import a script of examples/."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def hub():
    pytest.importorskip("keras_hub", reason=REASON)
    return load("keras_hub_encoder")


def padded(token_ids, more=0):
    """Return the inputs of a backbone, with some more columns of padding."""
    token_ids = np.pad(np.array(token_ids), ((0, 0), (0, more)))
    return {"token_ids": token_ids, "padding_mask": token_ids != 0}


def backbone(hub, mechanism, **changes):
    sizes = {"num_layers": 2, "hidden_dim": 8, "intermediate_dim": 12, "max_sequence_length": 10}
    return hub.MixerBackbone(30, mechanism=mechanism, **sizes | changes)


IDS = [[5, 8, 13, 2], [7, 2, 0, 0]]


def ignores_padding(model, ids):
    padded_ids = np.pad(ids, ((0, 0), (0, 3)))
    close(model.predict(padded_ids, verbose=0), model.predict(ids, verbose=0))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_backbone_ignores_padding(hub, mechanism):
    model = backbone(hub, mechanism)
    short, long = model.predict(padded(IDS), verbose=0), model.predict(padded(IDS, 3), verbose=0)
    assert short.shape == (2, 4, 8)
    close(long[0, :4], short[0])
    close(long[1, :2], short[1, :2])
    other = padded(IDS)
    other["token_ids"][1, 2:] = 9
    masked = model.predict(other, verbose=0)
    close(masked[1, :2], short[1, :2])
    other["token_ids"][1, 1] = 9
    assert abs(model.predict(other, verbose=0)[1, 0] - short[1, 0]).max() > 1e-4


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_backbone_has_a_config(hub, mechanism):
    model = backbone(hub, mechanism, dropout=0.3, dtype="mixed_bfloat16")
    again = hub.MixerBackbone.from_config(model.get_config())
    assert type(again) is hub.MixerBackbone
    assert again.get_config() == model.get_config()
    assert again.mechanism == mechanism
    assert again.get_layer("mixer_1").get_config() == model.get_layer("mixer_1").get_config()
    assert again.get_layer("mixer_1").compute_dtype == "bfloat16"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_backbone_is_saved_and_loaded(hub, mechanism, tmp_path):
    import keras

    model = backbone(hub, mechanism)
    expected = model.predict(padded(IDS), verbose=0)
    model.save(tmp_path / "backbone.keras")
    loaded = keras.saving.load_model(tmp_path / "backbone.keras")
    assert type(loaded) is hub.MixerBackbone
    np.testing.assert_array_equal(loaded.predict(padded(IDS), verbose=0), expected)
    model.save_to_preset(str(tmp_path / "preset"))
    preset = hub.MixerBackbone.from_preset(str(tmp_path / "preset"))
    np.testing.assert_array_equal(preset.predict(padded(IDS), verbose=0), expected)


@pytest.mark.slow
def test_the_encoder_learns(hub, capsys):
    trained, loaded = hub.main("relation", epochs=4)
    assert trained == loaded > 0.6
    assert "after saving and loading" in capsys.readouterr().out


def test_the_model_of_the_page_ignores_padding():
    text = (EXAMPLES.parent / "docs" / "how-to" / "keras.md").read_text("utf-8")
    made = {}
    exec(text.partition("```python\n")[2].partition("```")[0], made)
    ignores_padding(made["model"], np.array([[5, 8, 13]]))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_model_of_the_tutorial_ignores_padding(mechanism, capsys):
    beginning = TUTORIAL.read_text("utf-8").partition("for name in MIXERS:")[0]
    made = {}
    exec(beginning, made)
    model = made["build_model"](made["make_mixer"](mechanism))
    ignores_padding(model, np.array([[5, 8, 13]]))
    assert "training rows: (1000, 10)" in capsys.readouterr().out


@pytest.fixture(scope="module")
def search():
    pytest.importorskip("keras_tuner", reason=REASON)
    return load("keras_tuner_search")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_models_of_the_search_ignore_padding(search, mechanism):
    from keras_tuner import HyperParameters

    chosen = HyperParameters()
    chosen.Fixed("mechanism", mechanism)
    model = search.build(chosen)
    assert {*chosen.values} == {"mechanism", "units", "learning_rate"}
    ignores_padding(model, np.array(IDS, "int32"))


@pytest.mark.slow
def test_the_search_returns_its_trials(search, capsys):
    trials = search.main(max_trials=3, epochs=2)
    scores = [trial.score for trial in trials]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert all(0.4 < score <= 1 for score in scores)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3
    assert all(trial.hyperparameters.values["mechanism"] in MECHANISMS for trial in trials)


@pytest.fixture
def lm(monkeypatch, tmp_path):
    """Return the model of lm_eval on an encoder with random weights; lm_eval is replaced."""
    monkeypatch.setitem(sys.modules, "lm_eval.__main__", SimpleNamespace(cli_evaluate=None))
    monkeypatch.setitem(sys.modules, "lm_eval.api.model", SimpleNamespace(LM=object))
    registry = SimpleNamespace(register_model=lambda name: lambda cls: cls)
    monkeypatch.setitem(sys.modules, "lm_eval.api.registry", registry)
    folder = write_folder(tmp_path / "causal", "attention")
    return load("lm_eval_model").CausalEncoder(folder, "attention", batch_size=4, device=None)


def requests(*arguments):
    return [SimpleNamespace(args=each) for each in arguments]


def naive_score(lm, ids, start):
    """Score each token with a call on the tokens that its window has before it."""
    total, greedy, end = 0.0, True, 0
    for i in range(start, len(ids)):
        if i >= end:  # the next window
            end = min(len(ids), LENGTH if i == 0 else max(i + LENGTH - 1, LENGTH))
            begin = max(0, end - LENGTH)
        logits = lm.network(np.array([ids[begin:i]]))[0, -1] if i else lm.network.bias
        logits = np.asarray(logits, float)
        total += logits[ids[i]] - np.logaddexp.reduce(logits)
        greedy &= logits.argmax() == ids[i]
    return total, greedy


@pytest.mark.parametrize(
    ("context", "text", "start"),
    [
        ("the cat", " eats", 2),
        ("the swi", "ms", 1),  # the whole word has other pieces
        (f"{PROMPT} {PROMPT}", f" {PROMPT} {PROMPT}", 12),
        ("", f"{PROMPT} {PROMPT}", 0),
        ("", "the", 0),
    ],
)
def test_lm_eval_gets_the_scores_of_one_token_at_a_time(lm, context, text, start):
    ids = lm.vocabulary.encode([context + text]).ids.tolist()
    ((total, greedy),) = lm.loglikelihood(requests((context, text)))
    expected = naive_score(lm, ids, start)
    close(total, expected[0])
    assert greedy == expected[1]
    (rolling,) = lm.loglikelihood_rolling(requests((context + text,)))
    close(rolling, naive_score(lm, ids, 0)[0])


def test_lm_eval_gets_greedy_texts(lm):
    (text,) = lm.generate_until(requests((PROMPT, {"max_gen_toks": 9})))
    again, stopped = lm.generate_until(requests(
        (PROMPT + text, {"max_gen_toks": 0}), (PROMPT, {"max_gen_toks": 9, "until": [text[4:7]]})
    ))  # fmt: skip
    assert (again, stopped) == ("", text[: text.index(text[4:7])])
    ((_, greedy),) = lm.loglikelihood(requests((PROMPT, lm.generate_until(
        requests((PROMPT, {"max_gen_toks": 1})))[0])))  # fmt: skip
    assert greedy


def changed(text, *replacements):
    """Replace each text, which must occur once."""
    for old, new in replacements:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


SHORT = (("SEEDS = [1, 2, 3, 4, 5]", "SEEDS = [1, 2]"), ("EPOCHS = 8", "EPOCHS = 1"))


def run(source, folder):
    script = folder / "script.py"
    script.write_text(source, encoding="utf-8")
    return runpy.run_path(str(script))


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path, capsys):
    made = run(changed(TUTORIAL.read_text("utf-8"), *SHORT), tmp_path)
    assert {name: len(values) for name, values in made["scores"].items()} == dict.fromkeys(
        MECHANISMS, 2
    )
    assert made["x_train"].shape[0] == 1000
    assert made["differences"].pvalue.shape == (3, 3)
    assert [*made["verdicts"].table.index] == ["linear-attention", "relation"]
    printed = capsys.readouterr().out
    assert "linear-attention: 31,938 parameters" in printed
    assert "No worse than attention?" in printed


@pytest.mark.slow
def test_the_tutorial_runs_on_the_reviews_of_imdb(tmp_path):
    """Run with the line that the text shows, on the files of its dataset."""
    for split, label, row in itertools.product(("train", "test"), ("neg", "pos"), range(20)):
        review = tmp_path / "aclImdb" / split / label / f"{row}_1.txt"
        review.parent.mkdir(parents=True, exist_ok=True)
        review.write_text(f"{label} {'so ' * (row % 5)}")
    text = TUTORIAL.read_text("utf-8")
    (shown,) = (part.partition("```")[0] for part in text.split("```python\n")[1:])
    used = changed(shown.strip(), ('data="."', f'data="{tmp_path}"'))
    built_in = '\nTASK = load_task("CoLA", source="miniglue")\n'
    made = run(changed(text, *SHORT, (built_in, f"\n{used}\n")), tmp_path)
    assert made["TASK"].task.name == "IMDb"
    assert len(made["x_train"]) + len(made["x_val"]) == 40


def test_the_notebook_is_that_of_the_script(tmp_path):
    script = tmp_path / TUTORIAL.name
    script.write_text(TUTORIAL.read_text("utf-8"), encoding="utf-8")
    load("to_notebook").write(script)
    converted = script.with_suffix(".ipynb").read_text("utf-8")
    assert converted == TUTORIAL.with_suffix(".ipynb").read_text("utf-8"), (
        "run: python examples/to_notebook.py examples/replace_attention.py"
    )


def test_the_notebook_has_the_code_and_the_text_of_the_script():
    notebook = json.loads(TUTORIAL.with_suffix(".ipynb").read_text("utf-8"))
    first, title, *cells = notebook["cells"]
    assert "".join(first["source"]) == '%pip install "relation-tf[tensorflow]"'
    assert first["cell_type"] == "code"
    assert "".join(title["source"]).startswith("# Replace attention with a linear mechanism")
    text = TUTORIAL.read_text("utf-8")
    assert [cell["source"] for cell in cells if "".join(cell["source"]) not in text] == []
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in code)
    lines = {line.strip() for cell in cells for line in cell["source"]}
    body = text.split('"""\n', 2)[2].replace(
        '"""shell\npip install "relation-tf[tensorflow]"\n"""\n', ""
    )
    missing = {line.strip() for line in body.splitlines()} - lines - {"", '"""'}
    assert missing == set()


def test_the_notebook_is_valid():
    nbformat = pytest.importorskip("nbformat", reason="of the extra notebooks")
    nbformat.validate(nbformat.read(TUTORIAL.with_suffix(".ipynb"), as_version=4))


def test_the_tutorial_has_the_header_of_keras_io():
    lines = TUTORIAL.read_text("utf-8").splitlines()
    fields = ["Title", "Author", "Date created", "Last modified", "Description", "Accelerator"]
    assert lines[0] == lines[7] == '"""'
    assert [line.partition(": ")[0] for line in lines[1:7]] == fields
    description = lines[5].partition(": ")[2]
    assert len(description) <= 100
    assert description.endswith(".")
    assert [
        line for line in lines if line.startswith('"""') and line not in ('"""', '"""shell')
    ] == []
