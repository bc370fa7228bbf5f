"""Slices against indexing."""

from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from relation_tf.layers.masking import part, tokens_at


@pytest.mark.parametrize(("start", "length"), [(0, 5), (0, 0), (2, 3), (4, 1)])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_part_equals_indexing(start, length, axis):
    x = np.random.default_rng(0).normal(size=(5, 5, 5)).astype("float32")
    expected = np.take(x, np.arange(start, start + length), axis)
    found = ops.convert_to_numpy(part(ops.convert_to_tensor(x), start, length, axis))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("tokens", "positions"), [(5, 5), (5, 7), (1, 2), (5, 0), (0, 0)])
def test_tokens_at_equals_take_along_axis(tokens, positions):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(3, tokens, 2)).astype("float32")
    at = generator.integers(tokens, size=(3, positions)) if positions else np.zeros((3, 0), int)
    found = ops.convert_to_numpy(tokens_at(ops.convert_to_tensor(x), ops.convert_to_tensor(at)))
    np.testing.assert_array_equal(found, np.take_along_axis(x, at[..., None], axis=1))
