"""Classifier of each token: shapes, padding, and refusals."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.networks import token_classifier
from tests.backends import array, close

IDS = np.array([[5, 8, 3, 0, 0], [7, 2, 4, 9, 1]])
SMALL: dict[str, Any] = {"embedding_dim": 6, "units": 4, "dropout": 0.0}
STACK = {"mechanism": "relation", "num_layers": 2, "norm": "pre"}


@pytest.mark.parametrize("network", ["benchmark", "plain"])
@pytest.mark.parametrize(
    ("mechanism", "options"),
    [("attention", {}), ("relation", {}), ("baseline", {}), ("fcsr", {}), ("encoder", STACK)],
)
def test_each_token_has_logits(network: Any, mechanism: str, options: dict[str, Any]) -> None:
    own = SMALL | ({"units": 6} if mechanism == "fcsr" else {})
    model = token_classifier(mechanism, 12, 3, network=network, options=options, **own)
    assert tuple(model(IDS).shape) == (2, 5, 3)
    assert model.get_layer("output").activation is keras.activations.linear


@pytest.mark.parametrize("more", [{}, {"short_convolution": 3}, {"from_last_token": 5}])
def test_padding_changes_nothing(more: dict[str, Any]) -> None:
    model = token_classifier("attention", 12, 3, **more, **SMALL)
    close(array(model(IDS))[0, :3], array(model(IDS[:1, :3]))[0])


def test_one_token_has_the_layers_of_the_classifier() -> None:
    keras.utils.set_random_seed(1)
    model = token_classifier("baseline", 12, 3, hidden_units=5, **SMALL)
    ids = IDS[1:]
    x = array(model.get_layer("positions")(model.get_layer("embedding")(ids)))
    mixed = array(model.get_layer("mechanism")(x))
    kernel, bias = map(array, model.get_layer("hidden").weights)
    hidden = np.where(mixed > 0, mixed, 0.3 * mixed) @ kernel + bias
    kernel, bias = map(array, model.get_layer("output").weights)
    close(array(model(ids)), np.where(hidden > 0, hidden, 0.3 * hidden) @ kernel + bias)


def test_a_short_convolution_is_added_to_the_input() -> None:
    own: dict[str, Any] = SMALL | {"network": "plain"}
    model = token_classifier("baseline", 12, 3, short_convolution=2, **own)
    ids = IDS[1:]
    x = array(model.get_layer("positions")(model.get_layer("embedding")(ids)))
    filters, bias = map(array, model.get_layer("short_convolution").weights)
    before = np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1]], axis=1)
    x = x + x * filters[1] + before * filters[0] + bias
    mixed = array(model.get_layer("mechanism")(x.astype("float32")))
    kernel, bias = map(array, model.get_layer("output").weights)
    close(array(model(ids)), mixed @ kernel + bias)


def test_a_mechanism_that_returns_a_vector_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must return \(batch, tokens, units\) for token"):
        token_classifier("dan", 12, 3, **SMALL)


@pytest.mark.parametrize("network", ["benchmark", "plain"])
def test_all_tokens_are_classified_from_the_last_one(network: Any) -> None:
    """The same as a NumPy program, in which padding after the last token has no place."""
    keras.utils.set_random_seed(1)
    model = token_classifier("attention", 12, 3, from_last_token=5, network=network, **SMALL)
    name = "hidden_activation" if network == "benchmark" else "mechanism"
    vectors = array(keras.Model(model.input, model.get_layer(name).output)(IDS))
    places = array(model.get_layer("decoder_positions").weights[0])
    kernel, bias = map(array, model.get_layer("decoder_hidden").weights)
    out_kernel, out_bias = map(array, model.get_layer("output").weights)
    assert kernel.shape == (4, 16)
    logits = array(model(IDS))
    for row, last in enumerate((2, 4)):
        for place in range(last + 1):
            hidden = np.maximum(0, (vectors[row, last] + places[place]) @ kernel + bias)
            close(logits[row, place], hidden @ out_kernel + out_bias)


def test_other_tokens_only_change_the_answer_through_the_mechanism() -> None:
    other = np.array([[1, 2, 3, 0, 0], [4, 4, 4, 4, 1]])  # with the same last tokens
    for mechanism, same in (("baseline", True), ("attention", False)):
        model = token_classifier(mechanism, 12, 3, from_last_token=5, **SMALL)
        found, changed = array(model(IDS)), array(model(other))
        kept = IDS > 0
        assert (np.abs(found[kept] - changed[kept]).max() < 1e-5) == same
        assert not np.allclose(found[1, 0], found[1, 1])  # positions differ


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("feature_projection", True, "must be False"),
        ("short_convolution", 0, "must be a positive integer"),
        ("from_last_token", 1.5, "must be a positive integer"),
    ],
)
def test_wrong_arguments(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"`{name}` {message}"):
        token_classifier("attention", 12, 3, **{name: value}, **SMALL)
