"""The Transformer from one sequence to another, around any mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import keras
from keras import ops

from relation_tf.layers.masking import masked_softmax, to_float32, zero_masked
from relation_tf.layers.sine_position_encoding import SinePositionEncoding
from relation_tf.networks.encoder_decoder import DecoderState, EncoderDecoder
from relation_tf.networks.encoder_stack import Encoder, EncoderBlock, Norm
from relation_tf.networks.mechanisms import by_equations
from relation_tf.networks.mixing import entry_of, is_layer, mix_all
from relation_tf.networks.sentence_encoder import positive_integer


@keras.saving.register_keras_serializable(package="relation_tf")
class TransformerEncoderDecoder(EncoderDecoder):
    """Two stacks of blocks: one over the source, one over the target that looks at the first.

    Embeddings times `sqrt(units)` plus sine positions go into both stacks. Blocks of the decoder
    mix the target tokens up to each, then look at the source by multi-head attention. `step` gives
    the weights of its last block, the mean over heads.

    The state of `step` is that of the decoder's mechanism: Relation and Linear Attention do the
    same work at each step, Attention looks at up to `max_length` tokens. Keys and values of the
    source are computed once. After `max_length` steps logits are NaN.

    Args:
        encoder: The stack over the source.
        decoder: The stack over the target, as wide.
        source_vocabulary: Number of ids of the sources, 0 for padding among them.
        target_vocabulary: The same for the targets.
        dropout: Rate in [0, 1), on the sums of embedding and position.
        seed: Seed of that dropout.
        **kwargs: Arguments of `keras.Model`: `name` and `dtype`.

    Call arguments:
        inputs: Two integer tensors, the sources `(batch, source_tokens)` and the targets
            `(batch, target_tokens)`.

    Returns:
        Logits `(batch, target_tokens, target_vocabulary)`.

    Raises:
        ValueError: Where the stacks are not of one width that is given.

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
                f"Received: {encoder.units} and {decoder.units}"
            )
        super().__init__(
            source_vocabulary, target_vocabulary, encoder.units, dropout, seed, **kwargs
        )
        self.encoder = encoder
        self.decoder = decoder

    def build_parts(self) -> None:
        """Positions and both stacks."""
        self.positions = SinePositionEncoding(dtype=self.dtype_policy, name="positions")
        for part in (self.positions, self.encoder, self.decoder):
            # From a file the stacks come built.
            if not part.built:
                part.build((None, None, self.units))

    def encode(self, source_ids: Any, training: bool) -> tuple[Any, Any]:
        """Keys and values for each block of the decoder, and the mask."""
        kept = ops.not_equal(source_ids, 0)
        x = self.positions(self._embed(self.source_embedding, source_ids), mask=kept)
        x = self.encoder(self.drop(x, training=training), mask=kept, training=training)
        return self.decoder.project(x), kept

    def decode(self, source: Any, target_ids: Any, kept: Any, training: bool) -> Any:
        """Through the decoder."""
        x = self.positions(self._embed(self.target_embedding, target_ids), mask=kept)
        x = self.drop(x, training=training)
        return self.decoder(x, mask=kept, training=training, source=source)

    def start(self, source: Any, batch_size: Any, max_length: int) -> DecoderState:
        """The state of the mechanism, and all positions."""
        table = self.positions(ops.zeros((1, max_length, self.units), self.compute_dtype))[0]
        beyond = ops.full((1, self.units), float("nan"), table.dtype)
        shared = ops.concatenate([table, beyond], axis=0), ops.zeros((), "int32")
        return DecoderState(source, self.decoder.initial_state(batch_size, max_length), shared)

    def advance(self, token_ids: Any, kept: Any, state: DecoderState) -> tuple[Any, ...]:
        """One more token through the decoder."""
        table, position = state.shared
        row = ops.minimum(position, table.shape[0] - 1)
        x = self._embed(self.target_embedding, token_ids) + ops.take(table, row, axis=0)
        decoded, own, weights = self.decoder.advance(x, state.own, kept, state.source)
        return decoded, DecoderState(state.source, own, (table, position + 1)), weights

    def _embed(self, embedding: Any, ids: Any) -> Any:
        return embedding(ids) * self.units**0.5

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        config = super().get_config()
        del config["units"]
        serialize = keras.saving.serialize_keras_object
        return {
            **config,
            "encoder": serialize(self.encoder),
            "decoder": serialize(self.decoder),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """A network like the one whose configuration it is."""
        stacks = {
            name: keras.saving.deserialize_keras_object(config[name], custom_objects)
            for name in ("encoder", "decoder")
        }
        return cls(**{**config, **stacks})


@keras.saving.register_keras_serializable(package="relation_tf")
class Decoder(Encoder):
    """An `Encoder` that is causal and whose blocks look at a source between mixing and feeding.

    With `look` multi-head attention from the tokens to the source, `norm="post"` is
    `y = LN(x + mix(x))`, `z = LN(y + look(y))`, `LN(z + feed(z))`; `norm="pre"` in the same way.

    Args:
        mechanism: What mixes the tokens, as in `Encoder`; it has a causal form.
        num_layers: Number of blocks.
        units: Width of the blocks and of what goes in.
        source_heads: Number of heads of `look`; it divides `units`.
        **kwargs: Further arguments of `Encoder`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, units)`.
        mask: Boolean, `(batch, tokens)`.
        source: What `project` gives for the source, and its mask, `(batch, source_tokens)`.

    Returns:
        Tensor of shape `(batch, tokens, units)`.

    Raises:
        ValueError: As `Encoder`; and where `source_heads` does not divide `units`.
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
        super().__init__(mechanism, num_layers, units, **{**kwargs, "causal": True})
        self.source_heads = positive_integer("source_heads", source_heads)
        if self.units is None or self.units % self.source_heads:
            raise ValueError(
                "`units` must be divisible by `source_heads`. "
                f"Received: units={units}, source_heads={source_heads}"
            )

    def make_block(self, *args: Any, **kwargs: Any) -> DecoderBlock:
        """Make a block, not built, from the arguments of `EncoderBlock`."""
        return DecoderBlock(*args, source_heads=self.source_heads, **kwargs)

    def project(self, x: Any) -> tuple[Any, ...]:
        """Keys and values of the source, `(batch, source_tokens, units)`, for each block."""
        return tuple(block.look.project(x) for block in self.blocks)

    def call(
        self, x: Any, mask: Any = None, training: bool | None = None, source: Any = None
    ) -> Any:
        """Through all blocks, zero at masked tokens."""
        mask = None if mask is None else ops.cast(mask, "bool")
        x = zero_masked(x, mask)
        projected, kept = source
        for block, own in zip(self.blocks, projected, strict=True):
            x = block(x, mask=mask, training=training, source=(*own, kept))
        return self.close(x, mask)

    def advance(
        self, x: Any, state: tuple[Any, ...], mask: Any, source: Any
    ) -> tuple[Any, tuple[Any, ...], Any]:
        """The next token of each sequence, not in training.

        Args:
            x: Tensor of shape `(batch, 1, units)`.
            state: What `initial_state` or the step before gave.
            mask: Boolean tensor of shape `(batch, 1)`.
            source: As in a call.

        Returns:
            The output, `(batch, 1, units)`, the next state, and the last block's weights,
            `(batch, 1, source_tokens)`.
        """
        x = zero_masked(x, mask)
        projected, kept = source
        after, weights = [], None
        for block, before, own in zip(self.blocks, state, projected, strict=True):
            x, last, weights = block.advance(x, before, mask, (*own, kept))
            after.append(last)
        return self.close(x, mask), tuple(after), weights

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {**super().get_config(), "source_heads": self.source_heads}


class DecoderBlock(EncoderBlock):
    """One block of a `Decoder`: that of an `Encoder`, with a look at the source in its middle.

    Args:
        *args: As in `EncoderBlock`.
        source_heads: Number of heads of the look at the source.
        **kwargs: As in `EncoderBlock`.
    """

    def __init__(self, *args: Any, source_heads: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.source_heads = source_heads

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """What an `EncoderBlock` has, and the look at the source."""
        super().build(x_shape)
        units = x_shape[-1]
        assert units is not None
        self.look = SourceAttention(units, self.source_heads, dtype=self.dtype_policy, name="look")
        self.look.build(x_shape)
        self.look_norm = self._norm("look_norm", units)

    def call(
        self, x: Any, mask: Any = None, training: bool | None = None, source: Any = None
    ) -> Any:
        """Mix, look at the source, then feed forward."""
        x = self.add(self.mixer_norm, lambda x: mix_all(self.mixer, x, mask), x, training)
        return self._after(x, mask, source, training)[0]

    def advance(self, x: Any, state: Any, mask: Any, source: Any) -> tuple[Any, Any, Any]:
        """The same for one more token, not in training: output, mixer's next state, weights."""
        x, state = self.mix_step(x, state, mask)
        x, weights = self._after(x, mask, source, training=False)
        return x, state, weights

    def _after(self, x: Any, mask: Any, source: Any, training: bool | None) -> tuple[Any, Any]:
        weights = None

        def look(x: Any) -> Any:
            nonlocal weights
            seen, weights = self.look(x, *source)
            return seen

        x = self.add(self.look_norm, look, x, training)
        x = self.add(self.feed_norm, self.feed, x, training)
        return zero_masked(x, mask), weights


class SourceAttention(keras.layers.Layer):
    """Multi-head attention to a source whose keys and values are computed once.

    Softmax is in float32 or wider. Where no token of the source is kept the heads are zero.

    Args:
        units: Width of input, output and all heads together.
        num_heads: Number of heads; it divides `units`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, queries, units)`.
        keys: Tensor of shape `(batch, tokens, units)`.
        values: Tensor of shape `(batch, tokens, units)`.
        kept: Boolean, `(batch, tokens)`; other tokens get no weight.

    Returns:
        Tensor of shape `(batch, queries, units)`, and the mean of the heads' weights,
        `(batch, queries, tokens)`.
    """

    def __init__(self, units: int, num_heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.num_heads = num_heads
        self.supports_masking = True

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """W_Q, W_K, W_V, W_O."""
        self.query, self.key, self.value, self.output_dense = (
            self._dense(name) for name in ("query", "key", "value", "output")
        )
        self.built = True

    def _dense(self, name: str) -> Any:
        dense = keras.layers.Dense(self.units, dtype=self.dtype_policy, name=name)
        dense.build((None, None, self.units))
        return dense

    def project(self, source: Any) -> tuple[Any, Any]:
        """Keys and values."""
        return self.key(source), self.value(source)

    def call(self, x: Any, keys: Any, values: Any, kept: Any) -> tuple[Any, Any]:
        """All heads."""
        queries, keys, values = (self._heads(each) for each in (self.query(x), keys, values))
        scores = ops.matmul(queries, ops.transpose(keys, (0, 1, 3, 2)))
        scores = to_float32(scores) * (self.units // self.num_heads) ** -0.5
        weights = masked_softmax(scores, kept[:, None])  # (batch, heads, queries, tokens)
        mixed = ops.transpose(ops.matmul(ops.cast(weights, values.dtype), values), (0, 2, 1, 3))
        mixed = ops.reshape(mixed, (*ops.shape(x)[:2], self.units))
        return self.output_dense(mixed), ops.mean(weights, axis=1)

    def _heads(self, x: Any) -> Any:
        """`(batch, heads, tokens, units / heads)`."""
        shape = (*ops.shape(x)[:2], self.num_heads, self.units // self.num_heads)
        return ops.transpose(ops.reshape(x, shape), (0, 2, 1, 3))


def transformer_encoder_decoder(
    source_vocabulary: int,
    target_vocabulary: int,
    units: int,
    mechanism: Any = "attention",
    decoder_mechanism: Any = None,
    *,
    num_layers: int = 2,
    source_heads: int = 4,
    feed_forward_units: int | None = None,
    norm: Norm = "pre",
    dropout: float = 0.1,
    activation: Any = "relu",
    options: Mapping[str, Any] | None = None,
    decoder_options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    **kwargs: Any,
) -> TransformerEncoderDecoder:
    """An encoder and a decoder around any mechanism, made by its equations.

    Args:
        source_vocabulary: Number of ids of the sources, 0 for padding among them.
        target_vocabulary: The same for the targets.
        units: Width of the blocks.
        mechanism: What mixes the source tokens, as in `encoder`.
        decoder_mechanism: What mixes the target tokens, by default the same; it has a causal form:
            `"relation"`, `"linear-attention"`, `"attention"`, or a layer of one's own.
        num_layers: Number of blocks of each stack.
        source_heads: Heads of the attention from target to source.
        feed_forward_units: Width of the hidden layer of the blocks, by default `2 * units`.
        norm: `"pre"` or `"post"`.
        dropout: Rate in [0, 1).
        activation: Activation of that hidden layer.
        options: Further arguments of `mechanism`.
        decoder_options: Further arguments of `decoder_mechanism`; by default, where that is the
            same, `options`.
        seed: Seed of the dropout.
        **kwargs: Arguments of `keras.Model`: `name` and `dtype`.

    Returns:
        A `TransformerEncoderDecoder`.

    Raises:
        ValueError: As `Encoder`; and where `source_heads` does not divide `units`.

    Example:
        >>> from relation_tf.networks import transformer_encoder_decoder
        >>> transformer_encoder_decoder(9, 7, 8, "multi-head-attention", "relation").units
        8
    """
    if decoder_mechanism is None:
        decoder_mechanism = mechanism
        decoder_options = options if decoder_options is None else decoder_options
    shared: dict[str, Any] = {
        "num_layers": num_layers,
        "units": units,
        "feed_forward_units": feed_forward_units,
        "norm": norm,
        "dropout": dropout,
        "activation": activation,
        "dtype": kwargs.get("dtype"),
    }
    seeds = (None, None, None) if seed is None else (seed, seed + num_layers, seed + 2 * num_layers)
    return TransformerEncoderDecoder(
        Encoder(
            mechanism,
            options=_by_equations(mechanism, options),
            seed=seeds[0],
            name="encoder",
            **shared,
        ),
        Decoder(
            decoder_mechanism,
            options=_by_equations(decoder_mechanism, decoder_options),
            source_heads=source_heads,
            seed=seeds[1],
            name="decoder",
            **shared,
        ),
        source_vocabulary,
        target_vocabulary,
        dropout,
        seeds[2],
        **kwargs,
    )


def _by_equations(mechanism: Any, options: Mapping[str, Any] | None) -> Any:
    """Return options that make both stacks alike: the released code has no causal form."""
    if is_layer(mechanism):
        return options
    return {**by_equations(entry_of(mechanism)), **(options or {})}
