"""Learned vector for the first and the second text of a pair."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import width_of
from relation_tf.layers.base import BaseLayer, cloned
from relation_tf.layers.masking import boolean, zero_masked


@keras.saving.register_keras_serializable(package="relation_tf")
class SegmentEncoding(BaseLayer):
    """Add a learned vector to all tokens of a text: `x + S[segment]`.

    Args:
        initializer: Initializer of the two vectors.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        segment: 0 for the first text, 1 for the second.
        mask: Boolean, `(batch, tokens)`; outputs at masked tokens are zero.

    Returns:
        Tensor with the shape of `x`.

    Raises:
        ValueError: If `segment` is neither 0 nor 1.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import SegmentEncoding
        >>> layer = SegmentEncoding(initializer="ones")
        >>> np.asarray(layer(np.zeros((1, 1, 2), "float32"), segment=1)).tolist()
        [[[1.0, 1.0]]]

    References:
        - Devlin et al. 2019, "BERT" (NAACL), section 3.
    """

    def __init__(self, initializer: Any = "uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.initializer = keras.initializers.get(initializer)

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the vectors `S`."""
        self.width = width_of("x", x_shape)
        self.vectors = self.add_weight(
            name="segments",
            shape=(2, self.width),
            initializer=cloned(self.initializer),
        )
        self.built = True

    def call(self, x: Any, segment: int = 0, mask: Any = None) -> Any:
        """Add the vector of the segment."""
        if segment not in (0, 1):
            raise ValueError(f"`segment` must be 0 or 1. Received: segment={segment!r}")
        x = self.as_tokens(x)
        x = x + ops.cast(self.vectors, x.dtype)[segment]
        return zero_masked(x, boolean(mask, x))

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of `x`."""
        return self.checked_shape(x_shape)
