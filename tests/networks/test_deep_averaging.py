from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relation_tf.networks.deep_averaging import DeepAveragingNetwork
from tests.backends import array, close
from tests.layers.cases import poisoned, randomize, tokens


def naive(x: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """Apply the equation to the unmasked tokens of one sentence, (tokens, width)."""
    z = x.mean(axis=0) if len(x) else np.zeros(x.shape[1])
    for kernel, bias in zip(weights[::2], weights[1::2], strict=True):
        z = np.maximum(z @ kernel + bias, 0)
    return z


@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("length", [1, 7])
def test_equation(length: int, num_layers: int) -> None:
    mask = np.random.default_rng(0).random((3, length)) < 0.6
    x = poisoned(tokens(1, 3, length, 4), mask)
    layer = DeepAveragingNetwork(5, num_layers=num_layers)
    layer.build(x.shape)
    randomize(layer)
    expected = [naive(x[b][mask[b]], layer.get_weights()) for b in range(3)]
    close(array(layer(x, mask=mask)), expected)


def averages(mask: Any, rate: float, samples: int) -> np.ndarray:
    """Return training outputs for an identity matrix: the weights of six tokens."""
    layer = DeepAveragingNetwork(6, 1, activation="linear", word_dropout=rate, seed=1)
    layer.build((None, None, 6))
    layer.set_weights([np.eye(6), np.zeros(6)])
    x = np.repeat(np.eye(6, dtype="float32")[None], samples, axis=0)
    return array(layer(x, mask=mask, training=True))


@pytest.mark.parametrize("masked", [False, True])
def test_word_dropout_leaves_out_whole_tokens(masked: bool) -> None:
    samples, rate, length = 4000, 0.3, 4 if masked else 6
    mask = np.repeat((np.arange(6) < length)[None], samples, axis=0) if masked else None
    weights = averages(mask, rate, samples)
    kept = weights > 0
    close(weights, kept / kept.sum(axis=1, keepdims=True))
    assert not kept[:, length:].any()
    # If all would be dropped, all are kept.
    expected = 1 - rate + rate**length
    assert np.abs(kept[:, :length].mean(axis=0) - expected).max() < 5 * (0.25 / samples) ** 0.5


def test_word_dropout_never_leaves_nothing() -> None:
    weights = averages(np.eye(6, dtype=bool), 0.99, 6)
    close(weights, np.eye(6))
