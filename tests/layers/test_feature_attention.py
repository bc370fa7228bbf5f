"""Attention between features."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import FeatureAttention
from tests.backends import array, close, close_gradients, vjp
from tests.layers import naive
from tests.layers.cases import poisoned, randomize, some, tokens, weights_of

UNITS, WIDTH = 3, 4


def built(**arguments: Any) -> FeatureAttention:
    layer = FeatureAttention(UNITS, **arguments)
    layer.build((None, None, WIDTH))
    randomize(layer)
    return layer


def twin(w: dict[str, np.ndarray], r: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Apply the equation to the unmasked tokens of each sequence."""
    return np.stack(
        [naive.feature_attention(one[kept], w) for one, kept in zip(r, mask, strict=True)]
    )


@pytest.mark.parametrize("length", [1, 3, 63])
def test_equation_and_gradients(length: int) -> None:
    layer, mask = built(), some(2, 3, length)
    # Sums of about 1, so that float32 errors do not grow with length.
    r, cotangent = tokens(0, 3, length, WIDTH) / np.float32(length**0.5), tokens(1, 3, UNITS)
    output, [for_r], for_weights = vjp(
        lambda r: layer(r, mask=mask), [poisoned(r, mask)], layer.weights, cotangent
    )
    w, wide = weights_of(layer), r.astype("float64")
    close(output, twin(w, wide, mask))

    def loss() -> float:
        return float(np.sum(twin(w, wide, mask) * cotangent))

    expected = [naive.gradient(loss, x) for x in (wide, *w.values())]
    close_gradients([for_r, *for_weights], expected)


def test_weights_and_their_order() -> None:
    layer = built()
    assert [v.name for v in layer.weights] == ["query_kernel", "key_kernel", "feature_kernel"]
    assert [v.shape for v in layer.weights] == [(WIDTH, UNITS), (WIDTH, UNITS), (UNITS, 1)]


@pytest.mark.tensorflow  # On other backends Keras multiplies matrices in float32.
def test_float64_is_float64_throughout() -> None:
    layer, mask = built(dtype="float64"), some(2, 3, 9)
    r = tokens(4, 3, 9, WIDTH).astype("float64")
    output = keras.ops.convert_to_numpy(layer(r, mask=mask))
    w = {v.name: keras.ops.convert_to_numpy(v) for v in layer.weights}
    close(output, twin(w, r, mask), 1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_are_not_in_half_precision(dtype: str) -> None:
    """In half precision a sum of 70,000 ones is infinite (float16) or 256 (bfloat16)."""
    layer = FeatureAttention(1, kernel_initializer="ones", dtype=dtype)
    layer.build((None, None, 1))
    layer.set_weights([np.ones((1, 1)), np.ones((1, 1)), np.full((1, 1), 2.0**-10)])
    output = array(layer(np.ones((1, 70_000, 1), dtype="float32")))
    np.testing.assert_allclose(output, [[70_000 / 1024]], rtol=4e-3)
