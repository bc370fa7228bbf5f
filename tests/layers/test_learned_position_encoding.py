from __future__ import annotations

import numpy as np
import pytest

from relation_tf.layers import LearnedPositionEncoding, SegmentEncoding
from tests.backends import array, close, vjp


def twin(x: np.ndarray, vectors: np.ndarray, mask: np.ndarray) -> np.ndarray:
    y = np.zeros_like(x)
    for row in range(len(x)):
        for place in range(x.shape[1]):
            if mask[row, place]:
                y[row, place] = x[row, place] + vectors[min(place, len(vectors) - 1)]
    return y


@pytest.mark.parametrize("length", [1, 3, 5, 8])
def test_equals_the_naive_layer(length: int) -> None:
    """With 5 positions: longer texts use the last one again. NaN in the padding has no effect."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, length, 3)).astype("float32")
    mask = np.ones((2, length), bool)
    mask[1, 1:] = False
    layer = LearnedPositionEncoding(5, "normal")
    layer.build(x.shape)
    vectors = array(layer.vectors)
    assert vectors.shape == (5, 3)
    close(array(layer(x)), twin(x, vectors, np.ones_like(mask)))
    poisoned = np.where(mask[..., None], x, np.float32(np.nan))
    close(array(layer(poisoned, mask=mask)), twin(x, vectors, mask))


def test_gradients_of_the_vectors() -> None:
    x, g = np.zeros((2, 4, 3), "float32"), np.ones((2, 4, 3), "float32")
    layer = LearnedPositionEncoding(3)
    layer.build(x.shape)
    _, (own,), (gradient,) = vjp(layer, [x], layer.trainable_variables, g)
    close(own, g)
    close(gradient, np.array([[2.0], [2.0], [4.0]]) * np.ones((1, 3)))


@pytest.mark.parametrize("segment", [0, 1])
def test_segments(segment: int) -> None:
    x = np.random.default_rng(1).normal(size=(2, 4, 3)).astype("float32")
    mask = np.array([[True] * 4, [True, False, False, False]])
    layer = SegmentEncoding("normal")
    layer.build(x.shape)
    vectors = array(layer.vectors)
    close(array(layer(x, segment=segment)), x + vectors[segment])
    poisoned = np.where(mask[..., None], x, np.float32(np.nan))
    expected = np.where(mask[..., None], x + vectors[segment], 0)
    close(array(layer(poisoned, segment=segment, mask=mask)), expected)


@pytest.mark.parametrize("segment", [-1, 2])
def test_wrong_segments(segment: int) -> None:
    with pytest.raises(ValueError, match=f"`segment` must be 0 or 1. Received: segment={segment}"):
        SegmentEncoding()(np.ones((1, 2, 3), "float32"), segment=segment)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="`max_length` must be a positive integer"):
        LearnedPositionEncoding(0)
