"""Slices against indexing."""

from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from relation_tf.layers.slicing import part


@pytest.mark.parametrize(("start", "length"), [(0, 5), (0, 0), (2, 3), (4, 1)])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_part_equals_indexing(start, length, axis):
    x = np.random.default_rng(0).normal(size=(5, 5, 5))
    expected = np.take(x, np.arange(start, start + length), axis)
    found = ops.convert_to_numpy(part(ops.convert_to_tensor(x), start, length, axis))
    np.testing.assert_array_equal(found, expected)
