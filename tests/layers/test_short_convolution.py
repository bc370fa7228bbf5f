"""Steps and errors of the short convolution; `test_contract` compares it with its equation."""

from __future__ import annotations

import numpy as np
import pytest

from relation_tf.layers import ShortConvolution
from tests.backends import array, close
from tests.layers.cases import built, poisoned, some, steps, tokens


def test_steps_equal_the_whole() -> None:
    layer = built(ShortConvolution(3, activation="silu"))
    x, mask = tokens(0, 3, 7, 4), some(1, 3, 7)
    outputs = steps(layer, poisoned(x, mask), mask, layer.initial_state(3))
    close(outputs, array(layer(x, mask=mask)))


@pytest.mark.parametrize("width", [4, 512])
def test_outputs_start_with_the_variance_of_the_inputs(width: int) -> None:
    x = tokens(0, 4, 200, width)
    assert 0.7 < array(ShortConvolution()(x)).std() < 1.3


@pytest.mark.parametrize(
    ("shape", "mask", "message"),
    [
        ((2, 4), None, r"`x` must have shape"),
        ((2, 2, 4), None, r"`x` must have shape \(batch, 1, width\).*\(2, 2, 4\)$"),
        ((2, 1, 4), (2,), r"`mask` must have shape \(batch, 1\).*mask\.shape=\(2,\)"),
        ((2, 1, 4), (3, 1), r"mask\.shape=\(3, 1\), x\.shape=\(2, 1, 4\)$"),
        ((2, 1, 1), None, r"`x` must have the width 4.*x\.shape=\(2, 1, 1\)$"),
        ((3, 1, 4), None, r"`state` must have the batch size of `x`"),
    ],
)
def test_a_step_takes_one_token(
    shape: tuple[int, ...], mask: tuple[int, ...] | None, message: str
) -> None:
    layer = ShortConvolution()
    layer.build((None, None, 4))
    given = None if mask is None else np.ones(mask, bool)
    with pytest.raises(ValueError, match=message):
        layer.step(np.ones(shape, "float32"), layer.initial_state(2), given)


def test_a_layer_that_is_not_built_has_no_state() -> None:
    layer = ShortConvolution()
    with pytest.raises(ValueError, match="no state before it is built"):
        layer.initial_state(2)
    with pytest.raises(ValueError, match="no state before it is built"):
        layer.step(tokens(0, 2, 1, 4), np.zeros((2, 3, 4)))
