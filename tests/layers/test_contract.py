"""Contract of the layers; other files test the token mixers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import (
    FCSR,
    FOFE,
    Contextualizer,
    FeatureAttention,
    LearnedPositionEncoding,
    Mamba2,
    Relation,
    SegmentEncoding,
    ShortConvolution,
    SinePositionEncoding,
    SoftmaxPositionEncoding,
    TwoDirections,
)
from tests.backends import BACKEND, array, close
from tests.layers import contract
from tests.layers.cases import PLAIN, UNITS, VARIANTS
from tests.layers.contract import *  # noqa: F403
from tests.layers.contract import WIDTH, Case, built


def two_directions(layer_class: type) -> Callable[..., TwoDirections]:
    """Return a function that creates two directions of a new layer."""

    def make(dtype: Any = None, **arguments: Any) -> TwoDirections:
        layer = layer_class(UNITS, causal=True, dtype=dtype)
        return TwoDirections(layer, dtype=dtype, **arguments)

    make.__name__ = f"TwoDirections-{layer_class.__name__}"
    return make


CASES = (
    Case(
        Contextualizer,
        {"rank": 3, "num_steps": 2, "algorithm": "tokens", "initial_context": "learned"},
        4,
        empty_is_zero=False,
    ),
    Case(
        Contextualizer,
        {"rank": 3, "num_steps": 2, "algorithm": "moments"},
        4,
        empty_is_zero=False,
    ),
    Case(FCSR, {"decay": 0.9}, 16, output_type="tokens"),
    Case(FCSR, {"decay": 0.2, "window": 2}, 16, output_type="tokens"),
    Case(FeatureAttention, {"units": 3}, 3),
    Case(ShortConvolution, {"filter_width": 3, "activation": "silu"}, 4, output_type="tokens"),
    Case(SoftmaxPositionEncoding, {}, 4, output_type="tokens"),
    Case(two_directions(Mamba2), {"merge": "concatenate"}, 2 * UNITS, output_type="tokens"),
    Case(two_directions(Relation), {"merge": "sum"}, UNITS, output_type="tokens"),
    *(
        Case(mixer.layer, {"units": UNITS, **mixer.arguments}, UNITS, output_type="tokens")
        for mixer in (*VARIANTS.values(), PLAIN[-1])
    ),
)


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


# `test_keras_contract` and `test_compilation` test the mixers more thoroughly.
others = pytest.mark.parametrize(
    "case", [case for case in CASES if case.layer not in VARIANTS], ids=str
)


@others
def test_keras_contract(case: Case) -> None:
    contract.test_keras_contract(case)


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no XLA here")
@others
def test_compiled(case: Case) -> None:
    contract.test_compiled(case)


INTEGERS = np.arange(2 * 3 * WIDTH).reshape(2, 3, WIDTH) % 5


def test_integers_are_computed_as_floats(case: Case) -> None:
    layer = built(case)
    close(array(layer(INTEGERS)), array(layer(INTEGERS.astype("float32"))))


@pytest.mark.parametrize(
    "make",
    [FOFE, SinePositionEncoding, SegmentEncoding, functools.partial(LearnedPositionEncoding, 2)],
)
def test_encodings_of_integers_are_floats(make: Callable[[], Any]) -> None:
    layer = make()
    for mine, wanted in zip(layer(INTEGERS), layer(INTEGERS.astype("float32")), strict=True):
        close(array(mine), array(wanted))


@pytest.mark.parametrize(
    "make",
    [
        SegmentEncoding,
        SoftmaxPositionEncoding,
        FCSR,
        functools.partial(LearnedPositionEncoding, 2),
        functools.partial(FeatureAttention, 3),
        functools.partial(Contextualizer, 3),
        ShortConvolution,
    ],
)
def test_another_width_than_in_build_is_refused(make: Callable[[], Any]) -> None:
    layer = make()
    layer(np.zeros((1, 3, 4), "float32"))
    for x in (np.zeros((1, 3, 1), "float32"), keras.Input((None, 1))):
        with pytest.raises(ValueError, match="must have the width 4 with which the layer was"):
            layer(x)
