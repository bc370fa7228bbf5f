from __future__ import annotations

import keras
import numpy as np
import pytest

from relation_tf.networks.encoders import MultiHeadSelfAttention
from tests.backends import array, close, vjp
from tests.layers import naive
from tests.layers.cases import close_slopes, poisoned, randomize, tokens

QUERY_MASK = np.array([[True, True, False], [True, False, False], [True] * 3])
VALUE_MASK = np.array([[True, False, True, True], [True, True, False, False], [False] * 4])


def heads(query: np.ndarray, value: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """Return the sum of the projected heads of one sequence."""
    wq, bq, wk, bk, wv, bv, wo, bo = weights
    y = np.zeros((len(query), len(bo)))
    everything = np.ones((len(query), len(value)), bool)
    for i in range(len(bq)):
        names = ("query_kernel", "query_bias", "key_kernel", "key_bias", "value_kernel")
        own = dict(zip(names, (wq[:, i], bq[i], wk[:, i], bk[i], wv[:, i]), strict=True))
        y += naive.attention(query, value, {**own, "value_bias": bv[i]}, everything) @ wo[i]
    return y + bo


@pytest.mark.parametrize(("num_heads", "key_dim"), [(2, 5), (3, 2), (2, None)])
def test_equation_and_gradients(num_heads: int, key_dim: int | None) -> None:
    """Also with heads of another total width than the output."""
    query = poisoned(tokens(0, 3, 3, 5), QUERY_MASK).astype("float32")
    value = poisoned(tokens(1, 3, 4, 6), VALUE_MASK).astype("float32")
    layer = MultiHeadSelfAttention(4, num_heads, key_dim=key_dim)
    layer.build(query.shape, value.shape)
    randomize(layer)
    assert layer.weights[0].shape == (5, num_heads, key_dim or 2)
    wide = [x.astype("float64") for x in (query, value)]
    weights = [array(variable).astype("float64") for variable in layer.weights]

    def expected() -> np.ndarray:
        output = np.zeros((3, 3, 4))
        masks = zip(QUERY_MASK, VALUE_MASK, strict=True)
        for b, (mask, kept) in enumerate(masks):
            if kept.any():
                output[b][mask] = heads(wide[0][b][mask], wide[1][b][kept], weights)
        return output

    cotangent = np.random.default_rng(1).normal(size=(3, 3, 4))

    def loss() -> float:
        return float(np.sum(expected() * cotangent))

    output, for_inputs, for_weights = vjp(
        lambda query, value: layer(query, value, query_mask=QUERY_MASK, value_mask=VALUE_MASK),
        [query, value],
        layer.weights,
        cotangent,
    )
    close(output, expected())
    close_slopes(loss, [*wide, *weights], [*for_inputs, *for_weights])


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
    expected[-1] = 0  # All tokens are masked.
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
