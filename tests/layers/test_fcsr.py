"""Full-context semantic representation."""

from __future__ import annotations

import numpy as np

from relation_tf.layers import FCSR
from tests.backends import array, close
from tests.layers.cases import built

NAMES = ["integration_kernel", "integration_bias", "analysis_kernel", "analysis_bias"]


def test_weights_and_their_order() -> None:
    layer = built(FCSR(), 5)
    assert [v.name for v in layer.weights] == NAMES
    assert [v.shape for v in layer.weights] == [(15, 20), (20,), (15, 20), (20,)]


def test_by_hand() -> None:
    """Token 2 between tokens 1 and 3."""
    layer = FCSR()
    layer.build((None, None, 1))
    zeros = np.zeros((3, 4))
    # With zero kernels the gates are the biases, in the order q, k, v, o.
    layer.set_weights([zeros, np.array([1, 2, 3, 4]), zeros, np.array([1, 0, 0, 1])])
    output = array(layer(np.array([[[1.0], [2.0], [3.0]]], "float32")))
    c = 2 * 1 + 1 * 2 + 3 * 3
    close(output[0, 1], [c, 4 * np.tanh(c), 2, np.tanh(2)])


def test_contexts_are_not_summed_in_float16() -> None:
    """With only gate Gk open, the output is the left context of the last of 20,000 ones: 1,000."""
    layer = FCSR(0.999, dtype="float16")
    layer.build((None, None, 1))
    zeros = np.zeros((3, 4))
    layer.set_weights([zeros, np.array([0, 1, 0, 0]), zeros, zeros[0]])
    output = array(layer(np.ones((1, 20_000, 1), "float16")))
    np.testing.assert_allclose(output[0, -1], [1000, 0, 0, 0], rtol=1e-3)
