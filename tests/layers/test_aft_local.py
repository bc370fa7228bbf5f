"""Windows of AFT-local that are longer than a block or than the text."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from relation_tf.layers import AFTLocal
from tests.backends import array, close
from tests.layers import naive
from tests.layers.cases import randomize, tokens, weights_of


def built(window: int) -> Any:
    layer = AFTLocal(6, window)
    layer.build((None, None, 4))
    randomize(layer)
    return layer


@pytest.mark.parametrize("window", [63, 65, 500])
def test_windows_of_any_length(window: int) -> None:
    layer = built(window)
    for length in (1, 20, 64, 130):
        x = tokens(0, 2, length, 4)
        wide, kept = x.astype("float64"), np.ones((2, length), "bool")
        equation = partial(naive.aft_local, window=window)
        meant = naive.mix(equation, weights_of(layer), wide, wide, kept, kept, positional=True)
        close(array(layer(x)), meant)


@pytest.mark.parametrize("largest", [90.0, -200.0])
def test_large_position_biases(largest: float) -> None:
    """The exponential of 90 is infinite in float32."""
    layer = built(2)
    layer.position_bias.assign([0.5, largest, -0.5])
    x = tokens(0, 2, 9, 4)
    wide, kept = x.astype("float64"), np.ones((2, 9), "bool")
    equation = partial(naive.aft_local, window=2)
    meant = naive.mix(equation, weights_of(layer), wide, wide, kept, kept, positional=True)
    close(array(layer(x)), meant)


def test_a_block_is_not_longer_than_the_text() -> None:
    layer = built(500)
    assert [layer._block_size(length) for length in (1, 40, 600)] == [1, 40, 500]


def test_an_empty_batch() -> None:
    assert array(built(3)(tokens(0, 0, 5, 4))).shape == (0, 5, 6)


@pytest.mark.tensorflow
def test_an_unknown_length_below_the_window() -> None:
    import tensorflow as tf

    layer = built(100)
    unknown = tf.TensorSpec((None, None, 4), tf.float32)
    run = tf.function(lambda x: layer(x), input_signature=[unknown], autograph=False)
    for length in (1, 40, 200):
        x = tokens(0, 2, length, 4)
        close(array(run(x)), array(layer(x)))
