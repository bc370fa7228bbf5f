"""Attention between features."""

from __future__ import annotations

import numpy as np
import pytest

from relation_tf.layers import FeatureAttention
from tests.backends import array
from tests.layers.cases import built


def test_weights_and_their_order() -> None:
    layer = built(FeatureAttention(3))
    assert [v.name for v in layer.weights] == ["query_kernel", "key_kernel", "feature_kernel"]
    assert [v.shape for v in layer.weights] == [(4, 3), (4, 3), (3, 1)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_are_not_in_half_precision(dtype: str) -> None:
    """In half precision a sum of 70,000 ones is infinite (float16) or 256 (bfloat16)."""
    layer = FeatureAttention(1, kernel_initializer="ones", dtype=dtype)
    layer.build((None, None, 1))
    layer.set_weights([np.ones((1, 1)), np.ones((1, 1)), np.full((1, 1), 2.0**-10)])
    output = array(layer(np.ones((1, 70_000, 1), dtype="float32")))
    np.testing.assert_allclose(output, [[70_000 / 1024]], rtol=4e-3)
