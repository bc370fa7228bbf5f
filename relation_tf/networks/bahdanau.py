"""Recurrent encoder-decoder with additive attention."""

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
    """GRU decoder with additive attention over a bidirectional GRU encoder.

    `h_j` are the concatenated states of both directions over the source, `y_i` is the previous
    target token:

        s_0 = tanh(W_s h_1 + b_s), with the backward half of h_1
        e_ij = v^T tanh(W s_(i-1) + U h_j),  a_i = softmax(e_i) over unmasked tokens
        c_i = sum_j a_ij h_j
        s_i = GRU([E y_i, c_i], s_(i-1))
        logits_i = V tanh(W_t [s_i, c_i, E y_i] + b_t) + b

    The decoder's GRU applies the reset gate before the matrix, as in the paper. Dropout is applied
    to the embeddings and to the last hidden layer, a tanh layer instead of the paper's maxout. The
    state of `step` is `s_i`; `U h_j` is computed once per source. On TensorFlow the model does not
    support XLA training: Keras disables it with `jit_compile="auto"` and warns with
    `jit_compile=True`.

    Args:
        source_vocabulary: Number of source token ids, including 0 (padding).
        target_vocabulary: Number of target token ids, including 0 (padding).
        units: Width of the embeddings, each direction of the encoder, the decoder's state and the
            hidden layer of the attention.
        dropout: Dropout rate in [0, 1).
        seed: Random seed of the dropout.
        **kwargs: Arguments of `keras.Model`: `name` and `dtype`.

    Call arguments:
        inputs: Two integer tensors, the sources `(batch, source_tokens)` and the targets
            `(batch, target_tokens)`.

    Returns:
        Logits `(batch, target_tokens, target_vocabulary)`.

    Raises:
        ValueError: If a size is not a positive integer or the rate is not in [0, 1).

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

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        units: int,
        dropout: float = 0.1,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(source_vocabulary, target_vocabulary, units, dropout, seed, **kwargs)
        # XLA needs a maximum number of steps, which `ops.scan` on TensorFlow does not set.
        self.supports_jit = keras.backend.backend() != "tensorflow"

    def build_parts(self) -> None:
        """Create the encoder, the attention, the decoder's cell and the last hidden layer."""
        units, child = self.units, partial(built_child, self)
        both_ways = {"bidirectional": True, "return_sequences": True}
        self.encoder = child(RecurrentNetwork, "encoder", units, units, "gru", **both_ways)
        self.first = child(keras.layers.Dense, "first", units, units, "tanh")
        self.attention = AdditiveAttention(units, dtype=self.dtype_policy, name="attention")
        self.attention.build((None, units), (None, None, 2 * units))
        self.cell = child(keras.layers.GRUCell, "cell", 3 * units, units, reset_after=False)
        self.hidden = child(keras.layers.Dense, "hidden", 4 * units, units, "tanh")

    def encode(self, source_ids: Any, training: bool) -> tuple[Any, Any, Any]:
        """Return `h_j`, `U h_j` and the mask."""
        kept = ops.not_equal(source_ids, 0)
        x = self.drop(self.source_embedding(source_ids), training=training)
        states = self.encoder(x, mask=kept)
        return states, self.attention.project(states), kept

    def decode(self, source: Any, target_ids: Any, kept: Any, training: bool) -> Any:
        """Run the cell step by step, then the hidden layer on all steps."""
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
        """Return a state with `s_0`."""
        return DecoderState(source, self._first(source[0]))

    def advance(self, token_ids: Any, kept: Any, state: DecoderState) -> tuple[Any, ...]:
        """Compute the equations for one token."""
        x = self.target_embedding(token_ids)
        s, context, weights = self._next(x[:, 0], kept[:, 0], state.own, state.source)
        decoded = self._read(s[:, None], context[:, None], x)
        return decoded, state._replace(own=s), weights

    def _first(self, states: Any) -> Any:
        return self.first(states[:, 0, self.units :])

    def _next(self, x: Any, kept: Any, s: Any, source: Any) -> tuple[Any, Any, Any]:
        """Return state, context and weights; padding does not change the state."""
        context, weights = self.attention(s, *source)
        after, _ = self.cell(ops.concatenate([x, context], axis=-1), [s])
        return ops.where(kept[:, None], after, s), context, weights

    def _read(self, s: Any, context: Any, x: Any) -> Any:
        return self.hidden(ops.concatenate([s, context, x], axis=-1))


class AdditiveAttention(BaseLayer):
    """Additive attention of one query: `e_j = v^T tanh(W q + U h_j)`, `sum_j softmax(e)_j h_j`.

    Softmax and sum are in float32 or wider. The sum is zero if all tokens are masked.

    Args:
        units: Width of the hidden layer.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, width)`.
        states: Tensor of shape `(batch, tokens, state_width)`.
        projected: Output of `project` for the states.
        kept: Boolean, `(batch, tokens)`; masked tokens get no weight.

    Returns:
        The sum, shape `(batch, state_width)`, and the weights, shape `(batch, 1, tokens)`.
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units

    def build(self, query_shape: tuple[int | None, ...], states_shape: tuple[Any, ...]) -> None:
        """Create W, U and v."""
        dense = partial(built_child, self, keras.layers.Dense, use_bias=False)
        self.query_dense = dense("query", query_shape[-1], self.units)
        self.states_dense = dense("states", states_shape[-1], self.units)
        self.score = dense("score", self.units, 1)
        self.built = True

    def project(self, states: Any) -> Any:
        """Return `U h_j`."""
        return self.states_dense(states)

    def call(self, query: Any, states: Any, projected: Any, kept: Any) -> tuple[Any, Any]:
        """Return the weighted sum and the weights."""
        hidden = ops.tanh(self.query_dense(query)[:, None] + projected)
        scores = ops.transpose(self.score(hidden), (0, 2, 1))  # (batch, 1, tokens)
        weights = masked_softmax(to_float32(scores), kept)
        total = ops.matmul(weights, to_float32(zero_masked(states, kept)))[:, 0]
        return ops.cast(total, states.dtype), weights


def recurrent_encoder_decoder(
    source_vocabulary: int,
    target_vocabulary: int,
    units: int,
    dropout: float = 0.1,
    seed: int | None = None,
    **kwargs: Any,
) -> RecurrentEncoderDecoder:
    """Build a `RecurrentEncoderDecoder`: GRU with additive attention over a bidirectional GRU.

    Example:
        >>> from relation_tf.networks import recurrent_encoder_decoder
        >>> recurrent_encoder_decoder(9, 7, units=8).units
        8
    """
    return RecurrentEncoderDecoder(
        source_vocabulary, target_vocabulary, units, dropout, seed, **kwargs
    )
