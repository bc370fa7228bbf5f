"""Encoders of sentences as vectors: averaging, convolutional and recurrent baselines, pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import (
    one_of,
    positive_integer,
    rate,
    seed_or_none,
    true_or_false,
    width_of,
)
from relation_tf.layers.averages import masked_mean, masked_softmax
from relation_tf.layers.base import WeightedLayer, built_child, cloned
from relation_tf.layers.masking import boolean, kept_first, part, to_float32, tokens_at, zero_masked

_CELLS = {"rnn": keras.layers.SimpleRNN, "gru": keras.layers.GRU, "lstm": keras.layers.LSTM}


class SentenceEncoder(WeightedLayer):
    """Base class of layers from the tokens of a sentence to one vector or contextual tokens.

    It checks `units` and applies masks. A subclass creates its weights in `build_encoder` and
    computes its equation in `encode`; `return_sequences` and `output_width` define the output
    shape.

    Args:
        units: Width of the layer, at least 1.
        **kwargs: As in `WeightedLayer`.
    """

    return_sequences = False

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = positive_integer("units", units)

    def output_width(self, width: int) -> int:
        """Return the width of the output for an input width."""
        return self.units

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the weights."""
        self.build_encoder(width_of("x", x_shape))
        self.built = True

    def build_encoder(self, width: int) -> None:
        """Create the weights of the encoder."""
        raise NotImplementedError

    def encode(self, x: Any, mask: Any, training: bool) -> Any:
        """Compute the equation; masked tokens of `x` are zero, `mask` is boolean or None."""
        raise NotImplementedError

    def call(self, x: Any, mask: Any = None, training: bool | None = None) -> Any:
        """Encode the sentences.

        Args:
            x: Tensor of shape `(batch, tokens, width)`.
            mask: Boolean tensor of shape `(batch, tokens)`, True for unmasked tokens. Masked tokens
                have no effect on the output.
            training: If True, apply dropout.

        Returns:
            Tensor of shape `(batch, width)`, or `(batch, tokens, width)`, zero at masked tokens.
        """
        mask = boolean(mask, x)
        y = self.encode(zero_masked(x, mask), mask, bool(training))
        return zero_masked(y, mask) if self.return_sequences else y

    def compute_mask(self, x: Any, previous_mask: Any = None) -> Any:
        """Return the mask for token outputs, None for vectors."""
        return previous_mask if self.return_sequences else None

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return `(batch, width)` or `(batch, tokens, width)`."""
        width = self.output_width(width_of("x", x_shape))
        return (*x_shape[: 2 if self.return_sequences else 1], width)

    def add_dense(self, name: str, width: int, units: int, **arguments: Any) -> keras.layers.Dense:
        """Return a built Dense layer from `width` to `units`."""
        arguments = {**self.weight_arguments(), **arguments}
        return built_child(self, keras.layers.Dense, name, width, units, **arguments)


@keras.saving.register_keras_serializable(package="relation_tf")
class DeepAveragingNetwork(SentenceEncoder):
    """Dense layers on the mean of the word vectors.

    `z_0 = mean over unmasked tokens of x`, `z_k = activation(z_(k-1) W_k + b_k)`; the output is the
    last `z`. In training, word dropout excludes tokens independently from the mean. If it would
    exclude all tokens of a sentence, it excludes none. Without unmasked tokens the mean is zero.

    Args:
        units: Width of the Dense layers.
        num_layers: Number of Dense layers.
        activation: Activation of each Dense layer.
        word_dropout: Rate in [0, 1) at which whole tokens are dropped in training.
        seed: Random seed of the word dropout.
        **kwargs: As in `SentenceEncoder`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens are excluded from the mean.

    Returns:
        Tensor of shape `(batch, units)`.

    Raises:
        ValueError: If a size is not a positive integer or the rate is not in [0, 1).

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.sentence_encoders import DeepAveragingNetwork
        >>> DeepAveragingNetwork(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 8)
        True

    References:
        - Iyyer, Manjunatha, Boyd-Graber, Daumé 2015, "Deep Unordered Composition Rivals Syntactic
          Methods for Text Classification", sections 3 and 3.1.
    """

    def __init__(
        self,
        units: int,
        num_layers: int = 2,
        activation: Any = "relu",
        word_dropout: float = 0.3,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        self.num_layers = positive_integer("num_layers", num_layers)
        self.activation = keras.activations.get(activation)
        self.word_dropout = rate("word_dropout", word_dropout)
        self.seed = seed_or_none("seed", seed)
        if word_dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(self.seed)

    def build_encoder(self, width: int) -> None:
        """Create the Dense layers."""
        widths = [width] + [self.units] * (self.num_layers - 1)
        self.dense_layers = [
            self.add_dense(f"dense_{i}", w, self.units, activation=self.activation)
            for i, w in enumerate(widths)
        ]

    def encode(self, x: Any, mask: Any, training: bool) -> Any:
        """Apply the Dense layers to the mean."""
        if training and self.word_dropout > 0:
            mask = self._surviving(x, mask)
            x = zero_masked(x, mask)
        z = masked_mean(x, mask)
        for dense in self.dense_layers:
            z = dense(z)
        return z

    def _surviving(self, x: Any, mask: Any) -> Any:
        """Return the mask of the tokens kept by word dropout."""
        kept = ops.ones(ops.shape(x)[:2], dtype="bool") if mask is None else mask
        drawn = keras.random.uniform(ops.shape(x)[:2], seed=self.seed_generator)
        surviving = ops.logical_and(kept, drawn >= self.word_dropout)
        none = ops.logical_not(ops.any(surviving, axis=1, keepdims=True))
        return ops.logical_or(surviving, ops.logical_and(kept, none))


@keras.saving.register_keras_serializable(package="relation_tf")
class ConvolutionalNetwork(SentenceEncoder):
    """Convolutions of several widths with max pooling over the sentence.

    For each width, `num_layers` convolutions `c_k = activation(conv(c_(k-1)))` are followed by the
    maximum over unmasked tokens, and the maxima are concatenated. They are zero if all tokens
    are masked.

    Positions outside the sentence and masked tokens are zero before each convolution, so that
    padding does not change outputs. A masked token inside the sentence keeps its position as a zero
    vector.

    Kim 2014 uses only windows inside the sentence. Here windows extend over both ends, so that a
    sentence may be shorter than a window. The FCSR paper's context window of `w` words in `n`
    layers is `widths=[2 * w + 1], num_layers=n`.

    Args:
        units: Number of feature maps per width.
        widths: Widths of the windows, in tokens.
        num_layers: Number of stacked convolutions.
        activation: Activation of each convolution.
        **kwargs: As in `SentenceEncoder`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens are zero and excluded from the maximum.

    Returns:
        Tensor of shape `(batch, units * len(widths))`.

    Raises:
        ValueError: If a size is not a positive integer or `widths` is empty.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.sentence_encoders import ConvolutionalNetwork
        >>> ConvolutionalNetwork(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 24)
        True

    References:
        - Kim 2014, "Convolutional Neural Networks for Sentence Classification", section 2.
    """

    def __init__(
        self,
        units: int,
        widths: Sequence[int] = (3, 4, 5),
        num_layers: int = 1,
        activation: Any = "relu",
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        if isinstance(widths, str) or not isinstance(widths, Sequence) or not widths:
            raise ValueError(
                f"`widths` must be a list of positive integers. Received: widths={widths!r}"
            )
        self.widths = [positive_integer("widths", width) for width in widths]
        self.num_layers = positive_integer("num_layers", num_layers)
        self.activation = keras.activations.get(activation)

    def output_width(self, width: int) -> int:
        """Return the width of the concatenated maxima."""
        return self.units * len(self.widths)

    def build_encoder(self, width: int) -> None:
        """Create the convolutions, grouped by width."""
        self.convolutions = [
            built_child(
                self, keras.layers.Conv1D, f"convolution_{i}_{layer}",
                self.units if layer else width, self.units, window,
                padding="same", activation=self.activation, **self.weight_arguments(),
            )
            for i, window in enumerate(self.widths)
            for layer in range(self.num_layers)
        ]  # fmt: skip

    def encode(self, x: Any, mask: Any, training: bool) -> Any:
        """Return the concatenated maxima of all widths."""
        maxima = []
        for first in range(0, len(self.convolutions), self.num_layers):
            y = x
            for convolution in self.convolutions[first : first + self.num_layers]:
                y = convolution(zero_masked(y, mask))
            maxima.append(_masked_max(y, mask))
        return ops.concatenate(maxima, axis=-1)


def _masked_max(y: Any, mask: Any) -> Any:
    """Return the maximum over unmasked tokens, `(batch, width)`; zero if all tokens are masked."""
    if mask is None:
        return ops.max(y, axis=1)
    lowest = ops.cast(float("-inf"), y.dtype)
    largest = ops.max(ops.where(mask[..., None], y, lowest), axis=1)
    return ops.where(ops.any(mask, axis=1, keepdims=True), largest, ops.zeros_like(largest))


@keras.saving.register_keras_serializable(package="relation_tf")
class RecurrentNetwork(SentenceEncoder):
    """Stack of Keras's recurrent layers over the unmasked tokens.

    `h_t = cell(x_t, h_(t-1))`. With `bidirectional=True` a second cell reads from the end, and the
    states of both are concatenated. Each layer reads the states of the previous layer. The output
    is the final state of the last layer, or with `return_sequences=True` its state at each token.
    Masked tokens are skipped at any position. The output is zero if all tokens are masked.

    Unmasked tokens are moved to the front before the first layer and back after the last layer,
    because cuDNN, which Keras uses on a GPU on TensorFlow, supports no other masks and no empty
    sequences. On JAX and PyTorch, Keras computes one token after the other if there is a mask.

    Args:
        units: Width of each direction.
        cell: `"lstm"`, `"gru"` or `"rnn"`.
        num_layers: Number of layers.
        bidirectional: If True, each layer reads in both directions.
        return_sequences: If True, return the states of all tokens.
        recurrent_initializer: Initializer of the recurrent kernels. The default does not support
            weights in bfloat16 on TensorFlow and in float16 on JAX; mixed precision works.
        **kwargs: As in `SentenceEncoder`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens are skipped.

    Returns:
        Tensor of shape `(batch, w)` or `(batch, tokens, w)`, with `w = units`, or `2 * units` if
        bidirectional.

    Raises:
        ValueError: If a size is not a positive integer or the cell is unknown.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.sentence_encoders import RecurrentNetwork
        >>> bilstm = RecurrentNetwork(units=8, bidirectional=True)
        >>> bilstm(np.ones((2, 5, 3), "float32")).shape == (2, 16)
        True

    References:
        - Elman 1990, "Finding Structure in Time".
        - Hochreiter, Schmidhuber 1997, "Long Short-Term Memory".
        - Schuster, Paliwal 1997, "Bidirectional Recurrent Neural Networks".
        - Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder".
    """

    def __init__(
        self,
        units: int,
        cell: str = "lstm",
        num_layers: int = 1,
        bidirectional: bool = False,
        return_sequences: bool = False,
        recurrent_initializer: Any = "orthogonal",
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        self.cell = one_of("cell", cell, _CELLS)
        self.num_layers = positive_integer("num_layers", num_layers)
        self.bidirectional = true_or_false("bidirectional", bidirectional)
        self.return_sequences = true_or_false("return_sequences", return_sequences)
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)

    def output_width(self, width: int) -> int:
        """Return the width of the states of all directions."""
        return self.units * (2 if self.bidirectional else 1)

    def build_encoder(self, width: int) -> None:
        """Create the recurrent layers."""
        self.recurrences = [
            self._recurrence(layer, self.output_width(width) if layer else width)
            for layer in range(self.num_layers)
        ]

    def _recurrence(self, layer: int, width: int) -> Any:
        name = f"{self.cell}_{layer}"
        recurrence = _CELLS[self.cell](
            self.units,
            **self.weight_arguments(),
            recurrent_initializer=cloned(self.recurrent_initializer),
            return_sequences=self.return_sequences or layer < self.num_layers - 1,
            dtype=self.dtype_policy,
            name=name,
        )
        if self.bidirectional:
            recurrence = keras.layers.Bidirectional(
                recurrence, dtype=self.dtype_policy, name=f"bidirectional_{name}"
            )
        recurrence.build((None, None, width))
        return recurrence

    def encode(self, x: Any, mask: Any, training: bool) -> Any:
        """Apply all layers."""
        if mask is None:
            return self._run(x, None)
        order = kept_first(mask)
        some = ops.any(mask, axis=1, keepdims=True)
        # A sentence without tokens reads one zero vector; its output is set to zero below.
        count = ops.maximum(ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True), 1)
        moved = ops.arange(ops.shape(mask)[1], dtype="int32") < count
        y = self._run(tokens_at(x, order), moved)
        if self.return_sequences:
            return tokens_at(y, ops.argsort(order, axis=1))
        return ops.where(some, y, ops.zeros_like(y))

    def _run(self, x: Any, mask: Any) -> Any:
        for recurrence in self.recurrences:
            x = recurrence(x, mask=mask)
        return x


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
        **kwargs: As in `SentenceEncoder`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens have no state.

    Returns:
        Tensor of shape `(batch, units)`, the sentence state, or `(batch, tokens, units)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.sentence_encoders import SentenceStateLSTM
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
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
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
        zeros = ops.zeros_like(inputs[..., : self.units])
        h, c = zero_masked(zeros + self.initial_state, mask), zeros
        g, c_g = zeros[:, 0] + self.initial_state, zeros[:, 0]
        for _ in range(self.num_steps):
            words = self._words(h, c, g, c_g, inputs, mask)
            g, c_g = self._sentence(h, c, g, c_g, mask)
            h, c = words
        return h if self.return_sequences else g

    def _words(self, h: Any, c: Any, g: Any, c_g: Any, inputs: Any, mask: Any) -> tuple[Any, Any]:
        """Return the next `h` and `c` of each word."""
        h_left, h_right = _neighbours(h, self.window)
        c_left, c_right = _neighbours(c, self.window)
        gates = ops.matmul(ops.concatenate([h_left, h, h_right], axis=-1), self.word_kernel)
        gates = gates + inputs + ops.matmul(g, self.context_kernel)[:, None]
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
        of_sentence, of_words = of_g[:, : 2 * self.units], of_g[:, 2 * self.units :]
        of_sentence = ops.sigmoid(of_sentence + ops.matmul(masked_mean(h, mask), self.mean_kernel))
        f_g, o = ops.split(of_sentence, 2, axis=-1)
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


@keras.saving.register_keras_serializable(package="relation_tf")
class AdditiveAttentionPooling(SentenceEncoder):
    """Weighted sum of a sentence's tokens, with additive attention weights.

    `e_i = v^T tanh(W h_i + b)`, `a = softmax of e over unmasked tokens`, `y = sum_i a_i h_i`: the
    attention of Bahdanau et al. 2015 as a readout, with a bias instead of the decoder's state.
    Softmax and sum are in float32 or wider. The output is zero if all tokens are masked.

    Args:
        units: Width of the hidden layer of the scores.
        **kwargs: As in `SentenceEncoder`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens get no weight.

    Returns:
        Tensor of shape `(batch, width)`, with the width of the input.

    Raises:
        ValueError: If `units` is not a positive integer.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.sentence_encoders import AdditiveAttentionPooling
        >>> AdditiveAttentionPooling(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 3)
        True

    References:
        - Bahdanau, Cho, Bengio 2015, "Neural Machine Translation by Jointly Learning to Align and
          Translate", equations 5-6 and appendix A.1.2.
    """

    def output_width(self, width: int) -> int:
        """Return the width of the input."""
        return width

    def build_encoder(self, width: int) -> None:
        """Create W and b, then v."""
        self.hidden = self.add_dense("hidden", width, self.units, activation="tanh")
        self.score = self.add_dense("score", self.units, 1, use_bias=False)

    def encode(self, x: Any, mask: Any, training: bool) -> Any:
        """Return the weighted sum of the tokens."""
        scores = ops.transpose(self.score(self.hidden(x)), (0, 2, 1))  # (batch, 1, tokens)
        weights = masked_softmax(to_float32(scores), mask)
        return ops.cast(ops.matmul(weights, to_float32(x))[:, 0], x.dtype)
