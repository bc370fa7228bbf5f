"""Additive attention pooling over the tokens of a sentence."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.masking import masked_softmax, to_float32
from relation_tf.networks.sentence_encoder import SentenceEncoder


@keras.saving.register_keras_serializable(package="relation_tf")
class AdditiveAttentionPooling(SentenceEncoder):
    """Weighted sum of a sentence's tokens, with additive attention weights.

    `e_i = v^T tanh(W h_i + b)`, `a = softmax of e over unmasked tokens`, `y = sum_i a_i h_i`: the
    attention of Bahdanau et al. 2015 as a readout, with a bias instead of the decoder's state.
    Softmax and sum are in float32 or wider. The output is zero if all tokens are masked.

    Args:
        units: Width of the hidden layer of the scores.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens get no weight.

    Returns:
        Tensor of shape `(batch, width)`, with the width of the input.

    Raises:
        ValueError: If `units` is not a positive integer.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.additive_attention import AdditiveAttentionPooling
        >>> AdditiveAttentionPooling(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 3)
        True

    References:
        - Bahdanau, Cho, Bengio 2015, "Neural Machine Translation by Jointly Learning to Align and
          Translate", equations 5-6 and appendix A.1.2.
    """

    def output_width(self, width: int) -> int:
        """Return the width of the input."""
        return width

    def build_encoder(self, width: int) -> None:
        """Create W and b, then v."""
        self.hidden = self.add_dense("hidden", width, self.units, activation="tanh")
        self.score = self.add_dense("score", self.units, 1, use_bias=False)

    def encode(self, x: Any, mask: Any, training: bool) -> Any:
        """Return the weighted sum of the tokens."""
        scores = ops.transpose(self.score(self.hidden(x)), (0, 2, 1))  # (batch, 1, tokens)
        weights = masked_softmax(to_float32(scores), mask)
        return ops.cast(ops.matmul(weights, to_float32(x))[:, 0], x.dtype)
