"""Checks of inputs, states and gradients of all token mixers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from relation_tf.layers import LinearAttention, Relation
from tests.layers.cases import MIXERS, built, tokens

UNITS, WIDTH = 6, 4
each_mixer = pytest.mark.parametrize("mixer", MIXERS)


@pytest.mark.parametrize(
    ("query", "value", "message"),
    [
        ((2, 5, 3), None, r"`query` must have the width 4 .* query\.shape=\(2, 5, 3\)"),
        ((2, 5, 4), (2, 7, 5), r"`value` must have the width 4 .* value\.shape=\(2, 7, 5\)"),
        ((5, 4), None, r"`query` must have shape \(batch, tokens, width\)"),
        ((2, 1, 5, 4), None, r"`query` must have shape \(batch, tokens, width\)"),
        ((3, 5, 4), (1, 5, 4), r"`value` must have the batch size of `query`.*\(1, 5, 4\), query"),
        ((1, 5, 4), (3, 5, 4), r"`value` must have the batch size of `query`.*\(3, 5, 4\), query"),
    ],
)
def test_inputs_of_another_shape_are_refused(
    query: tuple[int, ...], value: tuple[int, ...] | None, message: str
) -> None:
    layer = built(Relation(UNITS))
    with pytest.raises(ValueError, match=message):
        layer(np.ones(query, "float32"), None if value is None else np.ones(value, "float32"))


def test_symbolic_inputs_of_another_shape_are_refused() -> None:
    layer = built(LinearAttention(UNITS))
    with pytest.raises(ValueError, match="`query` must have the width 4"):
        layer(keras.Input((None, 7)))
    with pytest.raises(ValueError, match="`value` must have the batch size of `query`"):
        layer(keras.Input((None, 4), batch_size=2), keras.Input((None, 4), batch_size=3))


@pytest.mark.tensorflow
def test_an_unknown_width_is_allowed() -> None:
    import tensorflow as tf

    layer = built(LinearAttention(UNITS))
    call = tf.function(layer, input_signature=[tf.TensorSpec([None, None, None])])
    assert call(tokens(0, 2, 3, WIDTH)).shape == (2, 3, UNITS)


@pytest.mark.tensorflow
@each_mixer
def test_no_gradient_of_a_weight_is_sparse(mixer: Any) -> None:
    """Keras's Adam forgets the moments of rows that a sparse gradient lacks, and repeats others."""
    import tensorflow as tf

    layer = built(mixer(UNITS))
    query, value = (ops.convert_to_tensor(tokens(seed, 2, 5, WIDTH)) for seed in (0, 1))
    mask = np.arange(5) < np.array([[5], [3]])
    for inputs in ({"query": query}, {"query": query, "value": value}):
        with tf.GradientTape() as tape:
            loss = ops.sum(layer(**inputs, value_mask=mask) ** 2)
        gradients = tape.gradient(loss, [weight.value for weight in layer.trainable_weights])
        assert {type(gradient).__name__ for gradient in gradients} <= {"EagerTensor", "NoneType"}
