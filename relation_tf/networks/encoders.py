"""Transformer encoder with any mechanism instead of attention, and multi-head attention."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, Self, get_args

import keras
from keras import ops

from relation_tf.layers.arguments import (
    one_of,
    positive_integer,
    positive_integer_or_none,
    rate,
    seed_or_none,
    true_or_false,
    width_of,
)
from relation_tf.layers.base import (
    BaseLayer,
    built_child,
    second_seed,
    seed_of_part,
    show_forwarded,
)
from relation_tf.layers.masking import boolean, reversed_tokens, to_float32, zero_masked
from relation_tf.layers.token_mixer import TokenMixer, check_steps, one_token
from relation_tf.networks.mixing import MixerFactory, mix_all, refuse_imports

Norm = Literal["post", "pre"]
_EPSILON = 1e-5  # Keras's default 1e-3 is too large for the initial variance of narrow layers.


@keras.saving.register_keras_serializable(package="relation_tf")
class Encoder(BaseLayer):
    """Stack of Transformer encoder blocks around any mechanism.

    With the mechanism `mix`, `feed(x) = activation(x W1 + b1) W2 + b2` and layer normalization LN,
    a block computes:

    - `norm="post"`: `y = LN(x + mix(x))`, `z = LN(y + feed(y))`, as in the original Transformer;
    - `norm="pre"`: `y = x + mix(LN(x))`, `z = y + feed(LN(y))`, with an LN after the last block.

    Dropout is applied to the outputs of `mix` and `feed`. If the width of the input is not `units`,
    a Dense layer projects it first. Positions are not added. Outputs at masked tokens are zero.

    With `causal=True` tokens do not see later tokens, and `initial_state` and `step` process one
    token at a time.

    Args:
        mechanism: Token-mixing layer: a registered name, a Keras layer class, an instance (a
            template, cloned by `from_config` for each block) or `"package.module:Name"`. It must
            return `(batch, tokens, units)`.
        num_layers: Number of blocks.
        units: Width of the blocks. Default: the width of the input.
        num_heads: Number of heads, for a mechanism with heads. Default: the mechanism's default.
        feed_forward_units: Width of the hidden layer of `feed`. Default: `2 * units`.
        norm: `"post"` or `"pre"`.
        dropout: Dropout rate in [0, 1); also used by a mechanism with `variant="released_code"`.
        activation: Activation of `feed`.
        options: Further arguments of the mechanism. A registered name also has the
            `block_options` of its registration.
        seed: Random seed of the dropout. A mechanism with an argument `seed` gets a seed from it in
            each block; a seed in `options` or of a template gives one for each block instead.
        causal: If True, create the mechanism with `causal=True` and, unless `options` override it,
            `variant="equations"`, because the released code has no causal form. A template must
            already be causal.
        layer_mix: If True, the output is `LayerMix` of the input of the first block and the outputs
            of all blocks, each after the last LN if `norm="pre"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; passed to the mechanism by the name that its call takes.

    Returns:
        Tensor of shape `(batch, tokens, units)`.

    Raises:
        ValueError: If the mechanism is unknown, rejects the arguments, has no heads but `num_heads`
            is given, or does not return `(batch, tokens, units)`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.encoders import Encoder
        >>> stack = Encoder("relation", num_layers=2, units=8)
        >>> stack(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Vaswani et al. 2017, "Attention Is All You Need", section 3.1.
        - Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", for `"pre"`.
    """

    def __init__(
        self,
        mechanism: Any,
        num_layers: int = 1,
        units: int | None = None,
        num_heads: int | None = None,
        feed_forward_units: int | None = None,
        norm: Norm = "post",
        dropout: float = 0.1,
        activation: Any = "relu",
        options: Mapping[str, Any] | None = None,
        seed: int | None = None,
        causal: bool = False,
        layer_mix: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.layer_mix = true_or_false("layer_mix", layer_mix)
        # Not tracked as a child layer: a template is not part of the computation.
        self.mixer = MixerFactory(mechanism, num_heads, options, causal)
        self.num_layers = positive_integer("num_layers", num_layers)
        self.units = positive_integer_or_none("units", units)
        self.feed_forward_units = positive_integer_or_none("feed_forward_units", feed_forward_units)
        self.norm = one_of("norm", norm, get_args(Norm))
        self.dropout = rate("dropout", dropout)
        self.activation = keras.activations.get(activation)
        self.seed = seed_or_none("seed", seed)

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the projection, the blocks and the final normalization."""
        width = width_of("x", x_shape)
        units = self.units or width
        self.projection = None
        if units != width:
            self.projection = built_child(self, keras.layers.Dense, "projection", width, units)
        self.blocks = [self._block(i, units) for i in range(self.num_layers)]
        self.closing = None
        if self.norm == "pre":
            self.closing = built_norm(self, "closing", units)
        # Last, so that the weights of the stack come first.
        self.mix = None
        if self.layer_mix:
            self.mix = built_child(self, LayerMix, "mix", units, self.num_layers + 1)
        self.built = True

    def make_block(self, *args: Any, **kwargs: Any) -> EncoderBlock:
        """Return an unbuilt block from the arguments of `EncoderBlock`."""
        return EncoderBlock(*args, **kwargs)

    def _block(self, i: int, units: int) -> Any:
        block = self.make_block(
            self.mixer.make(i, units, self.dropout, self.seed, self.dtype_policy),
            self.feed_forward_units or 2 * units,
            self.norm,
            self.dropout,
            self.activation,
            seed=seed_of_part(self.seed, 2 * i),
            dtype=self.dtype_policy,
            name=f"block_{i}",
        )
        block.build((None, None, units))
        return block

    def call(
        self, x: Any, mask: Any = None, training: bool | None = None, source: Any = None
    ) -> Any:
        """Apply all blocks.

        Args:
            x: Tensor of shape `(batch, tokens, width)`.
            mask: Boolean tensor of shape `(batch, tokens)`, True for unmasked tokens.
            training: If True, apply dropout.
            source: Keys, values and mask of the source for each block of a `Decoder`.

        Returns:
            Tensor of shape `(batch, tokens, units)`, zero at masked tokens.
        """
        return self._output(self.outputs(x, mask, training, source), boolean(mask, x))

    def outputs(
        self, x: Any, mask: Any = None, training: bool | None = None, source: Any = None
    ) -> list[Any]:
        """Return the input of the first block and the outputs of all blocks, before the last LN.

        Args:
            x: As in `call`.
            mask: As in `call`.
            training: As in `call`.
            source: As in `call`.
        """
        mask = boolean(mask, x)
        outputs = [self._enter(x, mask)]
        for block, memory in zip(self.blocks, source or [None] * self.num_layers, strict=True):
            outputs.append(block(outputs[-1], mask=mask, training=training, source=memory))
        return outputs

    def _enter(self, x: Any, mask: Any) -> Any:
        """Project the tokens to the width of the blocks; zero at masked tokens."""
        x = zero_masked(x, mask)
        return x if self.projection is None else zero_masked(self.projection(x), mask)

    def close(self, x: Any, mask: Any) -> Any:
        """Normalize an output if `norm="pre"`."""
        return x if self.closing is None else zero_masked(self.closing(x), mask)

    def _output(self, outputs: list[Any], mask: Any) -> Any:
        """Return the last output, or the mixture of all."""
        if self.mix is None:
            return self.close(outputs[-1], mask)
        return self.mix([outputs[0], *(self.close(x, mask) for x in outputs[1:])])

    @property
    def causal(self) -> bool:
        """True if tokens do not see later tokens."""
        return self.mixer.is_causal

    def initial_state(self, batch_size: int, max_length: int | None = None) -> tuple[Any, ...]:
        """Return the state before the first token: the states of the mechanisms of all blocks.

        Args:
            batch_size: Number of sequences.
            max_length: Maximum number of steps. Required if the state of the mechanism holds all
                tokens (`Attention`).

        Raises:
            ValueError: If the mechanism is not causal, has no `step`, or the stack is not built.
        """
        check_steps(self)
        mixer = self.blocks[0].mixer
        if not hasattr(mixer, "initial_state"):
            raise ValueError(
                f"{type(mixer).__name__} must have the methods `initial_state` and `step` to "
                "process one token at a time. See `Relation` for an example."
            )
        return tuple(block.mixer.initial_state(batch_size, max_length) for block in self.blocks)

    def step(self, x: Any, state: tuple[Any, ...], mask: Any = None) -> tuple[Any, tuple[Any, ...]]:
        """Process the next token of each sequence, in inference mode.

        Args:
            x: Tensor of shape `(batch, 1, width)`.
            state: State from `initial_state` or from the previous step.
            mask: Boolean tensor of shape `(batch, 1)`, default: all True. If False, the output is
                zero and later tokens do not see this token.

        Returns:
            The output, shape `(batch, 1, units)`, and the next state.

        Raises:
            ValueError: If `x` or `mask` has another shape.

        Example:
            >>> import numpy as np
            >>> from relation_tf.networks import encoder
            >>> x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
            >>> stack = encoder("relation", num_layers=2, causal=True)
            >>> whole = stack(x)
            >>> state = stack.initial_state(batch_size=2)
            >>> for i in range(5):
            ...     output, state = stack.step(x[:, i : i + 1], state)
            >>> bool(abs(output - whole[:, -1:]).numpy().max() < 1e-5)
            True
        """
        x, mask = one_token(x, mask, self.compute_dtype)
        return self.advance(x, state, mask)[:2]

    def advance(
        self, x: Any, state: tuple[Any, ...], mask: Any, source: Any = None
    ) -> tuple[Any, tuple[Any, ...], Any]:
        """Apply all blocks to the next token, in inference mode.

        Args:
            x: As in `step`.
            state: As in `step`.
            mask: As in `step`, not None.
            source: As in `call`.

        Returns:
            The output, the next state, and the last block's attention weights over the source.
        """
        outputs, after, weights = [self._enter(x, mask)], [], None
        source = source or [None] * self.num_layers
        for block, before, memory in zip(self.blocks, state, source, strict=True):
            x, next_state, weights = block.step(outputs[-1], before, mask, memory)
            outputs.append(x)
            after.append(next_state)
        return self._output(outputs, mask), tuple(after), weights

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return `(batch, tokens, units)`."""
        return (*x_shape[:-1], self.units or x_shape[-1])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {**super().get_config(), **self.mixer.get_config()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Create the stack from its configuration.

        Raises:
            ValueError: If the mechanism, or one inside it, is `"package.module:Name"` and Keras
                loads in safe mode.
        """
        config = keras.saving.deserialize_keras_object(config)
        refuse_imports(config)
        return super().from_config(config)


@keras.saving.register_keras_serializable(package="relation_tf")
class BidirectionalEncoder(BaseLayer):
    """Two causal stacks, the second over the reversed text, with concatenated outputs.

    No block sees both directions, so the halves of the output can be trained as a forward and a
    backward language model, as in ELMo. With `layer_mix=True` the output is `LayerMix` of the
    inputs of the first blocks and the outputs of all blocks, each with both directions.

    Args:
        mechanism: As in `Encoder`, with a causal form.
        num_layers: Number of blocks of each direction.
        units: Width of the output, an even number; each direction has half of it.
        layer_mix: If True, mix all layers.
        seed: Random seed of the dropout.
        **kwargs: Other arguments of `Encoder`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`.

    Returns:
        Tensor of shape `(batch, tokens, units)`.

    Raises:
        ValueError: As in `Encoder`, or if `units` is odd.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.encoders import BidirectionalEncoder
        >>> stack = BidirectionalEncoder("relation", num_layers=2, units=8, layer_mix=True)
        >>> stack(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Peters et al. 2018, "Deep Contextualized Word Representations", section 3, without the
          characters and the projections of its LSTM.
    """

    def __init__(
        self,
        mechanism: Any,
        num_layers: int = 1,
        units: int = 64,
        layer_mix: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        own = {name: kwargs.pop(name) for name in ("name", "dtype", "trainable") if name in kwargs}
        super().__init__(**own)
        self.units = positive_integer("units", units)
        if units % 2:
            raise ValueError(f"`units` must be even. Received: units={units}")
        self.layer_mix = true_or_false("layer_mix", layer_mix)
        self.seed = seed_or_none("seed", seed)
        kwargs |= {"causal": True, "dtype": self.dtype_policy}
        self.left_to_right, self.right_to_left = (
            Encoder(mechanism, num_layers, units // 2, seed=part, name=name, **kwargs)
            for name, part in (("forward", self.seed), ("backward", second_seed(self.seed)))
        )

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the weights of both directions, then those of the mixture."""
        for stack in (self.left_to_right, self.right_to_left):
            stack.build(x_shape)
        self.mix = None
        if self.layer_mix:
            self.mix = built_child(
                self, LayerMix, "mix", self.units, self.left_to_right.num_layers + 1
            )
        self.built = True

    @property
    def blocks(self) -> list[Any]:
        """The blocks of both directions."""
        return [*self.left_to_right.blocks, *self.right_to_left.blocks]

    @property
    def causal(self) -> bool:
        """False: tokens see later tokens."""
        return False

    def call(self, x: Any, mask: Any = None, training: bool | None = None) -> Any:
        """Apply both stacks."""
        mask = boolean(mask, x)
        turned = reversed_tokens(mask)
        after = self.right_to_left.outputs(reversed_tokens(x), turned, training)
        pairs = []
        for place, (left, right) in enumerate(
            zip(self.left_to_right.outputs(x, mask, training), after, strict=True)
        ):
            if place:
                left, right = (
                    self.left_to_right.close(left, mask),
                    self.right_to_left.close(right, turned),
                )
            pairs.append(ops.concatenate([left, reversed_tokens(right)], axis=-1))
        return pairs[-1] if self.mix is None else self.mix(pairs)

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return `(batch, tokens, units)`."""
        return (*x_shape[:-1], self.units)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        config = self.left_to_right.get_config()
        for name in ("causal", "name", "dtype", "trainable", "seed"):
            config.pop(name, None)
        return {**config, **super().get_config(), "units": self.units, "layer_mix": self.layer_mix}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Create the layer from its configuration; as for `Encoder`."""
        config = keras.saving.deserialize_keras_object(config)
        refuse_imports(config)
        return cls(**config)


class LayerMix(BaseLayer):
    """Weighted sum of the outputs of all layers: `scale sum_k softmax(w)_k h_k`.

    `w` starts from zeros (the mean of the layers) and `scale` from 1.

    Args:
        num_outputs: Number of outputs.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        outputs: Tensors of one shape.

    Returns:
        Tensor of this shape.

    References:
        - Peters et al. 2018, "Deep Contextualized Word Representations", equation 1.
    """

    def __init__(self, num_outputs: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_outputs = num_outputs

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Create w and the scale."""
        self.layer_weights = self.add_weight((self.num_outputs,), "zeros", name="layer_weights")
        self.scale = self.add_weight((), "ones", name="scale")
        self.built = True

    def call(self, outputs: list[Any]) -> Any:
        """Return the weighted sum."""
        weights = ops.softmax(to_float32(ops.convert_to_tensor(self.layer_weights)))
        weights = ops.cast(
            weights * to_float32(ops.convert_to_tensor(self.scale)), outputs[0].dtype
        )
        return sum(weights[k] * x for k, x in enumerate(outputs))


class EncoderBlock(BaseLayer):
    """Block of an `Encoder`.

    Args:
        mixer: Token-mixing layer.
        feed_forward_units: Width of the hidden layer of the feed-forward network.
        norm: `"post"` or `"pre"`.
        dropout: Dropout rate in [0, 1).
        activation: Activation of the feed-forward network.
        seed: Random seed of the dropout.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    def __init__(
        self,
        mixer: Any,
        feed_forward_units: int,
        norm: Norm,
        dropout: float,
        activation: Any,
        seed: int | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.mixer = mixer
        self.feed_forward_units = feed_forward_units
        self.norm = norm
        self.activation = activation
        self.drop = keras.layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy, name="drop")

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the normalizations and the feed-forward network, and build the mixer."""
        units = width_of("x", x_shape)
        # Masks are passed by name; without this Keras warns that they are lost.
        self.mixer.supports_masking = True
        tokens = keras.KerasTensor((None, None, units), self.compute_dtype)
        shape = tuple(mix_all(self.mixer, tokens, None).shape)
        if shape != (None, None, units):
            raise ValueError(
                f"{type(self.mixer).__name__} must return (batch, tokens, units={units}) in an "
                f"encoder. Received: an output of shape {shape}"
            )
        dense = partial(built_child, self, keras.layers.Dense)
        self.mixer_norm = built_norm(self, "mixer_norm", units)
        self.hidden = dense("hidden", units, self.feed_forward_units, self.activation)
        self.output_dense = dense("output", self.feed_forward_units, units)
        self.feed_norm = built_norm(self, "feed_norm", units)
        self.built = True

    def call(
        self, x: Any, mask: Any = None, training: bool | None = None, source: Any = None
    ) -> Any:
        """Apply the mechanism, then the feed-forward network."""
        x = self.add(self.mixer_norm, lambda x: mix_all(self.mixer, x, mask), x, training)
        return self.after_mixing(x, mask, source, training)[0]

    def step(self, x: Any, state: Any, mask: Any, source: Any = None) -> tuple[Any, Any, Any]:
        """Process one token in inference mode: return output, the mixer's next state, weights."""

        def mix(x: Any) -> Any:
            nonlocal state
            mixed, state = self.mixer.step(x, state, mask)
            return mixed

        x = self.add(self.mixer_norm, mix, x, training=False)
        x, weights = self.after_mixing(x, mask, source, training=False)
        return x, state, weights

    def after_mixing(
        self, x: Any, mask: Any, source: Any, training: bool | None
    ) -> tuple[Any, Any]:
        """Apply the feed-forward network; the second value is None (no source attention)."""
        return zero_masked(self.add(self.feed_norm, self.feed, x, training), mask), None

    def add(self, norm: Any, part: Any, x: Any, training: bool | None) -> Any:
        """Add the output of a sublayer to `x`, with normalization before or after."""
        if self.norm == "pre":
            return x + self.drop(part(norm(x)), training=training)
        return norm(x + self.drop(part(x), training=training))

    def feed(self, x: Any) -> Any:
        """Apply the feed-forward network."""
        return self.output_dense(self.hidden(x))


def declares_causal(layer: Any) -> bool:
    """Return True if a layer, or each layer in the blocks of a built encoder, is `causal`."""
    if getattr(layer, "causal", False):
        return True
    return isinstance(layer, Encoder) and all(
        declares_causal(block.mixer) for block in layer.blocks
    )


def built_norm(parent: Any, name: str, units: int) -> Any:
    """Return a built LayerNormalization."""
    return built_child(parent, keras.layers.LayerNormalization, name, units, epsilon=_EPSILON)


def encoder(
    mechanism: Any, num_layers: int = 1, units: int | None = None, **kwargs: Any
) -> Encoder:
    """Build an `Encoder`, a stack of blocks around any mechanism; the arguments are the same.

    Example:
        >>> from relation_tf.networks import encoder
        >>> encoder("linear-attention", num_layers=2, norm="pre").num_layers
        2
    """
    return Encoder(mechanism, num_layers, units, **kwargs)


def bidirectional_encoder(
    mechanism: Any, num_layers: int = 1, units: int = 64, **kwargs: Any
) -> BidirectionalEncoder:
    """Build a `BidirectionalEncoder`, two causal stacks; the arguments are the same.

    Example:
        >>> from relation_tf.networks.encoders import bidirectional_encoder
        >>> bidirectional_encoder("relation", units=8).left_to_right.units
        4
    """
    return BidirectionalEncoder(mechanism, num_layers, units, **kwargs)


def transformer(
    units: int,
    num_layers: int = 2,
    num_heads: int = 4,
    *,
    options: Mapping[str, Any] | None = None,
    key_dim: int | None = None,
    **kwargs: Any,
) -> Encoder:
    """Build a Transformer encoder: an `Encoder` around `"multi-head-attention"`.

    Args:
        units: Width of the blocks, a multiple of `num_heads` unless `key_dim` is set.
        num_layers: Number of blocks.
        num_heads: Number of heads.
        options: Further arguments of the attention.
        key_dim: Width of the queries, keys and values of each head. Default: `units / num_heads`.
        **kwargs: Other arguments of `Encoder`.

    Returns:
        A layer from `(batch, tokens, width)` to `(batch, tokens, units)`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import transformer
        >>> transformer(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Vaswani et al. 2017, "Attention Is All You Need", section 3.1.
    """
    if key_dim is not None:
        options = {**(options or {}), "key_dim": key_dim}
    return Encoder("multi-head-attention", num_layers, units, num_heads, options=options, **kwargs)


for _builder in (encoder, bidirectional_encoder, transformer):
    show_forwarded(_builder, Encoder.__init__)


@keras.saving.register_keras_serializable(package="relation_tf")
class MultiHeadSelfAttention(TokenMixer):
    """Keras's multi-head attention with the call arguments and masks of a token mixer.

    `[head_1, ..., head_n] W_O`, `head_i = softmax(Q_i K_i^T / sqrt(key_dim)) V_i`, where `Q_i`,
    `K_i`, `V_i` are projections to `key_dim` features. The output is zero if all tokens are masked.

    Args:
        units: Width of the output.
        num_heads: Number of heads; a divisor of `units` unless `key_dim` is set.
        dropout: Dropout rate in [0, 1), on the attention weights and before the output projection.
        use_bias: If True, the four projections have biases.
        variant: `"equations"` or `"released_code"`; sets the default of `output_projection`.
        key_dim: Width of the queries, keys and values of each head. Default: `units / num_heads`.
        **kwargs: As in `TokenMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens get no weight.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If `units` is not divisible by `num_heads` and `key_dim` is None.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.encoders import MultiHeadSelfAttention
        >>> MultiHeadSelfAttention(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2.
    """

    def __init__(
        self,
        units: int,
        num_heads: int = 4,
        dropout: float = 0.0,
        use_bias: bool = True,
        *,
        key_dim: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, dropout=dropout, use_bias=use_bias, **kwargs)
        self.num_heads = positive_integer("num_heads", num_heads)
        self.key_dim = positive_integer_or_none("key_dim", key_dim)
        if key_dim is None and units % num_heads:
            raise ValueError(
                "`units` must be divisible by `num_heads` unless `key_dim` is set. "
                f"Received: units={units}, num_heads={num_heads}"
            )

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create Keras's layer."""
        self.attention = keras.layers.MultiHeadAttention(
            self.num_heads,
            key_dim=self.key_dim or self.units // self.num_heads,
            dropout=self.dropout,
            use_bias=self.use_bias,
            output_shape=self.units,
            seed=second_seed(self.seed),
            dtype=self.dtype_policy,
            name="attention",
            **self.weight_arguments(),
        )
        self.attention.build((None, None, query_width), (None, None, value_width))

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Apply all attention heads."""
        if value_mask is None:
            return self.attention(query, value, training=training)
        some = ops.any(value_mask, axis=1, keepdims=True)
        # Softmax over no tokens depends on the backend: attend to all tokens, then return zero.
        visible = ops.logical_or(value_mask, ops.logical_not(some))[:, None, :]
        mixed = self.attention(query, value, attention_mask=visible, training=training)
        return ops.where(some[..., None], mixed, ops.zeros_like(mixed))
