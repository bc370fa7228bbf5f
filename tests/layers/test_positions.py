"""Encodings of positions and segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relation_tf.layers import (
    LearnedPositionEncoding,
    SegmentEncoding,
    SinePositionEncoding,
    SoftmaxPositionEncoding,
)
from tests.backends import array, close, vjp
from tests.layers.cases import poisoned, tokens

MASK = np.arange(8) < np.array([[8], [1]])


@pytest.mark.parametrize(("length", "width"), [(1, 1), (3, 7), (63, 10)])
def test_sines(length: int, width: int) -> None:
    expected = np.zeros((length, width))
    for position in range(length):
        for i in range(width):
            angle = position / 10000 ** (2 * (i // 2) / width)
            expected[position, i] = np.cos(angle) if i % 2 else np.sin(angle)
    x = tokens(0, 2, length, width)
    close(array(SinePositionEncoding()(x)), x + expected)


@pytest.mark.parametrize("length", [1, 5, 8])
def test_learned_positions(length: int) -> None:
    """With 5 positions: longer texts use the last one again. NaN in the padding has no effect."""
    x, mask, layer = tokens(0, 2, length, 3), MASK[:, :length], LearnedPositionEncoding(5, "normal")
    layer.build(x.shape)
    vectors = array(layer.vectors)[np.minimum(np.arange(length), 4)]
    close(array(layer(x)), x + vectors)
    close(array(layer(poisoned(x, mask), mask=mask)), np.where(mask[..., None], x + vectors, 0))


@pytest.mark.parametrize("segment", [0, 1])
def test_segments(segment: int) -> None:
    x, layer = tokens(1, 2, 8, 3), SegmentEncoding("normal")
    layer.build(x.shape)
    expected = x + array(layer.vectors)[segment]
    close(array(layer(x, segment=segment)), expected)
    output = array(layer(poisoned(x, MASK), segment=segment, mask=MASK))
    close(output, np.where(MASK[..., None], expected, 0))


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"`segment` must be 0 or 1\. Received: segment=2"):
        SegmentEncoding()(np.ones((1, 2, 3), "float32"), segment=2)
    with pytest.raises(ValueError, match="`max_length` must be a positive integer"):
        LearnedPositionEncoding(0)


# Softmax; `test_contract` compares it with its equation.


def softmax_encoding(slope: Any, **arguments: Any) -> SoftmaxPositionEncoding:
    layer = SoftmaxPositionEncoding(**arguments)
    layer.build((None, None, len(slope)))
    layer.set_weights([np.asarray(slope, "float32")])
    return layer


@pytest.mark.parametrize("slope", [5.0, -5.0, 1e-3, -1e-3, 0.0, 1e4])
def test_ten_thousand_tokens(slope: float) -> None:
    length = 10_000
    x, cotangent = tokens(6, 1, length, 1), tokens(7, 1, length, 1)
    layer = softmax_encoding([slope])
    output, [for_x], [for_slope] = vjp(layer, [x], layer.weights, cotangent)
    wide = np.arange(length) * slope
    weights = np.exp(wide - wide.max())
    weights = (weights / weights.sum())[None, :, None]
    np.testing.assert_allclose(output, x * weights, rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(for_x, cotangent * weights, rtol=1e-4, atol=1e-12)
    position = np.arange(length)[None, :, None]
    terms = cotangent * x * weights * (position - np.sum(position * weights))
    scale = np.sum(np.abs(terms))
    np.testing.assert_allclose(for_slope, [np.sum(terms)], rtol=1e-4, atol=1e-4 * scale)


def test_mixed_precision_keeps_the_slope() -> None:
    """In bfloat16 the slope 0.3 has an error of 0.1 %, its power at position 1,000 of 40 %."""
    x = np.ones((1, 1001, 1), "float32")
    weights = [array(softmax_encoding([0.3], dtype=p)(x)) for p in ("mixed_bfloat16", "float32")]
    np.testing.assert_allclose(*weights, rtol=8e-3, atol=1e-30)


@pytest.mark.parametrize("slope", [-200.0, 200.0])
def test_steep_slopes_do_not_overflow_at_masked_tokens(slope: float) -> None:
    """Also in a sequence of masked tokens, which may be infinite."""
    layer, mask = softmax_encoding([slope]), np.zeros((2, 6), bool)
    mask[0, 2:4] = True
    x = np.where(mask[..., None], np.float32(1), np.float32(np.inf))
    output, [for_x], [for_slope] = vjp(lambda x: layer(x, mask=mask), [x], layer.weights)
    expected = [0, 0, 0, 1, 0, 0] if slope > 0 else [0, 0, 1, 0, 0, 0]
    for found in (output, for_x):
        np.testing.assert_array_equal(found[..., 0], [expected, [0] * 6])
    np.testing.assert_array_equal(for_slope, [0])
