from __future__ import annotations

import keras
import numpy as np
import pytest

from relation_tf.networks.multi_head_attention import MultiHeadSelfAttention
from tests.backends import array, close
from tests.layers.cases import poisoned, randomize, tokens

QUERY_MASK = np.array([[True, True, False], [True, False, False], [True] * 3])
VALUE_MASK = np.array([[True, False, True, True], [True, True, False, False], [False] * 4])


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_it_is_the_layer_of_keras(dropout: float) -> None:
    """With dropout Keras uses another code path, also in inference."""
    query, value = tokens(0, 3, 3, 5), tokens(1, 3, 4, 6)
    layer = MultiHeadSelfAttention(8, num_heads=2, dropout=dropout)
    layer.build(query.shape, value.shape)
    randomize(layer)
    theirs = keras.layers.MultiHeadAttention(2, key_dim=4, output_shape=8)
    theirs.build(query.shape, value.shape)
    theirs.set_weights(layer.get_weights())
    expected = array(theirs(query, value, attention_mask=VALUE_MASK[:, None]))
    expected[-1] = 0  # No token is kept.
    output = layer(
        poisoned(query, QUERY_MASK),
        poisoned(value, VALUE_MASK),
        query_mask=QUERY_MASK,
        value_mask=VALUE_MASK,
    )
    close(array(output), np.where(QUERY_MASK[..., None], expected, 0))


def test_readout_of_one_token() -> None:
    x = tokens(0, 2, 5, 4)
    layer = MultiHeadSelfAttention(4, num_heads=2)
    close(array(layer(x[:, :1], x)), array(layer(x))[:, :1])
