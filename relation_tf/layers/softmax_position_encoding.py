"""Position encoding by learned weights of tokens."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import width_of
from relation_tf.layers.base import BaseLayer, cloned
from relation_tf.layers.masking import boolean, to_float32, zero_masked


@keras.saving.register_keras_serializable(package="relation_tf")
class SoftmaxPositionEncoding(BaseLayer):
    """Weight each feature of the tokens by a learned softmax over positions: `x * p`.

    `p(i)_j = exp(i s_j) / sum_k exp(k s_j)`, with the sum over unmasked tokens and a learned slope
    `s_j` for each feature. A positive slope gives late tokens more weight, a negative slope early
    tokens, and zero (the default initial value) the weight `1 / tokens` to all. Positions count
    unmasked tokens only, so that padding does not change outputs at unmasked tokens. The weights
    are computed in float32 or wider.

    Args:
        initializer: Initializer of the slopes.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; outputs at masked tokens are zero.

    Returns:
        Tensor with the shape of `x`.

    Example:
        >>> import keras
        >>> from relation_tf.layers import SoftmaxPositionEncoding
        >>> y = SoftmaxPositionEncoding()(keras.ops.ones((1, 4, 1)))
        >>> keras.ops.convert_to_numpy(y).ravel().tolist()
        [0.25, 0.25, 0.25, 0.25]

    References:
        - Maupomé, Meurs 2022, doi 10.3390/info13060290.
    """

    def __init__(self, initializer: Any = "zeros", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.initializer = keras.initializers.get(initializer)

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the slopes `s`."""
        self.width = width_of("x", x_shape)
        self.slope = self.add_weight(
            name="slope",
            shape=(self.width,),
            initializer=cloned(self.initializer),
            # The slope is multiplied by positions: in half precision exponents have errors above 1.
            autocast=False,
        )
        self.built = True

    def call(self, x: Any, mask: Any = None) -> Any:
        """Return the weighted tokens."""
        x = self.as_tokens(x)
        if mask is None:
            kept = ops.ones((1, ops.shape(x)[1]), "bool")
        else:
            kept = boolean(mask, x)
            x = zero_masked(x, kept)
        return ops.cast(to_float32(x) * _weights(to_float32(self.slope), kept), x.dtype)

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of `x`."""
        return self.checked_shape(x_shape)


def _weights(slope: Any, kept: Any) -> Any:
    """Return `p`, `(batch, tokens, width)`, of slopes `(width,)` and a mask `(batch, tokens)`."""
    count = ops.cumsum(ops.cast(kept, "int32"), axis=1)
    rank = ops.maximum(count - 1, 0)[..., None]  # (batch, tokens, 1)
    # Softmax is invariant to shifts. With positions relative to the token of largest weight, scores
    # are at most zero, and scores with relevant weight are small and exact for any length.
    distance = rank - ops.where(slope > 0, rank[:, -1:], 0)
    scores = ops.cast(distance, slope.dtype) * slope
    powers = zero_masked(ops.exp(scores), kept)
    total = ops.sum(powers, axis=1, keepdims=True)  # At least 1, or 0 without unmasked tokens.
    return powers / ops.where(total > 0, total, 1.0)
