"""Sinusoidal position encoding."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.arguments import width_of
from relation_tf.layers.base import BaseLayer
from relation_tf.layers.masking import as_floats, boolean, zero_masked


@keras.saving.register_keras_serializable(package="relation_tf")
class SinePositionEncoding(BaseLayer):
    """Add sinusoidal position encodings: `x + p`.

    `p(pos, i) = sin(pos / 10000^(2 floor(i / 2) / width) + (i mod 2) pi / 2)`, with positions from
    0: even features are sines, odd features cosines. The angles are computed in float32 for any
    dtype of the layer.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; outputs at masked tokens are zero.

    Returns:
        Tensor with the shape of `x`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import SinePositionEncoding
        >>> y = SinePositionEncoding()(np.zeros((1, 2, 2), "float32"))
        >>> np.asarray(y).round(3).tolist()
        [[[0.0, 1.0], [0.8410000205039978, 0.5400000214576721]]]

    References:
        - Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Check the shape; the layer has no weights."""
        width_of("x", x_shape)
        self.built = True

    def call(self, x: Any, mask: Any = None) -> Any:
        """Add the position encodings."""
        x = as_floats(x, self.compute_dtype)
        feature = np.arange(x.shape[-1])
        rate = ops.convert_to_tensor(10000.0 ** -(feature // 2 * 2 / x.shape[-1]), "float32")
        phase = ops.convert_to_tensor(feature % 2 * np.pi / 2, "float32")  # both (width,)
        position = ops.cast(ops.arange(ops.shape(x)[1], dtype="int32"), "float32")
        encoding = ops.sin(position[:, None] * rate + phase)  # (tokens, width)
        x = x + ops.cast(encoding, x.dtype)
        return zero_masked(x, boolean(mask, x))

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of `x`."""
        return x_shape
