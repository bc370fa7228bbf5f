"""Contract of the layers; other files test the token mixers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
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
from tests.backends import array, close
from tests.layers import contract, naive
from tests.layers.cases import PLAIN, UNITS, VARIANTS, built, tokens
from tests.layers.contract import *  # noqa: F403
from tests.layers.contract import WIDTH, Case


def two_directions(layer_class: type) -> Callable[..., TwoDirections]:
    """Return a function that creates two directions of a new layer."""

    def make(dtype: Any = None, **arguments: Any) -> TwoDirections:
        layer = layer_class(UNITS, causal=True, dtype=dtype)
        return TwoDirections(layer, dtype=dtype, **arguments)

    make.__name__ = f"TwoDirections-{layer_class.__name__}"
    return make


def contextualizer(x: np.ndarray, w: Mapping[str, np.ndarray], epsilon: float) -> np.ndarray:
    return naive.contextualizer(x, w, w.get("context", np.ones(WIDTH)), 2, epsilon)


def short_convolution(x: np.ndarray, w: Mapping[str, np.ndarray]) -> np.ndarray:
    """Sum over the tokens of one sequence; the last row of the kernel is for the token itself."""
    kernel, *bias = w.values()
    y = np.zeros_like(x) + sum(bias)
    for t in range(len(x)):
        for s, row in enumerate(kernel[::-1]):
            y[t] += row * x[t - s] if t >= s else 0
    return y


def positions(x: np.ndarray, w: Mapping[str, np.ndarray]) -> np.ndarray:
    return naive.softmax_position_encoding(x, *w.values())


CONTEXT = {"rank": 3, "num_steps": 2}
TOKENS = {"output_type": "tokens"}
CASES = (
    *(
        Case(Contextualizer, {**CONTEXT, **more}, 4,
             equation=partial(contextualizer, epsilon=more.get("epsilon", 1e-5)))
        for more in (
            {"algorithm": "tokens", "initial_context": "learned"},
            # The first step of rank 2 has another formula than that of rank 3.
            {"algorithm": "tokens", "rank": 2, "use_bias": False},
            {"algorithm": "moments", "use_bias": False},
            {"initial_context": "learned", "epsilon": 10.0},
        )
    ),
    *(
        Case(FCSR, {"decay": decay, "window": window}, 16, "tokens",
             partial(naive.fcsr, decay=decay, window=window))
        for decay, window in ((0, None), (0.2, 2), (0.999, None))
    ),
    Case(FeatureAttention, {"units": 3}, 3, equation=naive.feature_attention),
    Case(FeatureAttention, {"units": 3, "products": "elements"}, 3,
         equation=naive.feature_products),
    *(
        Case(ShortConvolution, {"filter_width": width, "use_bias": bias}, 4, "tokens",
             short_convolution)
        for width, bias in ((1, True), (2, False), (4, True))
    ),
    Case(SoftmaxPositionEncoding, {}, 4, "tokens", positions),
    Case(two_directions(Mamba2), {"merge": "concatenate"}, 2 * UNITS, "tokens"),
    Case(two_directions(Relation), {"merge": "sum"}, UNITS, "tokens"),
)  # fmt: skip


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.mark.parametrize("mixer", [*VARIANTS.values(), PLAIN[-1]], ids=str)
def test_half_precision_of_a_mixer(mixer: Any) -> None:
    own = Case(mixer.layer, {"units": UNITS, **mixer.arguments}, UNITS, "tokens")
    contract.test_half_precision_is_close_to_float32(own)


INTEGERS = np.arange(2 * 3 * WIDTH).reshape(2, 3, WIDTH) % 5


@pytest.mark.parametrize(
    "make",
    [FCSR, FOFE, ShortConvolution, SinePositionEncoding, SegmentEncoding, SoftmaxPositionEncoding,
     partial(Relation, 3), partial(FeatureAttention, 3), partial(Contextualizer, 3),
     partial(LearnedPositionEncoding, 2)],
)  # fmt: skip
def test_integers_are_computed_as_floats(make: Callable[..., Any]) -> None:
    layer = make()
    for own, wanted in zip(layer(INTEGERS), layer(INTEGERS.astype("float32")), strict=True):
        close(array(own), array(wanted))


@pytest.mark.parametrize("make", [SegmentEncoding, FCSR, partial(FeatureAttention, 3)])
def test_another_width_than_in_build_is_refused(make: Callable[[], Any]) -> None:
    layer = built(make())
    for x in (np.zeros((1, 3, 1), "float32"), keras.Input((None, 1))):
        with pytest.raises(ValueError, match="must have the width 4 with which the layer was"):
            layer(x)


@pytest.mark.parametrize("width", [4, 512])
def test_short_convolutions_start_with_the_variance_of_the_inputs(width: int) -> None:
    x = tokens(0, 4, 200, width)
    assert 0.7 < array(ShortConvolution()(x)).std() < 1.3
