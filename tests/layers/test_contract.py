"""Contract of the layers; other files test the token mixers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from relation_tf.layers import (
    FCSR,
    Contextualizer,
    FeatureAttention,
    Mamba2,
    Relation,
    ShortConvolution,
    SoftmaxPositionEncoding,
    TwoDirections,
)
from tests.backends import BACKEND
from tests.layers import contract
from tests.layers.cases import PLAIN, UNITS, VARIANTS
from tests.layers.contract import *  # noqa: F403
from tests.layers.contract import Case


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
