"""Networks for one sequence and for a pair, around any mechanism.

`network="benchmark"` is that of the Relation paper's program. One sequence: embedding + positions
-> mechanism -> LeakyReLU -> dropout -> Dense -> LeakyReLU -> first token -> Dense. A pair: one
shared mechanism encodes both sequences, each has its own hidden Dense, and the two sentence vectors
are multiplied. `network="plain"` has nothing between the sentence vector and the last Dense but
dropout, as the networks of the Contextualizer and FCSR papers.

What a mechanism's positions are and what makes the sentence vector, its registry entry says. Where
that is the first token, everything after the mechanism is point-wise: with `compute="readout"` it
is asked for that token alone; `compute="all"` computes every token, as the Relation paper's program
did. The outputs are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from relation_tf.layers import FeatureAttention, SinePositionEncoding, SoftmaxPositionEncoding
from relation_tf.layers.base import BaseLayer
from relation_tf.layers.masking import zero_masked
from relation_tf.networks.additive_attention import AdditiveAttentionPooling
from relation_tf.networks.config import NetworkConfig, configured
from relation_tf.networks.mechanisms import accepts, make_layer
from relation_tf.networks.mixing import (
    accepted,
    copy_of,
    entry_of,
    is_layer,
    mix_all,
    refuse_options,
)

_HEADS = {"feature-attention": FeatureAttention, "additive-attention": AdditiveAttentionPooling}
_POSITIONS = {"sine": SinePositionEncoding, "softmax": SoftmaxPositionEncoding}
_LEAKY_SLOPE = 0.3  # Keras 2's LeakyReLU, which the program used; keras.activations has 0.2.


def sequence_classifier(
    mechanism: Any,
    vocabulary_size: int | None,
    num_classes: int,
    config: NetworkConfig | None = None,
    **changes: Any,
) -> keras.Model:
    """Build a classifier of one sequence of token ids.

    Args:
        mechanism: A registered name (`"relation"`, `"contextualizer"` ...), a Keras layer class, an
            instance (a template, cloned by `from_config`), `"package.module:Name"` or
            `"saved-model:PATH"`.
        vocabulary_size: Number of token ids, 0 (padding) included; None for a mechanism that reads
            text.
        num_classes: Number of classes.
        config: Settings of the network, by default `NetworkConfig()`.
        **changes: Fields of `NetworkConfig`, such as `units=32`; they override those of `config`.

    Returns:
        A model from token ids `(batch, tokens)`, 0 where padded, to probabilities
        `(batch, num_classes)`; from strings `(batch,)` if the mechanism reads text.

    Raises:
        ValueError: For an argument that is not allowed; the message names it.

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
    return _network(encoder, 1, num_classes)


def pair_classifier(
    mechanism: Any,
    vocabulary_size: int | None,
    num_classes: int,
    config: NetworkConfig | None = None,
    **changes: Any,
) -> keras.Model:
    """Build a classifier of a pair of sequences of token ids.

    Args: as in `sequence_classifier`.

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
    return _network(encoder, 2, num_classes)


def pair_regressor(
    mechanism: Any,
    vocabulary_size: int | None,
    config: NetworkConfig | None = None,
    **changes: Any,
) -> keras.Model:
    """Build a regressor of a pair of sequences onto [0, 1].

    Args: as in `sequence_classifier`, without `num_classes`.

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


def _network(encoder: TextEncoder, num_texts: int, num_classes: int | None) -> keras.Model:
    texts = encoder.inputs(num_texts)
    vector = encoder.vector(texts)
    answer = encoder.answer("output", num_classes)(vector)
    return keras.Model(texts[0] if num_texts == 1 else texts, answer)


class TextEncoder:
    """Text to a vector; its layers are shared by all texts, except the hidden Dense of a pair.

    Args:
        mechanism: As in `sequence_classifier`.
        vocabulary_size: As in `sequence_classifier`.
        config: Settings of the network.
        prefix: First part of the names of its layers, for a network with several encoders.
        embedding: The layer that embeds the tokens, by default a new one.
    """

    def __init__(
        self,
        mechanism: Any,
        vocabulary_size: int | None,
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
                f"`mechanism` must give tokens or a vector; an encoder-decoder is a network by "
                f"itself. Received: {mechanism!r}"
            )
        refuse_options(mechanism, config.options)
        self.mechanism = (
            copy_of(mechanism, name=f"{prefix}mechanism")
            if is_layer(mechanism)
            else make_layer(
                self.entry, config.units, config.dropout, config.options, f"{prefix}mechanism"
            )
        )
        # A custom class must be as wide as `units`; the width of an instance is its own.
        custom = isinstance(mechanism, type) or (
            isinstance(mechanism, str) and self.entry.factory == mechanism
        )
        self.expected_width = config.units if custom else None
        # Masks go by name from here on; without this Keras warns that they are lost.
        self.mechanism.supports_masking = True
        self.activation = keras.layers.LeakyReLU(_LEAKY_SLOPE, name=f"{prefix}mechanism_activation")
        self.dropout = keras.layers.Dropout(config.dropout, name=f"{prefix}dropout")
        if self.entry.input_type == "tokens":
            self.embedding = embedding
            if embedding is None:
                self._embed(vocabulary_size)
            make = _POSITIONS.get(self.entry.positions or "")
            self.positions = None if make is None else make(name=f"{prefix}positions")
            self.head = self._head()
        self.contextual: Any = None
        if config.contextual is not None:
            self._freeze(config.contextual)

    def _freeze(self, contextual: Any) -> None:
        """Let the mechanism read contextual embeddings, which are not trained."""
        if self.entry.input_type != "tokens":
            raise ValueError(
                "`contextual` is for a mechanism that reads tokens. Received: "
                f"contextual={contextual.name!r}"
            )
        self.contextual = Frozen(copy_of(contextual, name="frozen"), name="contextual")
        # They come with the sine positions of what they were learned with.
        self.positions = SinePositionEncoding(name=f"{self.prefix}positions")
        self.contextual.build((None, None, self.embedding.output_dim))
        self.embedding.trainable = False

    def _embed(self, vocabulary_size: int | None) -> None:
        config = self.config
        if vocabulary_size is None:
            raise ValueError("`vocabulary_size` must be a number for a mechanism that reads tokens")
        self.embedding = keras.layers.Embedding(
            vocabulary_size,
            config.embedding_dim,
            embeddings_initializer=config.embedding_initializer,
            name="embedding",
        )
        self.embedding.build()
        if config.embeddings is not None:
            expected = tuple(self.embedding.embeddings.shape)
            if np.shape(config.embeddings) != expected:
                raise ValueError(
                    "`embeddings` must be of shape (vocabulary_size, embedding_dim) = "
                    f"{expected}. Received: shape {np.shape(config.embeddings)}"
                )
            self.embedding.set_weights([config.embeddings])

    def _head(self) -> Any:
        """The layer that makes one vector of the tokens; None where one token is read."""
        make = _HEADS.get(self.entry.head)
        if make is None:
            return None
        initializer = self.initializer.clone()
        return make(self.config.units, kernel_initializer=initializer, name=f"{self.prefix}head")

    def inputs(self, number: int, suffix: str = "") -> list[Any]:
        """What a network is given, one text or a pair: token ids, or strings."""
        names = [f"tokens{suffix}"] if number == 1 else [f"tokens{suffix}_{i}" for i in (1, 2)]
        text = self.entry.input_type == "text"
        shape, dtype = ((), "string") if text else ((None,), "int32")
        return [keras.Input(shape, dtype=dtype, name=name) for name in names]

    def dense(self, name: str, units: int, activation: str | None = None) -> keras.layers.Dense:
        """A Dense whose kernel starts as asked."""
        return keras.layers.Dense(
            units, activation, kernel_initializer=self.initializer.clone(), name=name
        )

    def answer(self, name: str, num_classes: int | None) -> keras.layers.Dense:
        """Return the last Dense: probabilities of classes, or a score in [0, 1] for None."""
        if num_classes is None:
            return self.dense(name, 1, "sigmoid")
        return self.dense(name, num_classes, "softmax")

    def vector(self, texts: Sequence[Any]) -> Any:
        """The sentence vector of one text, or the product of a pair's two."""
        if len(texts) == 1:
            return self._vector(texts[0], "hidden")
        vectors = [self._vector(text, f"hidden_{i}") for i, text in enumerate(texts, 1)]
        return self._once("product", lambda name: keras.layers.Multiply(name=name))(vectors)

    def _once(self, name: str, make: Callable[[str], Any]) -> Any:
        """A layer that is made when it is first asked for, and shared from then on."""
        if name not in self.layers:
            self.layers[name] = make(f"{self.prefix}{name}")
        return self.layers[name]

    def _vector(self, text: Any, hidden_name: str) -> Any:
        mixed = self.mechanism(text) if self.entry.input_type == "text" else self._mixed(text)
        if self.config.network == "plain":
            return self.dropout(mixed[:, 0] if len(mixed.shape) == 3 else mixed)
        width = self.config.hidden_units or self.config.units
        dense = self._once(hidden_name, lambda name: self.dense(name, width))
        activation = self._once(
            f"{hidden_name}_activation",
            lambda name: _activation(self.config.hidden_activation, name),
        )
        hidden = activation(dense(self.dropout(self.activation(mixed))))
        return hidden[:, 0] if len(hidden.shape) == 3 else hidden

    def _mixed(self, tokens: Any) -> Any:
        # The mask goes by name: slicing a tensor drops the one that Keras attaches.
        mask = ops.not_equal(tokens, 0)
        x = self.embedding(tokens)
        if self.positions is not None:
            # Added to padding they do no harm: the mechanism masks it.
            masked = isinstance(self.positions, SoftmaxPositionEncoding)
            x = self.positions(x, **({"mask": mask} if masked else {}))
        if self.contextual is not None:
            x = self.contextual(x, mask=mask)
        mixed = self._mix(x, mask)
        shape, name = tuple(mixed.shape), type(self.mechanism).__name__
        if len(shape) not in (2, 3) or self.expected_width not in (None, shape[-1]):
            width = f"units={self.expected_width}" if self.expected_width else "units"
            raise ValueError(
                f"{name} must give (batch, tokens, {width}) or (batch, {width}). "
                f"Received: an output of shape {shape}"
            )
        if len(shape) == 2 and getattr(mixed, "_keras_mask", None) is not None:
            # The mask of tokens would be taken for one of rows by all that follows.
            mixed = ops.copy(mixed)
        return mixed if self.head is None else self.head(mixed, mask=mask)

    def _mix(self, x: Any, mask: Any) -> Any:
        layer = self.mechanism
        if self.entry.head == "first" and getattr(layer, "causal", False):
            # Its first token sees itself alone; the last one has seen all.
            return _last(mix_all(layer, x, mask), mask)
        readout = self.config.compute == "readout" and self.entry.head == "first"
        if readout and accepts(layer, "value"):
            masks = {"query_mask": _first(mask), "value_mask": mask}
            return layer(_first(x), value=x, **accepted(layer, masks))
        mixed = mix_all(layer, x, mask)
        return _first(mixed) if readout and len(mixed.shape) == 3 else mixed


@keras.saving.register_keras_serializable(package="relation_tf")
class Frozen(BaseLayer):
    """A layer that is never trained, and computes in training as it does after it.

    A functional network hands its own `training` to each of its layers, whatever they are called
    with; a layer within this one is called by it alone.

    Args:
        layer: The layer, whose call takes `mask` and `training`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layer = layer
        self.layer.supports_masking = True

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Build the layer; what it would make later would be trained."""
        self.layer.build(x_shape)
        self.trainable = False
        self.built = True

    def call(self, x: Any, mask: Any = None) -> Any:
        """The layer's output, without dropout."""
        return self.layer(x, mask=mask, training=False)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """A layer like the one whose configuration it is."""
        return cls(**{**config, "layer": keras.saving.deserialize_keras_object(config["layer"])})


def _first(x: Any) -> Any:
    """The first token, on an axis whose length of one is known before the sequence's is."""
    return ops.expand_dims(x[:, 0], axis=1)


def _last(x: Any, mask: Any) -> Any:
    """The last kept token, (batch, 1, width); zero where none is kept."""
    count = ops.cumsum(ops.cast(mask, "int32"), axis=1)
    last = ops.logical_and(mask, ops.equal(count, count[:, -1:]))
    return ops.sum(zero_masked(x, last), axis=1, keepdims=True)


def _activation(name: str | None, layer_name: str) -> Any:
    if name == "leaky_relu":
        return keras.layers.LeakyReLU(_LEAKY_SLOPE, name=layer_name)
    return keras.layers.Activation(name or "linear", name=layer_name)
