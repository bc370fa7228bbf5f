"""Encoder-decoders: token ids to logits, in one call or token by token."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, Self

import keras
from keras import ops

from relation_tf.layers.arguments import one_of, positive_integer, rate, seed_or_none
from relation_tf.layers.averages import masked_softmax
from relation_tf.layers.base import BaseLayer, built_child, constructor_arguments, seed_of_copy
from relation_tf.layers.masking import float32_or_wider, to_float32, zero_masked
from relation_tf.layers.positions import SinePositionEncoding
from relation_tf.networks.encoders import Encoder, EncoderBlock, Norm, built_norm
from relation_tf.networks.mechanisms import in_blocks
from relation_tf.networks.mixing import entry_of, is_layer
from relation_tf.networks.sentence_encoders import RecurrentNetwork

_CELLS = {"gru": keras.layers.GRUCell, "lstm": keras.layers.LSTMCell}
_SCORES = ("dot", "general", "concat")  # of Luong's attention


class DecoderState(NamedTuple):
    """State of a decoder before its next token.

    Attributes:
        source: Encoded sources, constant over steps: tensors `(batch, ...)`.
        target: State of the previous target tokens: tensors `(batch, ...)`, or `()` for a count.
        shared: Values shared by all sequences.
    """

    source: Any
    target: Any
    shared: Any = ()


class EncoderDecoder(keras.Model):
    """Base class of encoder-decoders, from source ids and target ids to logits of the next ids.

    It provides the embeddings, padding, the output layer, and the two ways to process targets:
    `call` and `step`. A subclass creates its layers in `build_parts`, encodes sources in `encode`
    and processes targets in `decode` and `advance`.

    In both sequences 0 is padding, at the end. It does not change outputs at tokens; logits at
    padding are zero, and the attention to a source without tokens is zero.

    Args:
        source_vocabulary: Number of source token ids, including 0 (padding).
        target_vocabulary: Number of target token ids, including 0 (padding).
        units: Width of embeddings and states.
        dropout: Dropout rate in [0, 1).
        seed: Random seed of the dropout.
        **kwargs: Arguments of `keras.Model`: `name` and `dtype`.

    Raises:
        ValueError: If a size is not a positive integer or the rate is not in [0, 1).
    """

    supports_xla = True

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        units: int,
        dropout: float = 0.1,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_jit = self.supports_xla
        self.source_vocabulary = positive_integer("source_vocabulary", source_vocabulary)
        self.target_vocabulary = positive_integer("target_vocabulary", target_vocabulary)
        self.units = positive_integer("units", units)
        self.dropout = rate("dropout", dropout)
        self.seed = seed_or_none("seed", seed)
        self.drop = keras.layers.Dropout(
            dropout, seed=self.seed, dtype=self.dtype_policy, name="drop"
        )

    def build(self, input_shape: Any = None) -> None:
        """Create the weights; they do not depend on the input shapes."""
        embed = partial(built_child, self, keras.layers.Embedding)
        self.source_embedding = embed("source_embedding", None, self.source_vocabulary, self.units)
        self.target_embedding = embed("target_embedding", None, self.target_vocabulary, self.units)
        self.build_parts()
        # In half precision the probabilities are too inaccurate for the loss.
        wide = float32_or_wider(self.compute_dtype)
        self.logits = built_child(
            self, keras.layers.Dense, "logits", self.units, self.target_vocabulary, dtype=wide
        )
        self.built = True

    def build_parts(self) -> None:
        """Create the layers of the subclass."""
        raise NotImplementedError

    def encode(self, source_ids: Any, training: bool) -> Any:
        """Return the encoded sources: the field `source` of the states."""
        raise NotImplementedError

    def decode(self, source: Any, target_ids: Any, kept: Any, training: bool) -> Any:
        """Return the inputs of the output layer, `(batch, target_tokens, units)`."""
        raise NotImplementedError

    def start(self, source: Any, batch_size: Any, max_length: int) -> DecoderState:
        """Return the state before the first token."""
        raise NotImplementedError

    def advance(self, token_ids: Any, kept: Any, state: DecoderState) -> tuple[Any, ...]:
        """Process one token: return the output of `decode`, the next state and the weights."""
        raise NotImplementedError

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Return the logits of the token after each target token.

        Args:
            inputs: Two integer tensors, the sources `(batch, source_tokens)` and the targets
                `(batch, target_tokens)`, which begin with a start token.
            training: If True, apply dropout.

        Returns:
            Logits `(batch, target_tokens, target_vocabulary)`, zero at padding.
        """
        source_ids, target_ids = (ops.cast(ids, "int32") for ids in inputs)
        kept = ops.not_equal(target_ids, 0)
        source = self.encode(source_ids, bool(training))
        decoded = self.decode(source, target_ids, kept, bool(training))
        return zero_masked(self.logits(decoded), kept)

    def initial_state(self, source_ids: Any, max_length: int) -> DecoderState:
        """Return the state before the first target token.

        Args:
            source_ids: Integer tensor `(batch, source_tokens)`.
            max_length: Maximum number of steps.

        Returns:
            A state for `step`.
        """
        positive_integer("max_length", max_length)
        if not self.built:
            self.build()
        source_ids = ops.cast(ops.convert_to_tensor(source_ids), "int32")
        source = self.encode(source_ids, training=False)
        return self.start(source, ops.shape(source_ids)[0], max_length)

    def step(self, token_ids: Any, state: DecoderState) -> tuple[Any, DecoderState, Any]:
        """Process the next target token of each sequence, in inference mode.

        Args:
            token_ids: Integer tensor `(batch, 1)`; later tokens do not see a 0.
            state: State from `initial_state` or from the previous step.

        Returns:
            The logits of the following token, `(batch, 1, target_vocabulary)`; the next state; and
            the attention weights over source tokens, `(batch, 1, source_tokens)`. The weights sum
            to 1, or are zero if the token or the whole source is padding.
        """
        token_ids = ops.cast(ops.convert_to_tensor(token_ids), "int32")
        kept = ops.not_equal(token_ids, 0)
        decoded, state, weights = self.advance(token_ids, kept, state)
        return zero_masked(self.logits(decoded), kept), state, zero_masked(weights, kept)

    def compute_output_spec(self, inputs: Any, training: bool | None = None) -> Any:
        """Return the symbolic output, `(batch, target_tokens, target_vocabulary)`."""
        dtype = float32_or_wider(self.compute_dtype)
        return keras.KerasTensor((*inputs[1].shape, self.target_vocabulary), dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {**super().get_config(), **constructor_arguments(self)}


@keras.saving.register_keras_serializable(package="relation_tf")
def sequence_loss(targets: Any, logits: Any) -> Any:
    """Compute the mean cross-entropy over unmasked target tokens, a loss for `compile`.

    Args:
        targets: Integer tensor `(batch, target_tokens)`, the ids of the next tokens; 0 is padding.
        logits: Tensor `(batch, target_tokens, target_vocabulary)`.

    Returns:
        A scalar, in nats; 0 if all targets are padding.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import sequence_loss
        >>> logits = np.zeros((1, 2, 4), "float32")
        >>> round(float(sequence_loss(np.array([[1, 0]]), logits)), 3)
        1.386
    """
    targets = ops.cast(targets, "int32")
    losses = ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)
    kept = ops.cast(ops.not_equal(targets, 0), losses.dtype)
    return ops.sum(losses * kept) / ops.maximum(ops.sum(kept), 1.0)


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

    # XLA needs a maximum number of steps, which `ops.scan` on TensorFlow does not set.
    supports_xla = keras.backend.backend() != "tensorflow"

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
        return states, self.attention.states_dense(states), kept

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
        s, context = (ops.transpose(states, (1, 0, 2)) for states in (s, context))
        return self.drop(self._read(s, context, x), training=training)

    def start(self, source: Any, batch_size: Any, max_length: int) -> DecoderState:
        """Return a state with `s_0`."""
        return DecoderState(source, self._first(source[0]))

    def advance(self, token_ids: Any, kept: Any, state: DecoderState) -> tuple[Any, ...]:
        """Compute the equations for one token."""
        x = self.target_embedding(token_ids)
        s, context, weights = self._next(x[:, 0], kept[:, 0], state.target, state.source)
        decoded = self._read(s[:, None], context[:, None], x)
        return decoded, state._replace(target=s), weights

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
        projected: `U h_j`.
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

    def call(self, query: Any, states: Any, projected: Any, kept: Any) -> tuple[Any, Any]:
        """Return the weighted sum and the weights."""
        hidden = ops.tanh(self.query_dense(query)[:, None] + projected)
        scores = ops.transpose(self.score(hidden), (0, 2, 1))  # (batch, 1, tokens)
        weights = masked_softmax(to_float32(scores), kept)
        total = ops.matmul(weights, to_float32(zero_masked(states, kept)))[:, 0]
        return ops.cast(total, states.dtype), weights


@keras.saving.register_keras_serializable(package="relation_tf")
class LuongEncoderDecoder(EncoderDecoder):
    """LSTM or GRU encoder-decoder with attention after the decoder's step, or without attention.

    `h_j` are the states of a recurrent encoder that reads the source from left to right, `y_i` is
    the previous target token:

        s_0 = the last state of the encoder (of an LSTM, with its cell)
        s_i = cell(E y_i, s_(i-1))
        a_i = softmax(score(s_i, h_j)) over unmasked tokens,  c_i = sum_j a_ij h_j
        logits_i = V tanh(W_c [c_i, s_i]) + b

    The scores are `s^T h` (`"dot"`), `s^T W h` (`"general"`) or `v^T tanh(W [s, h])` (`"concat"`).
    With `attention="none"` the last state of the encoder is all that the decoder knows of the
    source, and `logits_i = V s_i + b`. Attention does not change the states, so all steps of `call`
    are attended at once. Dropout is applied to the embeddings and to the input of the output layer.
    The state of `step` is that of the cell; the weights are zero without attention. XLA: as for
    `RecurrentEncoderDecoder`.

    Args:
        source_vocabulary: Number of source token ids, including 0 (padding).
        target_vocabulary: Number of target token ids, including 0 (padding).
        units: Width of the embeddings and of all states.
        cell: `"lstm"` or `"gru"`.
        attention: `"dot"`, `"general"`, `"concat"` or `"none"`.
        dropout: Dropout rate in [0, 1).
        seed: Random seed of the dropout.
        **kwargs: Arguments of `keras.Model`: `name` and `dtype`.

    Call arguments:
        inputs: Two integer tensors, the sources `(batch, source_tokens)` and the targets
            `(batch, target_tokens)`.

    Returns:
        Logits `(batch, target_tokens, target_vocabulary)`.

    Raises:
        ValueError: If an argument is not one of these, or out of range.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import recurrent_encoder_decoder
        >>> model = recurrent_encoder_decoder(9, 7, units=8, cell="lstm", attention="dot")
        >>> model([np.array([[3, 4, 5]]), np.array([[1, 6]])]).shape == (1, 2, 7)
        True

    References:
        - Sutskever, Vinyals, Le 2014, "Sequence to Sequence Learning with Neural Networks", section
          2, for `attention="none"`.
        - Luong, Pham, Manning 2015, "Effective Approaches to Attention-based Neural Machine
          Translation", section 3.1, without input feeding.
    """

    supports_xla = RecurrentEncoderDecoder.supports_xla

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        units: int,
        cell: str = "lstm",
        attention: str = "general",
        dropout: float = 0.1,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(source_vocabulary, target_vocabulary, units, dropout, seed, **kwargs)
        self.cell = one_of("cell", cell, _CELLS)
        self.attention = one_of("attention", attention, (*_SCORES, "none"))

    def build_parts(self) -> None:
        """Create both recurrent layers, the attention and the last hidden layer."""
        units, child = self.units, partial(built_child, self)
        for name in ("encoder", "decoder"):
            cell = _CELLS[self.cell](units, dtype=self.dtype_policy, name="cell")
            states = {"return_sequences": True, "return_state": True}
            setattr(self, name, child(keras.layers.RNN, name, units, cell, **states))
        if self.attention != "none":
            self.attend = child(LuongAttention, "attend", units, units, self.attention)
            self.hidden = child(
                keras.layers.Dense, "hidden", 2 * units, units, "tanh", use_bias=False
            )

    def encode(self, source_ids: Any, training: bool) -> tuple[Any, Any, Any]:
        """Return `h_j`, the mask and the last state."""
        kept = ops.not_equal(source_ids, 0)
        x = self.drop(self.source_embedding(source_ids), training=training)
        states, *last = self.encoder(x, mask=kept)
        return states, kept, tuple(last)

    def decode(self, source: Any, target_ids: Any, kept: Any, training: bool) -> Any:
        """Run the cell over all targets, then attend with all states."""
        states, source_kept, last = source
        x = self.drop(self.target_embedding(target_ids), training=training)
        s, *_ = self.decoder(x, mask=kept, initial_state=list(last))
        return self.drop(self._read(s, states, source_kept)[0], training=training)

    def start(self, source: Any, batch_size: Any, max_length: int) -> DecoderState:
        """Return the state of the encoder after the source."""
        return DecoderState(source[:2], source[2])

    def advance(self, token_ids: Any, kept: Any, state: DecoderState) -> tuple[Any, ...]:
        """Compute the equations for one token."""
        x = self.target_embedding(token_ids)[:, 0]
        s, after = self.decoder.cell(x, list(state.target))
        target = tuple(
            ops.where(kept, new, old) for new, old in zip(after, state.target, strict=True)
        )
        decoded, weights = self._read(s[:, None], *state.source)
        return decoded, state._replace(target=target), weights

    def _read(self, s: Any, states: Any, kept: Any) -> tuple[Any, Any]:
        """Return the input of the output layer and the weights for each state of the decoder."""
        if self.attention == "none":
            return s, ops.zeros_like(ops.matmul(s, ops.transpose(states, (0, 2, 1))))
        context, weights = self.attend(s, states, kept)
        return self.hidden(ops.concatenate([context, s], axis=-1)), weights


class LuongAttention(BaseLayer):
    """Attention of several queries to the states of a source, see `LuongEncoderDecoder`.

    Softmax and sum are in float32 or wider. The sum is zero if all tokens are masked.

    Args:
        units: Width of queries and states.
        score: `"dot"`, `"general"` or `"concat"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        queries: Tensor of shape `(batch, queries, units)`.
        states: Tensor of shape `(batch, tokens, units)`.
        kept: Boolean, `(batch, tokens)`; masked tokens get no weight.

    Returns:
        The sums, shape `(batch, queries, units)`, and the weights, `(batch, queries, tokens)`.
    """

    def __init__(self, units: int, score: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.score = score

    def build(self, queries_shape: tuple[int | None, ...]) -> None:
        """Create W, and v of `"concat"`."""
        dense = partial(built_child, self, keras.layers.Dense, width=self.units, use_bias=False)
        if self.score != "dot":
            self.query_dense = dense(name="query", units=self.units)
        if self.score == "concat":
            self.states_dense = dense(name="states", units=self.units)
            self.reduce = dense(name="reduce", units=1)
        self.built = True

    def call(self, queries: Any, states: Any, kept: Any) -> tuple[Any, Any]:
        """Return the weighted sums and the weights."""
        states = zero_masked(states, kept)
        q = queries if self.score == "dot" else self.query_dense(queries)
        if self.score == "concat":
            hidden = ops.tanh(q[:, :, None] + self.states_dense(states)[:, None])
            scores = self.reduce(hidden)[..., 0]
        else:
            scores = ops.matmul(q, ops.transpose(states, (0, 2, 1)))
        weights = masked_softmax(to_float32(scores), kept)
        return ops.cast(ops.matmul(weights, to_float32(states)), states.dtype), weights


def recurrent_encoder_decoder(
    source_vocabulary: int,
    target_vocabulary: int,
    units: int,
    dropout: float = 0.1,
    seed: int | None = None,
    *,
    cell: str = "gru",
    attention: str = "additive",
    **kwargs: Any,
) -> EncoderDecoder:
    """Build a recurrent encoder-decoder.

    Args:
        source_vocabulary: Number of source token ids, including 0 (padding).
        target_vocabulary: Number of target token ids, including 0 (padding).
        units: Width of embeddings and states.
        dropout: Dropout rate in [0, 1).
        seed: Random seed of the dropout.
        cell: `"gru"` or `"lstm"`.
        attention: `"additive"` for a `RecurrentEncoderDecoder` (Bahdanau; only with `"gru"`);
            `"dot"`, `"general"`, `"concat"` (Luong) or `"none"` for a `LuongEncoderDecoder`.
        **kwargs: Arguments of `keras.Model`: `name` and `dtype`.

    Returns:
        The network.

    Raises:
        ValueError: If an argument is not one of these, or out of range.

    Example:
        >>> from relation_tf.networks import recurrent_encoder_decoder
        >>> recurrent_encoder_decoder(9, 7, units=8, attention="concat").units
        8
    """
    sizes = (source_vocabulary, target_vocabulary, units)
    if one_of("attention", attention, ("additive", *_SCORES, "none")) == "additive":
        if cell != "gru":
            raise ValueError(
                "`attention` must be one of 'dot', 'general', 'concat' or 'none' unless "
                f"cell='gru'. Received: attention='additive', cell={cell!r}"
            )
        return RecurrentEncoderDecoder(*sizes, dropout, seed, **kwargs)
    return LuongEncoderDecoder(*sizes, cell, attention, dropout, seed, **kwargs)


@keras.saving.register_keras_serializable(package="relation_tf")
class TransformerEncoderDecoder(EncoderDecoder):
    """Transformer encoder-decoder: an `Encoder` of the source and a `Decoder` of the target.

    The inputs of both stacks are embeddings times `sqrt(units)` plus sine positions. Blocks of the
    decoder mix target tokens causally, then apply multi-head attention to the source. `step`
    returns the attention weights of the last block, averaged over heads.

    The state of `step` is the state of the decoder's mechanism: with Relation and Linear Attention
    the cost of a step is constant, with Attention it is proportional to `max_length`. Keys and
    values of the source are computed once. After `max_length` steps logits are NaN.

    Args:
        encoder: Stack of blocks of the source.
        decoder: Stack of blocks of the target, with the same `units`.
        source_vocabulary: Number of source token ids, including 0 (padding).
        target_vocabulary: Number of target token ids, including 0 (padding).
        dropout: Dropout rate in [0, 1), on the sum of embedding and position.
        seed: Random seed of this dropout.
        **kwargs: Arguments of `keras.Model`: `name` and `dtype`.

    Call arguments:
        inputs: Two integer tensors, the sources `(batch, source_tokens)` and the targets
            `(batch, target_tokens)`.

    Returns:
        Logits `(batch, target_tokens, target_vocabulary)`.

    Raises:
        ValueError: If the stacks do not have the same fixed `units`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import transformer_encoder_decoder
        >>> model = transformer_encoder_decoder(9, 7, units=8, mechanism="relation")
        >>> model([np.array([[3, 4, 5]]), np.array([[1, 6]])]).shape == (1, 2, 7)
        True

    References:
        - Vaswani et al. 2017, "Attention Is All You Need", section 3.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        source_vocabulary: int,
        target_vocabulary: int,
        dropout: float = 0.1,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        if encoder.units is None or encoder.units != decoder.units:
            raise ValueError(
                "`encoder` and `decoder` must have the same `units`. "
                f"Received: encoder.units={encoder.units}, decoder.units={decoder.units}"
            )
        super().__init__(
            source_vocabulary, target_vocabulary, encoder.units, dropout, seed, **kwargs
        )
        self.encoder = encoder
        self.decoder = decoder

    def build_parts(self) -> None:
        """Create the positions and build both stacks."""
        self.positions = SinePositionEncoding(dtype=self.dtype_policy, name="positions")
        for part in (self.positions, self.encoder, self.decoder):
            # Stacks loaded from a file are already built.
            if not part.built:
                part.build((None, None, self.units))

    def encode(self, source_ids: Any, training: bool) -> Any:
        """Return keys, values and the mask for each block of the decoder."""
        kept = ops.not_equal(source_ids, 0)
        x = self.positions(self._embed(self.source_embedding, source_ids), mask=kept)
        x = self.encoder(self.drop(x, training=training), mask=kept, training=training)
        return self.decoder.project(x, kept)

    def decode(self, source: Any, target_ids: Any, kept: Any, training: bool) -> Any:
        """Apply the decoder."""
        x = self.positions(self._embed(self.target_embedding, target_ids), mask=kept)
        x = self.drop(x, training=training)
        return self.decoder(x, mask=kept, training=training, source=source)

    def start(self, source: Any, batch_size: Any, max_length: int) -> DecoderState:
        """Return the state of the mechanism with the table of positions."""
        table = self.positions(ops.zeros((1, max_length, self.units), self.compute_dtype))[0]
        beyond = ops.full((1, self.units), float("nan"), table.dtype)
        shared = ops.concatenate([table, beyond], axis=0), ops.zeros((), "int32")
        return DecoderState(source, self.decoder.initial_state(batch_size, max_length), shared)

    def advance(self, token_ids: Any, kept: Any, state: DecoderState) -> tuple[Any, ...]:
        """Apply the decoder to one token."""
        table, position = state.shared
        row = ops.minimum(position, table.shape[0] - 1)
        x = self._embed(self.target_embedding, token_ids) + ops.take(table, row, axis=0)
        decoded, target, weights = self.decoder.advance(x, state.target, kept, state.source)
        return decoded, DecoderState(state.source, target, (table, position + 1)), weights

    def _embed(self, embedding: Any, ids: Any) -> Any:
        return embedding(ids) * self.units**0.5

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """Create the network from its configuration."""
        return cls(**keras.saving.deserialize_keras_object(config, custom_objects))


@keras.saving.register_keras_serializable(package="relation_tf")
class Decoder(Encoder):
    """Stack of Transformer decoder blocks: a causal `Encoder` with attention to a source.

    With `look`, multi-head attention from the tokens to the source, a block with `norm="post"`
    computes `y = LN(x + mix(x))`, `z = LN(y + look(y))`, `LN(z + feed(z))`; `norm="pre"` is
    analogous.

    Args:
        mechanism: Token-mixing layer with a causal form, as in `Encoder`.
        num_layers: Number of blocks.
        units: Width of the blocks and of the input.
        source_heads: Number of heads of `look`, a divisor of `units`.
        **kwargs: Further arguments of `Encoder`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, units)`.
        mask: Boolean, `(batch, tokens)`.
        source: Output of `project` for the source.

    Returns:
        Tensor of shape `(batch, tokens, units)`.

    Raises:
        ValueError: As in `Encoder`, or if `units` is not divisible by `source_heads`.
    """

    def __init__(
        self,
        mechanism: Any,
        num_layers: int = 1,
        units: int | None = None,
        *,
        source_heads: int = 4,
        **kwargs: Any,
    ) -> None:
        units = positive_integer("units", units)
        super().__init__(mechanism, num_layers, units, **{**kwargs, "causal": True})
        self.source_heads = positive_integer("source_heads", source_heads)
        if units % self.source_heads:
            raise ValueError(
                "`units` must be divisible by `source_heads`. "
                f"Received: units={units}, source_heads={source_heads}"
            )

    def make_block(self, *args: Any, **kwargs: Any) -> DecoderBlock:
        """Return an unbuilt block from the arguments of `EncoderBlock`."""
        return DecoderBlock(*args, source_heads=self.source_heads, **kwargs)

    def project(self, x: Any, kept: Any) -> tuple[Any, ...]:
        """Return keys, values and mask of the source for each block."""
        return tuple((*block.look.project(x), kept) for block in self.blocks)


class DecoderBlock(EncoderBlock):
    """Block of a `Decoder`: an `EncoderBlock` with attention to the source in the middle.

    Args:
        *args: As in `EncoderBlock`.
        source_heads: Number of heads of the attention to the source.
        **kwargs: As in `EncoderBlock`.
    """

    def __init__(self, *args: Any, source_heads: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.source_heads = source_heads

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the layers of an `EncoderBlock` and the attention to the source."""
        super().build(x_shape)
        units = x_shape[-1]
        assert units is not None
        self.look = built_child(self, SourceAttention, "look", units, units, self.source_heads)
        self.look_norm = built_norm(self, "look_norm", units)

    def after_mixing(
        self, x: Any, mask: Any, source: Any, training: bool | None
    ) -> tuple[Any, Any]:
        """Apply the attention to the source, then the feed-forward network."""
        if source is None:
            raise ValueError("`source` must be the output of `project`. Received: None")
        weights = None

        def look(x: Any) -> Any:
            nonlocal weights
            attended, weights = self.look(x, *source)
            return attended

        x = self.add(self.look_norm, look, x, training)
        return super().after_mixing(x, mask, source, training)[0], weights


class SourceAttention(BaseLayer):
    """Multi-head attention to a source with precomputed keys and values.

    Softmax is in float32 or wider. The heads are zero if no token of the source is kept.

    Args:
        units: Width of input and output, and total width of the heads.
        num_heads: Number of heads, a divisor of `units`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, queries, units)`.
        keys: Tensor of shape `(batch, tokens, units)`.
        values: Tensor of shape `(batch, tokens, units)`.
        kept: Boolean, `(batch, tokens)`; masked tokens get no weight.

    Returns:
        Tensor of shape `(batch, queries, units)`, and the attention weights averaged over heads,
        `(batch, queries, tokens)`.
    """

    def __init__(self, units: int, num_heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.num_heads = num_heads

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create W_Q, W_K, W_V and W_O."""
        self.query, self.key, self.value, self.output_dense = (
            built_child(self, keras.layers.Dense, name, self.units, self.units)
            for name in ("query", "key", "value", "output")
        )
        self.built = True

    def project(self, source: Any) -> tuple[Any, Any]:
        """Return keys and values of the source."""
        return self.key(source), self.value(source)

    def call(self, x: Any, keys: Any, values: Any, kept: Any) -> tuple[Any, Any]:
        """Apply all attention heads."""
        queries, keys, values = (self._heads(part) for part in (self.query(x), keys, values))
        scores = ops.matmul(queries, ops.transpose(keys, (0, 1, 3, 2)))
        scores = to_float32(scores) * (self.units // self.num_heads) ** -0.5
        weights = masked_softmax(scores, kept[:, None])  # (batch, heads, queries, tokens)
        mixed = ops.transpose(ops.matmul(ops.cast(weights, values.dtype), values), (0, 2, 1, 3))
        mixed = ops.reshape(mixed, (*ops.shape(x)[:2], self.units))
        return self.output_dense(mixed), ops.mean(weights, axis=1)

    def _heads(self, x: Any) -> Any:
        """Split heads: `(batch, heads, tokens, units / heads)`."""
        shape = (*ops.shape(x)[:2], self.num_heads, self.units // self.num_heads)
        return ops.transpose(ops.reshape(x, shape), (0, 2, 1, 3))


def transformer_encoder_decoder(
    source_vocabulary: int,
    target_vocabulary: int,
    units: int,
    mechanism: Any = "attention",
    decoder_mechanism: Any = None,
    *,
    options: Mapping[str, Any] | None = None,
    decoder_options: Mapping[str, Any] | None = None,
    source_heads: int = 4,
    num_layers: int = 2,
    norm: Norm = "pre",
    dropout: float = 0.1,
    feed_forward_units: int | None = None,
    activation: Any = "relu",
    seed: int | None = None,
    name: str | None = None,
    dtype: Any = None,
) -> TransformerEncoderDecoder:
    """Build a `TransformerEncoderDecoder` with any mechanism, by default with its equations.

    Args:
        source_vocabulary: Number of source token ids, including 0 (padding).
        target_vocabulary: Number of target token ids, including 0 (padding).
        units: Width of the blocks.
        mechanism: Token-mixing layer of the encoder, as in `encoder`.
        decoder_mechanism: Token-mixing layer of the decoder, with a causal form: `"relation"`,
            `"linear-attention"`, `"attention"` or a custom layer. Default: `mechanism`.
        options: Further arguments of `mechanism`.
        decoder_options: Further arguments of `decoder_mechanism`. Default: `options` if
            `decoder_mechanism` is None.
        source_heads: Number of heads of the attention from target to source.
        num_layers: Number of blocks of each stack.
        norm: `"pre"` or `"post"`.
        dropout: Dropout rate in [0, 1).
        feed_forward_units: Width of the hidden layer of each block. Default: `2 * units`.
        activation: Activation of the hidden layer.
        seed: Random seed of the dropout.
        name: Name of the network.
        dtype: Dtype policy of the network.

    Returns:
        A `TransformerEncoderDecoder`.

    Raises:
        ValueError: As in `Encoder`, or if `units` is not divisible by `source_heads`.

    Example:
        >>> from relation_tf.networks import transformer_encoder_decoder
        >>> transformer_encoder_decoder(9, 7, 8, "multi-head-attention", "relation").units
        8
    """
    if decoder_mechanism is None:
        decoder_mechanism = mechanism
        decoder_options = options if decoder_options is None else decoder_options
    if not is_layer(mechanism):
        # Equal to the causal decoder: the released code has no causal form.
        options = in_blocks(entry_of(mechanism), options, equations=True)
    stack: dict[str, Any] = {"num_layers": num_layers, "units": units, "norm": norm}
    stack |= {"dropout": dropout, "dtype": dtype}
    stack |= {"feed_forward_units": feed_forward_units, "activation": activation}
    seeds = [seed_of_copy(seed, i) for i in range(3)]
    encoder = Encoder(mechanism, options=options, seed=seeds[0], name="encoder", **stack)
    stack |= {"source_heads": source_heads, "seed": seeds[1], "name": "decoder"}
    return TransformerEncoderDecoder(
        encoder,
        Decoder(decoder_mechanism, options=decoder_options, **stack),
        source_vocabulary,
        target_vocabulary,
        dropout,
        seeds[2],
        name=name,
        dtype=dtype,
    )
