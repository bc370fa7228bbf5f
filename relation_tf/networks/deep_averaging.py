"""Deep averaging network."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer, rate
from relation_tf.layers.masking import masked_mean, zero_masked
from relation_tf.networks.sentence_encoder import SentenceEncoder


@keras.saving.register_keras_serializable(package="relation_tf")
class DeepAveragingNetwork(SentenceEncoder):
    """The mean of the word vectors, then Dense layers.

    `z_0 = mean over kept tokens of x`, `z_k = activation(z_(k-1) W_k + b_k)`; the output is the
    last `z`. In training, word dropout leaves each token out of the mean with a probability of its
    own; where it would leave out all of a sentence, it leaves out none.

    A sentence with nothing kept has the mean zero, and follows the formula from there.

    Args:
        units: Width of the Dense layers.
        num_layers: Number of Dense layers.
        activation: Activation of each.
        word_dropout: Rate in [0, 1) at which whole tokens are dropped in training.
        seed: Seed of the word dropout.
        **kwargs: As in `WeightedLayer`: initializers, regularizers, `name`, `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens are not in the mean.

    Returns:
        Tensor of shape `(batch, units)`.

    Raises:
        ValueError: For sizes that are no positive integers, or a rate outside [0, 1).

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.deep_averaging import DeepAveragingNetwork
        >>> DeepAveragingNetwork(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 8)
        True

    References:
        - Iyyer, Manjunatha, Boyd-Graber, Daumé 2015, "Deep Unordered Composition Rivals Syntactic
          Methods for Text Classification", sections 3 and 3.1.
    """

    def __init__(
        self,
        units: int,
        num_layers: int = 2,
        activation: Any = "relu",
        word_dropout: float = 0.3,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        self.num_layers = positive_integer("num_layers", num_layers)
        self.activation = keras.activations.get(activation)
        self.word_dropout = rate("word_dropout", word_dropout)
        self.seed = seed
        if word_dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def build_encoder(self, width: int) -> None:
        """The Dense layers."""
        widths = [width] + [self.units] * (self.num_layers - 1)
        self.dense_layers = [
            self.add_dense(f"dense_{i}", w, self.units, activation=self.activation)
            for i, w in enumerate(widths)
        ]

    def encode(self, x: Any, mask: Any, training: bool) -> Any:
        """The mean and what is made of it."""
        if training and self.word_dropout > 0:
            mask = self._surviving(x, mask)
            x = zero_masked(x, mask)
        z = masked_mean(x, mask)
        for dense in self.dense_layers:
            z = dense(z)
        return z

    def _surviving(self, x: Any, mask: Any) -> Any:
        """The mask of the tokens that word dropout leaves."""
        kept = ops.ones(ops.shape(x)[:2], dtype="bool") if mask is None else mask
        drawn = keras.random.uniform(ops.shape(x)[:2], seed=self.seed_generator)
        surviving = ops.logical_and(kept, drawn >= self.word_dropout)
        none = ops.logical_not(ops.any(surviving, axis=1, keepdims=True))
        return ops.logical_or(surviving, ops.logical_and(kept, none))
