"""Fastformer: additive attention in linear time."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import check_equal_widths
from relation_tf.layers.averages import masked_softmax
from relation_tf.layers.masking import to_float32
from relation_tf.layers.token_mixer import TokenMixer, affine


@keras.saving.register_keras_serializable(package="relation_tf")
class Fastformer(TokenMixer):
    """Additive attention of Fastformer, with one head.

    With `Q = x W_Q`, `K = x W_K`, `V = x W_V` and `softmax` over tokens:

    1. global query `q = sum_i a_i Q_i`, `a = softmax(Q w_q / sqrt(units))`;
    2. global key `k = sum_i b_i p_i`, `p_i = q * K_i`, `b = softmax(p w_k / sqrt(units))`;
    3. output `(k * V_i) W_R + Q_i`.

    The tokens of `value` give the global query and key; each token of `query` gives its own `V_i`
    and `Q_i`. So both must have the same width. Weights and sums over tokens use float32 or wider.
    The products grow with the cube of the input and can exceed float16: use bfloat16. Time and
    memory are linear in the number of tokens.

    The layer has no causal form in linear time: `p_i` and `b` depend on the global query, so each
    position would need the keys of all earlier tokens again.

    Args:
        units: Width of queries, keys, values and output.
        use_bias: If True, the projections to Q, K, V and W_R have biases. Default: False.
        dropout: Dropout rate in [0, 1), on `k * V_i` and before the output projection. Default: 0,
            or 0.5 for the released code.
        kernel_initializer: Initializer of the matrices and of `w_q` and `w_k`.
        kernel_regularizer: Regularizer of the matrices and of `w_q` and `w_k`.
        **kwargs: As in `TokenMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens get no weight.

    Returns:
        Tensor of shape `(batch, queries, units)`; `Q_i`, plus the bias of W_R, if all tokens are
        masked.

    Raises:
        ValueError: If `query` and `value` have different widths, or with `causal=True`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import Fastformer
        >>> Fastformer(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Wu et al. 2021, "Fastformer: Additive Attention Can Be All You Need", arXiv 2108.09084,
          section 3.1.
    """

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_Q, W_K, W_V, w_q, w_k and W_R."""
        check_equal_widths(query_width, value_width, "Fastformer applies W_Q to query and value")
        self.add_query_key_value(query_width, value_width)
        self.query_score_kernel = self.add_kernel("query_score_kernel", self.units, 1)
        self.key_score_kernel = self.add_kernel("key_score_kernel", self.units, 1)
        self.result_kernel, self.result_bias = self.add_projection("result", self.units)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute the global query, the global key and the output."""
        queries = affine(query, self.query_kernel, self.query_bias)
        others = queries
        if query is not value:
            others = affine(value, self.query_kernel, self.query_bias)
        global_query = self._pooled(others, self.query_score_kernel, value_mask)
        keys = global_query * affine(value, self.key_kernel, self.key_bias)
        global_key = self._pooled(keys, self.key_score_kernel, value_mask)
        values = global_key * affine(query, self.value_kernel, self.value_bias)
        return affine(self.drop(values, training), self.result_kernel, self.result_bias) + queries

    def _pooled(self, x: Any, score_kernel: Any, mask: Any) -> Any:
        """Return `sum_i softmax(x w / sqrt(units))_i x_i`, shape `(batch, 1, units)`."""
        scores = to_float32(ops.matmul(x, score_kernel)) * self.units**-0.5
        weights = masked_softmax(ops.transpose(scores, (0, 2, 1)), mask)  # (batch, 1, tokens)
        return ops.cast(ops.matmul(weights, to_float32(x)), x.dtype)
