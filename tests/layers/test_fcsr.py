"""Full-context semantic representation."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import FCSR
from tests.backends import array, close, close_gradients, vjp
from tests.layers import naive
from tests.layers.cases import poisoned, randomize, some, tokens, weights_of

WIDTH = 2
NAMES = ["integration_kernel", "integration_bias", "analysis_kernel", "analysis_bias"]


def built(decay: float = 0.2, window: int | None = None, width: int = WIDTH, **more: Any) -> FCSR:
    layer = FCSR(decay, window, **more)
    layer.build((None, None, width))
    randomize(layer)
    return layer


def twin(w: dict[str, np.ndarray], x: np.ndarray, mask: np.ndarray, layer: FCSR) -> np.ndarray:
    """Apply the equations to the unmasked tokens of each sequence."""
    output = np.zeros((*x.shape[:2], 4 * x.shape[2]))
    for one, kept, row in zip(x, mask, output, strict=True):
        row[kept] = naive.fcsr(one[kept], w, layer.decay, layer.window)
    return output


@pytest.mark.parametrize("length", [1, 3, 63])
@pytest.mark.parametrize(("decay", "window"), [(0, None), (0.2, 3), (0.9, 100), (0.999, None)])
def test_equations_and_gradients(decay: float, window: int | None, length: int) -> None:
    layer, mask = built(decay, window), some(2, 2, length)
    x, cotangent = tokens(0, 2, length, WIDTH), tokens(1, 2, length, 4 * WIDTH)
    output, [for_x], for_weights = vjp(
        lambda x: layer(x, mask=mask), [poisoned(x, mask)], layer.weights, cotangent
    )
    w, wide = weights_of(layer), x.astype("float64")
    close(output, twin(w, wide, mask, layer))

    def loss() -> float:
        # The last sequence is fully masked: its output is zero for any weights.
        kept, rows = mask[0], naive.fcsr(wide[0][mask[0]], w, decay, window)
        return float(np.sum(rows * cotangent[0][kept]))

    expected = [naive.gradient(loss, x) for x in (wide, *w.values())]
    close_gradients([for_x, *for_weights], expected)


def test_weights_and_their_order() -> None:
    layer = built(width=5)
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


@pytest.mark.tensorflow  # On other backends Keras multiplies matrices in float32.
def test_float64_is_float64_throughout() -> None:
    layer, mask = built(dtype="float64"), some(2, 3, 9)
    x = tokens(4, 3, 9, WIDTH).astype("float64")
    output = keras.ops.convert_to_numpy(layer(x, mask=mask))
    w = {v.name: keras.ops.convert_to_numpy(v) for v in layer.weights}
    close(output, twin(w, x, mask, layer), 1e-12)


def test_contexts_are_not_summed_in_float16() -> None:
    """With only gate Gk open, the output is the left context of the last of 20,000 ones: 1,000."""
    layer = FCSR(0.999, dtype="float16")
    layer.build((None, None, 1))
    zeros = np.zeros((3, 4))
    layer.set_weights([zeros, np.array([0, 1, 0, 0]), zeros, zeros[0]])
    output = array(layer(np.ones((1, 20_000, 1), "float16")))
    np.testing.assert_allclose(output[0, -1], [1000, 0, 0, 0], rtol=1e-3)


def classifier(**arguments: Any) -> keras.Model:
    ids = keras.Input((None,), dtype="int32")
    x = FCSR(0.9, name="fcsr", **arguments)(keras.layers.Embedding(10, 4, mask_zero=True)(ids))
    model = keras.Model(ids, keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(x)))
    randomize(model)
    return model


@pytest.mark.slow
@pytest.mark.tensorflow
def test_xla_does_not_change_training() -> None:
    """Use one graph for two lengths, with padding at the end and with a gap."""
    import tensorflow as tf

    labels = np.array([0, 1])
    batches = [
        np.array([[5, 2, 9, 0, 0], [1, 3, 3, 7, 7]]),
        np.array([[5, 0, 9], [4, 4, 6]]),
    ]

    def trained(*, xla: bool) -> list[np.ndarray]:
        model = classifier()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=xla)
        specs = (tf.TensorSpec((None, None), "int64"), tf.TensorSpec((None,), "int64"))
        data = tf.data.Dataset.from_generator(
            lambda: ((ids, labels) for ids in batches), output_signature=specs
        )
        model.fit(data.apply(tf.data.experimental.assert_cardinality(2)), verbose=0, shuffle=False)
        return model.get_weights()

    for one, other in zip(trained(xla=True), trained(xla=False), strict=True):
        close(one, other)
