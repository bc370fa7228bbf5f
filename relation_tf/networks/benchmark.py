"""The benchmark network of the Relation paper's program, around any mechanism.

One sequence: embedding + sine positions -> mechanism -> LeakyReLU -> dropout -> Dense -> LeakyReLU
-> first token -> Dense. A pair: one shared mechanism encodes both sequences, each has its own
hidden Dense, and the two first-token vectors are multiplied.

Everything after the mechanism is point-wise and only the first token is read. With
`compute="readout"` the mechanism is therefore asked for that token alone; `compute="all"` computes
every token, as the paper's program did. The outputs are equal.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Literal

import keras
import numpy as np
from keras import ops

from relation_tf.layers import SinePositionEncoding
from relation_tf.networks.registry import Mechanism, accepts, find_mechanism

Compute = Literal["readout", "all"]

_LEAKY_SLOPE = 0.3  # Keras 2's LeakyReLU, which the program used; keras.activations has 0.2.


def sequence_classifier(
    mechanism: Any,
    vocabulary_size: int,
    num_classes: int,
    embedding_dim: int = 100,
    units: int = 64,
    hidden_units: int | None = None,
    hidden_activation: str | None = "leaky_relu",
    dropout: float = 0.5,
    options: Mapping[str, Any] | None = None,
    compute: Compute = "readout",
    embeddings: np.ndarray | None = None,
) -> keras.Model:
    """A classifier of one sequence of token ids.

    Args:
        mechanism: A name (`"relation"`, `"attention"`, `"linear-attention"`, `"baseline"`), a Keras
            layer class, an instance (a template, cloned by `from_config`) or
            `"package.module:Name"`.
        vocabulary_size: Number of token ids, 0 (padding) included.
        num_classes: Number of classes.
        embedding_dim: Width of the embedding.
        units: Width of the mechanism.
        hidden_units: Width of the hidden Dense, by default `units`.
        hidden_activation: Activation after it: `"leaky_relu"` (slope 0.3), any Keras name, or None.
        dropout: Rate in [0, 1).
        options: Further arguments of the mechanism; `{"form": "paper"}` asks for a paper's
            equations where the default is the form of its program.
        compute: `"readout"` or `"all"`; equal in result.
        embeddings: Start values of the embedding, `(vocabulary_size, embedding_dim)`, or None.

    Returns:
        A model from token ids `(batch, tokens)`, 0 where padded, to probabilities
        `(batch, num_classes)`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import sequence_classifier
        >>> model = sequence_classifier("relation", vocabulary_size=1000, num_classes=2)
        >>> model(np.array([[5, 8, 13, 0]])).shape == (1, 2)
        True

    References:
        Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, and its program.
    """
    encoder = _Encoder(mechanism, vocabulary_size, embedding_dim, units, dropout, options, compute)
    encoder.start_from(embeddings)
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    hidden = _Hidden("hidden", hidden_units or units, hidden_activation)
    vector = hidden(encoder(tokens))
    output = keras.layers.Dense(num_classes, activation="softmax", name="output")(vector)
    return keras.Model(tokens, output)


def pair_classifier(
    mechanism: Any,
    vocabulary_size: int,
    num_classes: int,
    embedding_dim: int = 100,
    units: int = 64,
    hidden_units: int | None = None,
    hidden_activation: str | None = "leaky_relu",
    dropout: float = 0.5,
    options: Mapping[str, Any] | None = None,
    compute: Compute = "readout",
    embeddings: np.ndarray | None = None,
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
    encoder = _Encoder(mechanism, vocabulary_size, embedding_dim, units, dropout, options, compute)
    encoder.start_from(embeddings)
    inputs, vector = _pair(encoder, hidden_units or units, hidden_activation)
    output = keras.layers.Dense(num_classes, activation="softmax", name="output")(vector)
    return keras.Model(inputs, output)


def pair_regressor(
    mechanism: Any,
    vocabulary_size: int,
    embedding_dim: int = 100,
    units: int = 64,
    hidden_units: int | None = None,
    hidden_activation: str | None = "leaky_relu",
    dropout: float = 0.5,
    options: Mapping[str, Any] | None = None,
    compute: Compute = "readout",
    embeddings: np.ndarray | None = None,
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
    encoder = _Encoder(mechanism, vocabulary_size, embedding_dim, units, dropout, options, compute)
    encoder.start_from(embeddings)
    inputs, vector = _pair(encoder, hidden_units or units, hidden_activation)
    return keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid", name="output")(vector))


def _pair(
    encoder: _Encoder, hidden_units: int, hidden_activation: str | None
) -> tuple[list[Any], Any]:
    """Two inputs and the product of their sentence vectors."""
    inputs, vectors = [], []
    for i in (1, 2):
        tokens = keras.Input((None,), dtype="int32", name=f"tokens_{i}")
        hidden = _Hidden(f"hidden_{i}", hidden_units, hidden_activation)
        inputs.append(tokens)
        vectors.append(hidden(encoder(tokens)))
    return inputs, keras.layers.Multiply(name="product")(vectors)


class _Encoder:
    """Token ids to what the mechanism makes of them; its layers are shared by all calls."""

    def __init__(
        self,
        mechanism: Any,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        dropout: float,
        options: Mapping[str, Any] | None,
        compute: Compute,
    ) -> None:
        if compute not in ("readout", "all"):
            raise ValueError(f"`compute` must be 'readout' or 'all'. Received: {compute!r}")
        self.compute = compute
        self.embedding = keras.layers.Embedding(vocabulary_size, embedding_dim, name="embedding")
        self.embedding.build()
        self.positions = SinePositionEncoding(name="positions")
        self.mechanism = _make_mechanism(mechanism, units, dropout, options)
        # A class of one's own has to be as wide as it was asked to be; an instance says for itself.
        own = isinstance(mechanism, type) or (isinstance(mechanism, str) and ":" in mechanism)
        self.expected_width = units if own else None
        # Masks go by name from here on; without this Keras warns that they are lost.
        self.mechanism.supports_masking = True
        self.activation = keras.layers.LeakyReLU(_LEAKY_SLOPE, name="mechanism_activation")
        self.dropout = keras.layers.Dropout(dropout, name="dropout")

    def start_from(self, embeddings: np.ndarray | None) -> None:
        """Give the embedding its start values."""
        if embeddings is None:
            return
        expected = tuple(self.embedding.embeddings.shape)
        if np.shape(embeddings) != expected:
            raise ValueError(
                f"`embeddings` must be of shape (vocabulary_size, embedding_dim) = {expected}. "
                f"Received: shape {np.shape(embeddings)}"
            )
        self.embedding.set_weights([embeddings])

    def __call__(self, tokens: Any) -> Any:
        # The mask goes by name: slicing a tensor drops the one that Keras attaches.
        mask = ops.not_equal(tokens, 0)
        mixed = self._mix(self.positions(self.embedding(tokens)), mask)
        shape, name = tuple(mixed.shape), type(self.mechanism).__name__
        if len(shape) not in (2, 3) or self.expected_width not in (None, shape[-1]):
            width = f"units={self.expected_width}" if self.expected_width else "units"
            raise ValueError(
                f"{name} must give (batch, tokens, {width}) or (batch, {width}). "
                f"Received: an output of shape {shape}"
            )
        return self.dropout(self.activation(mixed))

    def _mix(self, x: Any, mask: Any) -> Any:
        layer = self.mechanism
        if not accepts(layer, "value"):
            mixed = layer(x, **_accepted(layer, {"mask": mask}))
            return _first(mixed) if self.compute == "readout" and len(mixed.shape) == 3 else mixed
        if self.compute == "readout":
            masks = {"query_mask": _first(mask), "value_mask": mask}
            return layer(_first(x), value=x, **_accepted(layer, masks))
        needs_value = inspect.signature(layer.call).parameters["value"].default is not None
        value = {"value": x} if needs_value else {}
        masks = {"query_mask": mask, "value_mask": mask}
        return layer(x, **value, **_accepted(layer, masks))


class _Hidden:
    """The hidden Dense of one sequence, up to its sentence vector."""

    def __init__(self, name: str, units: int, activation: str | None) -> None:
        self.dense = keras.layers.Dense(units, name=name)
        self.activation = _activation(activation, f"{name}_activation")

    def __call__(self, mixed: Any) -> Any:
        hidden = self.activation(self.dense(mixed))
        return hidden[:, 0] if len(hidden.shape) == 3 else hidden


def _first(x: Any) -> Any:
    """The first token, on an axis whose length of one is known before the sequence's is."""
    return ops.expand_dims(x[:, 0], axis=1)


def _accepted(layer: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if accepts(layer, name)}


def _activation(name: str | None, layer_name: str) -> Any:
    if name == "leaky_relu":
        return keras.layers.LeakyReLU(_LEAKY_SLOPE, name=layer_name)
    return keras.layers.Activation(name or "linear", name=layer_name)


def _make_mechanism(
    mechanism: Any, units: int, dropout: float, options: Mapping[str, Any] | None
) -> Any:
    if isinstance(mechanism, str):
        return find_mechanism(mechanism).make(units, dropout, options)
    if isinstance(mechanism, type) and issubclass(mechanism, keras.layers.Layer):
        return Mechanism(mechanism).make(units, dropout, options)
    if isinstance(mechanism, keras.layers.Layer):
        if options:
            raise ValueError(
                "`options` have no meaning for a layer that is already made. "
                f"Received: {dict(options)}"
            )
        return type(mechanism).from_config({**mechanism.get_config(), "name": "mechanism"})
    raise ValueError(
        "`mechanism` must be a name, a Keras layer class, an instance or 'package.module:Name'. "
        f"Received: {mechanism!r}"
    )
