"""Direct implementations of the equations, with the weights of the layers of this package."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from keras import ops

from relation_tf import layers
from relation_tf.layers.averages import masked_mean
from relation_tf.layers.masking import zero_masked
from relation_tf.layers.token_mixer import affine

_gelu = partial(ops.gelu, approximate=False)


class Relation(layers.Relation):
    """Relation layer that computes H, its mean, and `(G * h') W` for every token."""

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        g = affine(query, self.g_kernel, self.g_bias)
        h = zero_masked(affine(value, self.h_kernel, self.h_bias), value_mask)
        related = self.drop(g * masked_mean(h, value_mask)[:, None, :], training)
        return self.activation(ops.matmul(related, self.kernels[0]))


def relation(layer: layers.Relation, x: Any) -> Any:
    """Compute equations 7-12: `relu((G * h') W)`, h' the mean of H."""
    g, h = ops.matmul(x, layer.g_kernel), ops.matmul(x, layer.h_kernel)
    return ops.relu(ops.matmul(g * ops.mean(h, axis=1, keepdims=True), layer.kernels[0]))


def linear_attention(layer: layers.LinearAttention, x: Any) -> Any:
    """Compute equation 5: `t(Q) (t(K)^T V)`."""
    q = ops.elu(affine(x, layer.query_kernel, layer.query_bias)) + 1.0
    k = ops.elu(affine(x, layer.key_kernel, layer.key_bias)) + 1.0
    v = affine(x, layer.value_kernel, layer.value_bias)
    return ops.matmul(q, ops.matmul(ops.transpose(k, (0, 2, 1)), v))


def contextualizer(layer: layers.Contextualizer, x: Any) -> Any:
    """Compute the steps of second-order attention token by token."""
    context = ops.ones_like(x[:, 0])
    for step in layer.steps:
        query = ops.matmul(context, step.v)[:, None, :]
        attention = ops.matmul(ops.matmul(x, step.u) * query, step.w) + step.bias
        z = ops.sum(attention * x, axis=1)
        z = z - ops.mean(z, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(z), axis=-1, keepdims=True)
        context = context + z * ops.rsqrt(variance + layer.epsilon) * step.scale + step.offset
    return context


def local_attention(layer: layers.LocalAttention, x: Any) -> Any:
    """Compute `softmax(Q K^T / sqrt(units)) V` with all pairs, masked outside of the window."""
    q, k, v = _query_key_value(layer, x)
    scores = ops.matmul(q * layer.units**-0.5, ops.transpose(k, (0, 2, 1)))
    near = ops.abs(_distances(x)) < layer.window
    return ops.matmul(ops.softmax(ops.where(near, scores, -1e9)), v)


def summary_mixing(layer: layers.SummaryMixing, x: Any) -> Any:
    """Compute `c([f(x_t), mean s(x)])` with the mean next to each token."""
    local = _gelu(affine(x, layer.local_kernel, layer.local_bias))
    summary = _gelu(affine(x, layer.summary_kernel, layer.summary_bias))
    mean = ops.broadcast_to(ops.mean(summary, axis=1, keepdims=True), ops.shape(local))
    both = ops.concatenate([local, mean], axis=-1)
    return _gelu(affine(both, layer.combiner_kernel, layer.combiner_bias))


def aft_simple(layer: layers.AFTSimple, x: Any) -> Any:
    """Compute `sigmoid(Q_t) * (sum_j exp(K_j) * V_j) / (sum_j exp(K_j))`."""
    q, k, v = _query_key_value(layer, x)
    weights = ops.exp(k)
    total = ops.sum(weights * v, axis=1, keepdims=True)
    return ops.sigmoid(q) * total / ops.sum(weights, axis=1, keepdims=True)


def aft_local(layer: layers.AFTLocal, x: Any) -> Any:
    """Compute the same with `K_j + w_tj`, by an N x N matrix of `exp(w)`."""
    q, k, v = _query_key_value(layer, x)
    distances, last = _distances(x), layer.window - 1
    learned = ops.take(layer.position_bias, ops.clip(distances, -last, last) + last)
    biases = ops.exp(ops.where(ops.abs(distances) <= last, learned, 0.0))
    weights = ops.exp(k)
    return ops.sigmoid(q) * ops.matmul(biases, weights * v) / ops.matmul(biases, weights)


def fastformer(layer: layers.Fastformer, x: Any) -> Any:
    """Compute `(k * V_i) W_R + Q_i` with additive attention for the global query and key."""

    def pooled(x: Any, score_kernel: Any) -> Any:
        scores = ops.softmax(ops.matmul(x, score_kernel) * layer.units**-0.5, axis=1)
        return ops.sum(scores * x, axis=1, keepdims=True)

    q, k, v = _query_key_value(layer, x)
    global_key = pooled(pooled(q, layer.query_score_kernel) * k, layer.key_score_kernel)
    return affine(global_key * v, layer.result_kernel, layer.result_bias) + q


def hyper_mixer(layer: layers.HyperMixer, x: Any) -> Any:
    """Compute `LayerNorm(W_2 gelu(W_1^T X))` with generated W_1 and W_2."""

    def generated(hidden_kernel: Any, hidden_bias: Any, kernel: Any, bias: Any) -> Any:
        return affine(_gelu(affine(x, hidden_kernel, hidden_bias)), kernel, bias)

    w1, w2 = (generated(*generator) for generator in (layer.first, layer.second))
    hidden = _gelu(ops.matmul(ops.transpose(w1, (0, 2, 1)), x))
    return ops.layer_normalization(
        ops.matmul(w2, hidden), gamma=layer.scale, beta=layer.offset, epsilon=1e-5
    )


def gmlp(layer: layers.GMLP, x: Any) -> Any:
    """Compute `(Z_1 * (S Z_2 + b)) V` for texts of exactly the layer's length."""
    gate = _gelu(affine(x, layer.query_kernel, layer.query_bias))
    z = _gelu(affine(x, layer.value_kernel, layer.value_bias))
    z = ops.layer_normalization(z, gamma=layer.scale, beta=layer.offset, epsilon=1e-5)
    mixed = ops.matmul(layer.spatial_weights, z) + layer.spatial_offset[:, None]
    return affine(gate * mixed, layer.out_kernel, layer.out_bias)


def _query_key_value(layer: Any, x: Any) -> list[Any]:
    return [
        affine(x, kernel, bias)
        for kernel, bias in (
            (layer.query_kernel, layer.query_bias),
            (layer.key_kernel, layer.key_bias),
            (layer.value_kernel, layer.value_bias),
        )
    ]


def _distances(x: Any) -> Any:
    """Return the distance of each pair of tokens, `(tokens, tokens)`."""
    positions = ops.arange(x.shape[1])
    return positions[:, None] - positions


def recurrence(queries: Any, keys: Any, values: Any, log_decays: Any) -> Any:
    """Compute `o_t = q_t^T S_t`, `S_t = a_t S_{t-1} + k_t v_t^T` token by token."""

    def step(state: Any, token: Any) -> Any:
        k, v, log_decay = token
        decay = ops.exp(log_decay if len(log_decay.shape) == 3 else log_decay[..., None])
        return decay[..., None] * state + k[..., None] * v[..., None, :]

    return _read(queries, _states(step, keys, values, log_decays))


def delta_rule(queries: Any, keys: Any, values: Any, log_decays: Any) -> Any:
    """Compute `S_t = a_t (I - k_t k_t^T) S_{t-1} + k_t v_t^T` and `q_t^T S_t` token by token."""

    def step(state: Any, token: Any) -> Any:
        k, v, log_decay = token
        state = ops.exp(log_decay)[..., None, None] * state
        error = v - ops.sum(k[..., None] * state, axis=-2)
        return state + k[..., None] * error[..., None, :]

    return _read(queries, _states(step, keys, values, log_decays))


def elementwise_recurrence(values: Any, log_decays: Any) -> Any:
    """Compute `h_t = a_t h_{t-1} + v_t` token by token."""
    start = ops.zeros_like(values[:, 0])
    return _loop(lambda h, token: ops.exp(token[1]) * h + token[0], start, values, log_decays)


def _states(step: Callable[[Any, Any], Any], keys: Any, *others: Any) -> Any:
    batch, _, heads, width = others[0].shape
    start = ops.zeros((batch, heads, keys.shape[-1], width), keys.dtype)
    return _loop(step, start, keys, *others)


def _loop(step: Callable[[Any, Any], Any], start: Any, *tensors: Any) -> Any:
    """Return the states after each token, `(batch, tokens, ...)`."""

    def scanned(state: Any, token: Any) -> tuple[Any, Any]:
        state = step(state, token)
        return state, state

    _, states = ops.scan(scanned, start, tuple(ops.swapaxes(x, 0, 1) for x in tensors))
    return ops.swapaxes(states, 0, 1)


def _read(queries: Any, states: Any) -> Any:
    return ops.sum(queries[..., None] * states, axis=-2)


def fofe_matrix(length: int, decay: float) -> np.ndarray:
    """Return the N x N matrix of weights; row t has the weights of the tokens before t."""
    distance = np.arange(length)[:, None] - np.arange(length)[None, :] - 1
    powers = float(decay) ** np.maximum(distance, 0)
    return np.where(distance >= 0, powers, 0.0).astype(np.float32)
