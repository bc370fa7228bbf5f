"""Configurations and `.keras` files restore equal layers."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import FCSR, Contextualizer, FeatureAttention, SinePositionEncoding
from tests.backends import array, close
from tests.layers.cases import MIXERS, PLAIN, Case, one_fast, randomize

# Values other than the defaults.
COMMON = {
    "variant": "released_code",
    "kernel_initializer": "he_normal",
    "bias_initializer": "ones",
    "kernel_regularizer": "l2",
    "bias_regularizer": "l1",
    "seed": 3,
    "name": "mine",
    "dtype": "mixed_bfloat16",
    "trainable": False,
}


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_configuration_keeps_all_values(case: Case) -> None:
    layer = case.make(**COMMON, dropout=case.dropout / 2)
    config = layer.get_config()
    again = type(layer).from_config(config)
    assert again.get_config() == config
    assert {"dropout": case.dropout / 2, **case.arguments}.items() <= config.items()
    assert (again.variant, again.seed, again.name, again.trainable) == (
        "released_code", 3, "mine", False
    )  # fmt: skip
    assert again.dtype_policy.name == "mixed_bfloat16"
    assert isinstance(again.kernel_initializer, keras.initializers.HeNormal)
    assert isinstance(again.bias_initializer, keras.initializers.Ones)
    assert isinstance(again.kernel_regularizer, keras.regularizers.L2)
    assert isinstance(again.bias_regularizer, keras.regularizers.L1)


ZERO_AT_FIRST = ("i_kernel", "f_kernel")  # of MLSTM


@pytest.mark.parametrize("layer_class", [*MIXERS, Contextualizer])
def test_regularizers_and_initializers_reach_the_weights(layer_class: type) -> None:
    biased = {} if layer_class is Contextualizer else {"use_bias": True}
    layer = layer_class(
        4,
        kernel_initializer="ones",
        bias_initializer="ones",
        kernel_regularizer=keras.regularizers.L1(1.0),
        bias_regularizer=keras.regularizers.L1(0.5),
        **biased,
    )
    layer.build((None, None, 5))
    own = [w for w in layer.weights if "bias" in w.name or "kernel" in w.name]
    own = [w for w in own if w.name not in ZERO_AT_FIRST]
    assert all((array(w) == 1).all() for w in own)
    matrices, biases = (
        sum(math.prod(w.shape) for w in own if len(w.shape) == axes) for axes in (2, 1)
    )
    assert biases > 0
    assert array(sum(layer.losses)) == matrices + biases / 2


@pytest.mark.parametrize(
    "make",
    [
        *(partial(mixer, 4, output_projection=True) for mixer in MIXERS),
        FCSR,
        partial(FeatureAttention, 4),
        partial(Contextualizer, 4),
    ],
)
def test_initial_matrices_differ(make: Any) -> None:
    layer = make(kernel_initializer=keras.initializers.RandomNormal())
    layer.build((None, None, 5))
    matrices = [
        array(w) for w in layer.weights if w.name not in ZERO_AT_FIRST and len(w.shape) == 2
    ]
    assert len(matrices) > 1
    for i, one in enumerate(matrices):
        for other in matrices[:i]:
            assert one.shape != other.shape or not np.allclose(one, other)


IDS = np.array([[5, 2, 9, 0], [1, 3, 3, 7]])
# One variant of each mixer, of which `test_configuration_keeps_all_values` tests the others.
EACH_MIXER = {case.layer: case for case in PLAIN}.values()


def functional(layer: Any) -> keras.Model:
    ids = keras.Input((None,), dtype="int32")
    x = SinePositionEncoding()(keras.layers.Embedding(10, 4, mask_zero=True)(ids))
    mask = keras.ops.not_equal(ids, 0)
    first = keras.ops.expand_dims(x[:, 0], axis=1)
    outputs = [layer(x), layer(first, x, query_mask=mask[:, :1], value_mask=mask)]
    return keras.Model(ids, [keras.layers.Dense(2)(y) for y in outputs])


@pytest.mark.parametrize("case", one_fast(EACH_MIXER))
def test_keras_file_round_trip(case: Case, tmp_path: Path) -> None:
    model = functional(case.make(dropout=case.dropout))
    started = model(IDS)
    randomize(model)
    changed = model(IDS)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    for output, expected, other in zip(again(IDS), changed, started, strict=True):
        close(array(output), array(expected), 1e-6)
        assert not np.allclose(array(output), array(other))
