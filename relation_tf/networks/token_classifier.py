"""Classifier of each token of a sequence, with any mechanism that returns tokens."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers import LearnedPositionEncoding
from relation_tf.layers.arguments import positive_integer
from relation_tf.networks.classifiers import TextEncoder
from relation_tf.networks.config import NetworkConfig, configured
from relation_tf.networks.mixing import last_token

_DECODER_WIDTH = 4  # of the hidden layer, relative to the vector, as in a Transformer


def token_classifier(
    mechanism: Any,
    vocabulary_size: int | None,
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
    if encoder.entry.input_type != "tokens":
        raise ValueError(
            f"`mechanism` must read tokens, not text. Received: mechanism={mechanism!r}"
        )
    (text,) = encoder.inputs(1)
    vectors = encoder.tokens(text)
    if from_last_token is not None:
        last = last_token(vectors, ops.not_equal(text, 0))
        repeated = ops.add(ops.zeros_like(vectors), last)
        positions = LearnedPositionEncoding(from_last_token, name="decoder_positions")
        width = _DECODER_WIDTH * vectors.shape[-1]
        vectors = encoder.dense("decoder_hidden", width, "relu")(positions(repeated))
    return keras.Model(text, encoder.answer("output", num_classes, None)(vectors))
