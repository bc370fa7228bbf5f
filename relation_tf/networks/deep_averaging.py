"""Deep averaging network (DAN)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer, rate, seed_or_none
from relation_tf.layers.masking import masked_mean, zero_masked
from relation_tf.networks.sentence_encoder import SentenceEncoder


@keras.saving.register_keras_serializable(package="relation_tf")
class DeepAveragingNetwork(SentenceEncoder):
    """Dense layers on the mean of the word vectors.

    `z_0 = mean over unmasked tokens of x`, `z_k = activation(z_(k-1) W_k + b_k)`; the output is the
    last `z`. In training, word dropout excludes tokens independently from the mean. If it would
    exclude all tokens of a sentence, it excludes none. Without unmasked tokens the mean is zero.

    Args:
        units: Width of the Dense layers.
        num_layers: Number of Dense layers.
        activation: Activation of each Dense layer.
        word_dropout: Rate in [0, 1) at which whole tokens are dropped in training.
        seed: Random seed of the word dropout.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens are excluded from the mean.

    Returns:
        Tensor of shape `(batch, units)`.

    Raises:
        ValueError: If a size is not a positive integer or the rate is not in [0, 1).

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
        *,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            units,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            **kwargs,
        )
        self.num_layers = positive_integer("num_layers", num_layers)
        self.activation = keras.activations.get(activation)
        self.word_dropout = rate("word_dropout", word_dropout)
        self.seed = seed_or_none("seed", seed)
        if word_dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(self.seed)

    def build_encoder(self, width: int) -> None:
        """Create the Dense layers."""
        widths = [width] + [self.units] * (self.num_layers - 1)
        self.dense_layers = [
            self.add_dense(f"dense_{i}", w, self.units, activation=self.activation)
            for i, w in enumerate(widths)
        ]

    def encode(self, x: Any, mask: Any, training: bool) -> Any:
        """Apply the Dense layers to the mean."""
        if training and self.word_dropout > 0:
            mask = self._surviving(x, mask)
            x = zero_masked(x, mask)
        z = masked_mean(x, mask)
        for dense in self.dense_layers:
            z = dense(z)
        return z

    def _surviving(self, x: Any, mask: Any) -> Any:
        """Return the mask of the tokens kept by word dropout."""
        kept = ops.ones(ops.shape(x)[:2], dtype="bool") if mask is None else mask
        drawn = keras.random.uniform(ops.shape(x)[:2], seed=self.seed_generator)
        surviving = ops.logical_and(kept, drawn >= self.word_dropout)
        none = ops.logical_not(ops.any(surviving, axis=1, keepdims=True))
        return ops.logical_or(surviving, ops.logical_and(kept, none))
