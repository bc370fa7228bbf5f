"""What the encoder-decoders have in common: ids in, logits out, whole or one token at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer, rate
from relation_tf.layers.base import built_child, constructor_arguments
from relation_tf.layers.masking import zero_masked


class DecoderState(NamedTuple):
    """What a decoder knows before its next token.

    Attributes:
        source: What the sources gave, the same at every step: tensors `(batch, ...)`.
        own: What the tokens so far left: tensors `(batch, ...)`, or `()` for a count.
        shared: What all sequences have in common.
    """

    source: Any
    own: Any
    shared: Any = ()


class EncoderDecoder(keras.Model):
    """A network from a sequence of ids to the logits of another, of which it sees what is before.

    It owns what all encoder-decoders share: embeddings, padding, the last layer, and the two ways
    to go through the targets. A network adds its parts in `build_parts`, what it makes of the
    sources in `encode`, and of the targets in `decode` and `advance`.

    In both sequences 0 is padding, behind the tokens. It changes no output; logits at padding are
    zero, and so is what a source without a token gives.

    Args:
        source_vocabulary: Number of ids of the sources, padding among them.
        target_vocabulary: The same for the targets.
        units: Width of embeddings and states.
        dropout: Rate in [0, 1).
        seed: Seed of the dropout.
        **kwargs: Arguments of `keras.Model`: `name` and `dtype`.

    Raises:
        ValueError: For sizes that are no positive integers, or a rate outside of [0, 1).
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
        self.seed = seed
        self.drop = keras.layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy, name="drop")

    def build(self, input_shape: Any = None) -> None:
        """Create the weights, which do not depend on the shapes of the ids."""
        self.source_embedding = self._embedding("source_embedding", self.source_vocabulary)
        self.target_embedding = self._embedding("target_embedding", self.target_vocabulary)
        self.build_parts()
        # Probabilities of half precision give no loss worth the name.
        wide = keras.backend.result_type(self.compute_dtype, "float32")
        self.logits = built_child(
            self, keras.layers.Dense, "logits", self.units, self.target_vocabulary, dtype=wide
        )
        self.built = True

    def build_parts(self) -> None:
        """Create the network's own layers."""
        raise NotImplementedError

    def encode(self, source_ids: Any, training: bool) -> Any:
        """The field `source` of the states."""
        raise NotImplementedError

    def decode(self, source: Any, target_ids: Any, kept: Any, training: bool) -> Any:
        """What the logits are read from, `(batch, target_tokens, units)`."""
        raise NotImplementedError

    def start(self, source: Any, batch_size: Any, max_length: int) -> DecoderState:
        """The state before the first token."""
        raise NotImplementedError

    def advance(self, token_ids: Any, kept: Any, state: DecoderState) -> tuple[Any, ...]:
        """For one more token: what `decode` gives, the next state, and the weights."""
        raise NotImplementedError

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """The logits of the token that follows each target token.

        Args:
            inputs: Two integer tensors, the sources `(batch, source_tokens)` and the targets
                `(batch, target_tokens)`, which begin with a token that says so.
            training: Whether to apply dropout.

        Returns:
            Logits `(batch, target_tokens, target_vocabulary)`, zero at padding.
        """
        source_ids, target_ids = (ops.cast(ids, "int32") for ids in inputs)
        kept = ops.not_equal(target_ids, 0)
        source = self.encode(source_ids, bool(training))
        decoded = self.decode(source, target_ids, kept, bool(training))
        return zero_masked(self.logits(decoded), kept)

    def initial_state(self, source_ids: Any, max_length: int) -> DecoderState:
        """The state before the first target token.

        Args:
            source_ids: Integer tensor `(batch, source_tokens)`.
            max_length: The most steps.

        Returns:
            What `step` takes.
        """
        positive_integer("max_length", max_length)
        if not self.built:
            self.build()
        source_ids = ops.cast(ops.convert_to_tensor(source_ids), "int32")
        source = self.encode(source_ids, training=False)
        return self.start(source, ops.shape(source_ids)[0], max_length)

    def step(self, token_ids: Any, state: DecoderState) -> tuple[Any, DecoderState, Any]:
        """The next target token of each sequence, not in training.

        Args:
            token_ids: Integer tensor `(batch, 1)`; where it is 0 later tokens do not see this one.
            state: What `initial_state` or the step before gave.

        Returns:
            The logits of the token that follows, `(batch, 1, target_vocabulary)`, the next state,
            and how much the step looked at each source token, `(batch, 1, source_tokens)`: weights
            that sum to 1, or zeros where the token or all of the source is padding.
        """
        token_ids = ops.cast(ops.convert_to_tensor(token_ids), "int32")
        kept = ops.not_equal(token_ids, 0)
        decoded, state, weights = self.advance(token_ids, kept, state)
        return zero_masked(self.logits(decoded), kept), state, zero_masked(weights, kept)

    def compute_output_spec(self, inputs: Any, training: bool | None = None) -> Any:
        """`(batch, target_tokens, target_vocabulary)`."""
        dtype = keras.backend.result_type(self.compute_dtype, "float32")
        return keras.KerasTensor((*inputs[1].shape, self.target_vocabulary), dtype=dtype)

    def _embedding(self, name: str, size: int) -> Any:
        embedding = keras.layers.Embedding(size, self.units, dtype=self.dtype_policy, name=name)
        embedding.build()
        return embedding

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {**super().get_config(), **constructor_arguments(self)}


@keras.saving.register_keras_serializable(package="relation_tf")
def sequence_loss(targets: Any, logits: Any) -> Any:
    """Mean cross-entropy over the kept target tokens, a loss for `compile`.

    Args:
        targets: Integer tensor `(batch, target_tokens)`, the tokens that follow; 0 is padding.
        logits: Tensor `(batch, target_tokens, target_vocabulary)`.

    Returns:
        A scalar, in nats; 0 where all is padding.

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
