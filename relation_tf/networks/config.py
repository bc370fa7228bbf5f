"""Settings of the networks around a mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, get_args

from relation_tf.errors import UnknownNameError
from relation_tf.layers.arguments import (
    non_negative_number,
    one_of,
    positive_integer,
    positive_integer_or_none,
    rate,
    true_or_false,
)
from relation_tf.networks.mechanisms import Compute, Network, Positions

if TYPE_CHECKING:
    import keras
    import numpy as np


@dataclass(frozen=True, eq=False)
class NetworkConfig:
    """Settings of a network around a mechanism.

    Attributes:
        embedding_dim: Width of the embedding.
        units: Width of the mechanism, or its size argument: the rank of the Contextualizer, the
            width of FCSR's feature attention.
        hidden_units: Width of the hidden Dense layer. Default: `units`. Must be None for
            `network="plain"`.
        hidden_activation: Activation after the hidden layer: `"leaky_relu"` (slope 0.3), a Keras
            name, or None.
        dropout: Dropout rate in [0, 1).
        options: Further arguments of the mechanism. `{"variant": "equations"}` selects the paper's
            equations if the default is the released code.
        compute: `"readout"` computes only the tokens that the sentence vector needs, `"all"`
            computes all tokens; the outputs are equal.
        embeddings: Initial values of the embedding, `(vocabulary_size, embedding_dim)`, or None.
        positions: `"sine"`, `"softmax"`, or `"learned"`: a vector for each of the `max_length`
            first positions. Default: those of the mechanism, which may have none.
        max_length: Number of learned positions; later tokens have the last one.
        segments: If True, learned vectors are added to the tokens: one to the first text of a pair
            or a single text, another to the second text.
        short_convolution: Number of tokens of a causal convolution of each feature, whose output is
            added to the input of the mechanism, or None.
        network: `"benchmark"` or `"plain"`.
        initializer: Keras initializer of the Dense layers and the head, not of the mechanism.
        embedding_initializer: Keras initializer of the embedding, learned positions and segments.
        contextual: Layer of contextual embeddings, inserted before the mechanism: from embeddings
            with positions and a mask to vectors `(batch, tokens, width)`. It is cloned by
            `from_config`; this layer and the embedding are frozen.
        feature_projection: If True, a second branch with the same mechanism learns features that
            do not help to classify, and the sentence vector is projected on their orthogonal
            complement (Qin, Hu and Liu 2020). Train with both outputs of `training_branches`. Not
            for regressors and contextual embeddings.
        reversal_weight: Factor of the reversed gradient into the second branch.

    Raises:
        ValueError: If a value is not allowed, or two settings exclude each other.

    Example:
        >>> from relation_tf.networks import NetworkConfig, sequence_classifier
        >>> config = NetworkConfig(units=16, network="plain")
        >>> model = sequence_classifier("relation", 1000, 2, config, dropout=0.1)
        >>> model.get_layer("mechanism").units
        16
    """

    embedding_dim: int = 100
    units: int = 64
    hidden_units: int | None = None
    hidden_activation: str | None = "leaky_relu"
    dropout: float = 0.5
    options: Mapping[str, Any] | None = None
    compute: Compute = "readout"
    embeddings: np.ndarray | None = None
    positions: Positions | None = None
    max_length: int | None = None
    segments: bool = False
    short_convolution: int | None = None
    network: Network = "benchmark"
    initializer: Any = "glorot_uniform"
    embedding_initializer: Any = "uniform"
    contextual: keras.layers.Layer | None = None
    feature_projection: bool = False
    reversal_weight: float = 1.0

    def __post_init__(self) -> None:
        for name, checked in (
            ("embedding_dim", positive_integer),
            ("units", positive_integer),
            ("hidden_units", positive_integer_or_none),
            ("short_convolution", positive_integer_or_none),
            ("dropout", rate),
            ("reversal_weight", non_negative_number),
            ("segments", true_or_false),
            ("feature_projection", true_or_false),
        ):
            # Keras accepts no integers of NumPy.
            object.__setattr__(self, name, checked(name, getattr(self, name)))
        one_of("compute", self.compute, get_args(Compute))
        one_of("network", self.network, get_args(Network))
        if self.network == "plain" and self.hidden_units is not None:
            raise ValueError(
                "`hidden_units` must be None for network='plain', which has no hidden Dense layer. "
                f"Received: hidden_units={self.hidden_units}"
            )
        if self.positions is not None:
            one_of("positions", self.positions, get_args(Positions))
        if self.positions == "learned":
            positive_integer("max_length", self.max_length)
        if self.contextual is not None and (self.positions is not None or self.segments):
            raise ValueError(
                "`positions` and `segments` must not be set with contextual embeddings, which were "
                f"pre-trained with sine positions. Received: positions={self.positions!r}, "
                f"segments={self.segments}"
            )
        if self.feature_projection and self.contextual is not None:
            raise ValueError(
                "`feature_projection` must be False with contextual embeddings. "
                f"Received: feature_projection=True, contextual={self.contextual.name!r}"
            )


def configured(config: NetworkConfig | None, changes: Mapping[str, Any]) -> NetworkConfig:
    """Return a copy of the configuration (default: `NetworkConfig()`) with changed fields.

    Raises:
        UnknownNameError: If a change is not a field; the message suggests the closest field.
        ValueError: If a value is invalid.
    """
    names = [field.name for field in fields(NetworkConfig)]
    for name in changes:
        if name not in names:
            raise UnknownNameError("network argument", name, names)
    return replace(config or NetworkConfig(), **changes)
