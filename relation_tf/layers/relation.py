"""Relation."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import keras
from keras import ops

from relation_tf.layers.masking import masked_mean
from relation_tf.layers.token_mixer import TokenMixer, affine


@keras.saving.register_keras_serializable(package="relation_tf")
class Relation(TokenMixer):
    """Each token multiplied by the mean of all: `R = activation((G * h') W)`.

    `G = query W_G`, `H = value W_H`, `h' = mean over kept tokens of H` (equations 7-12 of the
    Relation paper). Cost is linear in the number of tokens. The mean commutes with the projection,
    so that `h' = mean(value) W_H` is computed from one vector a sequence.

    The algorithm `"folded"` goes on: `(G * h') W = query (W_G diag(h') W)`, one small matrix for
    each sequence in place of a product for each token. It is chosen where there are more queries
    than input features and no dropout stands between `G * h'` and `W`.

    Args:
        units: Width of the output.
        activation: The function around the equation.
        use_bias: Whether the projections to G and H have biases (W has none).
        dropout: Rate in [0, 1), on `G * h'` (and before the closing projection).
        output_projection: Whether `dropout(relu(y)) W_output` closes the layer.
        algorithm: `"direct"`, `"folded"` or `"auto"`.
        **kwargs: As in `TokenMixer`: initializers, regularizers, `seed`, `name`, `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens are not in the mean.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import Relation
        >>> Relation(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, equations 7-12.
    """

    algorithms: ClassVar[tuple[str, ...]] = ("direct", "folded")

    def __init__(self, units: int, activation: Any = "relu", **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        if self.algorithm == "folded" and self.dropout > 0:
            raise ValueError(
                "algorithm='folded' leaves no place for dropout between G * h' and W. "
                f"Received: dropout={self.dropout}"
            )
        self.activation = keras.activations.get(activation)

    @classmethod
    def original(cls, units: int, dropout: float = 0.5, **kwargs: Any) -> Self:
        """The layer as the Relation paper's program has it."""
        return super().original(units, dropout, use_bias=True, **kwargs)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """W_G, W_H, W."""
        self.g_kernel, self.g_bias = self.add_projection("g", query_width)
        self.h_kernel, self.h_bias = self.add_projection("h", value_width)
        self.kernel = self.add_kernel("kernel", self.units)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Equations 7-12."""
        h = affine(masked_mean(value, value_mask), self.h_kernel, self.h_bias)
        if value_mask is not None and self.h_bias is not None:
            h = h * ops.cast(ops.any(value_mask, axis=1, keepdims=True), h.dtype)
        h = h[:, None, :]  # (batch, 1, units)
        if self._folded(query.shape[1:], training):
            folded = ops.matmul(self.g_kernel * h, self.kernel)  # (batch, width, units)
            related = ops.matmul(query, folded)
            if self.g_bias is not None:
                related = related + ops.matmul(self.g_bias * h, self.kernel)
        else:
            g = affine(query, self.g_kernel, self.g_bias)
            related = ops.matmul(self.drop(g * h, training), self.kernel)
        return self.activation(related)

    def _folded(self, query_shape: tuple[int | None, int], training: bool) -> bool:
        if self.algorithm != "auto":
            return self.algorithm == "folded"
        num_queries, width = query_shape
        drops = training and self.dropout > 0
        return not drops and num_queries is not None and num_queries > width

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {**super().get_config(), "activation": keras.activations.serialize(self.activation)}
