"""Recurrent networks: RNN, GRU and LSTM, optionally bidirectional and stacked."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import one_of, positive_integer, true_or_false
from relation_tf.layers.base import cloned
from relation_tf.layers.masking import kept_first
from relation_tf.layers.slicing import tokens_at
from relation_tf.networks.sentence_encoder import SentenceEncoder

_CELLS = {"rnn": keras.layers.SimpleRNN, "gru": keras.layers.GRU, "lstm": keras.layers.LSTM}


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
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

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
        >>> from relation_tf.networks.recurrent import RecurrentNetwork
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
