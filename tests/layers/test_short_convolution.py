"""The short convolution equals a direct sum over the unmasked tokens."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import ShortConvolution
from tests.backends import array, close
from tests.layers.cases import poisoned, randomize, some, tokens


def direct(x: np.ndarray, kernel: np.ndarray, bias: np.ndarray | float) -> np.ndarray:
    """Sum over the tokens of one sequence; the last row of the kernel is for the token itself."""
    y = np.zeros_like(x) + bias
    for t in range(len(x)):
        for s, row in enumerate(kernel[::-1]):
            y[t] += row * x[t - s] if t >= s else 0
    return y


def built(**arguments: Any) -> Any:
    layer = ShortConvolution(**arguments)
    layer.build((None, None, 4))
    randomize(layer)
    return layer


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize(("filter_width", "length"), [(1, 3), (4, 1), (4, 3), (2, 65)])
def test_direct_sum(filter_width: int, length: int, use_bias: bool) -> None:
    layer = built(filter_width=filter_width, use_bias=use_bias)
    x, mask = tokens(0, 3, length, 4), some(1, 3, length)
    expected = np.zeros_like(x)
    kernel, *bias = layer.get_weights()
    for row, kept, y in zip(x, mask, expected, strict=True):
        y[kept] = direct(row[kept], kernel, bias[0] if bias else 0.0)
    close(array(layer(poisoned(x, mask), mask=mask)), expected)


def test_steps_equal_the_whole() -> None:
    layer = built(filter_width=3, activation="silu")
    x, mask = tokens(0, 3, 7, 4), some(1, 3, 7)
    state, outputs = layer.initial_state(3), []
    for t in range(7):
        y, state = layer.step(poisoned(x, mask)[:, t : t + 1], state, mask[:, t : t + 1])
        outputs.append(array(y))
    close(np.concatenate(outputs, axis=1), array(layer(x, mask=mask)))


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


@pytest.mark.parametrize("width", [1, 8])
def test_inputs_have_the_width_of_the_build(width: int) -> None:
    layer = built()
    for x in (tokens(0, 2, 5, width), keras.Input((5, width))):
        with pytest.raises(ValueError, match=r"`x` must have the width 4 with which the layer"):
            layer(x)


def test_a_layer_that_is_not_built_has_no_state() -> None:
    layer = ShortConvolution()
    with pytest.raises(ValueError, match="no state before it is built"):
        layer.initial_state(2)
    with pytest.raises(ValueError, match="no state before it is built"):
        layer.step(tokens(0, 2, 1, 4), np.zeros((2, 3, 4)))
