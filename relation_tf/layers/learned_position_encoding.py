"""Learned position encoding."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer, width_of
from relation_tf.layers.base import BaseLayer, cloned
from relation_tf.layers.masking import boolean, zero_masked


@keras.saving.register_keras_serializable(package="relation_tf")
class LearnedPositionEncoding(BaseLayer):
    """Add a learned vector for each position: `x + P[pos]`, with positions from 0.

    Tokens after the first `max_length` have the vector of the last position: limit the length of
    texts instead of relying on it.

    Args:
        max_length: Number of positions.
        initializer: Initializer of the vectors.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; outputs at masked tokens are zero.

    Returns:
        Tensor with the shape of `x`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import LearnedPositionEncoding
        >>> layer = LearnedPositionEncoding(max_length=2, initializer="ones")
        >>> np.asarray(layer(np.zeros((1, 3, 1), "float32"))).tolist(), layer.count_params()
        ([[[1.0], [1.0], [1.0]]], 2)

    References:
        - Gehring et al. 2017, "Convolutional Sequence to Sequence Learning" (ICML).
        - Devlin et al. 2019, "BERT" (NAACL).
    """

    def __init__(self, max_length: int, initializer: Any = "uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_length = positive_integer("max_length", max_length)
        self.initializer = keras.initializers.get(initializer)

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the vectors `P`."""
        self.width = width_of("x", x_shape)
        self.vectors = self.add_weight(
            name="positions",
            shape=(self.max_length, self.width),
            initializer=cloned(self.initializer),
        )
        self.built = True

    def call(self, x: Any, mask: Any = None) -> Any:
        """Add the vectors of the positions."""
        x = self.as_tokens(x)
        place = ops.minimum(ops.arange(ops.shape(x)[1], dtype="int32"), self.max_length - 1)
        x = x + ops.take(ops.cast(self.vectors, x.dtype), place, axis=0)
        return zero_masked(x, boolean(mask, x))

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of `x`."""
        return self.checked_shape(x_shape)
