from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.networks.sentence_encoders import RecurrentNetwork
from tests.backends import array, close
from tests.layers.cases import poisoned, randomize, tokens

GAPS = np.array([[True, False, True, True, False], [False, False, True, False, True]])
CELLS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU, "rnn": keras.layers.SimpleRNN}


def built(*arguments: Any, **more: Any) -> Any:
    layer = RecurrentNetwork(*arguments, **more)
    layer.build((None, None, 4))
    randomize(layer)
    return layer


def run(cell: str, weights: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """Return all states of Keras's layer with these weights."""
    layer = CELLS[cell](3, return_sequences=True)
    layer.build(x.shape)
    layer.set_weights(weights)
    return array(layer(x))


@pytest.mark.parametrize("cell", CELLS)
def test_two_layers(cell: str) -> None:
    x, layer = tokens(0, 2, 5, 4), built(3, cell, num_layers=2)
    weights = layer.get_weights()
    lower = run(cell, weights[:3], x)
    close(array(layer(x)), run(cell, weights[3:], lower)[:, -1])


@pytest.mark.parametrize("return_sequences", [False, True])
def test_two_layers_in_two_directions(return_sequences: bool) -> None:
    layer = built(3, num_layers=2, bidirectional=True, return_sequences=return_sequences)
    x, weights = tokens(0, 2, 5, 4), layer.get_weights()
    y = x
    for first in (0, 6):
        forward = run("lstm", weights[first : first + 3], y)
        backward = run("lstm", weights[first + 3 : first + 6], y[:, ::-1])
        last = np.concatenate([forward[:, -1], backward[:, -1]], axis=-1)
        y = np.concatenate([forward, backward[:, ::-1]], axis=-1)
    close(array(layer(x)), y if return_sequences else last)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_masked_tokens_are_skipped_wherever_they_are(bidirectional: bool) -> None:
    x = tokens(0, 2, 5, 4)
    for return_sequences in (False, True):
        layer = built(3, bidirectional=bidirectional, return_sequences=return_sequences)
        output = array(layer(poisoned(x, GAPS), mask=GAPS))
        for one, mask, y in zip(x, GAPS, output, strict=True):
            close(y[mask] if return_sequences else y, array(layer(one[None, mask]))[0])


def test_masks_have_the_form_that_cudnn_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unmasked tokens come first, at least one per sequence."""
    masks = []
    call = keras.layers.LSTM.call

    def spy(self: Any, sequences: Any, mask: Any = None, **kwargs: Any) -> Any:
        masks.append(keras.ops.convert_to_numpy(mask))
        return call(self, sequences, mask=mask, **kwargs)

    layer = built(3, num_layers=2)
    monkeypatch.setattr(keras.layers.LSTM, "call", spy)
    layer(tokens(0, 3, 5, 4), mask=np.concatenate([GAPS, [[False] * 5]]))
    expected = np.arange(5) < np.array([[3], [2], [1]])
    assert len(masks) == 2
    for mask in masks:
        np.testing.assert_array_equal(mask, expected)
