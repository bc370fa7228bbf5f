"""Encodings of the positions of tokens, and of the first and second text of a pair."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.arguments import positive_integer, width_of
from relation_tf.layers.base import BaseLayer, cloned
from relation_tf.layers.masking import as_floats, boolean, to_float32, zero_masked


class _Encoding(BaseLayer):
    """Base of the encodings: learned vectors, and an output with the shape of the input."""

    def __init__(self, initializer: Any = "zeros", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.initializer = keras.initializers.get(initializer)

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the vectors."""
        self.width = width_of("x", x_shape)
        self.build_vectors(self.width)
        self.built = True

    def build_vectors(self, width: int) -> None:
        """Create the vectors of a width."""
        raise NotImplementedError

    def add_vectors(self, name: str, *shape: int, autocast: bool = True) -> Any:
        """Add learned vectors."""
        initializer = cloned(self.initializer)
        return self.add_weight(shape, initializer=initializer, autocast=autocast, name=name)

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of `x`."""
        return self.checked_shape(x_shape)


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


@keras.saving.register_keras_serializable(package="relation_tf")
class LearnedPositionEncoding(_Encoding):
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
        super().__init__(initializer, **kwargs)
        self.max_length = positive_integer("max_length", max_length)

    def build_vectors(self, width: int) -> None:
        """Create the vectors `P`."""
        self.vectors = self.add_vectors("positions", self.max_length, width)

    def call(self, x: Any, mask: Any = None) -> Any:
        """Add the vectors of the positions."""
        x = self.as_tokens(x)
        place = ops.minimum(ops.arange(ops.shape(x)[1], dtype="int32"), self.max_length - 1)
        x = x + ops.take(ops.cast(self.vectors, x.dtype), place, axis=0)
        return zero_masked(x, boolean(mask, x))


@keras.saving.register_keras_serializable(package="relation_tf")
class SoftmaxPositionEncoding(_Encoding):
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

    def build_vectors(self, width: int) -> None:
        """Create the slopes `s`."""
        # The slope is multiplied by positions: in half precision exponents have errors above 1.
        self.slope = self.add_vectors("slope", width, autocast=False)

    def call(self, x: Any, mask: Any = None) -> Any:
        """Return the weighted tokens."""
        x = self.as_tokens(x)
        if mask is None:
            kept = ops.ones((1, ops.shape(x)[1]), "bool")
        else:
            kept = boolean(mask, x)
            x = zero_masked(x, kept)
        return ops.cast(to_float32(x) * _weights(to_float32(self.slope), kept), x.dtype)


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


@keras.saving.register_keras_serializable(package="relation_tf")
class SegmentEncoding(_Encoding):
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
        super().__init__(initializer, **kwargs)

    def build_vectors(self, width: int) -> None:
        """Create the vectors `S`."""
        self.vectors = self.add_vectors("segments", 2, width)

    def call(self, x: Any, segment: int = 0, mask: Any = None) -> Any:
        """Add the vector of the segment."""
        if segment not in (0, 1):
            raise ValueError(f"`segment` must be 0 or 1. Received: segment={segment!r}")
        x = self.as_tokens(x)
        x = x + ops.cast(self.vectors, x.dtype)[segment]
        return zero_masked(x, boolean(mask, x))
