"""The recurrence of each feature in chunks equals the recurrence token by token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from relation_tf.layers import MinGRU, MinLSTM
from relation_tf.layers.min_gru import elementwise_recurrence
from tests.backends import close, close_gradients, started, vjp, with_unknown_length
from tests.layers import naive
from tests.layers.cases import built, meant, poisoned, some, tokens


def terms(length: int) -> list[np.ndarray]:
    """Return random values and log decays, those from -400 to -0.002."""
    shape = (2, length, 2, 3)
    return [tokens(0, *shape), -np.exp(2 * tokens(1, *shape))]


def expected(values: np.ndarray, log_decays: np.ndarray) -> np.ndarray:
    values, decays = values.astype("float64"), np.exp(log_decays.astype("float64"))
    states = [np.zeros_like(values[:, 0])]
    for t in range(values.shape[1]):
        states.append(decays[:, t] * states[-1] + values[:, t])
    return np.stack(states[1:], axis=1)


def gradients(arrays: list[np.ndarray], cotangent: np.ndarray) -> list[np.ndarray]:
    """Return the gradients for values and log decays, from the last token to the first."""
    decays = np.exp(arrays[1].astype("float64"))
    after = np.pad(decays, ((0, 0), (0, 1), (0, 0), (0, 0)))[:, 1:]
    # g_t = cotangent_t + a_{t+1} g_{t+1} is the same recurrence over the reversed tokens.
    with np.errstate(divide="ignore"):
        passed = expected(cotangent[:, ::-1], np.log(after[:, ::-1]))[:, ::-1]
    before = np.pad(expected(*arrays), ((0, 0), (1, 0), (0, 0), (0, 0)))[:, :-1]
    return [passed, passed * decays * before]


@pytest.mark.parametrize("length", [1, 3, 4, 5, 63, 65, 257, 2050])
def test_outputs_and_gradients(length: int) -> None:
    arrays, cotangent = terms(length), tokens(4, 2, length, 2, 3)
    output, actual, _ = vjp(elementwise_recurrence, arrays, [], cotangent)
    close(output, expected(*arrays))
    close_gradients(actual, gradients(arrays, cotangent))


def test_a_large_decay_does_not_disturb_small_ones() -> None:
    """The difference of two sums of logarithms around -1e6 has no digits for 0.01."""
    values, log_decays = terms(150)
    log_decays = np.full_like(log_decays, -0.01)
    log_decays[:, [3, 70]] = -1e6
    inputs = map(ops.convert_to_tensor, (values, log_decays))
    close(elementwise_recurrence(*inputs), expected(values, log_decays))


@pytest.mark.tensorflow
@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_unknown_length(xla: bool) -> None:
    arrays = terms(100)
    unknown = with_unknown_length(elementwise_recurrence, arrays, xla)
    output, actual = unknown(*arrays)
    close(output, expected(*arrays))
    close_gradients(actual, gradients(arrays, np.ones((2, 100, 2, 3))))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("layer_class", [MinGRU, MinLSTM])
def test_layers_with_several_chunks(layer_class: Any, causal: bool) -> None:
    layer = built(layer_class(6, causal=causal))
    x, mask = tokens(0, 3, 130, 4), some(1, 3, 130)
    run = started(lambda x, mask: layer(x, query_mask=mask))
    close(run(poisoned(x, mask), mask), meant(layer, naive.min_gru, x, mask), 5e-5)
