from __future__ import annotations

import numpy as np
import pytest

from relation_tf.networks.additive_attention import AdditiveAttentionPooling
from tests.backends import array, close
from tests.layers.cases import poisoned, randomize, tokens


def naive(h: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """Apply the equation to the unmasked tokens of one sentence, (tokens, width)."""
    kernel, bias, v = weights
    e = np.exp(np.tanh(h @ kernel + bias) @ v)  # (tokens, 1)
    return (e * h).sum(axis=0) / e.sum() if len(h) else np.zeros(h.shape[1])


@pytest.mark.parametrize("length", [1, 9])
def test_equation(length: int) -> None:
    mask = np.random.default_rng(0).random((4, length)) < 0.6
    mask[-1] = False
    x = poisoned(tokens(1, 4, length, 3), mask)
    layer = AdditiveAttentionPooling(5)
    layer.build(x.shape)
    randomize(layer)
    expected = [naive(x[b][mask[b]], layer.get_weights()) for b in range(4)]
    close(array(layer(x, mask=mask)), expected)


def test_long_sentences_in_float16() -> None:
    """A weight of 1 / 70,000 has three digits in float16, and a sum of 70,000 ones is infinite."""
    x = np.ones((1, 70_000, 2), "float16")
    output = AdditiveAttentionPooling(2, dtype="float16")(x)
    np.testing.assert_allclose(array(output), [[1.0, 1.0]], rtol=1e-3)
