from __future__ import annotations

import numpy as np
import pytest

from relation_tf.networks.sentence_encoders import ConvolutionalNetwork
from tests.backends import array, close
from tests.layers.cases import poisoned, randomize, tokens


def naive(x: np.ndarray, mask: np.ndarray, stacks: list[list[np.ndarray]]) -> np.ndarray:
    """Apply the equation to one sentence, (tokens, width); a stack is kernels and biases."""
    maxima = []
    for stack in stacks:
        y = x
        for kernel, bias in zip(stack[::2], stack[1::2], strict=True):
            y = np.where(mask[:, None], y, 0)
            before = (len(kernel) - 1) // 2
            padded = np.pad(y, ((before, len(kernel) - 1 - before), (0, 0)))
            windows = [padded[t : t + len(kernel)] for t in range(len(x))]
            y = np.maximum([np.einsum("kw,kwu->u", w, kernel) + bias for w in windows], 0)
        maxima.append(y[mask].max(axis=0) if mask.any() else np.zeros(y.shape[1]))
    return np.concatenate(maxima)


@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("length", [1, 2, 9])
def test_equation(length: int, num_layers: int) -> None:
    """Includes masked tokens inside the sentence and windows wider than the sentence."""
    mask = np.random.default_rng(0).random((4, length)) < 0.6
    mask[-1] = False
    x = poisoned(tokens(1, 4, length, 3), mask)
    layer = ConvolutionalNetwork(5, widths=(2, 3, 5), num_layers=num_layers)
    layer.build(x.shape)
    randomize(layer)
    weights = layer.get_weights()
    step = 2 * num_layers
    stacks = [weights[first : first + step] for first in range(0, len(weights), step)]
    expected = [naive(x[b], mask[b], stacks) for b in range(4)]
    close(array(layer(x, mask=mask)), expected)


def test_negative_maxima_are_not_hidden_by_padding() -> None:
    layer = ConvolutionalNetwork(1, widths=[1], activation="linear")
    layer.build((None, None, 1))
    layer.set_weights([np.ones((1, 1, 1)), np.zeros(1)])
    x = -np.ones((1, 3, 1), "float32")
    mask = np.array([[True, True, False]])
    assert array(layer(x, mask=mask)) == -1
