"""The equations of the sentence encoders for the unmasked tokens of one sentence, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import expit

Weights = Mapping[str, np.ndarray]  # by name, in the order of the layer


def deep_averaging(x: np.ndarray, w: Weights) -> np.ndarray:
    z, weights = x.mean(axis=0) if len(x) else np.zeros(x.shape[1]), [*w.values()]
    for kernel, bias in zip(weights[::2], weights[1::2], strict=True):
        z = np.maximum(z @ kernel + bias, 0)
    return z


def additive_attention(h: np.ndarray, w: Weights) -> np.ndarray:
    kernel, bias, v = w.values()
    e = np.exp(np.tanh(h @ kernel + bias) @ v)  # (tokens, 1)
    return (e * h).sum(axis=0) / e.sum() if len(h) else np.zeros(h.shape[1])


def _softmax(xs: list[np.ndarray]) -> list[np.ndarray]:
    total = sum(np.exp(x) for x in xs)
    return [np.exp(x) / total for x in xs]


def s_lstm(x: np.ndarray, w: Weights, num_steps: int, window: int) -> Any:
    """Return word states and sentence state of the unmasked tokens of one sentence."""
    n, zero = len(x), np.zeros_like(w["initial_state"])
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
            i_, l_, r_, f_, s_ = _softmax([expit(gate) for gate in a[:5]])
            cell = l_ * around(c, i, -1) + f_ * c[i] + r_ * around(c, i, 1)
            cell = cell + s_ * c_g + i_ * np.tanh(a[6])
            next_c.append(cell)
            next_h.append(expit(a[5]) * np.tanh(cell))
        mean = sum(h, zero) / max(n, 1)
        f_g = expit(g @ Wg + mean @ Ug + bg)
        f = [expit(g @ Wf + h[i] @ Uf + bf) for i in range(n)]
        o = expit(g @ Wo + mean @ Uo + bo)
        f_g, *f = _softmax([f_g, *f])
        c_g = f_g * c_g + sum((f[i] * c[i] for i in range(n)), zero)
        g = o * np.tanh(c_g)
        h, c = next_h, next_c
    return np.array(h).reshape(n, len(zero)), g
