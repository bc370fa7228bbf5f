"""The settings that all networks around a mechanism share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from relation_tf.errors import UnknownNameError
from relation_tf.layers.arguments import one_of

if TYPE_CHECKING:
    import keras
    import numpy as np

Compute = Literal["readout", "all"]
Network = Literal["benchmark", "plain"]


@dataclass(frozen=True, eq=False)
class NetworkConfig:
    """Settings of a network around a mechanism.

    Attributes:
        embedding_dim: Width of the embedding.
        units: Width of the mechanism, or the size that its entry names: the rank of the
            Contextualizer, the width of FCSR's feature attention.
        hidden_units: Width of the hidden Dense, by default `units`; the plain network has none.
        hidden_activation: Activation after it: `"leaky_relu"` (slope 0.3), any Keras name, or None.
        dropout: Rate in [0, 1).
        options: Further arguments of the mechanism; `{"variant": "equations"}` selects a paper's
            equations where the default is its released code.
        compute: `"readout"` computes only the tokens that the sentence vector needs, `"all"` every
            token; the outputs are equal.
        embeddings: Initial values of the embedding, `(vocabulary_size, embedding_dim)`, or None.
        network: `"benchmark"` or `"plain"`.
        initializer: Keras initializer of the Dense layers and the head (a mechanism has its own).
        embedding_initializer: Keras initializer of the embedding.
        contextual: The mechanism's input in place of embeddings: a layer from embeddings with
            positions, and a mask, to vectors `(batch, tokens, width)`. It is cloned by
            `from_config`; it and the embedding are not trained.

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
    network: Network = "benchmark"
    initializer: Any = "glorot_uniform"
    embedding_initializer: Any = "uniform"
    contextual: keras.layers.Layer | None = None

    def __post_init__(self) -> None:
        one_of("compute", self.compute, get_args(Compute))
        one_of("network", self.network, get_args(Network))
        if self.network == "plain" and self.hidden_units is not None:
            raise ValueError(
                "`hidden_units` must be None for network='plain', which has no hidden Dense. "
                f"Received: hidden_units={self.hidden_units}"
            )


def configured(config: NetworkConfig | None, changes: Mapping[str, Any]) -> NetworkConfig:
    """Return a configuration with changes, by default of the default configuration.

    Raises:
        UnknownNameError: For a change that is not a field; the message suggests the nearest one.
        ValueError: For a value that is not allowed.
    """
    names = [field.name for field in fields(NetworkConfig)]
    for name in changes:
        if name not in names:
            raise UnknownNameError("network argument", name, names)
    return replace(config or NetworkConfig(), **changes)
