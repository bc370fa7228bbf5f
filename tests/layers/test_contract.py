"""Contract of the layers; other files test the token mixers."""

from __future__ import annotations

import pytest

from relation_tf.layers import (
    FCSR,
    Contextualizer,
    FeatureAttention,
    ShortConvolution,
    SoftmaxPositionEncoding,
)
from tests.backends import BACKEND
from tests.layers import contract
from tests.layers.cases import PLAIN, UNITS, VARIANTS
from tests.layers.contract import *  # noqa: F403
from tests.layers.contract import Case

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
