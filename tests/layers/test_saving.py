"""Configurations and `.keras` files restore equal layers."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import (
    FCSR,
    Attention,
    Contextualizer,
    FeatureAttention,
    LearnedPositionEncoding,
    LinearAttention,
    PointwiseMLP,
    Relation,
    SegmentEncoding,
    SinePositionEncoding,
    SoftmaxPositionEncoding,
)
from relation_tf.networks.recurrent import RecurrentNetwork
from tests.backends import array, close
from tests.layers.cases import MIXERS, PLAIN, Case, randomize

# All arguments, with values other than the defaults.
COMMON = {
    "units": 7,
    "variant": "released_code",
    "use_bias": True,
    "dropout": 0.25,
    "output_projection": True,
    "algorithm": "direct",
    "kernel_initializer": "he_normal",
    "bias_initializer": "ones",
    "kernel_regularizer": "l2",
    "bias_regularizer": "l1",
    "seed": 3,
    "name": "mine",
    "dtype": "mixed_bfloat16",
    "trainable": False,
}
ARGUMENTS: list[tuple[type, dict[str, Any]]] = [
    (Attention, {**COMMON, "num_heads": 7, "causal": True}),
    (
        LinearAttention,
        {
            **COMMON,
            "normalization": "released_code",
            "feature_map": "elu",
            "num_heads": 1,
            "causal": False,
        },
    ),
    (
        LinearAttention,
        {
            **COMMON,
            "normalization": "none",
            "feature_map": "hedgehog",
            "num_heads": 7,
            "causal": True,
            "dropout": 0.0,
        },
    ),
    (Relation, {**COMMON, "activation": "tanh", "num_heads": 1, "causal": True}),
    (PointwiseMLP, {**COMMON, "use_bias": False, "activation": "gelu", "gated": True}),
    (
        LearnedPositionEncoding,
        {
            "max_length": 5,
            "initializer": "zeros",
            "name": "mine",
            "dtype": "mixed_bfloat16",
            "trainable": False,
        },
    ),
    (
        SegmentEncoding,
        {"initializer": "zeros", "name": "mine", "dtype": "float32", "trainable": False},
    ),
    (SinePositionEncoding, {"name": "mine", "dtype": "mixed_bfloat16", "trainable": False}),
]


@pytest.mark.parametrize(("layer_class", "arguments"), ARGUMENTS)
def test_configuration_has_all_arguments(layer_class: type, arguments: dict[str, Any]) -> None:
    layer = layer_class(**arguments)
    config = layer.get_config()
    for name in config.keys() & COMMON.keys() - {"dtype"}:
        assert not name.endswith("izer") or config[name] is not None
    again = layer_class.from_config(config)
    assert again.get_config() == config
    assert set(config) == set(arguments)
    for name, value in arguments.items():
        if name == "activation":
            assert getattr(again, name) is keras.activations.get(value)
        elif name == "dtype":
            assert again.dtype_policy.name == value
        elif name.endswith("initializer"):
            assert type(getattr(again, name)) is type(keras.initializers.get(value))
        elif name.endswith("regularizer"):
            assert type(getattr(again, name)) is type(keras.regularizers.get(value))
        else:
            assert getattr(again, name) == value


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


@keras.saving.register_keras_serializable(package="tests")
def fives(shape: tuple[int, ...], dtype: Any = None) -> Any:
    return keras.ops.full(shape, 5.0, dtype)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (partial(Relation, 4), "kernel_initializer"),
        (partial(PointwiseMLP, 4), "bias_initializer"),
        (partial(RecurrentNetwork, 4), "recurrent_initializer"),
        (partial(LearnedPositionEncoding, 4), "initializer"),
        (SegmentEncoding, "initializer"),
        (SoftmaxPositionEncoding, "initializer"),
    ],
)
def test_an_initializer_can_be_a_function(make: Any, name: str) -> None:
    layer = make(**{name: fives})
    for each in (layer, type(layer).from_config(layer.get_config())):
        each.build((None, None, 4))
        assert any((array(w) == 5).all() for w in each.weights)


@pytest.mark.parametrize(
    "initializer",
    ["glorot_uniform", keras.initializers.RandomNormal(), keras.initializers.GlorotUniform()],
    ids=["name", "normal", "glorot"],
)
@pytest.mark.parametrize(
    "make",
    [
        *(partial(mixer, 4, output_projection=True) for mixer in MIXERS),
        FCSR,
        partial(FeatureAttention, 4),
        partial(Contextualizer, 4),
    ],
)
def test_initial_matrices_differ(make: Any, initializer: Any) -> None:
    layer = make(kernel_initializer=initializer)
    layer.build((None, None, 5))
    matrices = [
        array(w) for w in layer.weights if w.name not in ZERO_AT_FIRST and len(w.shape) == 2
    ]
    assert len(matrices) > 1
    for i, one in enumerate(matrices):
        for other in matrices[:i]:
            assert one.shape != other.shape or not np.allclose(one, other)


IDS = np.array([[5, 2, 9, 0], [1, 3, 3, 7]])


@keras.saving.register_keras_serializable(package="tests")
class Reader(keras.Model):
    """Subclassed model around a layer."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.embedding = keras.layers.Embedding(10, 4, mask_zero=True)
        self.positions = SinePositionEncoding()
        self.layer = layer
        self.head = keras.layers.Dense(2)

    def call(self, ids: Any) -> Any:
        return self.head(self.layer(self.positions(self.embedding(ids))))

    def get_config(self) -> dict[str, Any]:
        return {"layer": keras.saving.serialize_keras_object(self.layer)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Reader:
        return cls(keras.saving.deserialize_keras_object(config["layer"]))


def functional(layer: Any) -> keras.Model:
    ids = keras.Input((None,), dtype="int32")
    x = SinePositionEncoding()(keras.layers.Embedding(10, 4, mask_zero=True)(ids))
    mask = keras.ops.not_equal(ids, 0)
    first = keras.ops.expand_dims(x[:, 0], axis=1)
    outputs = [layer(x), layer(first, x, query_mask=mask[:, :1], value_mask=mask)]
    return keras.Model(ids, [keras.layers.Dense(2)(y) for y in outputs])


@pytest.mark.parametrize(
    ("case", "make_model"),
    [(PLAIN[0], Reader), *((case, functional) for case in PLAIN)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_keras_file_round_trip(case: Case, make_model: Any, tmp_path: Path) -> None:
    model = make_model(case.make(dropout=case.dropout))
    started = model(IDS)
    randomize(model)
    changed = model(IDS)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    compared = [again(IDS), changed, started]
    if make_model is Reader:
        compared = [[output] for output in compared]
    for output, expected, other in zip(*compared, strict=True):
        close(array(output), array(expected), 1e-6)
        assert not np.allclose(array(output), array(other))
