"""Classifiers and regressors of one sequence, a pair or each token, with any mechanism.

`network="benchmark"` is the network of the Relation paper's released code:

- One sequence: embedding + positions -> mechanism -> LeakyReLU -> dropout -> Dense -> LeakyReLU ->
  first token -> Dense.
- A pair: one shared mechanism encodes both sequences, each sequence has its own hidden Dense layer,
  and the two sentence vectors are multiplied.

`network="plain"` has only dropout between the sentence vector and the last Dense layer, as in the
Contextualizer and FCSR papers.

`feature_projection=True` classifies with the part of the sentence vector that is orthogonal to the
vector of a second branch, see `relation_tf.networks.feature_projection`.

The registry entry of a mechanism defines its positions (`positions` overrides them) and its head
(how it forms the sentence vector). `segments=True` adds a learned vector to each text of a pair.

If the head reads the first token, all layers after the mechanism are point-wise:
`compute="readout"` computes this token only, `compute="all"` computes all tokens, as in the
released code. The outputs are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from relation_tf.layers import (
    FeatureAttention,
    LearnedPositionEncoding,
    SegmentEncoding,
    ShortConvolution,
    SinePositionEncoding,
    SoftmaxPositionEncoding,
)
from relation_tf.layers.arguments import positive_integer
from relation_tf.layers.base import BaseLayer, cloned
from relation_tf.layers.masking import float32_or_wider
from relation_tf.networks.config import NetworkConfig, configured
from relation_tf.networks.encoders import declares_causal
from relation_tf.networks.feature_projection import projected_output
from relation_tf.networks.mechanisms import accepts, make_layer
from relation_tf.networks.mixing import (
    copy_of,
    entry_of,
    first_token,
    is_custom,
    is_layer,
    last_token,
    mix_all,
    mix_for_first,
    refuse_options,
)
from relation_tf.networks.sentence_encoders import AdditiveAttentionPooling

_HEADS: dict[str, Any] = {
    "feature-attention": FeatureAttention,
    "feature-products": partial(FeatureAttention, products="elements"),
    "additive-attention": AdditiveAttentionPooling,
}
_POSITIONS = {"sine": SinePositionEncoding, "softmax": SoftmaxPositionEncoding}
_LEAKY_SLOPE = 0.3  # LeakyReLU of Keras 2, used by the released code; keras.activations has 0.2.
_DECODER_WIDTH = 4  # of the hidden layer, relative to the vector, as in a Transformer


def sequence_classifier(
    mechanism: Any,
    vocabulary_size: int,
    num_classes: int,
    config: NetworkConfig | None = None,
    **changes: Any,
) -> keras.Model:
    """Build a classifier of one sequence of token ids.

    Args:
        mechanism: A registered name (`"relation"`, `"contextualizer"` ...), a Keras layer class, an
            instance (a template, cloned by `from_config`), or `"package.module:Name"`.
        vocabulary_size: Number of token ids, including 0 (padding).
        num_classes: Number of classes.
        config: Settings of the network. Default: `NetworkConfig()`.
        **changes: Fields of `NetworkConfig`, such as `units=32`; they override `config`.

    Returns:
        A model from token ids `(batch, tokens)`, with 0 for padding, to probabilities
        `(batch, num_classes)`.

    Raises:
        ValueError: If an argument is invalid.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import sequence_classifier
        >>> model = sequence_classifier("relation", vocabulary_size=1000, num_classes=2)
        >>> model(np.array([[5, 8, 13, 0]])).shape == (1, 2)
        True

    References:
        Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, and its released code (benchmark).
        Maupomé, Meurs 2022, doi 10.3390/info13060290 (plain).
    """
    encoder = TextEncoder(mechanism, vocabulary_size, configured(config, changes))
    return _network(encoder, 1, positive_integer("num_classes", num_classes))


def pair_classifier(
    mechanism: Any,
    vocabulary_size: int,
    num_classes: int,
    config: NetworkConfig | None = None,
    **changes: Any,
) -> keras.Model:
    """Build a classifier of a pair of sequences of token ids.

    The arguments are those of `sequence_classifier`.

    Returns:
        A model from two arrays of token ids, `(batch, tokens)` each, to probabilities
        `(batch, num_classes)`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import pair_classifier
        >>> model = pair_classifier("attention", vocabulary_size=1000, num_classes=3)
        >>> model([np.array([[5, 8, 13]]), np.array([[5, 8]])]).shape == (1, 3)
        True

    References:
        Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, and its released code.
    """
    encoder = TextEncoder(mechanism, vocabulary_size, configured(config, changes))
    return _network(encoder, 2, positive_integer("num_classes", num_classes))


def pair_regressor(
    mechanism: Any,
    vocabulary_size: int,
    config: NetworkConfig | None = None,
    **changes: Any,
) -> keras.Model:
    """Build a regressor of a pair of sequences with outputs in [0, 1].

    The arguments are those of `sequence_classifier`, without `num_classes`.

    Returns:
        A model from two arrays of token ids, `(batch, tokens)` each, to a value in [0, 1] of shape
        `(batch, 1)`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import pair_regressor
        >>> model = pair_regressor("baseline", vocabulary_size=1000)
        >>> model([np.array([[5, 8, 13]]), np.array([[5, 8]])]).shape == (1, 1)
        True

    References:
        Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, and its released code.
    """
    return _network(TextEncoder(mechanism, vocabulary_size, configured(config, changes)), 2, None)


def token_classifier(
    mechanism: Any,
    vocabulary_size: int,
    num_classes: int,
    config: NetworkConfig | None = None,
    *,
    from_last_token: int | None = None,
    **changes: Any,
) -> keras.Model:
    """Build a classifier of each token of a sequence.

    The network is that of `sequence_classifier` without pooling: all layers after the mechanism
    are applied to each token.

    Args:
        mechanism: As in `sequence_classifier`; it must return one vector per token.
        vocabulary_size: Number of token ids, including 0 (padding).
        num_classes: Number of classes.
        config: Settings of the network. Default: `NetworkConfig()`.
        from_last_token: Maximum number of tokens of a sequence whose tokens are all classified from
            the vector of its last token: learned vectors of the positions are added to it, then a
            hidden Dense layer with ReLU is applied. Default: each token has its own vector.
        **changes: Fields of `NetworkConfig`, such as `units=32`; they override `config`.

    Returns:
        A model from token ids `(batch, tokens)`, with 0 for padding, to logits
        `(batch, tokens, num_classes)`. Logits at padding have no meaning.

    Raises:
        ValueError: If an argument is invalid, or the mechanism does not return tokens.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import token_classifier
        >>> model = token_classifier("relation", vocabulary_size=100, num_classes=8)
        >>> model(np.array([[5, 8, 13, 0]])).shape == (1, 4, 8)
        True
        >>> model = token_classifier("attention", 100, 8, from_last_token=4)
        >>> model.get_layer("decoder_hidden").output.shape == (None, None, 256)
        True

    References:
        `from_last_token`: the compression task of Poli et al. 2024 (MAD), arXiv 2403.17844. Its
        decoder has sine positions and two hidden layers with normalization.
    """
    config = configured(config, changes)
    if config.feature_projection:
        raise ValueError(
            "`feature_projection` must be False for token classification. "
            "Received: feature_projection=True"
        )
    positive_integer("num_classes", num_classes)
    if from_last_token is not None:
        positive_integer("from_last_token", from_last_token)
    encoder = TextEncoder(mechanism, vocabulary_size, config)
    (text,) = encoder.inputs(1)
    vectors = encoder.tokens(text)
    if from_last_token is not None:
        last = last_token(vectors, ops.not_equal(text, 0))
        repeated = ops.add(ops.zeros_like(vectors), last)
        positions = LearnedPositionEncoding(from_last_token, name="decoder_positions")
        width = _DECODER_WIDTH * vectors.shape[-1]
        vectors = encoder.dense("decoder_hidden", width, "relu")(positions(repeated))
    return keras.Model(text, encoder.output_layer("output", num_classes, None)(vectors))


def _network(encoder: TextEncoder, num_texts: int, num_classes: int | None) -> keras.Model:
    texts = encoder.inputs(num_texts)
    outputs = encoder.outputs(texts, "output", num_classes)
    return keras.Model(texts[0] if num_texts == 1 else texts, outputs)


class TextEncoder:
    """Encoder of texts to vectors.

    All texts share its layers, except the hidden Dense layers of a pair.

    Args:
        mechanism: As in `sequence_classifier`.
        vocabulary_size: As in `sequence_classifier`.
        config: Settings of the network.
        prefix: Prefix of the layer names, for a network with several encoders.
        embedding: Embedding layer of the tokens. Default: a new layer.

    Raises:
        ValueError: If the mechanism is an encoder-decoder, or `vocabulary_size`, the embeddings or
            the contextual layer do not fit it.
    """

    def __init__(
        self,
        mechanism: Any,
        vocabulary_size: int,
        config: NetworkConfig,
        *,
        prefix: str = "",
        embedding: Any = None,
    ) -> None:
        self.config = config
        self.prefix = prefix
        self.layers: dict[str, Any] = {}
        self.initializer = keras.initializers.get(config.initializer)
        self.entry = entry_of(mechanism)
        if self.entry.output_type == "sequence":
            raise ValueError(
                "`mechanism` must return tokens or a vector. Encoder-decoders are complete "
                f"networks: build them without a classifier. Received: mechanism={mechanism!r}"
            )
        refuse_options(mechanism, config.options)
        self.mechanism = (
            copy_of(mechanism, name=f"{prefix}mechanism")
            if is_layer(mechanism)
            else make_layer(
                self.entry, config.units, config.dropout, config.options, f"{prefix}mechanism"
            )
        )
        self.expected_width = config.units if is_custom(self.entry, mechanism) else None
        # Masks are passed by name; without this Keras warns that they are lost.
        self.mechanism.supports_masking = True
        self.activation = keras.layers.LeakyReLU(_LEAKY_SLOPE, name=f"{prefix}mechanism_activation")
        self.dropout = keras.layers.Dropout(config.dropout, name=f"{prefix}dropout")
        self.embedding = embedding
        if embedding is None:
            self._embed(vocabulary_size)
        self.positions, self.segments, self.convolution = self._positions(), None, None
        if config.segments:
            initializer = keras.initializers.get(config.embedding_initializer)
            self.segments = SegmentEncoding(initializer, name=f"{prefix}segment_embedding")
        if width := config.short_convolution:
            self.convolution = ShortConvolution(width, name=f"{prefix}short_convolution")
        self.head = None  # if one token is read
        if self.entry.head in _HEADS:
            initializer = cloned(self.initializer)
            self.head = _HEADS[self.entry.head](
                config.units, kernel_initializer=initializer, name=f"{prefix}head"
            )
        self.contextual: Any = None
        if config.contextual is not None:
            self._freeze(config.contextual)
        self.common: TextEncoder | None = None
        if config.feature_projection:
            self.common = TextEncoder(
                mechanism,
                vocabulary_size,
                replace(config, feature_projection=False),
                prefix=f"{prefix}common_",
                embedding=self.embedding,
            )

    def _positions(self) -> Any:
        """Return the layer of the positions, or None."""
        kind = self.config.positions or self.entry.positions
        if kind == "learned":
            return LearnedPositionEncoding(
                positive_integer("max_length", self.config.max_length),
                keras.initializers.get(self.config.embedding_initializer),
                name=f"{self.prefix}position_embedding",
            )
        make = _POSITIONS.get(kind or "")
        return None if make is None else make(name=f"{self.prefix}positions")

    def _freeze(self, contextual: Any) -> None:
        """Insert frozen contextual embeddings before the mechanism."""
        self.contextual = Frozen(copy_of(contextual, name="frozen"), name="contextual")
        # Contextual embeddings were pretrained with sine positions.
        self.positions = SinePositionEncoding(name=f"{self.prefix}positions")
        self.contextual.build((None, None, self.embedding.output_dim))
        self.embedding.trainable = False

    def _embed(self, vocabulary_size: int) -> None:
        config = self.config
        self.embedding = keras.layers.Embedding(
            positive_integer("vocabulary_size", vocabulary_size),
            config.embedding_dim,
            embeddings_initializer=config.embedding_initializer,
            name="embedding",
        )
        self.embedding.build()
        if config.embeddings is not None:
            expected = tuple(self.embedding.embeddings.shape)
            if np.shape(config.embeddings) != expected:
                raise ValueError(
                    "`embeddings` must have shape (vocabulary_size, embedding_dim) = "
                    f"{expected}. Received: embeddings.shape={np.shape(config.embeddings)}"
                )
            self.embedding.set_weights([config.embeddings])

    def inputs(self, number: int, suffix: str = "") -> list[Any]:
        """Return the inputs for one text or a pair: token ids."""
        names = [f"tokens{suffix}"] if number == 1 else [f"tokens{suffix}_{i}" for i in (1, 2)]
        return [keras.Input((None,), dtype="int32", name=name) for name in names]

    def dense(self, name: str, units: int, activation: str | None = None, **kwargs: Any) -> Any:
        """Return a Dense layer with the configured initializer."""
        return keras.layers.Dense(
            units, activation, kernel_initializer=cloned(self.initializer), name=name, **kwargs
        )

    def output_layer(
        self, name: str, num_classes: int | None, activation: str | None = "softmax"
    ) -> keras.layers.Dense:
        """Return the output layer: class probabilities, or a score in [0, 1] if None."""
        # In half precision the probabilities are too inaccurate for the loss.
        wide = float32_or_wider(keras.config.dtype_policy().compute_dtype)
        if num_classes is None:
            return self.dense(name, 1, "sigmoid", dtype=wide)
        positive_integer("num_classes", num_classes)
        return self.dense(name, num_classes, activation, dtype=wide)

    def outputs(self, texts: Sequence[Any], name: str, num_classes: int | None) -> Any:
        """Return the outputs for texts, see `output_layer`.

        Raises:
            ValueError: If scores should be computed with feature projection.
        """
        if self.common is None:
            vector = self.vector(texts)  # first: layers draw their seeds in the order of creation
            return self.output_layer(name, num_classes)(vector)
        if num_classes is None:
            raise ValueError(
                "`feature_projection` must be False for a regressor. "
                "Received: feature_projection=True"
            )
        return projected_output(self, texts, name, num_classes)

    def vector(self, texts: Sequence[Any]) -> Any:
        """Return the sentence vector of one text, or the product of the vectors of a pair."""
        return self._product(texts, lambda *text: self.before_output(self._features(*text)))

    def features(self, texts: Sequence[Any]) -> Any:
        """Return the same as `vector`, without the dropout before the output layer."""
        return self._product(texts, self._features)

    def before_output(self, vector: Any) -> Any:
        """Apply the dropout before the output layer, which only the plain network has."""
        return self.dropout(vector) if self.config.network == "plain" else vector

    def _product(self, texts: Sequence[Any], encode: Callable[[Any, str, int], Any]) -> Any:
        if len(texts) == 1:
            return encode(texts[0], "hidden", 0)
        vectors = [encode(text, f"hidden_{i + 1}", i) for i, text in enumerate(texts)]
        return self._once("product", lambda name: keras.layers.Multiply(name=name))(vectors)

    def _once(self, name: str, make: Callable[[str], Any]) -> Any:
        """Return the layer of that name, created at the first call."""
        if name not in self.layers:
            self.layers[name] = make(f"{self.prefix}{name}")
        return self.layers[name]

    def _features(self, text: Any, hidden_name: str, segment: int) -> Any:
        hidden = self._hidden(self._mixed(text, segment), hidden_name)
        return hidden[:, 0] if len(hidden.shape) == 3 else hidden

    def _hidden(self, mixed: Any, hidden_name: str) -> Any:
        """Apply the hidden layer to each token; the plain network has none."""
        if self.config.network == "plain":
            return mixed
        width = self.config.hidden_units or self.config.units
        dense = self._once(hidden_name, lambda name: self.dense(name, width))
        activation = self._once(f"{hidden_name}_activation", self._hidden_activation)
        return activation(dense(self.dropout(self.activation(mixed))))

    def _hidden_activation(self, name: str) -> Any:
        kind = self.config.hidden_activation
        if kind == "leaky_relu":
            return keras.layers.LeakyReLU(_LEAKY_SLOPE, name=name)
        return keras.layers.Activation(kind or "linear", name=name)

    def tokens(self, text: Any) -> Any:
        """Return a vector for each token of a text, without a head.

        Raises:
            ValueError: If the mechanism does not return tokens.
        """
        x, mask = self._embedded(text, 0)
        mixed = mix_all(self.mechanism, x, mask)
        self._check_width(mixed)
        if len(mixed.shape) != 3:
            raise ValueError(
                f"{type(self.mechanism).__name__} must return (batch, tokens, units) for token "
                f"classification. Received: an output of shape {tuple(mixed.shape)}"
            )
        return self.before_output(self._hidden(mixed, "hidden"))

    def _mixed(self, tokens: Any, segment: int) -> Any:
        x, mask = self._embedded(tokens, segment)
        mixed = self._mix(self.mechanism, x, mask)
        self._check_width(mixed)
        if self.entry.head == "vector" and len(mixed.shape) == 3:
            raise ValueError(
                f"{type(self.mechanism).__name__} must return one vector for each text, "
                f"(batch, units). Received: an output of shape {tuple(mixed.shape)}"
            )
        if len(mixed.shape) == 2 and getattr(mixed, "_keras_mask", None) is not None:
            # A copy without the attached mask: later layers would apply it to rows.
            mixed = ops.copy(mixed)
        return mixed if self.head is None else self.head(mixed, mask=mask)

    def _embedded(self, tokens: Any, segment: int) -> tuple[Any, Any]:
        """Return the input of the mechanism and its mask."""
        # The mask is passed by name: slicing a tensor removes the attached mask.
        mask = ops.not_equal(tokens, 0)
        x = self.embedding(tokens)
        if self.segments is not None:
            x = self.segments(x, segment=segment)
        if self.positions is not None:
            # Positions added to padding have no effect: the mechanism masks it.
            masked = isinstance(self.positions, SoftmaxPositionEncoding)
            x = self.positions(x, **({"mask": mask} if masked else {}))
        if self.contextual is not None:
            x = self.contextual(x, mask=mask)
        if self.convolution is not None:
            x = ops.add(x, self.convolution(x, mask=mask))
        return x, mask

    def _check_width(self, mixed: Any) -> None:
        shape, name = tuple(mixed.shape), type(self.mechanism).__name__
        if len(shape) not in (2, 3) or self.expected_width not in (None, shape[-1]):
            width = f"units={self.expected_width}" if self.expected_width else "units"
            raise ValueError(
                f"{name} must return (batch, tokens, {width}) or (batch, {width}). "
                f"Received: an output of shape {shape}"
            )

    def _mix(self, layer: Any, x: Any, mask: Any) -> Any:
        first = self.entry.head == "first"
        readout = self.config.compute == "readout" and first
        needs_all = getattr(layer, "causal", False) or getattr(layer, "reads_later_queries", False)
        if readout and accepts(layer, "value") and not needs_all:
            return mix_for_first(layer, x, mask)
        mixed = mix_all(layer, x, mask)
        if len(mixed.shape) != 3:
            return mixed
        if first and declares_causal(layer):
            # The first token sees only itself; the last token has seen all.
            return last_token(mixed, mask)
        return first_token(mixed) if readout else mixed


@keras.saving.register_keras_serializable(package="relation_tf")
class Frozen(BaseLayer):
    """Wrapper that freezes a layer and always calls it in inference mode.

    A functional network passes its own `training` argument to each of its layers; only this
    wrapper calls the inner layer.

    Args:
        layer: The layer to freeze; its call takes `mask` and `training`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Input of the layer.
        mask: Boolean, `(batch, tokens)`, or None.

    Returns:
        The output of the layer.
    """

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layer = layer
        self.layer.supports_masking = True

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Build the layer before freezing it; weights created later would be trainable."""
        if not self.layer.built:  # A loaded layer is already built.
            self.layer.build(x_shape)
        self.trainable = False
        # On TensorFlow, Keras ignores this assignment if the loaded layer has the value False.
        for variable in self.layer.variables:
            variable.trainable = False
        self.built = True

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> Any:
        """Return the shape of the layer's output: on JAX, it cannot be found by a call."""
        return self.layer.compute_output_shape(x_shape)

    def call(self, x: Any, mask: Any = None) -> Any:
        """Return the layer's output without dropout."""
        return self.layer(x, mask=mask, training=False)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Create the layer from its configuration."""
        return cls(**keras.saving.deserialize_keras_object(config))
