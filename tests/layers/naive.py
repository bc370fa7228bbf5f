"""The equations of the papers, one sequence at a time, in NumPy.

An equation takes the kept tokens of one sequence and nothing else, so that padding cannot matter:
`query` (queries, width), `value` (tokens, width), and `w`, the layer's weights by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]
Equation = Callable[[np.ndarray, np.ndarray, Weights], np.ndarray]


def attention(query: np.ndarray, value: np.ndarray, w: Weights) -> np.ndarray:
    """Equations 1-4: softmax(Q K^T / sqrt(d)) V."""
    q, k, v = _affine(query, w, "query"), _affine(value, w, "key"), _affine(value, w, "value")
    return _softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v


def linear_attention(
    query: np.ndarray, value: np.ndarray, w: Weights, normalization: str = "sum"
) -> np.ndarray:
    """Equations 5-6: t(Q) (t(K)^T V), normalized in one of three ways."""
    q, k = _feature_map(_affine(query, w, "query")), _feature_map(_affine(value, w, "key"))
    v = _affine(value, w, "value")
    if normalization == "original":
        own = _feature_map(_affine(query, w, "key"))
        y = (q / np.sqrt(query.shape[-1])) @ (_softmax(k).T @ v)
        return y / own.mean(axis=-1, keepdims=True)
    weights = q @ k.T
    if normalization == "sum" and len(value):
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ v


def relation(
    query: np.ndarray, value: np.ndarray, w: Weights, phi: Callable[[Any], Any]
) -> np.ndarray:
    """Equations 7-12: phi((G * h') W), h' the mean of H; nothing to relate to is zero."""
    g, h = _affine(query, w, "g"), _affine(value, w, "h")
    mean = h.mean(axis=0) if len(value) else np.zeros(h.shape[-1])
    return phi((g * mean) @ w["kernel"])


def pointwise_mlp(query: np.ndarray, value: np.ndarray, w: Weights) -> np.ndarray:
    """Three layers, each of one token."""
    hidden = relu(_affine(relu(_affine(query, w, "first")), w, "second"))
    return _affine(hidden, w, "third")


def gated_mlp(query: np.ndarray, value: np.ndarray, w: Weights) -> np.ndarray:
    """The baseline of the Relation paper's program."""
    return relu(_affine(_affine(query, w, "first") * _affine(query, w, "second"), w, "third"))


def mix(
    equation: Equation,
    w: Weights,
    query: np.ndarray,
    value: np.ndarray,
    query_mask: np.ndarray,
    value_mask: np.ndarray,
) -> np.ndarray:
    """The equation for each sequence of a batch, zeros at masked queries."""
    rows = []
    for b in range(len(query)):
        y = equation(query[b][query_mask[b]], value[b][value_mask[b]], w)
        if "output_kernel" in w:
            y = relu(y) @ w["output_kernel"]
        row = np.zeros((query.shape[1], y.shape[-1]))
        row[query_mask[b]] = y
        rows.append(row)
    return np.stack(rows)


def gradient(function: Callable[[], float], x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences of a function of `x`, which is changed in place and put back."""
    slope = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        start = x[i]
        x[i] = start + step
        above = function()
        x[i] = start - step
        slope[i] = (above - function()) / (2 * step)
        x[i] = start
    return slope


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def _affine(x: np.ndarray, w: Weights, name: str) -> np.ndarray:
    return x @ w[f"{name}_kernel"] + w.get(f"{name}_bias", 0)


def _feature_map(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def _softmax(x: np.ndarray) -> np.ndarray:
    if x.shape[-1] == 0:
        return x
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
