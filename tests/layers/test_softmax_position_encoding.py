"""Position encoding by a learned softmax."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import SoftmaxPositionEncoding
from tests.backends import array, close, vjp
from tests.layers import naive
from tests.layers.cases import tokens


def built(slope: Any, **arguments: Any) -> SoftmaxPositionEncoding:
    layer = SoftmaxPositionEncoding(**arguments)
    layer.build((None, None, len(slope)))
    layer.set_weights([np.asarray(slope, "float32")])
    return layer


def test_initial_weights_are_equal() -> None:
    x = tokens(5, 2, 5, 3)
    close(array(SoftmaxPositionEncoding()(x)), x / 5)
    expected = [naive.softmax_position_encoding(row, np.ones(3)) for row in x]
    close(array(SoftmaxPositionEncoding(initializer="ones")(x)), expected)


@pytest.mark.parametrize("slope", [5.0, -5.0, 1e-3, -1e-3, 0.0, 1e4])
def test_ten_thousand_tokens(slope: float) -> None:
    length = 10_000
    x, cotangent = tokens(6, 1, length, 1), tokens(7, 1, length, 1)
    layer = built([slope])
    output, [for_x], [for_slope] = vjp(layer, [x], layer.weights, cotangent)
    wide = np.arange(length) * slope
    weights = np.exp(wide - wide.max())
    weights = (weights / weights.sum())[None, :, None]
    np.testing.assert_allclose(output, x * weights, rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(for_x, cotangent * weights, rtol=1e-4, atol=1e-12)
    position = np.arange(length)[None, :, None]
    spread = position - np.sum(position * weights)
    expected = np.sum(cotangent * x * weights * spread)
    scale = np.sum(np.abs(cotangent * x * weights * spread))
    np.testing.assert_allclose(for_slope, [expected], rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.parametrize("policy", ["float16", "mixed_bfloat16"])
def test_half_precision_is_close_to_float32(policy: str) -> None:
    length = 10_000
    slope = np.array([0.0, 0.75, -0.5, 5.0], "float32")  # Values exact in half precision.
    x = np.ones((2, length, 4), "float32")
    mask = np.arange(length) < np.array([[length], [length - 3]])
    layer = built(slope, dtype=policy)
    output = layer(x, mask=mask)
    compute = policy.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(output.dtype) == compute
    assert layer.weights[0].dtype == ("float32" if "mixed" in policy else compute)
    expected = array(built(slope)(x, mask=mask))
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3}[compute]
    # 1 / 10,000 is near the subnormal numbers of float16, with a spacing of 6e-8.
    np.testing.assert_allclose(array(output), expected, rtol=tolerance, atol=6e-8)
    _, [for_x], [for_slope] = vjp(
        lambda x: keras.ops.cast(layer(x, mask=mask), "float32"), [x], layer.weights
    )
    assert np.isfinite(for_x).all()
    assert np.isfinite(for_slope.astype("float32")).all()


def test_mixed_precision_keeps_the_slope() -> None:
    """In bfloat16 the slope 0.3 has an error of 0.1 %, its power at position 1,000 of 40 %."""
    x = np.ones((1, 1001, 1), "float32")
    weights = [array(built([0.3], dtype=p)(x)) for p in ("mixed_bfloat16", "float32")]
    np.testing.assert_allclose(*weights, rtol=8e-3, atol=1e-30)


@pytest.mark.parametrize("hold", [np.nan, np.inf])
@pytest.mark.parametrize("slope", [1.0, -200.0, 200.0])
def test_fully_masked_sequence(hold: float, slope: float) -> None:
    layer, x = built([slope] * 4), np.full((2, 3, 4), hold, "float32")
    mask = np.zeros((2, 3), bool)
    output, [for_x], [for_slope] = vjp(lambda x: layer(x, mask=mask), [x], layer.weights)
    assert not output.any()
    assert not for_x.any()
    assert not for_slope.any()


@pytest.mark.parametrize("slope", [-200.0, 200.0])
def test_steep_slopes_do_not_overflow_at_masked_tokens(slope: float) -> None:
    layer, mask = built([slope]), np.array([[False, False, True, True, False, False]])
    output, [for_x], [for_slope] = vjp(
        lambda x: layer(x, mask=mask), [np.ones((1, 6, 1), "float32")], layer.weights
    )
    expected = [0, 0, 0, 1, 0, 0] if slope > 0 else [0, 0, 1, 0, 0, 0]
    np.testing.assert_array_equal(output.ravel(), expected)
    np.testing.assert_array_equal(for_x.ravel(), expected)
    np.testing.assert_array_equal(for_slope, [0])
