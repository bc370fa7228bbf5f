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
    """With dropout Keras takes another path, in inference too."""
    query, value = tokens(0, 3, 3, 5), tokens(1, 3, 4, 6)
    layer = MultiHeadSelfAttention(8, num_heads=2, dropout=dropout)
    layer.build(query.shape, value.shape)
    randomize(layer)
    theirs = keras.layers.MultiHeadAttention(2, key_dim=4, output_shape=8)
    theirs.build(query.shape, value.shape)
    theirs.set_weights(layer.get_weights())
    expected = array(theirs(query, value, attention_mask=VALUE_MASK[:, None]))
    expected[-1] = 0  # There is nothing to attend to.
    output = layer(
        poisoned(query, QUERY_MASK),
        poisoned(value, VALUE_MASK),
        query_mask=QUERY_MASK,
        value_mask=VALUE_MASK,
    )
    close(array(output), np.where(QUERY_MASK[..., None], expected, 0))


def test_one_token_can_be_asked_for() -> None:
    x = tokens(0, 2, 5, 4)
    layer = MultiHeadSelfAttention(4, num_heads=2)
    close(array(layer(x[:, :1], x)), array(layer(x))[:, :1])


def test_dropout_in_training_only_and_by_its_seed() -> None:
    x = tokens(0, 2, 5, 4)

    def trained(seed: int) -> np.ndarray:
        layer = MultiHeadSelfAttention(4, dropout=0.5, seed=seed, kernel_initializer="ones")
        assert (array(layer(x)) == array(layer(x, training=False))).all()
        return array(layer(x, training=True))

    np.testing.assert_array_equal(trained(1), trained(1))
    assert np.abs(trained(1) - trained(2)).max() > 1e-3


def test_heads_must_divide_units() -> None:
    with pytest.raises(ValueError, match=r"divisible by .* Received: units=10, num_heads=4$"):
        MultiHeadSelfAttention(10)
    with pytest.raises(ValueError, match=r"`num_heads` must be a positive .* num_heads=0$"):
        MultiHeadSelfAttention(10, num_heads=0)
