"""Text generation, compared with the argmax of the whole text at each step."""

from __future__ import annotations

import json

import keras
import numpy as np
import pytest

from relation_tf.config.layer_source import custom_digest
from relation_tf.errors import OptionError, RelationError, SuiteError
from relation_tf.layers.base import BaseLayer, built_child
from relation_tf.networks.language_model import language_model
from relation_tf.networks.mechanisms import custom_layers
from relation_tf.networks.sampling import next_token_probabilities
from relation_tf.tasks.vocabulary import Vocabulary
from relation_tf.training import GenerationSettings, generate, load_pretrained
from relation_tf.training.generation import make_language_model
from relation_tf.training.pretrained import WEIGHTS, write_weights
from tests.backends import close

pytestmark = pytest.mark.tensorflow

TEXT = ["the cat eats and the dog runs , but the bird sings . the fish swims !"] * 2
PROMPT = "The dog sings , but the"
MECHANISMS = ["relation", "linear-attention", "attention"]
LENGTH = 8


@keras.saving.register_keras_serializable("tests")
class MeanSoFar(BaseLayer):
    """A causal layer without `step`."""

    def __init__(self, units, causal=False, **kwargs):
        super().__init__(**kwargs)
        self.units, self.causal = units, causal

    def build(self, shape):
        self.dense = built_child(self, keras.layers.Dense, "dense", shape[-1], self.units)
        self.built = True

    def call(self, x, mask=None):
        count = keras.ops.arange(1, keras.ops.shape(x)[1] + 1, dtype=x.dtype)[:, None]
        return self.dense(keras.ops.cumsum(x, axis=1) / count)


class Growing(MeanSoFar):
    """A causal layer with a state that grows."""

    def initial_state(self, batch_size, max_length=None):
        return keras.ops.zeros((batch_size, 0, self.units))

    def step(self, x, state, mask=None):
        state = keras.ops.concatenate([state, self.dense(x)], axis=1)
        return keras.ops.mean(state, axis=1, keepdims=True), state


def write_folder(path, *mechanisms, objective="causal", embedding_dim=6, bias=(), seeds=(1,)):
    """Write a folder of pre-training with random weights."""
    vocabulary = Vocabulary.train(TEXT, 80, "wordpiece")
    settings = {
        "objective": objective, "embedding_dim": embedding_dim, "units": 8, "num_layers": 1,
        "norm": "pre", "dropout": 0.1, "threads": 1, "length": LENGTH,
    }  # fmt: skip
    path.mkdir(exist_ok=True)
    (path / "vocabulary.json").write_text(vocabulary.to_json())
    (path / "pretraining.json").write_text(json.dumps(settings))
    for mechanism in mechanisms:
        keras.utils.set_random_seed(0)
        model = language_model(
            mechanism, vocabulary.size, objective, embedding_dim, num_layers=1, units=8
        )
        for seed in seeds:
            rng = np.random.default_rng(seed)
            for weight in model.weights:
                weight.assign(weight + 0.2 * rng.normal(size=weight.shape))
            for i, value in dict(bias).items():
                model.bias.assign(np.where(np.arange(vocabulary.size) == i, value, model.bias))
            method = mechanism.rpartition(":")[2]
            run = path / "runs" / method / f"seed-{seed}"
            run.mkdir(parents=True)
            projection = model.projection and model.projection.get_weights()[0]
            write_weights(
                run / WEIGHTS,
                model.embedding.get_weights()[0][: vocabulary.size] * model.embedding_scale,
                model.encoder.get_weights(),
                np.asarray(model.bias),
                projection,
            )
            digest = custom_digest(custom_layers(mechanism, {}), "mechanisms")
            facts = {"method": method, "mechanism": mechanism, "seed": seed}
            facts["mechanism_digest"] = digest
            (run / "config.json").write_text(json.dumps(settings | facts))
            (run / "result.json").write_text(
                json.dumps(facts | {"perplexity": 1.0, "tokens_per_second": 1.0})
            )
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("made"), *MECHANISMS, seeds=(1, 2))


def naive_greedy(folder, mechanism, tokens):
    """Apply the model to the whole text for each token."""
    pretrained = load_pretrained(folder, mechanism)
    model = make_language_model(pretrained)
    words = {i: word for word, i in pretrained.vocabulary.words.items()}
    ids = pretrained.vocabulary.encode([PROMPT]).ids.tolist()
    for _ in range(tokens):
        logits = np.array(model(np.array([ids])))[0, -1]
        logits[:2] = -np.inf
        ids.append(int(logits.argmax()))
    text = PROMPT
    for i in ids[-tokens:]:
        piece = words[i]
        inside = piece.startswith("##") or piece in ",.!"
        text += piece.removeprefix("##") if inside else f" {piece}"
    return text


def test_a_changed_layer_is_refused(tmp_path):
    folder = write_folder(tmp_path, f"{__name__}:MeanSoFar", embedding_dim=8)
    path = folder / "runs" / "MeanSoFar" / "seed-1" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"mechanism_digest": "0" * 16}))
    with pytest.raises(SuiteError, match=r"its layer .*:MeanSoFar has changed since the pre-trai"):
        make_language_model(load_pretrained(folder, "MeanSoFar"))


@pytest.mark.parametrize("mechanism", [*MECHANISMS, f"{__name__}:MeanSoFar"])
def test_greedy_takes_the_most_probable_token_of_the_whole_text(folder, tmp_path, mechanism):
    if ":" in mechanism:
        folder = write_folder(tmp_path / "other", mechanism, embedding_dim=8)
    parts = []
    (text,) = generate(
        folder, PROMPT, GenerationSettings(tokens=8, greedy=True), method=mechanism,
        on_text=lambda sample, part: parts.append((sample, part)),
    )  # fmt: skip
    assert text == naive_greedy(folder, mechanism, 8)
    assert "".join(part for _, part in parts) == text
    assert [sample for sample, _ in parts] == [0] * 9


def test_the_model_has_the_weights_of_the_folder(folder):
    pretrained = load_pretrained(folder, "relation", 2)
    model = make_language_model(pretrained)
    ids = np.array([[5, 9, 3, 7]])
    hidden = np.asarray(model.encoder(model.positions(pretrained.embedding[ids])))
    words = pretrained.embedding / 6**0.5
    expected = hidden @ pretrained.projection @ words.T + pretrained.bias
    close(model(ids), expected)


def test_draws_have_the_probabilities_of_the_settings(folder):
    """Draw the first token often: frequencies agree with the probabilities, also where 0."""
    pretrained = load_pretrained(folder, "relation")
    ids = pretrained.vocabulary.encode([PROMPT]).ids
    logits = np.asarray(make_language_model(pretrained)(ids[None]))[0, -1]
    words = pretrained.vocabulary.words
    for more in ({"top_k": 4, "temperature": 2.0}, {"top_p": 0.6}, {"temperature": 0.5}):
        settings = GenerationSettings(tokens=1, samples=400, **more)
        counts = np.zeros(len(words))
        for text in generate(folder, PROMPT, settings, method="relation"):
            piece = text.removeprefix(PROMPT)
            counts[words[piece.strip()] if piece[0] in " .,!" else words[f"##{piece}"]] += 1
        p = next_token_probabilities(logits, excluded=[0, 1], **more)
        assert not counts[p == 0].any()
        assert np.abs(counts / 400 - p).max() < 4 * np.sqrt(0.25 / 400)


def test_seeds_and_samples(folder):
    def texts(**changes):
        return generate(folder, PROMPT, GenerationSettings(8, **changes), method="relation")

    three = texts(samples=3, seed=5)
    assert len({*three}) == 3
    assert texts(samples=2, seed=5) == three[:2]
    assert texts(seed=6) != three[:1]
    greedy = texts(greedy=True)
    assert texts(temperature=1e-9) == greedy
    settings = GenerationSettings(8, seed=5)
    other = generate(folder, PROMPT, settings, method="relation", encoder_seed=2)
    assert other != three[:1]


def test_special_tokens_are_never_generated(tmp_path):
    folder = write_folder(tmp_path / "made", "relation", bias={0: 99.0, 1: 98.0})
    drawn = GenerationSettings(tokens=30, samples=2, temperature=3.0)
    greedy = GenerationSettings(tokens=30, greedy=True)
    for settings in (drawn, greedy):  # the first word of the prompt is unknown
        assert not any("[" in text for text in generate(folder, "☃ the", settings))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": 0}, "tokens: must be 1 or more. Received: 0"),
        ({"top_k": 0}, "top_k: must be 1 or more. Received: 0"),
        ({"top_p": 0.0}, "top_p: must be above 0. Received: 0.0"),
        ({"top_p": 1.5}, "top_p: must be 1 or less. Received: 1.5"),
        ({"top_p": float("nan")}, "top_p: must be 1 or less. Received: nan"),
        ({"temperature": 0.0}, "temperature: must be above 0. Received: 0.0"),
        ({"temperature": float("inf")}, "temperature: must be above 0. Received: inf"),
        ({"seed": -1}, "seed: must be 0 or more. Received: -1"),
        ({"samples": 0}, "samples: must be 1 or more. Received: 0"),
        ({"top_k": 3, "top_p": 0.5}, "top_p: must not be given with top_k. Received: 0.5"),
        ({"greedy": True, "top_p": 0.5}, "top_p: must not be given with greedy. Received: 0.5"),
        ({"greedy": True, "seed": 7}, "seed: must not be given with greedy. Received: 7"),
        ({"greedy": True, "samples": 2}, "samples: must not be given with greedy. Received: 2"),
        ({"greedy": True, "temperature": 0.5}, "temperature: must not be given with greedy."),
    ],
)
def test_settings_out_of_range(options, message):
    with pytest.raises(OptionError) as error:
        GenerationSettings(**options)
    assert str(error.value).startswith(message)


def refused(folder, prompt="the", settings=None, **more):
    with pytest.raises(RelationError) as error:
        generate(folder, prompt, settings, **more)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_refusals(folder, tmp_path):
    assert refused(folder) == (
        "method: must be one of attention, linear-attention, relation. Received: none"
    )
    assert "no finished run of fcsr" in refused(folder, method="fcsr")
    assert "prompt: must contain" in refused(folder, " \n", method="relation")
    size = Vocabulary.read(folder / "vocabulary.json").size
    said = refused(folder, settings=GenerationSettings(top_k=size - 1), method="relation")
    assert said.startswith(f"top_k: must be at most {size - 2}, the number of tokens")
    masked = write_folder(tmp_path / "masked", "relation", objective="masked")
    assert (
        "must be pre-trained with --objective causal to generate or score text. Received: masked"
        in (refused(masked))
    )
    only = write_folder(tmp_path / "only", "relation")
    assert refused(only, encoder_seed=9) == ("encoder_seed: must be that of a run: 1. Received: 9")
    growing = write_folder(tmp_path / "growing", f"{__name__}:Growing", embedding_dim=8)
    assert "changes the shapes or dtypes of the state" in refused(growing)
    assert "must be a folder written by" in refused(tmp_path / "none")


def test_a_run_of_an_earlier_version_has_no_output_layer(tmp_path):
    folder = write_folder(tmp_path / "made", "relation")
    path = folder / "runs" / "relation" / "seed-1" / WEIGHTS
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name not in ("bias", "projection")}
    np.savez(path, **arrays)
    assert load_pretrained(folder, "relation").bias is None
    assert "weights.npz: has no output layer, because an earlier version wrote it" in (
        refused(folder)
    )


def test_other_weights_than_those_of_the_mechanism(tmp_path):
    folder = write_folder(tmp_path / "made", "relation")
    config = folder / "runs" / "relation" / "seed-1" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"num_layers": 2}))
    with pytest.raises(SuiteError, match=r"weights\.npz: mechanism relation: .*weight"):
        generate(folder, "the")
