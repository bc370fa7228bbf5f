from __future__ import annotations

import keras
import numpy as np
import pytest

from relation_tf.networks.encoders import Encoder
from relation_tf.networks.language_model import LanguageModel, language_model, word_losses
from tests.backends import array, close

MECHANISMS = ["relation", "linear-attention", "attention"]
WORDS = 23


def small(mechanism="relation", objective="masked", **changes):
    model = language_model(mechanism, WORDS, objective, **{"num_layers": 2, "units": 8} | changes)
    # Initial LayerNorm weights and biases would hide that they are ignored.
    rng = np.random.default_rng(5)
    model.set_weights([x + 0.3 * rng.normal(size=x.shape) for x in model.get_weights()])
    return model


def drawn(shape=(3, 7), seed=0):
    return np.random.default_rng(seed).integers(1, WORDS, shape)


def test_losses_equal_the_formula():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(2, 3, WORDS)).astype("float32") * 5
    words = drawn((2, 3))
    naive = np.empty((2, 3))
    for i in range(2):
        for j in range(3):
            z = logits[i, j].astype(float)
            naive[i, j] = -np.log(np.exp(z[words[i, j]]) / sum(np.exp(z)))
    close(word_losses(logits, words), naive)


@pytest.mark.parametrize("embedding_dim", [None, 5])
def test_logits_are_products_with_the_words(embedding_dim):
    model = small(embedding_dim=embedding_dim)
    ids = drawn()
    hidden = array(model.encode(ids))
    if embedding_dim:
        hidden = hidden @ array(model.projection.kernel)
    words = array(model.embedding.embeddings)
    assert words.shape == (WORDS + 1, embedding_dim or 8)  # one for a masked token
    expected = np.einsum("btd,vd->btv", hidden, words[:WORDS]) + array(model.bias)
    close(model(ids), expected)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("embedding_dim", [None, 5])
def test_logits_at_some_places_are_those_of_all(mechanism, embedding_dim):
    model = small(mechanism, embedding_dim=embedding_dim)
    ids, at = drawn(), np.array([[0, 6], [3, 2], [-1, -7]])
    everywhere = np.take_along_axis(array(model(ids)), at[..., None] % 7, axis=1)
    close(model(ids, at=at), everywhere)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_only_a_masked_model_sees_later_words(mechanism, objective):
    model = small(mechanism, objective)
    ids = drawn((1, 9))
    others = ids.copy()
    others[0, 5:] = (ids[0, 5:] % (WORDS - 1)) + 1
    assert (others[0, 5:] != ids[0, 5:]).all()
    before, after = array(model(ids))[0], array(model(others))[0]
    change = np.abs(after - before).max(axis=-1)
    assert (change[:5].max() < 1e-5) == (objective == "causal")
    assert change[5:].max() > 1e-3


@pytest.mark.parametrize("embedding_dim", [None, 5])
def test_both_directions(embedding_dim):
    """The first logits see no later words, the second no earlier ones."""
    model = small("relation", "both", embedding_dim=embedding_dim)
    ids = drawn((1, 9))
    others = ids.copy()
    others[0, 5] = ids[0, 5] % (WORDS - 1) + 1
    before, after = array(model(ids))[0], array(model(others))[0]
    change = np.abs(after - before).max(axis=-1)
    assert change[0, :5].max() < 1e-5 < change[0, 5:].min()
    assert change[1, 6:].max() < 1e-5 < change[1, :6].min()
    hidden = np.split(array(model.encode(ids)), 2, axis=-1)
    hidden = [half @ array(model.projection.kernel) for half in hidden]
    words = array(model.embedding.embeddings)
    assert len(words) == WORDS
    expected = np.stack([np.einsum("btd,vd->btv", half, words) for half in hidden], axis=1)
    close(model(ids), expected + array(model.bias))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_padding_changes_nothing(mechanism):
    model = small(mechanism)
    ids = drawn()
    padded = np.pad(ids, ((0, 0), (0, 4)))
    close(model(padded)[:, :7], array(model(ids)))


def test_saved_and_loaded_again(tmp_path):
    model = small("attention", "causal", embedding_dim=5)
    ids = drawn()
    model(ids)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(ids)), array(model(ids)))
    assert loaded.objective == "causal"


def test_invalid_arguments():
    with pytest.raises(ValueError, match=r"`objective` must be .* Received: objective='next'"):
        language_model("relation", WORDS, "next")
    with pytest.raises(ValueError, match=r"must be causal .* Received: causal=False"):
        LanguageModel(Encoder("relation", units=8), WORDS, objective="causal")
    with pytest.raises(ValueError, match="must not be causal"):
        LanguageModel(Encoder("relation", units=8, causal=True), WORDS)
    with pytest.raises(ValueError, match=r"must have fixed `units`\. Received: units=None"):
        LanguageModel(Encoder("relation"), WORDS)
    with pytest.raises(ValueError, match=r"must be a BidirectionalEncoder .* Received: Encoder"):
        LanguageModel(Encoder("relation", units=8), WORDS, objective="both")
    with pytest.raises(ValueError, match="`vocabulary_size` must be a positive integer"):
        language_model("relation", 0)
