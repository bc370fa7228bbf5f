"""Checks of layers by Keras's testing module."""

from __future__ import annotations

import pytest

from relation_tf.layers import SinePositionEncoding
from tests.keras_testing import run_layer_test
from tests.layers.cases import PLAIN, UNITS, Case, one_fast

EACH_LAYER = {case.layer: case for case in PLAIN}.values()  # its last variant
each_layer = pytest.mark.parametrize("case", one_fast(EACH_LAYER))


@each_layer
def test_one_input(case: Case) -> None:
    dropout = {"dropout": case.dropout, "seed": 1} if case.dropout else {}
    run_layer_test(
        case.layer,
        {
            "units": UNITS,
            **case.arguments,
            **dropout,
            "use_bias": True,
            "output_projection": True,
            "kernel_regularizer": "l2",
            "bias_regularizer": "l1",
        },
        input_shape=(2, 5, 4),
        expected_output_shape=(2, 5, UNITS),
        expected_output_dtype="float32",
        expected_num_seed_generators=int(case.dropout > 0),
        expected_num_non_trainable_weights=0,
        supports_masking=True,
    )


@each_layer
def test_two_inputs(case: Case) -> None:
    run_layer_test(
        case.layer,
        {"units": UNITS, **case.arguments},
        input_shape={"query_shape": (2, 1, 4), "value_shape": (2, 5, 4)},
        expected_output_shape=(2, 1, UNITS),
        supports_masking=True,
        run_training_check=False,  # Keras would pass both inputs as one dictionary.
    )


def test_sine_position_encoding() -> None:
    run_layer_test(
        SinePositionEncoding,
        {},
        input_shape=(2, 5, 4),
        expected_output_shape=(2, 5, 4),
        expected_num_trainable_weights=0,
        expected_num_seed_generators=0,
        supports_masking=True,
        run_training_check=False,  # The layer has no weights.
    )
