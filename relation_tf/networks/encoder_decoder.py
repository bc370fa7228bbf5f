"""Base class of encoder-decoders: token ids to logits, in one call or token by token."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer, rate, seed_or_none
from relation_tf.layers.base import built_child, constructor_arguments
from relation_tf.layers.masking import float32_or_wider, zero_masked


class DecoderState(NamedTuple):
    """State of a decoder before its next token.

    Attributes:
        source: Encoded sources, constant over steps: tensors `(batch, ...)`.
        own: State of the previous target tokens: tensors `(batch, ...)`, or `()` for a count.
        shared: Values shared by all sequences.
    """

    source: Any
    own: Any
    shared: Any = ()


class EncoderDecoder(keras.Model):
    """Base class of encoder-decoders, from source ids and target ids to logits of the next ids.

    It provides the embeddings, padding, the output layer, and the two ways to process targets:
    `call` and `step`. A subclass creates its layers in `build_parts`, encodes sources in `encode`
    and processes targets in `decode` and `advance`.

    In both sequences 0 is padding, at the end. It does not change outputs at tokens; logits at
    padding are zero, and the attention to a source without tokens is zero.

    Args:
        source_vocabulary: Number of source token ids, including 0 (padding).
        target_vocabulary: Number of target token ids, including 0 (padding).
        units: Width of embeddings and states.
        dropout: Dropout rate in [0, 1).
        seed: Random seed of the dropout.
        **kwargs: Arguments of `keras.Model`: `name` and `dtype`.

    Raises:
        ValueError: If a size is not a positive integer or the rate is not in [0, 1).
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        units: int,
        dropout: float = 0.1,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source_vocabulary = positive_integer("source_vocabulary", source_vocabulary)
        self.target_vocabulary = positive_integer("target_vocabulary", target_vocabulary)
        self.units = positive_integer("units", units)
        self.dropout = rate("dropout", dropout)
        self.seed = seed_or_none("seed", seed)
        self.drop = keras.layers.Dropout(
            dropout, seed=self.seed, dtype=self.dtype_policy, name="drop"
        )

    def build(self, input_shape: Any = None) -> None:
        """Create the weights; they do not depend on the input shapes."""
        embed = partial(built_child, self, keras.layers.Embedding)
        self.source_embedding = embed("source_embedding", None, self.source_vocabulary, self.units)
        self.target_embedding = embed("target_embedding", None, self.target_vocabulary, self.units)
        self.build_parts()
        # In half precision the probabilities are too inaccurate for the loss.
        wide = float32_or_wider(self.compute_dtype)
        self.logits = built_child(
            self, keras.layers.Dense, "logits", self.units, self.target_vocabulary, dtype=wide
        )
        self.built = True

    def build_parts(self) -> None:
        """Create the layers of the subclass."""
        raise NotImplementedError

    def encode(self, source_ids: Any, training: bool) -> Any:
        """Return the encoded sources: the field `source` of the states."""
        raise NotImplementedError

    def decode(self, source: Any, target_ids: Any, kept: Any, training: bool) -> Any:
        """Return the inputs of the output layer, `(batch, target_tokens, units)`."""
        raise NotImplementedError

    def start(self, source: Any, batch_size: Any, max_length: int) -> DecoderState:
        """Return the state before the first token."""
        raise NotImplementedError

    def advance(self, token_ids: Any, kept: Any, state: DecoderState) -> tuple[Any, ...]:
        """Process one token: return the output of `decode`, the next state and the weights."""
        raise NotImplementedError

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Return the logits of the token after each target token.

        Args:
            inputs: Two integer tensors, the sources `(batch, source_tokens)` and the targets
                `(batch, target_tokens)`, which begin with a start token.
            training: If True, apply dropout.

        Returns:
            Logits `(batch, target_tokens, target_vocabulary)`, zero at padding.
        """
        source_ids, target_ids = (ops.cast(ids, "int32") for ids in inputs)
        kept = ops.not_equal(target_ids, 0)
        source = self.encode(source_ids, bool(training))
        decoded = self.decode(source, target_ids, kept, bool(training))
        return zero_masked(self.logits(decoded), kept)

    def initial_state(self, source_ids: Any, max_length: int) -> DecoderState:
        """Return the state before the first target token.

        Args:
            source_ids: Integer tensor `(batch, source_tokens)`.
            max_length: Maximum number of steps.

        Returns:
            A state for `step`.
        """
        positive_integer("max_length", max_length)
        if not self.built:
            self.build()
        source_ids = ops.cast(ops.convert_to_tensor(source_ids), "int32")
        source = self.encode(source_ids, training=False)
        return self.start(source, ops.shape(source_ids)[0], max_length)

    def step(self, token_ids: Any, state: DecoderState) -> tuple[Any, DecoderState, Any]:
        """Process the next target token of each sequence, in inference mode.

        Args:
            token_ids: Integer tensor `(batch, 1)`; later tokens do not see a 0.
            state: State from `initial_state` or from the previous step.

        Returns:
            The logits of the following token, `(batch, 1, target_vocabulary)`; the next state; and
            the attention weights over source tokens, `(batch, 1, source_tokens)`. The weights sum
            to 1, or are zero if the token or the whole source is padding.
        """
        token_ids = ops.cast(ops.convert_to_tensor(token_ids), "int32")
        kept = ops.not_equal(token_ids, 0)
        decoded, state, weights = self.advance(token_ids, kept, state)
        return zero_masked(self.logits(decoded), kept), state, zero_masked(weights, kept)

    def compute_output_spec(self, inputs: Any, training: bool | None = None) -> Any:
        """Return the symbolic output, `(batch, target_tokens, target_vocabulary)`."""
        dtype = float32_or_wider(self.compute_dtype)
        return keras.KerasTensor((*inputs[1].shape, self.target_vocabulary), dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {**super().get_config(), **constructor_arguments(self)}


@keras.saving.register_keras_serializable(package="relation_tf")
def sequence_loss(targets: Any, logits: Any) -> Any:
    """Compute the mean cross-entropy over unmasked target tokens, a loss for `compile`.

    Args:
        targets: Integer tensor `(batch, target_tokens)`, the ids of the next tokens; 0 is padding.
        logits: Tensor `(batch, target_tokens, target_vocabulary)`.

    Returns:
        A scalar, in nats; 0 if all targets are padding.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import sequence_loss
        >>> logits = np.zeros((1, 2, 4), "float32")
        >>> round(float(sequence_loss(np.array([[1, 0]]), logits)), 3)
        1.386
    """
    targets = ops.cast(targets, "int32")
    losses = ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)
    kept = ops.cast(ops.not_equal(targets, 0), losses.dtype)
    return ops.sum(losses * kept) / ops.maximum(ops.sum(kept), 1.0)
