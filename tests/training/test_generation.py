"""Text generation, compared with the logits of the whole text at each step."""

from __future__ import annotations

import functools
import json

import keras
import numpy as np
import pytest

from relation_tf.errors import SuiteError
from relation_tf.networks.language_model import language_model
from relation_tf.tasks.vocabulary import Vocabulary
from relation_tf.training import generate, load_pretrained, make_language_model
from relation_tf.training.pretrained import write_weights
from relation_tf.training.pretraining_settings import WEIGHTS
from tests.backends import close

pytestmark = pytest.mark.tensorflow

TEXT = ["the cat eats and the dog runs , but the bird sings . the fish swims !"] * 2
PROMPT = "The dog sings , but the"
MECHANISMS = ["relation", "linear-attention", "attention"]
LENGTH = 8


def write_folder(path, *mechanisms, objective="causal", embedding_dim=6, seeds=(1,)):
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
            facts = {"method": method, "mechanism": mechanism, "seed": seed}
            (run / "config.json").write_text(json.dumps(settings | facts))
            (run / "result.json").write_text(
                json.dumps(facts | {"perplexity": 1.0, "tokens_per_second": 1.0})
            )
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("made"), *MECHANISMS, seeds=(1, 2))


@functools.cache
def loaded(folder, method, seed=1):
    """Return a model and its vocabulary."""
    pretrained = load_pretrained(folder, method, seed)
    return make_language_model(pretrained), pretrained.vocabulary


def naive_greedy(model, vocabulary, tokens):
    """Apply the model to the whole text for each token."""
    words = {i: word for word, i in vocabulary.words.items()}
    ids, text = vocabulary.encode([PROMPT]).ids.tolist(), PROMPT
    for _ in range(tokens):
        logits = np.array(model(np.array([ids])))[0, -1]
        logits[:2] = -np.inf
        ids.append(int(logits.argmax()))
        piece = words[ids[-1]]
        text += piece[2:] if piece.startswith("##") else f" {piece}"
    return text


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_greedy_takes_the_most_probable_token_of_the_whole_text(folder, mechanism):
    model, vocabulary = loaded(folder, mechanism)
    text = generate(model, PROMPT, vocabulary, 12, temperature=0)
    assert text == naive_greedy(model, vocabulary, 12)


def test_the_model_has_the_weights_of_the_folder(folder):
    pretrained = load_pretrained(folder, "relation", 2)
    model = make_language_model(pretrained)
    ids = np.array([[5, 9, 3, 7]])
    hidden = np.asarray(model.encoder(model.positions(pretrained.embedding[ids])))
    words = pretrained.embedding / 6**0.5
    expected = hidden @ pretrained.projection @ words.T + pretrained.bias
    close(model(ids), expected)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_draws_have_the_probabilities_of_the_logits(folder, temperature):
    model, vocabulary = loaded(folder, "relation")
    logits = np.asarray(model(vocabulary.encode([PROMPT]).ids[None]), float)[0, -1]
    p = np.exp(logits / temperature)
    p[:2] = 0
    words = {i: word for word, i in vocabulary.words.items()}
    for seed in range(20):
        text = generate(model, PROMPT, vocabulary, 1, temperature=temperature, seed=seed)
        piece = words[np.random.default_rng(seed).choice(len(p), p=p / p.sum())]
        assert text == PROMPT + (piece[2:] if piece.startswith("##") else f" {piece}")


def test_texts_depend_on_the_seed(folder):
    model, vocabulary = loaded(folder, "relation")
    first, again, other = (generate(model, PROMPT, vocabulary, 8, seed=seed) for seed in (5, 5, 6))
    assert first == again != other
    greedy = generate(model, PROMPT, vocabulary, 8, temperature=0)
    assert generate(model, PROMPT, vocabulary, 8, temperature=1e-9) == greedy
    assert generate(*loaded(folder, "relation", 2)[:1], PROMPT, vocabulary, 8, seed=5) != first


def test_wrong_arguments(folder):
    model, vocabulary = loaded(folder, "relation")
    for temperature in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"`temperature` must be 0 or more\. Rec"):
            generate(model, "the", vocabulary, temperature=temperature)
    with pytest.raises(ValueError, match="`prompt` must contain at least one token"):
        generate(model, " \n", vocabulary)


def test_runs_that_cannot_generate_are_refused(tmp_path):
    masked = write_folder(tmp_path / "masked", "relation", objective="masked")
    with pytest.raises(SuiteError, match="with --objective causal to generate text"):
        make_language_model(load_pretrained(masked, "relation"))
    other = write_folder(tmp_path / "other", "relation")
    config = other / "runs" / "relation" / "seed-1" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"num_layers": 2}))
    with pytest.raises(SuiteError, match=r"weights\.npz: mechanism relation: "):
        make_language_model(load_pretrained(other, "relation"))
