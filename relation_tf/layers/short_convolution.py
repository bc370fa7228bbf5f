"""Causal convolution of each feature over a few tokens."""

from __future__ import annotations

from typing import Any

from keras import ops

from relation_tf.layers.masking import close_up, spread_out


def short_convolution(x: Any, filters: Any, bias: Any, mask: Any) -> Any:
    """Compute `y_t = b + sum over s < width of w_s * x_{t - width + 1 + s}` over the kept tokens.

    Args:
        x: Tensor of shape `(batch, tokens, features)`.
        filters: The weights w, of shape `(width, features)`. Before the first token, x is zero.
        bias: The bias b, of shape `(features,)`, or 0.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.

    Returns:
        Tensor with the shape of `x`, undefined at masked tokens.
    """
    width, length = filters.shape[0], ops.shape(x)[1]
    if mask is not None:
        x = close_up(x, mask)
    x = ops.pad(x, ((0, 0), (width - 1, 0), (0, 0)))
    y = bias + sum(filters[s] * x[:, s : s + length] for s in range(width))
    return y if mask is None else spread_out(y, mask)


def convolution_step(x: Any, filters: Any, bias: Any, state: Any, mask: Any) -> tuple[Any, Any]:
    """Return the output of `short_convolution` for one token, and the next state.

    The state holds the last `width - 1` kept inputs, in the shape `(batch, width - 1, features)`.
    """
    inputs = ops.concatenate([state, ops.cast(x, state.dtype)], axis=1)
    y = bias + ops.sum(filters * inputs, axis=1, keepdims=True)
    return ops.cast(y, x.dtype), ops.where(mask[..., None], inputs[:, 1:], state)
