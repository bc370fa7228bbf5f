"""Two causal layers, one for each direction of the text."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import AFTSimple, Mamba2, MinGRU, Relation, TwoDirections
from tests.backends import array, close

RANDOM = np.random.default_rng(0)


def tokens(length: int, width: int = 3) -> np.ndarray:
    return RANDOM.normal(size=(2, length, width)).astype("float32")


def mask_of(length: int) -> np.ndarray:
    mask = RANDOM.random((2, length)) < 0.7
    mask[:, length // 2] = True
    return mask


LAYERS = [Relation(4, causal=True), Mamba2(4, causal=True, state_size=2), MinGRU(4, causal=True)]


@pytest.mark.parametrize("merge", ["concatenate", "sum"])
@pytest.mark.parametrize("template", LAYERS, ids=lambda layer: type(layer).__name__)
@pytest.mark.parametrize("length", [1, 7])
def test_both_directions_are_computed(template: Any, merge: Any, length: int) -> None:
    layer = TwoDirections(type(template).from_config(template.get_config()), merge)
    x, mask = tokens(length), mask_of(length)
    mixed = array(layer(np.where(mask[..., None], x, np.nan), query_mask=mask))
    for row in range(2):
        text = x[row : row + 1, mask[row]]
        forward, backward = array(layer.layer(text)), array(layer.backward(text[:, ::-1]))
        parts = forward, backward[:, ::-1]
        expected = np.concatenate(parts, axis=-1) if merge == "concatenate" else sum(parts)
        close(mixed[row, mask[row]], expected[0])
        assert not mixed[row, ~mask[row]].any()


def test_the_directions_drop_different_features() -> None:
    layer = TwoDirections(AFTSimple(64, causal=True, dropout=0.5, seed=3))
    again = TwoDirections.from_config(layer.get_config())
    first, last = np.split(array(layer(tokens(1), training=True))[0, 0] == 0, 2)
    assert first.any()
    assert (first != last).any()
    assert again.backward.seed == layer.backward.seed != layer.layer.seed == 3


def test_a_seed_of_both_directions_replaces_that_of_the_layer() -> None:
    layer = TwoDirections(AFTSimple(4, causal=True, dropout=0.5, seed=3), seed=5)
    assert layer.layer.seed == 5
    again = TwoDirections.from_config({**layer.get_config(), "seed": 6})
    assert (layer.get_config()["seed"], again.layer.seed) == (5, 6)
    assert again.backward.seed not in {6, layer.backward.seed}
    layer(tokens(3))  # now it is built
    copy = TwoDirections.from_config({**layer.get_config(), "seed": 7})
    assert copy.layer.seed == 7


def test_a_built_layer_keeps_its_seed() -> None:
    layer = AFTSimple(4, causal=True, dropout=0.5, seed=3)
    layer.build((None, None, 3))
    assert TwoDirections(layer, seed=3).layer is layer
    with pytest.raises(ValueError, match="already built"):
        TwoDirections(layer, seed=5)


@pytest.mark.parametrize("queries", [1, 4, 9])
def test_queries_read_the_tokens_of_value(queries: int) -> None:
    """Query i is token i; further queries see the whole text and nothing after it."""
    layer = TwoDirections(Relation(4, causal=True))
    x = tokens(6)
    whole = array(layer(x))
    query = np.concatenate([x, tokens(3)], axis=1)[:, :queries]
    read = array(layer(query, x))
    same = min(queries, 6)
    close(read[:, :same], whole[:, :same])
    assert np.isfinite(read).all()


def test_other_layers_are_refused() -> None:
    for layer in (Relation(4), keras.layers.Dense(4)):
        with pytest.raises(
            ValueError, match=r"must be a CausalMixer .* causal=True.* Received: a layer of"
        ):
            TwoDirections(layer)
    with pytest.raises(ValueError, match="merge"):
        TwoDirections(Relation(4, causal=True), "mean")  # type: ignore[arg-type]


def test_frozen_weights_are_not_trained() -> None:
    inputs = keras.Input((None, 3))
    layer = TwoDirections(MinGRU(4, causal=True), trainable=False)
    assert keras.Model(inputs, layer(inputs)).trainable_variables == []
    layer = TwoDirections(MinGRU(4, causal=True, trainable=False))
    assert len(keras.Model(inputs, layer(inputs)).trainable_variables) == 0
