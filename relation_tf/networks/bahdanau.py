"""The recurrent encoder-decoder with additive attention."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
from keras import ops

from relation_tf.layers.base import BaseLayer, built_child
from relation_tf.layers.masking import masked_softmax, to_float32, zero_masked
from relation_tf.networks.encoder_decoder import DecoderState, EncoderDecoder
from relation_tf.networks.recurrent import RecurrentNetwork


@keras.saving.register_keras_serializable(package="relation_tf")
class RecurrentEncoderDecoder(EncoderDecoder):
    """A GRU that writes, looking back by additive attention at what two GRUs have read.

    `h_j` are the states of a GRU in each direction over the source, side by side. Then, for the
    target token `y_i` that was written last:

        s_0 = tanh(W_s h_1 + b_s), of h_1 the half that has read backwards
        e_ij = v^T tanh(W s_(i-1) + U h_j),  a_i = softmax(e_i) over kept tokens
        c_i = sum_j a_ij h_j
        s_i = GRU([E y_i, c_i], s_(i-1))
        logits_i = V tanh(W_t [s_i, c_i, E y_i] + b_t) + b

    The GRU of the decoder resets its state before the matrix, as in the paper. Dropout falls on the
    embeddings and on the last hidden layer, which stands for the paper's maxout. The state of
    `step` is `s_i`; `U h_j` is computed once for each source. On TensorFlow it does not train by
    XLA: Keras leaves that out where it chooses, and warns where it is asked for.

    Args:
        source_vocabulary: Number of ids of the sources, 0 for padding among them.
        target_vocabulary: The same for the targets.
        units: Width of embeddings, of each direction of the encoder, of the decoder's state and of
            the attention's hidden layer.
        dropout: Rate in [0, 1).
        seed: Seed of the dropout.
        **kwargs: Arguments of `keras.Model`: `name` and `dtype`.

    Call arguments:
        inputs: Two integer tensors, the sources `(batch, source_tokens)` and the targets
            `(batch, target_tokens)`.

    Returns:
        Logits `(batch, target_tokens, target_vocabulary)`.

    Raises:
        ValueError: For sizes that are no positive integers, or a rate outside of [0, 1).

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import recurrent_encoder_decoder
        >>> model = recurrent_encoder_decoder(9, 7, units=8)
        >>> model([np.array([[3, 4, 5]]), np.array([[1, 6]])]).shape == (1, 2, 7)
        True

    References:
        - Bahdanau, Cho, Bengio 2015, "Neural Machine Translation by Jointly Learning to Align and
          Translate", section 3 and appendix A.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # On TensorFlow `ops.scan` sets no greatest number of steps, which XLA asks for.
        self.supports_jit = keras.backend.backend() != "tensorflow"

    def build_parts(self) -> None:
        """Encoder, attention, the decoder's cell and the last hidden layer."""
        units, child = self.units, partial(built_child, self)
        both_ways = {"bidirectional": True, "return_sequences": True}
        self.encoder = child(RecurrentNetwork, "encoder", units, units, "gru", **both_ways)
        self.first = child(keras.layers.Dense, "first", units, units, "tanh")
        self.attention = AdditiveAttention(units, dtype=self.dtype_policy, name="attention")
        self.attention.build((None, units), (None, None, 2 * units))
        self.cell = child(keras.layers.GRUCell, "cell", 3 * units, units, reset_after=False)
        self.hidden = child(keras.layers.Dense, "hidden", 4 * units, units, "tanh")

    def encode(self, source_ids: Any, training: bool) -> tuple[Any, Any, Any]:
        """`h_j`, `U h_j` and the mask."""
        kept = ops.not_equal(source_ids, 0)
        x = self.drop(self.source_embedding(source_ids), training=training)
        states = self.encoder(x, mask=kept)
        return states, self.attention.project(states), kept

    def decode(self, source: Any, target_ids: Any, kept: Any, training: bool) -> Any:
        """One step after the other, then the hidden layer for all of them at once."""
        x = self.drop(self.target_embedding(target_ids), training=training)
        states = source[0]

        def step(before: Any, token: Any) -> tuple[Any, Any]:
            s, context, _ = self._next(token[0], token[1], before[0], source)
            return (s, context), (s, context)

        start = self._first(states), ops.zeros_like(states[:, 0])
        tokens = ops.transpose(x, (1, 0, 2)), ops.transpose(kept)
        _, (s, context) = ops.scan(step, start, tokens)
        s, context = (ops.transpose(each, (1, 0, 2)) for each in (s, context))
        return self.drop(self._read(s, context, x), training=training)

    def start(self, source: Any, batch_size: Any, max_length: int) -> DecoderState:
        """`s_0`."""
        return DecoderState(source, self._first(source[0]))

    def advance(self, token_ids: Any, kept: Any, state: DecoderState) -> tuple[Any, ...]:
        """The equations for one more token."""
        x = self.target_embedding(token_ids)
        s, context, weights = self._next(x[:, 0], kept[:, 0], state.own, state.source)
        decoded = self._read(s[:, None], context[:, None], x)
        return decoded, state._replace(own=s), weights

    def _first(self, states: Any) -> Any:
        return self.first(states[:, 0, self.units :])

    def _next(self, x: Any, kept: Any, s: Any, source: Any) -> tuple[Any, Any, Any]:
        """State, context and weights; the state is the one before where the token is padding."""
        context, weights = self.attention(s, *source)
        after, _ = self.cell(ops.concatenate([x, context], axis=-1), [s])
        return ops.where(kept[:, None], after, s), context, weights

    def _read(self, s: Any, context: Any, x: Any) -> Any:
        return self.hidden(ops.concatenate([s, context, x], axis=-1))


class AdditiveAttention(BaseLayer):
    """One query for each sequence: `e_j = v^T tanh(W q + U h_j)`, `sum_j softmax(e)_j h_j`.

    Softmax and sum are in float32 or wider. Where no token is kept the sum is zero.

    Args:
        units: Width of the hidden layer.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, width)`.
        states: Tensor of shape `(batch, tokens, state_width)`.
        projected: What `project` makes of the states.
        kept: Boolean, `(batch, tokens)`; other tokens get no weight.

    Returns:
        The sum, `(batch, state_width)`, and the weights, `(batch, 1, tokens)`.
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units

    def build(self, query_shape: tuple[int | None, ...], states_shape: tuple[Any, ...]) -> None:
        """W, U and v."""
        dense = partial(built_child, self, keras.layers.Dense, use_bias=False)
        self.query_dense = dense("query", query_shape[-1], self.units)
        self.states_dense = dense("states", states_shape[-1], self.units)
        self.score = dense("score", self.units, 1)
        self.built = True

    def project(self, states: Any) -> Any:
        """`U h_j`."""
        return self.states_dense(states)

    def call(self, query: Any, states: Any, projected: Any, kept: Any) -> tuple[Any, Any]:
        """The sum and its weights."""
        hidden = ops.tanh(self.query_dense(query)[:, None] + projected)
        scores = ops.transpose(self.score(hidden), (0, 2, 1))  # (batch, 1, tokens)
        weights = masked_softmax(to_float32(scores), kept)
        total = ops.matmul(weights, to_float32(zero_masked(states, kept)))[:, 0]
        return ops.cast(total, states.dtype), weights


def recurrent_encoder_decoder(
    source_vocabulary: int, target_vocabulary: int, units: int, **kwargs: Any
) -> RecurrentEncoderDecoder:
    """A GRU with additive attention over a bidirectional GRU: a `RecurrentEncoderDecoder`.

    Example:
        >>> from relation_tf.networks import recurrent_encoder_decoder
        >>> recurrent_encoder_decoder(9, 7, units=8).units
        8
    """
    return RecurrentEncoderDecoder(source_vocabulary, target_vocabulary, units, **kwargs)
