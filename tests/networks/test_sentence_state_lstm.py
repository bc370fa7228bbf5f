from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relation_tf.networks.sentence_state_lstm import SentenceStateLSTM
from tests.backends import close, close_gradients, vjp
from tests.layers import naive
from tests.layers.cases import poisoned, randomize, tokens, weights_of

UNITS = 2
MASK = np.array([[True] * 4, [True, True, False, False], [False] * 4])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(xs: list[np.ndarray]) -> list[np.ndarray]:
    total = sum(np.exp(x) for x in xs)
    return [np.exp(x) / total for x in xs]


def s_lstm(x: np.ndarray, w: dict[str, np.ndarray], num_steps: int, window: int) -> Any:
    """Return word states and sentence state of the unmasked tokens of one sentence."""
    n, zero = len(x), np.zeros(UNITS)
    W, U, V, b = (
        np.split(w[name], 7, axis=-1)
        for name in ("word_kernel", "input_kernel", "context_kernel", "word_bias")
    )
    Wg, Wo, Wf = np.split(w["sentence_kernel"], 3, axis=-1)
    Ug, Uo = np.split(w["mean_kernel"], 2, axis=-1)
    Uf = w["forget_kernel"]
    bg, bo, bf = np.split(w["sentence_bias"], 3)
    h, c = [w["initial_state"]] * n, [zero] * n
    g, c_g = w["initial_state"], zero

    def around(states: list[np.ndarray], i: int, direction: int) -> np.ndarray:
        places = [i + direction * k for k in range(1, window + 1)]
        return sum((states[j] for j in places if 0 <= j < n), zero)

    for _ in range(num_steps):
        next_h, next_c = [], []
        for i in range(n):
            xi = np.concatenate([around(h, i, -1), h[i], around(h, i, 1)])
            a = [xi @ W[k] + x[i] @ U[k] + g @ V[k] + b[k] for k in range(7)]
            i_, l_, r_, f_, s_ = softmax([sigmoid(gate) for gate in a[:5]])
            cell = l_ * around(c, i, -1) + f_ * c[i] + r_ * around(c, i, 1)
            cell = cell + s_ * c_g + i_ * np.tanh(a[6])
            next_c.append(cell)
            next_h.append(sigmoid(a[5]) * np.tanh(cell))
        mean = sum(h, zero) / max(n, 1)
        f_g = sigmoid(g @ Wg + mean @ Ug + bg)
        f = [sigmoid(g @ Wf + h[i] @ Uf + bf) for i in range(n)]
        o = sigmoid(g @ Wo + mean @ Uo + bo)
        f_g, *f = softmax([f_g, *f])
        c_g = f_g * c_g + sum((f[i] * c[i] for i in range(n)), zero)
        g = o * np.tanh(c_g)
        h, c = next_h, next_c
    return np.array(h).reshape(n, UNITS), g


@pytest.mark.parametrize(
    ("num_steps", "window", "return_sequences"),
    [
        (1, 1, True),
        *((n, window, words) for n, window in ((3, 1), (2, 2), (2, 5)) for words in (False, True)),
    ],
)
def test_equations(num_steps: int, window: int, return_sequences: bool) -> None:
    layer = SentenceStateLSTM(UNITS, num_steps, window, return_sequences)
    x = poisoned(tokens(0, 3, 4, 3), MASK)
    layer.build(x.shape)
    randomize(layer)
    wide = x.astype("float64")
    w = weights_of(layer)

    def expected() -> np.ndarray:
        output = np.zeros((3, 4, UNITS) if return_sequences else (3, UNITS))
        for b, mask in enumerate(MASK):
            h, g = s_lstm(wide[b][mask], w, num_steps, window)
            if return_sequences:
                output[b][mask] = h
            else:
                output[b] = g
        return output

    cotangent = np.random.default_rng(1).normal(size=expected().shape)
    output, [for_x], for_weights = vjp(lambda x: layer(x, mask=MASK), [x], layer.weights, cotangent)
    close(output, expected())

    def loss() -> float:
        return float(np.sum(expected() * cotangent))

    close_gradients([for_x, *for_weights], [naive.gradient(loss, x) for x in (wide, *w.values())])
