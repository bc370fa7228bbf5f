"""Sentence-state LSTM (S-LSTM)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer, true_or_false
from relation_tf.layers.masking import masked_mean, to_float32, zero_masked
from relation_tf.layers.slicing import part
from relation_tf.networks.sentence_encoder import SentenceEncoder


@keras.saving.register_keras_serializable(package="relation_tf")
class SentenceStateLSTM(SentenceEncoder):
    """S-LSTM: recurrent steps that update all word states and a sentence state in parallel.

    Each of `num_steps` steps uses the states of the previous step; all steps share parameters.
    Words, with `xi_i = [h_(i-1), h_i, h_(i+1)]`:

    - `a_i = sigmoid(xi_i W_a + x_i U_a + g V_a + b_a)` for each gate `a` of `i, l, r, f, s, o`, and
      `u_i` the same with tanh;
    - softmax over the five gates `i, l, r, f, s`, for each feature;
    - `c_i = l * c_(i-1) + f * c_i + r * c_(i+1) + s * c_g + i * u`, `h_i = o * tanh(c_i)`.

    Sentence, with `h' = mean over unmasked tokens of h`:

    - `f_g = sigmoid(g W_g + h' U_g + b_g)`, `f_i = sigmoid(g W_f + h_i U_f + b_f)` for each word,
      `o = sigmoid(g W_o + h' U_o + b_o)`;
    - softmax over `f_g` and the `f_i` of all kept words, for each feature;
    - `c_g = f_g * c_g + sum_i f_i * c_i`, `g = o * tanh(c_g)`.

    All initial hidden states are one learned vector, initial cells are zero. States outside the
    sentence and at masked tokens are zero. With `window > 1` the states of the `window` words on
    each side are summed, as in the paper's code. The output is zero if all tokens are masked.

    Args:
        units: Width of the states.
        num_steps: Number of steps; at least 2 for the sentence state, which is zero after the first
            step.
        window: Number of words on each side that a word sees in a step.
        return_sequences: If True, return the states of words instead of the sentence state.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens have no state.

    Returns:
        Tensor of shape `(batch, units)`, the sentence state, or `(batch, tokens, units)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.sentence_state_lstm import SentenceStateLSTM
        >>> SentenceStateLSTM(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 8)
        True

    References:
        - Zhang, Liu, Song 2018, "Sentence-State LSTM for Text Representation", section 3.2.
    """

    def __init__(
        self,
        units: int,
        num_steps: int = 9,
        window: int = 1,
        return_sequences: bool = False,
        *,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            units,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            **kwargs,
        )
        self.num_steps = positive_integer("num_steps", num_steps)
        self.window = positive_integer("window", window)
        self.return_sequences = true_or_false("return_sequences", return_sequences)
        if self.num_steps == 1 and not self.return_sequences:
            raise ValueError(
                "`num_steps` must be at least 2 unless return_sequences=True: the first step sees "
                "no cells of words, so its sentence state is zero. Received: num_steps=1"
            )

    def build_encoder(self, width: int) -> None:
        """Create one matrix per input, with the columns of all its gates."""
        units = self.units
        # Columns: i, l, r, f, s, o, u.
        self.word_kernel = self.add_kernel("word_kernel", 3 * units, 7 * units)
        self.input_kernel = self.add_kernel("input_kernel", width, 7 * units)
        self.context_kernel = self.add_kernel("context_kernel", units, 7 * units)
        self.word_bias = self.add_bias("word_bias", 7 * units)
        # Columns: f_g, o, f_i; f_g and o; f_i.
        self.sentence_kernel = self.add_kernel("sentence_kernel", units, 3 * units)
        self.mean_kernel = self.add_kernel("mean_kernel", units, 2 * units)
        self.forget_kernel = self.add_kernel("forget_kernel", units, units)
        self.sentence_bias = self.add_bias("sentence_bias", 3 * units)
        self.initial_state = self.add_bias("initial_state", units)

    def encode(self, x: Any, mask: Any, training: bool) -> Any:
        """Run all steps."""
        inputs = ops.matmul(x, self.input_kernel) + self.word_bias  # Constant over steps.
        h, c = self._first_words(inputs, mask)
        # All cells were zero, so that the sentence state is zero after the first step.
        g = c_g = ops.zeros_like(inputs[:, 0, : self.units])
        for _ in range(self.num_steps - 1):
            words = self._words(h, c, g, c_g, inputs, mask)
            g, c_g = self._sentence(h, c, g, c_g, mask)
            h, c = words
        return h if self.return_sequences else g

    def _first_words(self, inputs: Any, mask: Any) -> tuple[Any, Any]:
        """Return `h` and `c` of each word after the first step.

        All words start with the same state, so a product with the number of neighbours replaces the
        largest matrix product.
        """
        kept = zero_masked(ops.ones_like(inputs[..., :1]), mask)
        left, right = _neighbours(kept, self.window)
        states = ops.matmul(self.initial_state, ops.reshape(self.word_kernel, (3, self.units, -1)))
        gates = ops.matmul(ops.concatenate([left, kept, right], axis=-1), states)
        gates = gates + inputs + ops.matmul(self.initial_state, self.context_kernel)
        none = ops.zeros((1, 1, 1), gates.dtype)
        return self._gated(gates, none, none, none, none[0], mask)

    def _words(self, h: Any, c: Any, g: Any, c_g: Any, inputs: Any, mask: Any) -> tuple[Any, Any]:
        """Return the next `h` and `c` of each word."""
        h_left, h_right = _neighbours(h, self.window)
        c_left, c_right = _neighbours(c, self.window)
        gates = ops.matmul(ops.concatenate([h_left, h, h_right], axis=-1), self.word_kernel)
        gates = gates + inputs + ops.matmul(g, self.context_kernel)[:, None]
        return self._gated(gates, c_left, c, c_right, c_g, mask)

    def _gated(
        self, gates: Any, c_left: Any, c: Any, c_right: Any, c_g: Any, mask: Any
    ) -> tuple[Any, Any]:
        """Return the next `h` and `c` of each word from the gates and the previous cells."""
        mixing, o, u = ops.split(gates, (5 * self.units, 6 * self.units), axis=-1)
        # Sigmoids are in (0, 1): their softmax needs no shift.
        i, left, right, f, s = ops.split(ops.exp(ops.sigmoid(mixing)), 5, axis=-1)
        c = left * c_left + f * c + right * c_right + s * c_g[:, None] + i * ops.tanh(u)
        c = c / (i + left + right + f + s)
        c = zero_masked(c, mask)
        return zero_masked(ops.sigmoid(o) * ops.tanh(c), mask), c

    def _sentence(self, h: Any, c: Any, g: Any, c_g: Any, mask: Any) -> tuple[Any, Any]:
        """Return the next `g` and `c_g`."""
        of_g = ops.matmul(g, self.sentence_kernel) + self.sentence_bias
        own, of_words = of_g[:, : 2 * self.units], of_g[:, 2 * self.units :]
        own = ops.sigmoid(own + ops.matmul(masked_mean(h, mask), self.mean_kernel))
        f_g, o = ops.split(own, 2, axis=-1)
        f = ops.sigmoid(of_words[:, None] + ops.matmul(h, self.forget_kernel))
        weight_g, weights = ops.exp(to_float32(f_g)), zero_masked(ops.exp(to_float32(f)), mask)
        mixed = weight_g * to_float32(c_g) + ops.sum(weights * to_float32(c), axis=1)
        c_g = ops.cast(mixed / (weight_g + ops.sum(weights, axis=1)), c.dtype)
        return o * ops.tanh(c_g), c_g


def _neighbours(x: Any, window: int) -> tuple[Any, Any]:
    """Return the sums of the `window` tokens to the left and to the right of each token."""
    length = ops.shape(x)[1]
    padded = ops.pad(x, ((0, 0), (window, window), (0, 0)))
    left = sum(part(padded, window - k, length) for k in range(1, window + 1))
    right = sum(part(padded, window + k, length) for k in range(1, window + 1))
    return left, right
