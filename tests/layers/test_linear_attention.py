"""Feature maps and heads of linear attention."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import LinearAttention
from tests.backends import array, close, started, vjp
from tests.layers import naive
from tests.layers.cases import built, meant, poisoned, some, steps, tokens

MAPS = [
    ("sum", "elu"), ("none", "relu"), ("sum", "relu"), ("sum", "softmax"), ("rms", "softmax"),
    ("rms", "identity"), ("none", "identity"), ("sum", "hedgehog"),
]  # fmt: skip


def linear(**arguments: Any) -> Any:
    return built(LinearAttention(6, **arguments))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("normalization", "feature_map"), MAPS)
def test_two_heads_over_several_chunks(normalization: str, feature_map: str, causal: bool) -> None:
    options: dict[str, Any] = {
        "normalization": normalization,
        "feature_map": feature_map,
        "num_heads": 2,
    }
    layer = linear(**options, causal=causal, use_bias=True)
    run = started(lambda x, mask: layer(x, query_mask=mask))
    for length in (1, 65, 200):
        x, mask = tokens(0, 3, length, 4), some(1, 3, length)
        wanted = meant(layer, partial(naive.linear_attention, **options), x, mask)
        close(run(poisoned(x, mask), mask), wanted)


@pytest.mark.parametrize("num_heads", [1, 2, 6])
def test_steps_of_heads_equal_the_whole(num_heads: int) -> None:
    layer = linear(normalization="sum", feature_map="hedgehog", num_heads=num_heads, causal=True)
    x, mask = tokens(0, 3, 5, 4), some(1, 3, 5)
    assert [tuple(part.shape) for part in layer.initial_state(3)] == [
        (3, num_heads, 12 // num_heads, 6 // num_heads),
        (3, num_heads, 1, 12 // num_heads),
    ]
    close(steps(layer, x, mask), array(layer(x, query_mask=mask)))


def test_regularizers_reach_the_matrices_of_hedgehog() -> None:
    layer = LinearAttention(6, "sum", "hedgehog", 2, kernel_regularizer=keras.regularizers.L1(1.0))
    layer.build((None, None, 6))
    expected = sum(np.abs(w).sum() for w in layer.get_weights())
    close(sum(layer.losses), expected)


def test_gradient_of_elu_is_continuous_at_zero() -> None:
    layer, x = linear(normalization="sum"), tokens(0, 2, 5, 4)
    gradients = []
    for value in (0.0, 1e-6, -1e-6):
        x[:, 2] = value
        gradients.append(vjp(layer, [x], [], np.ones((2, 5, 6), "float32"))[1][0])
    for gradient in gradients[1:]:
        close(gradients[0], gradient, 1e-4)


@pytest.mark.parametrize("feature_map", ["elu", "relu", "softmax", "hedgehog"])
def test_half_precision_of_long_texts_is_finite(feature_map: str) -> None:
    """Sums over 70,000 tokens overflow in float16."""
    layer = LinearAttention(4, "sum", feature_map, dtype="float16")
    x = 20 * np.ones((1, 70_000, 4), "float16")
    output, [for_x], _ = vjp(layer, [x], [], np.ones((1, 70_000, 4), "float16"))
    assert np.isfinite(output).all()
    assert np.isfinite(for_x).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"feature_map": "gelu"}, "`feature_map` must be one of 'elu', 'relu', 'softmax'"),
        ({"feature_map": "identity", "normalization": "sum"}, "needs normalization='none' or"),
        ({"variant": "released_code", "num_heads": 2}, "has one head and feature_map='elu'"),
        ({"variant": "released_code", "feature_map": "relu"}, "has one head and feature_map='elu'"),
        ({"num_heads": 4}, "`num_heads` must divide `units`. Received: units=6, num_heads=4"),
        ({"num_heads": 0}, "`num_heads` must be a positive integer"),
    ],
)
def test_arguments_that_cannot_be_combined(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearAttention(6, **arguments)


@pytest.mark.parametrize("causal", [False, True])
def test_keys_that_vanish_in_float32(causal: bool) -> None:
    """elu(-200) + 1 is 0 in float32: the released code divides by its mean over features."""
    layer = linear(normalization="released_code", use_bias=True, causal=causal)
    layer.key_bias.assign(np.full(6, -200.0))
    output, [for_x], for_weights = vjp(layer, [0.1 * tokens(0, 2, 3, 4)], layer.trainable_weights)
    assert all(np.isfinite(x).all() for x in (output, for_x, *for_weights))


def test_small_features_are_exact() -> None:
    """elu(-15) + 1 computed in this order would have one digit in float32."""
    layer, x = linear(normalization="sum", use_bias=True), tokens(0, 2, 9, 4)
    expected = array(layer(x))
    layer.key_bias.assign(layer.key_bias - 18.0)
    keys = x @ array(layer.key_kernel) + array(layer.key_bias)
    weights = np.exp(keys.astype("float64"))
    assert (keys < -9).all()
    query = x @ array(layer.query_kernel) + array(layer.query_bias)
    q = np.where(query > 0, query + 1, np.exp(np.minimum(query, 0)))
    value = x @ array(layer.value_kernel) + array(layer.value_bias)
    scores = q @ np.swapaxes(weights, 1, 2)
    wanted = (scores / scores.sum(axis=-1, keepdims=True)) @ value
    assert np.abs(expected - wanted).max() > 1e-3  # the bias has an effect
    close(array(layer(x)), wanted)
