"""The delta rule in chunks equals the recurrence token by token."""

from __future__ import annotations

import numpy as np
import pytest

from relation_tf.layers import delta_net
from relation_tf.layers.delta_net import delta_rule
from tests.backends import close, close_gradients, hessian_product, vjp, with_unknown_length
from tests.layers import naive
from tests.layers.cases import some, tokens


def terms(length: int) -> list[np.ndarray]:
    """Return queries, keys, values and log decays; masked tokens have zero keys and log decays."""
    q, k, v = (tokens(seed, 2, length, 2, width) for seed, width in ((0, 3), (1, 3), (2, 4)))
    kept = some(5, 3, length)[:2, :, None]
    strengths = kept / (1 + np.exp(-2 * tokens(3, 2, length, 2)))
    root = np.sqrt(strengths)[..., None]
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    log_decays = -np.exp(2 * tokens(4, 2, length, 2)) * kept
    return [x.astype("float32") for x in (q, root * k, root * v, log_decays)]


def expected(arrays: list[np.ndarray]) -> np.ndarray:
    """Return the outputs of the recurrence, in float64."""
    q, k, v, log_decays = (x.astype("float64") for x in arrays)
    a, count = np.exp(log_decays), np.arange(1, q.shape[1] + 1)
    rows = zip(q, k, v, a, np.ones(a.shape), strict=True)
    return np.stack([naive.delta_rule(*row, count) for row in rows])


def recurrent_gradients(arrays: list[np.ndarray], cotangent: np.ndarray) -> list[np.ndarray]:
    """Return the gradients by going back through the states, in float64."""
    q, k, v, log_decays = (np.moveaxis(x.astype("float64"), 1, 0) for x in arrays)
    a = np.exp(log_decays)[..., None, None]
    k, v, q, cotangent = k[..., None], v[..., None], q[..., None], cotangent[..., None]
    cotangent = np.moveaxis(cotangent.astype("float64"), 1, 0)
    states = [np.zeros((*k.shape[1:4], v.shape[3]))]
    for t in range(len(q)):
        decayed = a[t] * states[-1]
        states.append(decayed + k[t] * (v[t].mT - k[t].mT @ decayed))
    gradients = [np.zeros(x.shape) for x in (q, k, v, a)]
    for_state = np.zeros(states[0].shape)
    for t in reversed(range(len(q))):
        gradients[0][t] = states[t + 1] @ cotangent[t]
        for_state = for_state + q[t] * cotangent[t].mT
        decayed = a[t] * states[t]
        for_error = for_state.mT @ k[t]
        gradients[1][t] = for_state @ (v[t] - decayed.mT @ k[t]) - decayed @ for_error
        gradients[2][t] = for_error
        for_decayed = for_state - k[t] * for_error.mT
        gradients[3][t] = (for_decayed * decayed).sum(axis=(-2, -1), keepdims=True)
        for_state = a[t] * for_decayed
    q, k, v, a = (np.moveaxis(x[..., 0], 0, 1) for x in gradients)
    return [q, k, v, a[..., 0]]


def check(arrays: list[np.ndarray]) -> None:
    """Compare outputs and gradients."""
    cotangent = tokens(6, *arrays[2].shape)
    output, gradients, _ = vjp(delta_rule, arrays, [], cotangent)
    close(output, expected(arrays))
    close_gradients(gradients, recurrent_gradients(arrays, cotangent))


@pytest.mark.parametrize("length", [1, 63, 64, 65, 257])
def test_outputs_and_gradients(length: int) -> None:
    check(terms(length))


def test_second_derivatives() -> None:
    """Compare with central differences of the gradients of the recurrence, in float64."""
    arrays, cotangent = terms(65), tokens(6, 2, 65, 2, 4)
    directions = [tokens(seed, *x.shape) for seed, x in enumerate(arrays, 7)]
    step = 1e-5
    above, below = (
        recurrent_gradients(
            [
                x + sign * step * d.astype("float64")
                for x, d in zip(arrays, directions, strict=True)
            ],
            cotangent,
        )
        for sign in (1, -1)
    )
    actual = hessian_product(delta_rule, arrays, directions, cotangent)
    slopes = [(high - low) / (2 * step) for high, low in zip(above, below, strict=True)]
    close_gradients(actual, slopes)


def test_products_of_transitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many chunks have no loop."""
    monkeypatch.setattr(delta_net, "_IN_TURN", 1)
    check(terms(300))


@pytest.mark.parametrize("strength", [0.5, 0.9, 1.0])
def test_equal_keys(strength: float) -> None:
    """The inverse has terms that reach 1e17 and cancel in its Neumann series."""
    arrays = terms(130)
    arrays[1][:] = np.sqrt(strength) * np.array([0.6, 0, 0.8])
    arrays[3][:] = 0
    check(arrays)


@pytest.mark.tensorflow
@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_unknown_length(xla: bool) -> None:
    arrays = terms(100)
    output, gradients = with_unknown_length(delta_rule, arrays, xla)(*arrays)
    close(output, expected(arrays))
    close_gradients(gradients, recurrent_gradients(arrays, np.ones((2, 100, 2, 4))))
