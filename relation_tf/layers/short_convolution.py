"""Causal convolution of each feature over a few tokens."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import check_width, positive_integer, true_or_false, width_of
from relation_tf.layers.base import WeightedLayer
from relation_tf.layers.causal import check_built, check_state, one_token
from relation_tf.layers.masking import boolean, close_up, spread_out, zero_masked
from relation_tf.layers.slicing import part


@keras.saving.register_keras_serializable(package="relation_tf")
class ShortConvolution(WeightedLayer):
    """Convolution of each feature over a token and the few before it.

    `y_t = phi(b + sum_s w_s * x_{t - s})` for each feature, with s from 0 to `filter_width - 1`,
    over the unmasked tokens; x is zero before the first one. A building block: recurrent mechanisms
    such as Mamba2 and DeltaNet apply it to their projections, to compare neighbours.

    Args:
        filter_width: Number of tokens.
        activation: Activation function `phi`; None for the identity.
        use_bias: If True, there is a bias b.
        kernel_initializer: Initializer of the filters, `(filter_width, width)`: the last row is for
            the token itself, the first one for the earliest token. By default outputs have the
            variance of the inputs.
        bias_initializer: Initializer of the bias.
        kernel_regularizer: Regularizer of the filters.
        bias_regularizer: Regularizer of the bias.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens are absent, their outputs are zero.

    Returns:
        Tensor with the shape of `x`.

    Raises:
        ValueError: If `filter_width` is not a positive integer, or `x` has another shape or
            another width than in `build`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import ShortConvolution
        >>> layer = ShortConvolution(filter_width=2, kernel_initializer="ones")
        >>> layer(np.array([[[1.0], [2.0], [4.0]]], "float32")).numpy().ravel().tolist()
        [1.0, 3.0, 6.0]

    References:
        - Dao, Gu 2024, arXiv 2405.21060, section 7, for its use in Mamba-2.
    """

    def __init__(
        self,
        filter_width: int = 4,
        activation: Any = None,
        use_bias: bool = True,
        *,
        kernel_initializer: Any = "lecun_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            **kwargs,
        )
        self.filter_width = positive_integer("filter_width", filter_width)
        self.activation = keras.activations.get(activation)
        self.use_bias = true_or_false("use_bias", use_bias)

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the filters, the last row for the token itself, and the bias."""
        self.width = width_of("x", x_shape)
        self.kernel = self.add_kernel("kernel", self.filter_width, self.width)
        self.bias = self.add_bias("bias", self.width) if self.use_bias else 0.0
        self.built = True

    def call(self, x: Any, mask: Any = None) -> Any:
        """Compute the convolution."""
        x = self.as_tokens(x)
        mask = boolean(mask, x)
        y = short_convolution(zero_masked(x, mask), self.kernel, self.bias, mask)
        return zero_masked(self.activation(y), mask)

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of `x`."""
        return self.checked_shape(x_shape)

    def initial_state(self, batch_size: int) -> Any:
        """Return the state before the first token: `filter_width - 1` inputs that are zero.

        Raises:
            ValueError: If the layer is not built.
        """
        check_built(self)
        return ops.zeros((batch_size, self.filter_width - 1, self.width), self.compute_dtype)

    def step(self, x: Any, state: Any, mask: Any = None) -> tuple[Any, Any]:
        """Return the output of the next token, `(batch, 1, width)`, and the next state.

        Args:
            x: Tensor of shape `(batch, 1, width)`.
            state: State from `initial_state` or from the previous step.
            mask: Boolean tensor of shape `(batch, 1)`, default: all True. If False, the output is
                zero and later tokens do not see this token.

        Raises:
            ValueError: If the layer is not built, if `x` or `mask` has another shape, or if the
                state is of another batch size.
        """
        check_built(self)
        x, mask = one_token(x, mask, self.compute_dtype)
        check_width("x", x.shape, self.width)
        check_state(state, x)
        y, state = convolution_step(zero_masked(x, mask), self.kernel, self.bias, state, mask)
        return zero_masked(self.activation(y), mask), state


def short_convolution(x: Any, filters: Any, bias: Any, mask: Any) -> Any:
    """Compute `y_t = b + sum over s < width of w_s * x_{t - width + 1 + s}` over unmasked tokens.

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
    y = bias + sum(filters[s] * part(x, s, length) for s in range(width))
    return y if mask is None else spread_out(y, mask)


def convolution_step(x: Any, filters: Any, bias: Any, state: Any, mask: Any) -> tuple[Any, Any]:
    """Return the output of `short_convolution` for one token, and the next state.

    The state holds the last `width - 1` kept inputs, in the shape `(batch, width - 1, features)`.
    """
    inputs = ops.concatenate([state, ops.cast(x, state.dtype)], axis=1)
    y = bias + ops.sum(filters * inputs, axis=1, keepdims=True)
    return ops.cast(y, x.dtype), ops.where(mask[..., None], inputs[:, 1:], state)
