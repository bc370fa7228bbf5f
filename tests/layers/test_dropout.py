"""Dropout: in training only, reproducible by seed, unbiased."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import Attention, LinearAttention, PointwiseMLP, Relation
from relation_tf.layers.token_mixer import dropout_mask
from tests.backends import array, close
from tests.layers.cases import MIXERS, tokens

RELEASED = [functools.partial(layer_class, variant="released_code") for layer_class in MIXERS]
all_mixers = pytest.mark.parametrize("released", RELEASED, ids=lambda f: f.func.__name__)


def started(layer: Any, width: int = 4) -> Any:
    """Build a layer with weights independent of its initializers."""
    layer.build((None, None, width))
    layer.set_weights([tokens(i, *w.shape) for i, w in enumerate(layer.weights)])
    return layer


@all_mixers
def test_in_training_only_and_by_its_seed(released: Any) -> None:
    x = tokens(0, 2, 5, 4)
    still = array(started(released(8, dropout=0.0))(x, training=True))

    def steps(seed: int) -> list[np.ndarray]:
        layer = started(released(8, dropout=0.5, seed=seed))
        close(array(layer(x)), still)
        return [array(layer(x, training=True)) for _ in range(2)]

    first, second = steps(1)
    np.testing.assert_array_equal(steps(1), [first, second])
    for other in (still, second, steps(2)[0]):  # Each step draws a new dropout mask.
        assert np.abs(first - other).max() > 1e-3


@pytest.mark.parametrize(
    "make",
    [
        Attention,
        lambda units, **kwargs: Attention(units, use_bias=True, algorithm="factored", **kwargs),
        LinearAttention,
        lambda units, **kwargs: LinearAttention(units, normalization="released_code", **kwargs),
        lambda units, **kwargs: Relation(units, activation="linear", **kwargs),
        PointwiseMLP,
        lambda units, **kwargs: PointwiseMLP(units, activation="linear", gated=True, **kwargs),
    ],
)
def test_mean_over_dropout_masks_equals_output_without_dropout(make: Any) -> None:
    """Holds if the output is linear in the dropped values."""
    samples, rate = 8000, 0.3
    x = np.repeat(tokens(1, 1, 3, 4), samples, axis=0)
    layer = started(make(5, dropout=rate, seed=7))
    dropped, still = array(layer(x, training=True)), array(layer(x[:1]))[0]
    deviation = dropped.std(axis=0)
    assert deviation.max() > 0
    assert (np.abs(dropped.mean(axis=0) - still) <= 5 * deviation / samples**0.5 + 1e-5).all()


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_every_entry_is_dropped_independently(rate: float) -> None:
    """At rate 0.5 the bits of a random integer decide 32 entries."""
    rows = 20_000
    drawn = array(dropout_mask((rows, 64), rate, keras.random.SeedGenerator(1)))
    error = (rate * (1 - rate) / rows) ** 0.5
    assert np.abs(drawn.mean(axis=0) - (1 - rate)).max() < 4.5 * error
    pairs = np.corrcoef(drawn.T)[np.triu_indices(64, k=1)]
    assert np.abs(pairs).max() < 5 / rows**0.5
    assert np.abs(np.corrcoef(drawn[:-1, -1], drawn[1:, 0])[0, 1]) < 5 / rows**0.5
