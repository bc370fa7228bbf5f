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

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

import keras
import numpy as np
from keras import ops

from relation_tf.layers import FeatureAttention, SinePositionEncoding, SoftmaxPositionEncoding
from relation_tf.layers.masking import zero_masked
from relation_tf.networks.additive_attention import AdditiveAttentionPooling
from relation_tf.networks.mechanisms import accepts, make_layer
from relation_tf.networks.mixing import (
    accepted,
    copy_of,
    entry_of,
    is_layer,
    mix_all,
    refuse_options,
)

Compute = Literal["readout", "all"]
Network = Literal["benchmark", "plain"]

_LEAKY_SLOPE = 0.3  # Keras 2's LeakyReLU, which the program used; keras.activations has 0.2.


def sequence_classifier(
    mechanism: Any,
    vocabulary_size: int | None,
    num_classes: int,
    embedding_dim: int = 100,
    units: int = 64,
    hidden_units: int | None = None,
    hidden_activation: str | None = "leaky_relu",
    dropout: float = 0.5,
    options: Mapping[str, Any] | None = None,
    compute: Compute = "readout",
    embeddings: np.ndarray | None = None,
    *,
    network: Network = "benchmark",
    initializer: Any = "glorot_uniform",
    embedding_initializer: Any = "uniform",
    contextual: keras.layers.Layer | None = None,
) -> keras.Model:
    """A classifier of one sequence of token ids.

    Args:
        mechanism: A name of `MECHANISMS` (`"relation"`, `"contextualizer"` ...), a Keras layer
            class, an instance (a template, cloned by `from_config`), `"package.module:Name"`
            or `"saved-model:PATH"`.
        vocabulary_size: Number of token ids, 0 (padding) included; None for a mechanism that reads
            text.
        num_classes: Number of classes.
        embedding_dim: Width of the embedding.
        units: Width of the mechanism, or what its entry says: the rank of the Contextualizer, the
            width of FCSR's feature attention.
        hidden_units: Width of the hidden Dense, by default `units`; the plain network has none.
        hidden_activation: Activation after it: `"leaky_relu"` (slope 0.3), any Keras name, or None.
        dropout: Rate in [0, 1).
        options: Further arguments of the mechanism; `{"variant": "equations"}` selects a paper's
            equations where the default is its released code.
        compute: `"readout"` or `"all"`; equal in result.
        embeddings: Start values of the embedding, `(vocabulary_size, embedding_dim)`, or None.
        network: `"benchmark"` or `"plain"`.
        initializer: Keras initializer of the Dense layers and the head (a mechanism has its own).
        embedding_initializer: Keras initializer of the embedding.
        contextual: What the mechanism reads in place of embeddings: a layer from embeddings with
            positions, and a mask, to vectors `(batch, tokens, width)`. It is cloned by
            `from_config`; it and the embedding are not trained.

    Returns:
        A model from token ids `(batch, tokens)`, 0 where padded, to probabilities
        `(batch, num_classes)`; from strings `(batch,)` where the mechanism reads text.

    Raises:
        ValueError: For an argument that cannot be; the message names it.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import sequence_classifier
        >>> model = sequence_classifier("relation", vocabulary_size=1000, num_classes=2)
        >>> model(np.array([[5, 8, 13, 0]])).shape == (1, 2)
        True

    References:
        Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, and its program (benchmark).
        Maupomé, Meurs 2022, doi 10.3390/info13060290 (plain).
    """
    encoder = TextEncoder(
        mechanism,
        vocabulary_size,
        embedding_dim=embedding_dim,
        units=units,
        hidden_units=hidden_units,
        hidden_activation=hidden_activation,
        dropout=dropout,
        options=options,
        compute=compute,
        embeddings=embeddings,
        network=network,
        initializer=initializer,
        embedding_initializer=embedding_initializer,
        contextual=contextual,
    )
    texts = encoder.inputs(1)
    vector = encoder.vector(texts)
    return keras.Model(texts[0], encoder.dense("output", num_classes, "softmax")(vector))


def pair_classifier(
    mechanism: Any,
    vocabulary_size: int | None,
    num_classes: int,
    embedding_dim: int = 100,
    units: int = 64,
    hidden_units: int | None = None,
    hidden_activation: str | None = "leaky_relu",
    dropout: float = 0.5,
    options: Mapping[str, Any] | None = None,
    compute: Compute = "readout",
    embeddings: np.ndarray | None = None,
    *,
    network: Network = "benchmark",
    initializer: Any = "glorot_uniform",
    embedding_initializer: Any = "uniform",
    contextual: keras.layers.Layer | None = None,
) -> keras.Model:
    """A classifier of a pair of sequences of token ids.

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
        Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, and its program.
    """
    encoder = TextEncoder(
        mechanism,
        vocabulary_size,
        embedding_dim=embedding_dim,
        units=units,
        hidden_units=hidden_units,
        hidden_activation=hidden_activation,
        dropout=dropout,
        options=options,
        compute=compute,
        embeddings=embeddings,
        network=network,
        initializer=initializer,
        embedding_initializer=embedding_initializer,
        contextual=contextual,
    )
    texts = encoder.inputs(2)
    vector = encoder.vector(texts)
    return keras.Model(texts, encoder.dense("output", num_classes, "softmax")(vector))


def pair_regressor(
    mechanism: Any,
    vocabulary_size: int | None,
    embedding_dim: int = 100,
    units: int = 64,
    hidden_units: int | None = None,
    hidden_activation: str | None = "leaky_relu",
    dropout: float = 0.5,
    options: Mapping[str, Any] | None = None,
    compute: Compute = "readout",
    embeddings: np.ndarray | None = None,
    *,
    network: Network = "benchmark",
    initializer: Any = "glorot_uniform",
    embedding_initializer: Any = "uniform",
    contextual: keras.layers.Layer | None = None,
) -> keras.Model:
    """A regressor of a pair of sequences onto [0, 1].

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
        Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, and its program.
    """
    encoder = TextEncoder(
        mechanism,
        vocabulary_size,
        embedding_dim=embedding_dim,
        units=units,
        hidden_units=hidden_units,
        hidden_activation=hidden_activation,
        dropout=dropout,
        options=options,
        compute=compute,
        embeddings=embeddings,
        network=network,
        initializer=initializer,
        embedding_initializer=embedding_initializer,
        contextual=contextual,
    )
    texts = encoder.inputs(2)
    vector = encoder.vector(texts)
    return keras.Model(texts, encoder.dense("output", 1, "sigmoid")(vector))


class TextEncoder:
    """Text to a vector; its layers are shared by all texts, but for the hidden Dense of a pair.

    Args: as of `sequence_classifier`, and

        prefix: What the names of its layers begin with, where a network has several.
        embedding: The layer that embeds the tokens, by default one of its own.
    """

    def __init__(
        self,
        mechanism: Any,
        vocabulary_size: int | None,
        *,
        embedding_dim: int,
        units: int,
        hidden_units: int | None,
        hidden_activation: str | None,
        dropout: float,
        options: Mapping[str, Any] | None,
        compute: Compute,
        embeddings: np.ndarray | None,
        network: Network,
        initializer: Any,
        embedding_initializer: Any,
        contextual: Any = None,
        prefix: str = "",
        embedding: Any = None,
    ) -> None:
        if compute not in ("readout", "all"):
            raise ValueError(f"`compute` must be 'readout' or 'all'. Received: {compute!r}")
        if network not in ("benchmark", "plain"):
            raise ValueError(f"`network` must be 'benchmark' or 'plain'. Received: {network!r}")
        if network == "plain" and hidden_units is not None:
            raise ValueError(
                "`hidden_units` must be None for network='plain', which has no hidden Dense. "
                f"Received: hidden_units={hidden_units}"
            )
        self.prefix = prefix
        self.layers: dict[str, Any] = {}
        self.compute = compute
        self.network = network
        self.units = units
        self.hidden_units = hidden_units or units
        self.hidden_activation = hidden_activation
        self.initializer = keras.initializers.get(initializer)
        self.entry = entry_of(mechanism)
        if self.entry.output_type == "sequence":
            raise ValueError(
                f"`mechanism` must give tokens or a vector; an encoder-decoder is a network by "
                f"itself. Received: {mechanism!r}"
            )
        refuse_options(mechanism, options)
        self.mechanism = (
            copy_of(mechanism, name=f"{prefix}mechanism")
            if is_layer(mechanism)
            else make_layer(self.entry, units, dropout, options, name=f"{prefix}mechanism")
        )
        # A class of one's own has to be as wide as it was asked to be; an instance says for itself.
        own = isinstance(mechanism, type) or (
            isinstance(mechanism, str) and self.entry.factory == mechanism
        )
        self.expected_width = units if own else None
        # Masks go by name from here on; without this Keras warns that they are lost.
        self.mechanism.supports_masking = True
        self.activation = keras.layers.LeakyReLU(_LEAKY_SLOPE, name=f"{prefix}mechanism_activation")
        self.dropout = keras.layers.Dropout(dropout, name=f"{prefix}dropout")
        if self.entry.input_type == "tokens":
            self.embedding = embedding
            if embedding is None:
                self._embed(vocabulary_size, embedding_dim, embedding_initializer, embeddings)
            makers = {"sine": SinePositionEncoding, "softmax": SoftmaxPositionEncoding}
            make = makers.get(self.entry.positions or "")
            self.positions = None if make is None else make(name=f"{prefix}positions")
            self.head = self._head()
        self.contextual: Any = None
        if contextual is not None:
            self._freeze(contextual)

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

    def _embed(
        self,
        vocabulary_size: int | None,
        embedding_dim: int,
        initializer: Any,
        embeddings: np.ndarray | None,
    ) -> None:
        if vocabulary_size is None:
            raise ValueError("`vocabulary_size` must be a number for a mechanism that reads tokens")
        self.embedding = keras.layers.Embedding(
            vocabulary_size, embedding_dim, embeddings_initializer=initializer, name="embedding"
        )
        self.embedding.build()
        if embeddings is not None:
            expected = tuple(self.embedding.embeddings.shape)
            if np.shape(embeddings) != expected:
                raise ValueError(
                    "`embeddings` must be of shape (vocabulary_size, embedding_dim) = "
                    f"{expected}. Received: shape {np.shape(embeddings)}"
                )
            self.embedding.set_weights([embeddings])

    def _head(self) -> Any:
        """The layer that makes one vector of the tokens; None where one token is read."""
        if self.entry.head == "feature-attention":
            make: Any = FeatureAttention
        elif self.entry.head == "additive-attention":
            make = AdditiveAttentionPooling
        else:
            return None
        kernel_initializer = self.initializer.clone()
        return make(self.units, kernel_initializer=kernel_initializer, name=f"{self.prefix}head")

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
        if self.network == "plain":
            return self.dropout(mixed[:, 0] if len(mixed.shape) == 3 else mixed)
        dense = self._once(hidden_name, lambda name: self.dense(name, self.hidden_units))
        activation = self._once(
            f"{hidden_name}_activation", lambda name: _activation(self.hidden_activation, name)
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
        return mixed if self.head is None else self.head(mixed, mask=mask)

    def _mix(self, x: Any, mask: Any) -> Any:
        layer = self.mechanism
        if self.entry.head == "first" and getattr(layer, "causal", False):
            # Its first token sees itself alone; the last one has seen all.
            return _last(mix_all(layer, x, mask), mask)
        readout = self.compute == "readout" and self.entry.head == "first"
        if readout and accepts(layer, "value"):
            masks = {"query_mask": _first(mask), "value_mask": mask}
            return layer(_first(x), value=x, **accepted(layer, masks))
        mixed = mix_all(layer, x, mask)
        return _first(mixed) if readout and len(mixed.shape) == 3 else mixed


@keras.saving.register_keras_serializable(package="relation_tf")
class Frozen(keras.layers.Layer):
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
        self.layer.supports_masking = self.supports_masking = True

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Build the layer; what it would make later would be trained."""
        self.layer.build(x_shape)
        self.trainable = False
        self.built = True

    def call(self, x: Any, mask: Any = None) -> Any:
        """The layer's output, without dropout."""
        return self.layer(x, mask=mask, training=False)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        layer = keras.saving.serialize_keras_object(self.layer)
        return {**super().get_config(), "layer": layer}

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
