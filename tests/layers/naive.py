"""The equations of the papers, one sequence at a time, in NumPy.

An equation gets only the unmasked tokens of one sequence, so that padding has no effect:
`query` (queries, width), `value` (tokens, width), `w` (the layer's weights by name) and `seen`
(queries, tokens), 1 if a query sees a token: always, or up to its own position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import erf, expit

Weights = Mapping[str, np.ndarray]
Equation = Callable[..., np.ndarray]


class Seen(NamedTuple):
    """Tokens by their position relative to each query: boolean arrays `(queries, tokens)`."""

    before: np.ndarray
    same: np.ndarray
    after: np.ndarray | None = None  # None if causal.

    def directions(self) -> list[tuple[slice, np.ndarray]]:
        """Return the order of the tokens and how many each query sees, for each direction."""
        forth = (slice(None), (self.before | self.same).sum(axis=-1))
        if self.after is None:
            return [forth]
        return [forth, (slice(None, None, -1), (self.after | self.same).sum(axis=-1))]


def attention(
    query: np.ndarray, value: np.ndarray, w: Weights, seen: np.ndarray, num_heads: int = 1
) -> np.ndarray:
    """Equations 1-4 for each head: softmax(Q K^T / sqrt(d)) V."""
    q, k, v = (
        _heads(_affine(x, w, name), num_heads)
        for x, name in ((query, "query"), (value, "key"), (value, "value"))
    )
    some, y = seen.any(axis=-1), np.zeros(q.shape)
    for h in range(num_heads):
        scores = np.where(seen, q[:, h] @ k[:, h].T / np.sqrt(q.shape[-1]), -np.inf)
        y[some, h] = _softmax(scores[some]) @ v[:, h]
    return y.reshape(len(query), q.shape[1] * q.shape[2])


def local_attention(
    query: np.ndarray,
    value: np.ndarray,
    w: Weights,
    seen: Seen,
    window: int = 32,
    global_tokens: int = 0,
) -> np.ndarray:
    """Attention to tokens in a window and to global tokens; global queries see all."""
    rank = np.arange(len(value))
    distance = np.abs(seen.before.sum(axis=-1, keepdims=True) - rank)
    visible = (distance < window) | (rank < global_tokens)
    if seen.after is None:
        visible &= seen.before | seen.same
    else:
        visible |= np.arange(len(query))[:, None] < global_tokens
    return attention(query, value, w, visible)


def linear_attention(
    query: np.ndarray,
    value: np.ndarray,
    w: Weights,
    seen: np.ndarray,
    normalization: str = "none",
    feature_map: str = "elu",
    num_heads: int = 1,
) -> np.ndarray:
    """Equations 5-6 for each head: t(Q) (t(K)^T V), normalized in one of four ways."""
    q, k, v = (
        _heads(_affine(x, w, name), num_heads)
        for x, name in ((query, "query"), (value, "key"), (value, "value"))
    )
    outputs = []
    for h in range(num_heads):
        qh, kh = (
            _mapped(x[:, h], feature_map, w.get(f"{name}_map", [None] * num_heads)[h])
            for x, name in ((q, "query"), (k, "key"))
        )
        if normalization == "released_code":
            qh, kh = qh / np.sqrt(query.shape[-1]), _softmax(kh)
        weights = qh @ kh.T * seen
        total = weights.sum(axis=-1, keepdims=True)
        y = weights @ v[:, h]
        if normalization == "sum":
            y = y / np.where(total > 0, total, 1)
        elif normalization == "rms":
            y = y / np.sqrt((y**2).mean(axis=-1, keepdims=True) + 1e-5)
        elif normalization == "released_code":
            y = y / _mapped(_affine(query, w, "key"), "elu").mean(axis=-1, keepdims=True)
        outputs.append(y)
    return np.concatenate(outputs, axis=-1)


def _mapped(x: np.ndarray, feature_map: str, matrix: np.ndarray | None = None) -> np.ndarray:
    if feature_map == "hedgehog":
        x = x @ matrix
        return _softmax(np.concatenate([x, -x], axis=-1))
    maps = {"elu": _feature_map, "relu": relu, "softmax": _softmax, "identity": lambda x: x}
    return maps[feature_map](x)


def relation(
    query: np.ndarray,
    value: np.ndarray,
    w: Weights,
    phi: Callable[[Any], Any],
    seen: np.ndarray | bool = True,
) -> np.ndarray:
    """Equations 7-12: phi((G * h') W), h' the mean of H; zero without tokens."""
    g, h = _affine(query, w, "g"), _affine(value, w, "h")
    seen = np.broadcast_to(seen, (len(query), len(value)))
    mean = seen @ h / np.maximum(seen.sum(axis=-1, keepdims=True), 1)
    w_of_heads = [w[name] for name in sorted(w) if name.startswith("kernel")]
    return phi((g * mean) @ block_diag(*w_of_heads))


def pointwise_mlp(query: np.ndarray, value: np.ndarray, w: Weights, seen: np.ndarray) -> np.ndarray:
    """Three point-wise layers."""
    hidden = relu(_affine(relu(_affine(query, w, "first")), w, "second"))
    return _affine(hidden, w, "third")


def gated_mlp(query: np.ndarray, value: np.ndarray, w: Weights, seen: np.ndarray) -> np.ndarray:
    """The baseline of the Relation paper's program."""
    return relu(_affine(_affine(query, w, "first") * _affine(query, w, "second"), w, "third"))


def summary_mixing(
    query: np.ndarray, value: np.ndarray, w: Weights, seen: np.ndarray
) -> np.ndarray:
    """c(f(x_t), mean of s(x)), each a dense layer with GELU; the mean of no tokens is zero."""
    f, s = gelu(_affine(query, w, "local")), gelu(_affine(value, w, "summary"))
    seen = np.broadcast_to(seen, (len(query), len(value)))
    mean = seen @ s / np.maximum(seen.sum(axis=-1, keepdims=True), 1)
    return gelu(_affine(np.concatenate([f, mean], axis=-1), w, "combiner"))


def aft_simple(query: np.ndarray, value: np.ndarray, w: Weights, seen: np.ndarray) -> np.ndarray:
    """sigmoid(Q_t) * (sum of exp(K) * V) / (sum of exp(K)); zero without tokens."""
    gate = expit(_affine(query, w, "query"))
    e, v = np.exp(_affine(value, w, "key")), _affine(value, w, "value")
    seen = np.broadcast_to(seen, (len(query), len(value))).astype(float)
    total = seen @ e
    return gate * (seen @ (e * v)) / np.where(total > 0, total, 1)


def aft_local(
    query: np.ndarray,
    value: np.ndarray,
    w: Weights,
    seen: Seen,
    window: int,
) -> np.ndarray:
    """The same with K + w_tj."""
    gate = expit(_affine(query, w, "query"))
    distance = seen.before.sum(axis=-1, keepdims=True) - np.arange(len(value))
    first = 0 if seen.after is None else 1 - window  # smallest distance with a bias
    learned = w["position_bias"][np.clip(distance, first, window - 1) - first]
    bias = np.where(np.abs(distance) < window, learned, 0)
    scores = _affine(value, w, "key") + bias[..., None]  # (queries, tokens, units)
    if seen.after is None:
        scores = np.where((seen.before | seen.same)[..., None], scores, -np.inf)
    largest = scores.max(axis=1, keepdims=True, initial=-1e30)
    e = np.exp(scores - largest)
    weight = e.sum(axis=1)
    total = (e * _affine(value, w, "value")).sum(axis=1)
    return gate * total / np.where(weight > 0, weight, 1)


def fastformer(query: np.ndarray, value: np.ndarray, w: Weights, seen: np.ndarray) -> np.ndarray:
    """(k * V_i) W_R + Q_i, with global query and key by additive attention over `value`."""
    global_query = _additive_attention(_affine(value, w, "query"), w["query_score_kernel"])
    keys = global_query * _affine(value, w, "key")
    global_key = _additive_attention(keys, w["key_score_kernel"])
    result = _affine(global_key * _affine(query, w, "value"), w, "result")
    return result + _affine(query, w, "query")


def hyper_mixer(
    query: np.ndarray, value: np.ndarray, w: Weights, seen: np.ndarray, epsilon: float = 1e-5
) -> np.ndarray:
    """LayerNorm(W_2 gelu(W_1^T X)); two MLPs generate W_1 and W_2, or one if they are tied."""
    w1 = _affine(gelu(_affine(value, w, "first_hidden")), w, "first")
    second = "second" if "second_kernel" in w else "first"
    w2 = _affine(gelu(_affine(query, w, f"{second}_hidden")), w, second)
    x = _affine(value, w, "value") if "value_kernel" in w else value
    y = w2 @ gelu(w1.T @ x)
    z = y - y.mean(axis=-1, keepdims=True)
    z /= np.sqrt((z**2).mean(axis=-1, keepdims=True) + epsilon)
    return w["scale"] * z + w["offset"]


def gmlp(query: np.ndarray, value: np.ndarray, w: Weights, seen: Seen) -> np.ndarray:
    """(Z_1t * (sum_j S_tj Z_2j + b_t)) V over the first positions."""
    length = len(w["spatial_offset"])
    gate, z = gelu(_affine(query, w, "query")), gelu(_affine(value, w, "value"))[:length]
    z = w["scale"] * _standardized(z) + w["offset"]
    place = np.minimum(seen.before.sum(axis=-1), length - 1)
    weights = w["spatial_weights"][place, : len(z)]
    if seen.after is None:
        weights = weights * (seen.before | seen.same)[:, : len(z)]
    mixed = weights @ z + w["spatial_offset"][place, None]
    return _affine(gate * mixed, w, "out")


def fourier_mixing(query: np.ndarray, value: np.ndarray, w: Weights, seen: Seen) -> np.ndarray:
    """Re(F_tokens X F_features), the first with a row for each query."""
    x = _affine(value, w, "value") if "value_kernel" in w else value
    rank, place = np.arange(len(x)), seen.before.sum(axis=-1)
    tokens = np.exp(-2j * np.pi * np.outer(place, rank) / max(1, len(x)))
    feature = np.arange(x.shape[-1])
    features = np.exp(-2j * np.pi * np.outer(feature, feature) / len(feature))
    return (tokens @ x @ features).real


def retention(
    query: np.ndarray,
    value: np.ndarray,
    w: Weights,
    seen: Seen,
    num_heads: int = 1,
    gated: bool = True,
) -> np.ndarray:
    """(swish(x W_G) * GroupNorm(Q^T S)) W_O, S_t = gamma S_{t-1} + K_t V_t^T, Q and K rotated."""
    q, k, v = (
        _heads(_affine(x, w, name), num_heads)
        for x, name in ((query, "query"), (value, "key"), (value, "value"))
    )
    log_decays = np.tile(np.log(1 - 2.0 ** (-5 - np.arange(num_heads))), (len(value), 1))
    frequencies = 10_000 ** -np.linspace(0, 1, q.shape[-1] // 2)
    y = np.zeros(q.shape)
    for order, count in seen.directions():
        rotated = _rotated(q, count[:, None] * frequencies) / np.sqrt(q.shape[-1])
        keys = _rotated(k[order], np.arange(1, len(k) + 1)[:, None] * frequencies)
        y = y + recurrence(rotated, keys, v[order], log_decays[order], count)
    y = _standardized(y).reshape(len(query), q.shape[1] * q.shape[2])
    if gated:
        gate = _affine(query, w, "gate")
        y = y * silu(gate)
    return _affine(y, w, "out")


def mamba2(
    query: np.ndarray, value: np.ndarray, w: Weights, seen: Seen, num_heads: int = 1
) -> np.ndarray:
    """RMSNorm((C^T S + D X) * swish(Z)) W_out, S_t = exp(A dt_t) S_{t-1} + B_t (dt_t X_t)^T."""
    size = w["c_kernel"].shape[-1]
    xb = np.concatenate([_affine(value, w, "x"), _affine(value, w, "b")], axis=-1)
    xb = silu(_convolved(xb, w, "xb"))
    x, b = _heads(xb[:, :-size], num_heads), np.repeat(xb[:, None, -size:], num_heads, axis=1)
    c = silu(_convolved(_affine(query, w, "c"), w, "c"))
    dt = np.log1p(np.exp(value @ w["dt_kernel"] + w["dt_offset"]))
    c = np.repeat(c[:, None], num_heads, axis=1)
    y = np.einsum("ij,jhv->ihv", seen.same, w["d"][:, None] * x)
    terms = (b, dt[..., None] * x, -np.exp(w["a_log"]) * dt)
    for order, count in seen.directions():
        y = y + recurrence(c, *(term[order] for term in terms), count)
    y = y.reshape(len(query), y.shape[1] * y.shape[2]) * silu(_affine(query, w, "z"))
    y = y / np.sqrt((y**2).mean(axis=-1, keepdims=True) + 1e-5) * w["scale"]
    return _affine(y, w, "out")


def mlstm(
    query: np.ndarray, value: np.ndarray, w: Weights, seen: Seen, num_heads: int = 1
) -> np.ndarray:
    """sigmoid(o) * C^T q / max(|n^T q|, 1), with C_t = f_t C_{t-1} + i_t k_t v_t^T; n has v = 1."""
    q, v = _affine(query, w, "query"), _affine(value, w, "value")
    q, v = _heads(q, num_heads), _heads(v, num_heads)
    k = value @ w["key_kernel"] / np.sqrt(q.shape[-1]) + w.get("key_bias", 0)
    i = np.exp(value @ w["i_kernel"] + w["i_offset"])[..., None]
    log_f = -np.log1p(np.exp(-value @ w["f_kernel"] - w["f_offset"]))
    k, v = i * _heads(k, num_heads), np.concatenate([v, np.ones((*v.shape[:2], 1))], axis=-1)
    y = np.zeros(q.shape)
    for order, count in seen.directions():
        read = recurrence(q, k[order], v[order], log_f[order], count)
        y = y + read[..., :-1] / np.maximum(np.abs(read[..., -1:]), 1)
    gate = _affine(query, w, "gate")
    return y.reshape(gate.shape) * expit(gate)


def delta_net(
    query: np.ndarray, value: np.ndarray, w: Weights, seen: Seen, num_heads: int = 1
) -> np.ndarray:
    """RMSNorm(S^T Q) W_out, S_t = a_t (I - b_t K_t K_t^T) S_{t-1} + b_t K_t V_t^T; gated or not."""
    units = w["query_kernel"].shape[-1]
    kv = np.concatenate([_affine(value, w, "key"), _affine(value, w, "value")], axis=-1)
    kv = silu(_convolved(kv, w, "kv"))
    k, v = _unit(_heads(kv[:, :units], num_heads)), _heads(kv[:, units:], num_heads)
    q = _unit(_heads(silu(_convolved(_affine(query, w, "query"), w, "query")), num_heads))
    b = expit(value @ w["strength_kernel"])
    gated = "gate_kernel" in w
    dt = np.log1p(np.exp(value @ w["dt_kernel"] + w["dt_offset"])) if gated else 0 * b
    a = np.exp(-np.exp(w["a_log"]) * dt) if gated else np.ones(b.shape)
    y = np.zeros((*q.shape[:2], v.shape[-1]))
    for order, count in seen.directions():
        y = y + delta_rule(q, *(term[order] for term in (k, v, a, b)), count)
    y = y / np.sqrt((y**2).mean(axis=-1, keepdims=True) + 1e-5) * w["scale"]
    y = y.reshape(len(query), y.shape[1] * y.shape[2])
    return _affine(y * silu(_affine(query, w, "gate")) if gated else y, w, "out")


def delta_rule(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, a: np.ndarray, b: np.ndarray, count: np.ndarray
) -> np.ndarray:
    """q^T S with S_t = a_t (I - b_t k_t k_t^T) S_{t-1} + b_t k_t v_t^T, counted as below."""
    states = [np.zeros((*k.shape[1:], v.shape[-1]))]
    erased = np.eye(k.shape[-1]) - b[..., None, None] * k[..., None] * k[:, :, None]
    transitions = a[..., None, None] * erased
    updates = b[..., None, None] * k[..., None] * v[:, :, None]
    for transition, update in zip(transitions, updates, strict=True):
        states.append(transition @ states[-1] + update)
    return np.einsum("ihk,ihkv->ihv", q, np.stack(states)[count])


def gated_linear_attention(
    query: np.ndarray, value: np.ndarray, w: Weights, seen: Seen, num_heads: int = 1
) -> np.ndarray:
    """(swish(x W_r + b_r) * LayerNorm(Q^T S)) W_O, S_t = diag(a_t) S_{t-1} + K_t V_t^T."""
    q, k, v = (
        _heads(_affine(x, w, name), num_heads)
        for x, name in ((query, "query"), (value, "key"), (value, "value"))
    )
    decays = expit(_affine(value @ w["decay_down_kernel"], w, "decay_up"))
    log_decays = _heads(np.log(decays ** (1 / 16)), num_heads)
    y = np.zeros((*q.shape[:2], v.shape[-1]))
    for order, count in seen.directions():
        y = y + recurrence(q / np.sqrt(q.shape[-1]), k[order], v[order], log_decays[order], count)
    gate = silu(_affine(query, w, "gate"))
    return _affine(gate * _standardized(y).reshape(gate.shape), w, "out")


def hgrn2(
    query: np.ndarray,
    value: np.ndarray,
    w: Weights,
    seen: Seen,
    num_heads: int = 1,
    lower_bound: float = 0.0,
) -> np.ndarray:
    """LayerNorm(o^T S) W_out, S_t = diag(f_t) S_{t-1} + (1 - f_t) i_t^T."""
    o = expit(_affine(query, w, "output_gate"))
    f = lower_bound + (1 - lower_bound) * expit(_affine(value, w, "forget_gate"))
    i = silu(_affine(value, w, "input"))
    o, f, i = (_heads(x, num_heads) for x in (o, f, i))
    y = np.zeros(o.shape)
    for order, count in seen.directions():
        y = y + recurrence(o, 1 - f[order], i[order], np.log(f[order]), count)
    return _affine(_standardized(y.reshape(len(query), y.shape[1] * y.shape[2])), w, "out")


def min_gru(query: np.ndarray, value: np.ndarray, w: Weights, seen: Seen) -> np.ndarray:
    """h_t = (1 - z_t) h_{t-1} + z_t c_t; the minLSTM has two gates with the sum one."""
    c = _affine(value, w, "candidate")
    c = np.where(c >= 0, c + 0.5, expit(c))
    if "update_kernel" in w:
        z = expit(_affine(value, w, "update"))
    else:
        forget, own = (expit(_affine(value, w, name)) for name in ("forget", "input"))
        z = own / (forget + own)
    y = np.zeros((len(query), c.shape[-1]))
    for order, count in seen.directions():
        states = [np.zeros(c.shape[-1])]
        for gate, candidate in zip(z[order], c[order], strict=True):
            states.append((1 - gate) * states[-1] + gate * candidate)
        y = y + np.stack(states)[count]
    return y


def recurrence(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, log_decays: np.ndarray, count: np.ndarray
) -> np.ndarray:
    """q^T S with S_t = a_t S_{t-1} + k_t v_t^T; query i reads the state after `count[i]` tokens."""
    states = [np.zeros((*k.shape[1:], v.shape[-1]))]
    decays = np.exp(log_decays if log_decays.ndim == 3 else log_decays[..., None])[..., None]
    updates = k[..., None] * v[:, :, None]
    for decay, update in zip(decays, updates, strict=True):
        states.append(decay * states[-1] + update)
    return np.einsum("ihk,ihkv->ihv", q, np.stack(states)[count])


def fofe(x: np.ndarray, decay: float, window: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """f(i) = S_i + decay f(i-1), over the tokens left and right of each token."""
    return _before(x, decay, window), _before(x[::-1], decay, window)[::-1]


def fcsr(x: np.ndarray, w: Weights, decay: float, window: int | None = None) -> np.ndarray:
    """Two cells, each a gated sum of three tensors: [C, C^, H, H^]."""
    c, c_hat = _cell([x, *fofe(x, decay, window)], w, "integration")
    h, h_hat = _cell([x, c, c_hat], w, "analysis")
    return np.concatenate([c, c_hat, h, h_hat], axis=-1)


def feature_attention(r: np.ndarray, w: Weights) -> np.ndarray:
    """Equation 9 of the FCSR preprint: relu((R Wq)^T (R Wk) / sqrt(n)) Wf."""
    q, k = r @ w["query_kernel"], r @ w["key_kernel"]
    return (relu(q.T @ k / np.sqrt(q.shape[-1])) @ w["feature_kernel"])[:, 0]


def feature_products(r: np.ndarray, w: Weights) -> np.ndarray:
    """Equation 9 of the FCSR preprint with element-wise products."""
    q, k = r @ w["query_kernel"], r @ w["key_kernel"]
    scale = np.sqrt(q.shape[1])
    total = np.zeros(q.shape[1])
    for a, b in zip(q, k, strict=True):
        total += relu(a * b / scale) * w["feature_kernel"][:, 0]
    return total


def mix(
    equation: Equation,
    w: Weights,
    query: np.ndarray,
    value: np.ndarray,
    query_mask: np.ndarray,
    value_mask: np.ndarray,
    causal: bool = False,
    positional: bool = False,
) -> np.ndarray:
    """Apply the equation to each sequence of a batch; zero at masked queries.

    Positional equations get a `Seen`.
    """
    rows = []
    for b in range(len(query)):
        own, others = np.flatnonzero(query_mask[b])[:, None], np.flatnonzero(value_mask[b])
        seen: Any = (others <= own) | (not causal)
        if positional:
            seen = Seen(others < own, others == own, None if causal else others > own)
        y = equation(query[b][query_mask[b]], value[b][value_mask[b]], w, seen=seen)
        if "output_kernel" in w:
            y = relu(y) @ w["output_kernel"]
        row = np.zeros((query.shape[1], y.shape[-1]))
        row[query_mask[b]] = y
        rows.append(row)
    return np.stack(rows)


def slopes(
    function: Callable[[], float], x: np.ndarray, directions: np.ndarray, step: float = 1e-6
) -> np.ndarray:
    """Return the slopes along directions, by central differences; `x` is changed and restored."""
    start, found = x.copy(), []
    for direction in directions:
        values = []
        for distance in (step, -step):
            np.copyto(x, start + distance * direction)
            values.append(function())
        found.append((values[0] - values[1]) / (2 * step))
    np.copyto(x, start)
    return np.array(found)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + erf(x / np.sqrt(2))) / 2


def silu(x: np.ndarray) -> np.ndarray:
    return x * expit(x)


def _before(x: np.ndarray, decay: float, window: int | None) -> np.ndarray:
    encoded, rows = np.zeros(x.shape[-1]), np.zeros(x.shape)
    for t, token in enumerate(x):
        if window is not None:
            encoded = np.zeros(x.shape[-1])
            for earlier in x[max(t - window, 0) : t]:
                encoded = earlier + decay * encoded
        rows[t] = encoded
        encoded = token + decay * encoded
    return rows


def _cell(inputs: list[np.ndarray], w: Weights, name: str) -> tuple[np.ndarray, np.ndarray]:
    gates = relu(_affine(np.concatenate(inputs, axis=-1), w, name))
    width = inputs[0].shape[-1]
    q, k, v, o = (gates[:, i * width : (i + 1) * width] for i in range(4))
    total = inputs[0] * q + inputs[1] * k + inputs[2] * v
    return total, np.tanh(total) * o


def _standardized(x: np.ndarray) -> np.ndarray:
    x = x - x.mean(axis=-1, keepdims=True)
    return np.asarray(x / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5))


def _additive_attention(x: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return _softmax((x @ vector).T / np.sqrt(x.shape[-1])) @ x


def _convolved(x: np.ndarray, w: Weights, name: str) -> np.ndarray:
    filters = w[f"{name}_filters"]
    x = np.concatenate([np.zeros((len(filters) - 1, x.shape[-1])), x])
    rows = [
        (filters * x[t : t + len(filters)]).sum(axis=0) for t in range(len(x) - len(filters) + 1)
    ]
    return np.reshape(rows, (len(rows), x.shape[-1])) + w.get(f"{name}_filter_bias", 0)


def _heads(x: np.ndarray, num_heads: int) -> np.ndarray:
    return x.reshape(len(x), num_heads, x.shape[-1] // num_heads)


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).sum(axis=-1, keepdims=True) + 1e-6)


def _rotated(x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    pairs = angles.shape[-1]
    turned = (x[..., :pairs] + 1j * x[..., pairs : 2 * pairs]) * np.exp(1j * angles[:, None])
    return np.concatenate([turned.real, turned.imag, x[..., 2 * pairs :]], axis=-1)


def _affine(x: np.ndarray, w: Weights, name: str) -> np.ndarray:
    return x @ w[f"{name}_kernel"] + w.get(f"{name}_bias", 0)


def _feature_map(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def _softmax(x: np.ndarray) -> np.ndarray:
    if x.shape[-1] == 0:
        return x
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_position_encoding(x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """x_i * p(i), p(i)_j the softmax over the tokens of i s_j."""
    scores = np.arange(len(x))[:, None] * slope
    return x * _softmax(scores.T).T


def contextualizer(
    x: np.ndarray, w: Weights, context: np.ndarray, num_steps: int, epsilon: float = 1e-5
) -> np.ndarray:
    """c_K: in each step a_i = W (U x_i * V c) + b and c = c + LayerNorm(sum_i a_i * x_i)."""
    for k in range(1, num_steps + 1):
        total = np.zeros_like(context)
        for token in x:
            related = (token @ w[f"u_kernel_{k}"]) * (context @ w[f"v_kernel_{k}"])
            total += (related @ w[f"w_kernel_{k}"] + w.get(f"bias_{k}", 0)) * token
        z = (total - total.mean()) / np.sqrt(total.var() + epsilon)
        context = context + w[f"scale_{k}"] * z + w[f"offset_{k}"]
    return context
