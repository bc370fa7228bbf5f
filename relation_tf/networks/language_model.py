"""Language models around any mechanism: what an encoder is learned with before its task."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

import keras
from keras import ops

from relation_tf.layers import SinePositionEncoding
from relation_tf.layers.arguments import one_of, positive_integer
from relation_tf.layers.base import constructor_arguments
from relation_tf.networks.encoder_stack import Encoder, Norm

Objective = Literal["masked", "causal"]


@keras.saving.register_keras_serializable(package="relation_tf")
class LanguageModel(keras.Model):
    """Token ids to the logits of words; made by `language_model`.

    What stands before the encoder, and the names `"embedding"` and `"mechanism"`, are those of a
    benchmark network around `"encoder"`, so that one may start from the other, its embedding then
    being `sqrt(d) E`: words' vectors `E` of width `d` are multiplied by that at the input, and read
    again at the output, `logits = h E^T + b`, where a Dense without bias first brings `h` to the
    width of `E` if it has another.

    Args:
        encoder: The stack, by the name `"mechanism"`.
        vocabulary_size: Number of word ids, 0 (padding) included.
        embedding_dim: Width of the embedding, by default that of the encoder.
        objective: With `"masked"` there is one more id, `vocabulary_size`, for a masked token; it
            is never predicted.
        **kwargs: Arguments of `keras.Model`, such as `name` and `dtype`.

    Call arguments:
        ids: Integers, `(batch, tokens)`, 0 where padded.
        at: Integers, `(batch, places)`: the tokens whose logits are wanted, by default all. The
            logits cost more than the encoder where all are computed.

    Returns:
        float32 logits, `(batch, tokens, vocabulary_size)` or `(batch, places, vocabulary_size)`.

    References:
        - Devlin et al. 2019, "BERT" (NAACL), for the masked objective.
        - Vaswani et al. 2017, "Attention Is All You Need", section 3.4, for the vectors.
        - Press and Wolf 2017, "Using the Output Embedding to Improve Language Models" (EACL).
    """

    def __init__(
        self,
        encoder: Encoder,
        vocabulary_size: int,
        embedding_dim: int | None = None,
        objective: Objective = "masked",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.objective = one_of("objective", objective, get_args(Objective))
        if encoder.causal != (objective == "causal"):
            raise ValueError(
                f"`encoder` must {'' if objective == 'causal' else 'not '}be causal for "
                f"objective={objective!r}. Received: causal={encoder.causal}"
            )
        if encoder.units is None:
            raise ValueError("`encoder` must be of given units. Received: units=None")
        self.encoder = encoder
        self.vocabulary_size = positive_integer("vocabulary_size", vocabulary_size)
        self.embedding_dim = positive_integer("embedding_dim", embedding_dim or encoder.units)
        # Young logits are of unit variance: the encoder's outputs are normalized.
        self.embedding = keras.layers.Embedding(
            self.vocabulary_size + (objective == "masked"),
            self.embedding_dim,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=self.embedding_dim**-0.5),
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.positions = SinePositionEncoding(dtype=self.dtype_policy, name="positions")
        self.projection = None
        if self.embedding_dim != encoder.units:
            self.projection = keras.layers.Dense(
                self.embedding_dim, use_bias=False, dtype=self.dtype_policy, name="projection"
            )

    def build(self, ids_shape: Any = None, at_shape: Any = None) -> None:
        """Create the weights, of which none depends on a shape."""
        self.embedding.build()
        if not self.encoder.built:  # as one that is loaded is
            self.encoder.build((None, None, self.embedding_dim))
        if self.projection is not None:
            self.projection.build((None, None, self.encoder.units))
        self.bias = self.add_weight(shape=(self.vocabulary_size,), name="bias", initializer="zeros")
        self.built = True

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Create the weights of a model that is loaded."""
        self.build()

    @property
    def embedding_scale(self) -> float:
        """What the words' vectors are multiplied by at the input, beside positions of size 1."""
        return self.embedding_dim**0.5

    def encode(self, ids: Any, training: bool | None = None) -> Any:
        """The contextual embeddings of all tokens, `(batch, tokens, units)`, 0 where padded."""
        mask = ops.not_equal(ids, 0)
        x = self.positions(self.embedding(ids) * self.embedding_scale)
        return self.encoder(x, mask=mask, training=training)

    def call(self, ids: Any, at: Any = None, training: bool | None = None) -> Any:
        """The logits of all tokens, or of those asked for."""
        hidden = self.encode(ids, training=training)
        batch, tokens = ops.shape(hidden)[:2]
        hidden = ops.reshape(hidden, (-1, self.encoder.units))
        places = tokens
        if at is not None:
            at = ops.cast(at, "int32")
            places = ops.shape(at)[1]
            start = ops.arange(batch, dtype="int32") * tokens
            hidden = ops.take(hidden, ops.reshape(at + start[:, None], (-1,)), axis=0)
        if self.projection is not None:
            hidden = self.projection(hidden)
        # Two-dimensional: a product with one matrix for each row of the batch would hold as many.
        words = ops.cast(self.embedding.embeddings, hidden.dtype)[: self.vocabulary_size]
        logits = ops.cast(ops.matmul(hidden, ops.transpose(words)), "float32")
        logits = logits + ops.cast(self.bias, "float32")
        return ops.reshape(logits, (batch, places, self.vocabulary_size))

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {**super().get_config(), **constructor_arguments(self)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """A model like the one whose configuration it is."""
        encoder = keras.saving.deserialize_keras_object(config["encoder"], custom_objects)
        return cls(**{**config, "encoder": encoder})


def language_model(
    mechanism: Any,
    vocabulary_size: int,
    objective: Objective = "masked",
    embedding_dim: int | None = None,
    num_layers: int = 4,
    units: int = 128,
    norm: Norm = "pre",
    **kwargs: Any,
) -> LanguageModel:
    """A deep language model around any mechanism.

    Args:
        mechanism: What mixes the tokens, as for `Encoder`; with `"causal"` one that has a causal
            form.
        vocabulary_size: Number of word ids, 0 (padding) included.
        objective: `"masked"` to tell masked words from both sides, `"causal"` to tell each next one
            from those before it.
        embedding_dim: Width of the embedding, by default `units`.
        num_layers: Number of blocks.
        units: Width of the blocks.
        norm: `"pre"` or `"post"`.
        **kwargs: Further arguments of `Encoder`, such as `dropout`, `options` and `num_heads`.

    Returns:
        A built model from ids `(batch, tokens)` to logits `(batch, tokens, vocabulary_size)`; with
        `at` to those of some tokens alone.

    Raises:
        ValueError: For an argument that cannot be; the message names it.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.language_model import language_model
        >>> model = language_model("relation", vocabulary_size=50, num_layers=2, units=8)
        >>> ids = np.array([[4, 50, 9]])  # 50: masked
        >>> tuple(model(ids).shape), tuple(model(ids, at=np.array([[1]])).shape)
        ((1, 3, 50), (1, 1, 50))
    """
    causal = objective == "causal"
    encoder = Encoder(
        mechanism, num_layers, units, norm=norm, causal=causal, name="mechanism", **kwargs
    )
    model = LanguageModel(encoder, vocabulary_size, embedding_dim, objective)
    model.build()
    return model


def word_losses(logits: Any, targets: Any) -> Any:
    """The loss of each predicted word, `log(sum_j exp(z_j)) - z_target`.

    Args:
        logits: `(batch, places, vocabulary_size)`.
        targets: The ids that are there, `(batch, places)`.

    Returns:
        `(batch, places)`, in nats.

    Example:
        >>> import numpy as np
        >>> loss = word_losses(np.zeros((1, 1, 7), "float32"), np.array([[3]]))
        >>> round(float(np.exp(loss)[0, 0]), 4)
        7.0
    """
    return ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)
