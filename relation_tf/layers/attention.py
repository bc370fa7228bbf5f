"""Scaled dot-product attention."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from relation_tf.layers.masking import masked_softmax
from relation_tf.layers.token_mixer import TokenMixer, affine


@keras.saving.register_keras_serializable(package="relation_tf")
class Attention(TokenMixer):
    """Single-head scaled dot-product attention.

    `softmax(Q K^T / sqrt(units)) V` with `Q = query W_Q`, `K = value W_K`, `V = value W_V`
    (equations 1-4 of the Relation paper). Cost grows with queries times tokens.

    The algorithm `"factored"` never forms K and V: it scores `(Q W_K^T) value^T` and projects the
    mixed tokens, `(weights value) W_V`. It is chosen where that is less work: where the input is no
    wider than `units`, and for few queries, as for the read-out of one token.

    Args:
        units: Width of queries, keys, values and output.
        use_bias: Whether the three projections have biases.
        dropout: Rate in [0, 1), on the attention weights (and before the closing projection).
        output_projection: Whether `dropout(relu(y)) W_output` closes the layer.
        algorithm: `"direct"`, `"factored"` or `"auto"`.
        **kwargs: As in `TokenMixer`: initializers, regularizers, `seed`, `name`, `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens get no weight.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import Attention
        >>> Attention(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Vaswani et al. 2017, "Attention Is All You Need".
        - Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, equations 1-4.
    """

    algorithms: ClassVar[tuple[str, ...]] = ("direct", "factored")

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """W_Q, W_K, W_V."""
        self.query_kernel, self.query_bias = self.add_projection("query", query_width)
        self.key_kernel, self.key_bias = self.add_projection("key", value_width)
        self.value_kernel, self.value_bias = self.add_projection("value", value_width)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Equations 1-4."""
        q = affine(query, self.query_kernel, self.query_bias) * self.units**-0.5
        if self._factored(query.shape[1], value.shape[-1]):
            scores = _scores(ops.matmul(q, ops.transpose(self.key_kernel)), value)
            if self.key_bias is not None:
                # The same for all tokens: softmax does not see it, but Keras wants a gradient.
                scores = scores + ops.matmul(q, self.key_bias[:, None])
            weights = self._weights(scores, value_mask, training)
            mixed = ops.matmul(ops.matmul(weights, value), self.value_kernel)
            if self.value_bias is None:
                return mixed
            # With dropout, or nothing kept, the weights do not sum to one.
            return mixed + ops.sum(weights, axis=-1, keepdims=True) * self.value_bias
        keys = affine(value, self.key_kernel, self.key_bias)
        values = affine(value, self.value_kernel, self.value_bias)
        return ops.matmul(self._weights(_scores(q, keys), value_mask, training), values)

    def _weights(self, scores: Any, value_mask: Any, training: bool) -> Any:
        return self.drop(masked_softmax(scores, value_mask), training)

    def _factored(self, num_queries: int | None, width: int) -> bool:
        if self.algorithm != "auto":
            return self.algorithm == "factored"
        if width <= self.units:
            return True
        return num_queries is not None and num_queries * (width - self.units) <= width * self.units


def _scores(q: Any, keys: Any) -> Any:
    """`Q K^T`, `(batch, queries, tokens)`."""
    return ops.matmul(q, ops.transpose(keys, (0, 2, 1)))
