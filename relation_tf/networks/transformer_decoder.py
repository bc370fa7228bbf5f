"""Transformer encoder-decoder with any mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer
from relation_tf.layers.base import BaseLayer, built_child
from relation_tf.layers.dropout import seed_of_copy
from relation_tf.layers.masking import masked_softmax, to_float32
from relation_tf.layers.sine_position_encoding import SinePositionEncoding
from relation_tf.networks.encoder_decoder import DecoderState, EncoderDecoder
from relation_tf.networks.encoder_stack import Encoder, EncoderBlock, Norm, built_norm
from relation_tf.networks.mechanisms import in_blocks
from relation_tf.networks.mixing import entry_of, is_layer


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
        decoded, own, weights = self.decoder.advance(x, state.own, kept, state.source)
        return decoded, DecoderState(state.source, own, (table, position + 1)), weights

    def _embed(self, embedding: Any, ids: Any) -> Any:
        return embedding(ids) * self.units**0.5

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        config = super().get_config()
        del config["units"]
        return config

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
            seen, weights = self.look(x, *source)
            return seen

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
        queries, keys, values = (self._heads(each) for each in (self.query(x), keys, values))
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
