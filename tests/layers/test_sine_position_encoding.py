from __future__ import annotations

import numpy as np
import pytest

from relation_tf.layers import SinePositionEncoding
from tests.backends import array, close


@pytest.mark.parametrize("width", [1, 2, 7, 10])
@pytest.mark.parametrize("length", [1, 3, 63])
def test_formula(length: int, width: int) -> None:
    expected = np.zeros((length, width))
    for position in range(length):
        for i in range(width):
            angle = position / 10000 ** (2 * (i // 2) / width)
            expected[position, i] = np.cos(angle) if i % 2 else np.sin(angle)
    x = np.random.default_rng(0).normal(size=(2, length, width)).astype("float32")
    close(array(SinePositionEncoding()(x)), x + expected)
