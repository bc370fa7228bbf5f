"""FourierMixing: the fixed token mixing of FNet, a discrete Fourier transform."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.masking import close_up, kept_before, to_float32, tokens_at, zero_masked
from relation_tf.layers.token_mixer import TokenMixer, affine

_MOST_DIRECT = 128  # queries; the direct transform is slower at 512
_MOST_TOKENS = 46_340  # their square fits an int32


@keras.saving.register_keras_serializable(package="relation_tf")
class FourierMixing(TokenMixer):
    """Mix tokens and features by discrete Fourier transforms: `Y = Re(F_tokens (F_features X))`.

    `Y_r = Re(sum_j sum_k exp(-2 pi i (r j / n + h k / units)) X_jk)` for feature h, where n is the
    number of unmasked tokens of `value`, j counts them from 0, and r is the number of unmasked
    tokens before the query's position. X is `value`, or `value W_V` if its width is not `units`.
    There are no other weights. Sums use float32 or wider, but outputs grow with the number of
    tokens and can exceed float16: use bfloat16. Time is `tokens * log(tokens)` with
    `algorithm="fft"`.

    The content of `query` has no effect, only its position. The output at the first token is a sum
    over the tokens, whatever their order: in a network that reads this output, use an encoder of
    several blocks. The layer has no causal form: each output depends on all tokens.

    Args:
        units: Width of the output.
        use_bias: If True, `W_V` has a bias. Default: False.
        dropout: Dropout rate in [0, 1), on Y and before the output projection. Default: 0, or 0.5
            for the released code.
        algorithm: `"direct"` (products with matrices of cosines and sines), `"fft"` (fast
            transforms, by Bluestein's algorithm) or `"auto"`: direct for up to 128 queries, if
            their number is known.
        **kwargs: As in `TokenMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`; at most 46,340 tokens.
            If their number is unknown when the layer is traced, outputs for more tokens are NaN.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens do not count as positions.

    Returns:
        Tensor of shape `(batch, queries, units)`; zero if all tokens are masked.

    Raises:
        ValueError: For more than 46,340 tokens, or with `causal=True`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import FourierMixing
        >>> FourierMixing(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Lee-Thorp, Ainslie, Eckstein, Ontañón 2022, "FNet: Mixing Tokens with Fourier Transforms",
          arXiv 2105.03824, equation 3.
    """

    algorithms = ("direct", "fft")

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_V, if the width of the values is not `units`."""
        self.value_kernel = None
        if value_width != self.units:
            self.value_kernel, self.value_bias = self.add_projection("value", value_width)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute the transform at the positions of the queries."""
        if value.shape[1] is not None and value.shape[1] > _MOST_TOKENS:
            raise ValueError(
                f"FourierMixing takes at most {_MOST_TOKENS:,} tokens. Received: {value.shape[1]:,}"
            )
        if self.value_kernel is not None:
            value = zero_masked(affine(value, self.value_kernel, self.value_bias), value_mask)
        x = to_float32(value)
        if value_mask is None:
            value_mask = ops.ones(ops.shape(value)[:2], "bool")
        steps = ops.arange(self.units, dtype="int32")
        features = _turn(steps[:, None] * steps, self.units, x.dtype)
        real, imaginary = (ops.matmul(x, part) for part in features)
        count = ops.maximum(ops.sum(ops.cast(value_mask, "int32"), axis=1, keepdims=True), 1)
        place = kept_before(ops.shape(query)[1], value_mask)
        algorithm = self.algorithm
        if algorithm == "auto":
            few = query.shape[1] is not None and query.shape[1] <= _MOST_DIRECT
            algorithm = "direct" if few else "fft"
        transform = _direct if algorithm == "direct" else _fast
        mixed = transform(real, imaginary, value_mask, count, place)
        if value.shape[1] is None:
            mixed = ops.where(ops.shape(value)[1] <= _MOST_TOKENS, mixed, float("nan"))
        return self.drop(ops.cast(mixed, query.dtype), training)


def _turn(steps: Any, period: Any, dtype: Any) -> tuple[Any, Any]:
    """Return real and imaginary part of `exp(-2 pi i steps / period)`, for whole steps."""
    share = ops.cast(ops.mod(steps, period), dtype) / ops.cast(period, dtype)
    return ops.cos(-2 * np.pi * share), ops.sin(-2 * np.pi * share)


def _direct(real: Any, imaginary: Any, mask: Any, count: Any, place: Any) -> Any:
    """Return the real part of the transform at the places, by matrices."""
    rank = ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1
    rank = ops.maximum(rank, 0)  # before the first unmasked token
    cosine, sine = _turn(place[:, :, None] * rank[:, None, :], count[..., None], real.dtype)
    return ops.matmul(cosine, real) - ops.matmul(sine, imaginary)


def _fast(real: Any, imaginary: Any, mask: Any, count: Any, place: Any) -> Any:
    """Return the same by Bluestein's algorithm.

    With `r j = (r^2 + j^2 - (r - j)^2) / 2` the transform of any length is a convolution.
    """
    length = ops.shape(mask)[1]
    missing = (abs(length - 1) - length + 1) // 2  # a transform needs a token: 1 without, else 0
    length = length + missing
    # Last axis: tokens, the unmasked ones first.
    x = tuple(
        ops.pad(
            ops.transpose(ops.cast(close_up(part, mask), real.dtype), (0, 2, 1)),
            ((0, 0), (0, 0), (0, missing)),
        )
        for part in (real, imaginary)
    )
    k = ops.arange(2 * length, dtype="int32")
    k = ops.minimum(k, 2 * length - k)[None, :]
    cosine, sine = (part[:, None, :] for part in _turn(k * k, 2 * count, real.dtype))
    chirp = cosine[..., :length], sine[..., :length]
    padded = tuple(ops.pad(part, ((0, 0), (0, 0), (0, length))) for part in _times(x, chirp))
    product = _times(ops.fft(padded), ops.fft((cosine, -sine)))
    # The inverse transform is that of the conjugate, conjugated.
    back = ops.fft((product[0], -product[1]))
    size = ops.cast(2 * length, real.dtype)
    first, second = (ops.split(part, 2, axis=2)[0] for part in back)
    convolved = first / size, -second / size
    mixed = ops.transpose(_times(convolved, chirp)[0], (0, 2, 1))
    mixed = tokens_at(mixed, ops.mod(place, count))
    return ops.cast(mixed, real.dtype)


def _times(x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
    """Multiply complex numbers."""
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]
