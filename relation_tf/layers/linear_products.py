"""Products of queries, keys and values in linear attention, in different orders."""

from __future__ import annotations

from typing import Any

from keras import ops

from relation_tf.layers.causal import up_to_own
from relation_tf.layers.masking import to_float32
from relation_tf.layers.slicing import transposed
from relation_tf.layers.token_mixer import affine


def factors(by_features: bool, keys: Any, value: Any, kernel: Any, bias: Any) -> tuple[Any, Any]:
    """Return factors `L` and `R` of `t(K)^T V = L^T R` with `V = value W_V + b`.

    Args:
        by_features: If True, `inner` is the number of input features (plus one with a bias), else
            that of tokens.
        keys: `t(K)`, `(batch, tokens, units)`, in float32 or wider.
        value: Tensor of shape `(batch, tokens, width)`.
        kernel: `W_V`, `(width, units)`.
        bias: `b`, `(units,)`, or None.

    Returns:
        `L` of shape `(batch, inner, units)`, and `R` of shape `(batch, inner, units)` or
        `(inner, units)`, in float32 or wider.
    """
    if not by_features:
        return keys, to_float32(affine(value, kernel, bias))
    left, right = ops.matmul(transposed(to_float32(value)), keys), to_float32(kernel)
    if bias is not None:
        left = ops.concatenate([left, ops.sum(keys, axis=1, keepdims=True)], axis=1)
        right = ops.concatenate([right, to_float32(bias)[None]], axis=0)
    return left, right


def through_scores(q: Any, keys: Any, value: Any, kernel: Any, bias: Any) -> Any:
    """Return `(t(Q) t(K)^T) V` in float32 or wider; the arguments are those of `factors`."""
    scores = ops.matmul(q, transposed(keys))  # (batch, queries, tokens)
    output = ops.matmul(ops.matmul(scores, to_float32(value)), to_float32(kernel))
    if bias is None:
        return output
    return output + ops.sum(scores, axis=-1, keepdims=True) * to_float32(bias)


def dropped_for_one(q: Any, left: Any, right: Any, mask: Any, rate: float) -> Any:
    """Return `q dropout(L^T R)` for one query without forming `L^T R`.

    With the random mask M, `(q (M * L^T R))_b = sum_c ((q * L) M)_cb R_cb`. M has no gradient:
    two products with it, forward and backward, replace three.

    Args:
        q: `t(Q)`, `(batch, 1, features)`.
        left: L of `factors`.
        right: R of `factors`.
        mask: The random mask M of zeros and ones, `(batch, features, units)`.
        rate: Dropout rate.
    """
    mixed = ops.matmul(q * (1 / (1 - rate)) * left, ops.cast(mask, q.dtype))
    return ops.sum(mixed * right, axis=1, keepdims=True)


def causal_scores(q: Any, keys: Any, values: Any) -> Any:
    """Compute `(t(Q) t(K)^T, later tokens zero) V`."""
    scores = ops.matmul(q, transposed(keys))
    return ops.matmul(ops.where(up_to_own(ops.shape(keys)[1]), scores, 0.0), values)
