"""Classifier of each token of a sequence, with any mechanism that returns tokens."""

from __future__ import annotations

from typing import Any

import keras

from relation_tf.networks.classifiers import TextEncoder
from relation_tf.networks.config import NetworkConfig, configured


def token_classifier(
    mechanism: Any,
    vocabulary_size: int | None,
    num_classes: int,
    config: NetworkConfig | None = None,
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
    """
    encoder = TextEncoder(mechanism, vocabulary_size, configured(config, changes))
    if encoder.entry.input_type != "tokens":
        raise ValueError(
            f"`mechanism` must read tokens, not text. Received: mechanism={mechanism!r}"
        )
    (text,) = encoder.inputs(1)
    return keras.Model(text, encoder.dense("output", num_classes)(encoder.tokens(text)))
