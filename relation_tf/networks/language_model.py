"""Language models with any mechanism, for pretraining of encoders."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

import keras
from keras import ops

from relation_tf.layers import SinePositionEncoding
from relation_tf.layers.arguments import one_of, positive_integer
from relation_tf.layers.base import constructor_arguments
from relation_tf.networks.encoders import BidirectionalEncoder, Encoder, Norm

Objective = Literal["masked", "causal", "both"]


@keras.saving.register_keras_serializable(package="relation_tf")
class LanguageModel(keras.Model):
    """Language model: token ids to logits of words. Use `language_model` to build it.

    - Input: `sqrt(d) E[ids] + positions`, with word vectors `E` of width `d`.
    - `h = encoder(input)`. If the width of `h` is not `d`, a Dense layer without bias projects it.
    - Output: `logits = h E^T + b`, with the same word vectors `E`.

    The layers before the encoder and the names `"embedding"` and `"mechanism"` are those of a
    benchmark network around `"encoder"`. Such a network can start from these weights, with the
    embedding `sqrt(d) E`.

    Args:
        encoder: The stack of blocks, with the name `"mechanism"`.
        vocabulary_size: Number of word ids, including 0 (padding).
        embedding_dim: Width of the embedding. Default: the width of the encoder.
        objective: `"masked"`, `"causal"` or `"both"`. `"masked"` adds the id `vocabulary_size` for
            masked tokens, which is never predicted. `"both"` is a forward and a backward language
            model with the same word vectors; it needs a `BidirectionalEncoder`.
        **kwargs: Arguments of `keras.Model`, such as `name` and `dtype`.

    Call arguments:
        ids: Integers, `(batch, tokens)`, 0 for padding.
        at: Integers, `(batch, places)`: positions of the tokens to predict, from -tokens (the
            first) to tokens - 1; the logits of others are NaN. Default: all tokens, for which the
            logits cost more than the encoder.

    Returns:
        float32 logits, `(batch, tokens, vocabulary_size)` or `(batch, places, vocabulary_size)`;
        of `"both"`, `(batch, 2, tokens, vocabulary_size)`, of the next and of the previous token;
        with a half-precision policy, their values are rounded to half precision.

    Raises:
        ValueError: If an argument is out of range, or the encoder has no fixed `units` or is not
            causal as the objective requires.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import encoder
        >>> from relation_tf.networks.language_model import LanguageModel
        >>> model = LanguageModel(encoder("relation", units=8), vocabulary_size=50)
        >>> model(np.array([[4, 50, 9]])).shape == (1, 3, 50)
        True

    References:
        - Devlin et al. 2019, "BERT" (NAACL), for the masked objective.
        - Peters et al. 2018, "Deep Contextualized Word Representations", section 3.1, for "both".
        - Vaswani et al. 2017, "Attention Is All You Need", section 3.4, for the vectors.
        - Press and Wolf 2017, "Using the Output Embedding to Improve Language Models" (EACL).
    """

    def __init__(
        self,
        encoder: Encoder | BidirectionalEncoder,
        vocabulary_size: int,
        embedding_dim: int | None = None,
        objective: Objective = "masked",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.objective = one_of("objective", objective, get_args(Objective))
        if isinstance(encoder, BidirectionalEncoder) != (objective == "both"):
            raise ValueError(
                f"`encoder` must {'' if objective == 'both' else 'not '}be a BidirectionalEncoder "
                f"for objective={objective!r}. Received: {type(encoder).__name__}"
            )
        if encoder.causal != (objective == "causal"):
            raise ValueError(
                f"`encoder` must {'' if objective == 'causal' else 'not '}be causal for "
                f"objective={objective!r}. Received: causal={encoder.causal}"
            )
        if encoder.units is None:
            raise ValueError("`encoder` must have fixed `units`. Received: units=None")
        self.encoder = encoder
        self.vocabulary_size = positive_integer("vocabulary_size", vocabulary_size)
        width = encoder.units if embedding_dim is None else embedding_dim
        self.embedding_dim = positive_integer("embedding_dim", width)
        # Initial logits have unit variance, because the encoder's outputs are normalized.
        self.embedding = keras.layers.Embedding(
            self.vocabulary_size + (objective == "masked"),
            self.embedding_dim,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=self.embedding_dim**-0.5),
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.positions = SinePositionEncoding(dtype=self.dtype_policy, name="positions")
        self.projection = None
        self.hidden_width = encoder.units // (2 if objective == "both" else 1)
        if self.embedding_dim != self.hidden_width:
            self.projection = keras.layers.Dense(
                self.embedding_dim, use_bias=False, dtype=self.dtype_policy, name="projection"
            )

    def build(self, ids_shape: Any = None, at_shape: Any = None) -> None:
        """Create the weights; they do not depend on the input shapes."""
        self.embedding.build()
        if not self.encoder.built:  # A loaded encoder is already built.
            self.encoder.build((None, None, self.embedding_dim))
        if self.projection is not None:
            self.projection.build((None, None, self.hidden_width))
        self.bias = self.add_weight(shape=(self.vocabulary_size,), name="bias", initializer="zeros")
        self.built = True

    @property
    def embedding_scale(self) -> float:
        """Factor of the word vectors at the input, where positions have size 1."""
        return self.embedding_dim**0.5

    def encode(self, ids: Any, training: bool | None = None) -> Any:
        """Return contextual embeddings of all tokens, `(batch, tokens, units)`, 0 at padding."""
        mask = ops.not_equal(ids, 0)
        x = self.positions(self.embedding(ids) * self.embedding_scale)
        return self.encoder(x, mask=mask, training=training)

    def call(self, ids: Any, at: Any = None, training: bool | None = None) -> Any:
        """Return the logits of all tokens, or of the tokens at `at`."""
        hidden = self.encode(ids, training=training)
        batch, tokens = ops.shape(hidden)[:2]
        if self.objective == "both":
            halves = ops.stack(ops.split(hidden, 2, axis=-1), axis=1)
            logits = self._logits(ops.reshape(halves, (-1, self.hidden_width)))
            return ops.reshape(logits, (batch, 2, tokens, self.vocabulary_size))
        hidden = ops.reshape(hidden, (-1, self.hidden_width))
        places = tokens
        if at is not None:
            at = ops.cast(at, "int32")
            places = ops.shape(at)[1]
            start = ops.arange(batch, dtype="int32") * tokens
            rows = ops.mod(at, tokens) + start[:, None]
            hidden = ops.take(hidden, ops.reshape(rows, (-1,)), axis=0)
            is_inside = ops.reshape(ops.logical_and(at >= -tokens, at < tokens), (-1, 1))
            hidden = ops.where(is_inside, hidden, float("nan"))
        return ops.reshape(self._logits(hidden), (batch, places, self.vocabulary_size))

    def _logits(self, hidden: Any) -> Any:
        """Return logits `(rows, vocabulary_size)` of outputs `(rows, units)`, cast to float32."""
        if self.projection is not None:
            hidden = self.projection(hidden)
        # Two-dimensional: a batched product would hold a copy of the matrix for each row.
        words = ops.cast(self.embedding.embeddings, hidden.dtype)[: self.vocabulary_size]
        logits = ops.cast(ops.matmul(hidden, ops.transpose(words)), "float32")
        return logits + ops.cast(self.bias, "float32")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {**super().get_config(), **constructor_arguments(self)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """Create the model from its configuration."""
        return cls(**keras.saving.deserialize_keras_object(config, custom_objects))


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
    """Build a language model with any mechanism.

    Args:
        mechanism: Token-mixing layer, as in `Encoder`. `"causal"` needs a causal form.
        vocabulary_size: Number of word ids, including 0 (padding).
        objective: Training objective: `"masked"`, `"causal"` (next token) or `"both"` (next and
            previous token, in two stacks).
        embedding_dim: Width of the embedding. Default: `units`.
        num_layers: Number of blocks.
        units: Width of the blocks.
        norm: `"pre"` or `"post"`.
        **kwargs: Further arguments of `Encoder`, such as `dropout`, `options` and `num_heads`.

    Returns:
        A built model from ids `(batch, tokens)` to logits `(batch, tokens, vocabulary_size)`, or
        to the logits of the tokens at `at`.

    Raises:
        ValueError: If an argument is invalid.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.language_model import language_model
        >>> model = language_model("relation", vocabulary_size=50, num_layers=2, units=8)
        >>> ids = np.array([[4, 50, 9]])  # 50: masked
        >>> tuple(model(ids).shape), tuple(model(ids, at=np.array([[1]])).shape)
        ((1, 3, 50), (1, 1, 50))
    """
    kwargs |= {"norm": norm, "name": "mechanism"}
    encoder: Encoder | BidirectionalEncoder
    if objective == "both":
        encoder = BidirectionalEncoder(mechanism, num_layers, units, **kwargs)
    else:
        causal = objective == "causal"
        encoder = Encoder(mechanism, num_layers, units, causal=causal, **kwargs)
    model = LanguageModel(encoder, vocabulary_size, embedding_dim, objective)
    model.build()
    return model


def word_losses(logits: Any, targets: Any) -> Any:
    """Compute the loss of each predicted word, `log(sum_j exp(z_j)) - z_target`.

    Args:
        logits: `(batch, places, vocabulary_size)`.
        targets: The correct ids, `(batch, places)`.

    Returns:
        `(batch, places)`, in nats.

    Example:
        >>> import numpy as np
        >>> loss = word_losses(np.zeros((1, 1, 7), "float32"), np.array([[3]]))
        >>> round(float(np.exp(loss)[0, 0]), 4)
        7.0
    """
    return ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)
