from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relation_tf.networks.sentence_encoders import DeepAveragingNetwork
from tests.backends import array, close


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
