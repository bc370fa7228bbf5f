"""Feature maps of linear attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

from relation_tf.layers.masking import softmax

FEATURE_MAPS = ("elu", "relu", "softmax", "identity", "hedgehog")


def apply_map(feature_map: str | Callable[[Any], Any], x: Any, num_heads: int, matrix: Any) -> Any:
    """Apply a feature map.

    Args:
        feature_map: A name of `FEATURE_MAPS`, or a function.
        x: Tensor of shape `(batch, tokens, num_heads * width)`, in float32 or wider.
        num_heads: Number of heads.
        matrix: The matrix of each head for `"hedgehog"`, `(num_heads, width, width)`, else None.

    Returns:
        Tensor of shape `(batch, tokens, num_heads * features)`.
    """
    if callable(feature_map):
        return feature_map(x)
    if feature_map == "elu":
        # elu(x) + 1 loses digits for negative x. The gradient at 0 is 1.
        return ops.where(x > 0, x + 1.0, ops.exp(ops.where(x > 0, 0.0, x)))
    if feature_map == "relu":
        return ops.relu(x)
    if feature_map == "identity":
        return x
    batch, tokens = ops.shape(x)[:2]
    heads = ops.reshape(x, (batch, tokens, num_heads, x.shape[2] // num_heads))
    if feature_map == "hedgehog":
        heads = ops.einsum("bthd,hde->bthe", heads, ops.cast(matrix, x.dtype))
        heads = ops.concatenate([heads, -heads], axis=-1)
    return ops.reshape(softmax(heads), (batch, tokens, num_heads * heads.shape[-1]))


def one_at_masked(x: Any, mask: Any) -> Any:
    """Replace masked tokens by one, where a function or its derivative is finite."""
    return x if mask is None else ops.where(mask[..., None], x, ops.ones_like(x))


def identities(shape: tuple[int, ...], dtype: Any = None) -> Any:
    """Return an identity matrix for each head, the initial matrices of `"hedgehog"`."""
    return ops.tile(ops.eye(shape[-1], dtype=dtype)[None], (shape[0], 1, 1))
