"""Local attention over several blocks equals attention with a mask of all pairs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from relation_tf.layers import LocalAttention
from relation_tf.layers.local_attention import block_size
from tests.backends import array, close, started, vjp, with_unknown_length
from tests.layers import naive
from tests.layers.cases import built, meant, poisoned, some, tokens


def local(causal: bool, window: int, global_tokens: int) -> Any:
    return built(LocalAttention(6, window, global_tokens, causal=causal, use_bias=True))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("window", "global_tokens"), [(1, 0), (3, 2), (32, 1), (33, 0), (70, 3), (500, 0)]
)
def test_several_blocks(causal: bool, window: int, global_tokens: int) -> None:
    layer = local(causal, window, global_tokens)
    equation = partial(naive.local_attention, window=window, global_tokens=global_tokens)
    run = started(lambda *arguments: layer(*arguments))
    for length in (1, 63, 65, 130):
        mask, other = some(1, 3, length), some(2, 3, length)
        x, value = tokens(0, 3, length, 4), tokens(3, 3, length, 4)
        given, others = poisoned(x, mask), poisoned(value, other)
        close(run(given, None, mask), meant(layer, equation, x, mask))
        close(run(given, others, mask, other), meant(layer, equation, x, mask, value, other))


@pytest.mark.parametrize("causal", [False, True])
def test_tokens_outside_the_window_have_no_gradient(causal: bool) -> None:
    layer, x = local(causal, 5, 1), tokens(0, 1, 100, 4)
    cotangent = np.zeros((1, 100, 6), "float32")
    cotangent[:, 50] = 1
    _, [for_x], _ = vjp(layer, [x], layer.weights, cotangent)
    reached = np.flatnonzero(for_x[0].any(axis=-1))
    assert reached.tolist() == [0, *range(46, 51 if causal else 55)]


def test_a_readout_equals_the_first_token() -> None:
    layer, x = local(False, 3, 1), tokens(0, 2, 40, 4)
    close(array(layer(x[:, :1], x)), array(layer(x))[:, :1])


def test_a_long_window_has_blocks_as_long_as_the_text() -> None:
    assert [block_size(500, length) for length in (1, 40, 600)] == [32, 40, 500]


@pytest.mark.tensorflow
@pytest.mark.parametrize("causal", [False, True])
def test_an_unknown_length_below_the_window(causal: bool) -> None:
    layer = local(causal, 70, 2)
    run = with_unknown_length(layer, [tokens(0, 2, 1, 4)])
    for length in (1, 40, 200):
        x = tokens(0, 2, length, 4)
        close(run(x)[0], array(layer(x)))
