"""Direct implementations of the equations, with the weights of the layers of this package."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from relation_tf import layers
from relation_tf.layers.masking import masked_mean, zero_masked
from relation_tf.layers.token_mixer import affine


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


def fofe_matrix(length: int, decay: float) -> np.ndarray:
    """Return the N x N matrix of weights; row t has the weights of the tokens before t."""
    distance = np.arange(length)[:, None] - np.arange(length)[None, :] - 1
    powers = float(decay) ** np.maximum(distance, 0)
    return np.where(distance >= 0, powers, 0.0).astype(np.float32)
