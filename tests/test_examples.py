"""Tests of the scripts in examples/ and of the converted notebook."""

from __future__ import annotations

import importlib.util
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


def test_the_backbone_is_saved_and_loaded(hub, tmp_path):
    import keras

    model = backbone(hub, "relation", dropout=0.3)
    expected = model.predict(padded(IDS), verbose=0)
    model.save(tmp_path / "backbone.keras")
    loaded = keras.saving.load_model(tmp_path / "backbone.keras")
    assert type(loaded) is hub.MixerBackbone
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(loaded.predict(padded(IDS), verbose=0), expected)
    model.save_to_preset(str(tmp_path / "preset"))
    preset = hub.MixerBackbone.from_preset(str(tmp_path / "preset"))
    np.testing.assert_array_equal(preset.predict(padded(IDS), verbose=0), expected)


@pytest.mark.slow
def test_the_encoder_learns(hub):
    trained, loaded = hub.main("relation", epochs=4)
    assert trained == loaded > 0.6


def test_the_model_of_the_tutorial_ignores_padding():
    beginning = TUTORIAL.read_text("utf-8").partition("for name in MIXERS:")[0]
    made = {}
    exec(beginning, made)
    ignores_padding(made["build_model"](made["make_mixer"]("relation")), np.array([[5, 8, 13]]))


@pytest.fixture(scope="module")
def search():
    pytest.importorskip("keras_tuner", reason=REASON)
    return load("keras_tuner_search")


def test_models_of_the_search_ignore_padding(search):
    from keras_tuner import HyperParameters

    chosen = HyperParameters()
    chosen.Fixed("mechanism", "relation")
    model = search.build(chosen)
    assert {*chosen.values} == {"mechanism", "units", "learning_rate"}
    ignores_padding(model, np.array(IDS, "int32"))


@pytest.mark.slow
def test_the_search_returns_its_trials(search):
    trials = search.main(max_trials=3, epochs=2)
    scores = [trial.score for trial in trials]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert all(0.4 < score <= 1 for score in scores)
    assert all(trial.hyperparameters.values["mechanism"] in MECHANISMS for trial in trials)


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    """Return the model of lm_eval on an encoder with random weights; lm_eval is replaced."""
    replaced = {
        "__main__": {"cli_evaluate": None},
        "api.model": {"LM": object},
        "api.registry": {"register_model": lambda name: lambda cls: cls},
    }
    folder = write_folder(tmp_path_factory.mktemp("causal"), "attention")
    with pytest.MonkeyPatch.context() as patch:
        for name, values in replaced.items():
            patch.setitem(sys.modules, f"lm_eval.{name}", SimpleNamespace(**values))
        module = load("lm_eval_model")
    return module.CausalEncoder(folder, "attention", batch_size=4, device=None)


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
def test_the_tutorial_runs(tmp_path):
    made = run(changed(TUTORIAL.read_text("utf-8"), *SHORT), tmp_path)
    assert {name: len(values) for name, values in made["scores"].items()} == dict.fromkeys(
        MECHANISMS, 2
    )
    assert made["x_train"].shape[0] == 1000
    assert made["differences"].pvalue.shape == (3, 3)
    assert [*made["verdicts"].table.index] == ["linear-attention", "relation"]


def test_the_notebook_is_that_of_the_script(tmp_path):
    script = tmp_path / TUTORIAL.name
    script.write_text(TUTORIAL.read_text("utf-8"), encoding="utf-8")
    load("to_notebook").write(script)
    converted = script.with_suffix(".ipynb").read_text("utf-8")
    assert converted == TUTORIAL.with_suffix(".ipynb").read_text("utf-8"), (
        "run: python examples/to_notebook.py examples/replace_attention.py"
    )
