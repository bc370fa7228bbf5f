"""HyperMixer: an MLP over tokens with weights generated from the tokens."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import check_equal_widths, positive_integer_or_none, true_or_false
from relation_tf.layers.masking import to_float32, zero_masked
from relation_tf.layers.token_mixer import TokenMixer, affine, standardize


@keras.saving.register_keras_serializable(package="relation_tf")
class HyperMixer(TokenMixer):
    """Token-mixing MLP of HyperMixer: `LayerNorm(W_2 phi(W_1^T X))`.

    Its matrices, one row per token, are outputs of two MLPs: `W_1 = phi(value A_1) B_1` and
    `W_2 = phi(query A_2) B_2`, where the A have `units` columns and the B `hidden_units`. X is
    `value`, or `value W_V` if its width is not `units`. LayerNorm is over features, with scale,
    offset and epsilon 1e-5. Sums over tokens, `phi` of them and LayerNorm use float32 or wider.
    Time is linear in the number of tokens, with about `4 * units * hidden_units` multiplications
    per token.

    The layer does not encode positions: add them to the input.

    The layer has no causal form: `phi` is applied to sums over tokens, so each position would need
    its own `(hidden_units, units)` matrix.

    Args:
        units: Width of the output and of the hidden layers of the generating MLPs.
        hidden_units: Width of the hidden layer of the token-mixing MLP. Default: `2 * units`.
        activation: Activation function `phi`.
        tied: If True, `W_2` is generated with `A_1` and `B_1`; `query` and `value` must then have
            the same width.
        use_bias: If True, the generating MLPs and `W_V` have biases. Default: False.
        dropout: Dropout rate in [0, 1), on `phi(W_1^T X)` and before the output projection.
            Default: 0, or 0.5 for the released code.
        **kwargs: As in `TokenMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens are excluded from `W_1^T X`.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If `hidden_units` is not a positive integer, if `tied=True` and the widths
            differ, or with `causal=True`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import HyperMixer
        >>> HyperMixer(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Mai et al. 2023, "HyperMixer: An MLP-based Low Cost Alternative to Transformers",
          arXiv 2203.03691, "HyperMixing".
    """

    def __init__(
        self,
        units: int,
        hidden_units: int | None = None,
        activation: Any = "gelu",
        tied: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        self.hidden_units = positive_integer_or_none("hidden_units", hidden_units)
        self.activation = keras.activations.get(activation)
        self.tied = true_or_false("tied", tied)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create A_1, B_1, A_2, B_2, W_V and LayerNorm's scale and offset."""
        if self.tied:
            reason = "tied=True generates W_1 and W_2 with the same weights"
            check_equal_widths(query_width, value_width, reason)
        self.first = self._add_generator("first", value_width)
        self.second = self.first if self.tied else self._add_generator("second", query_width)
        self.value_kernel = None
        if value_width != self.units:
            self.value_kernel, self.value_bias = self.add_projection("value", value_width)
        # Not autocast: LayerNorm is computed in float32 or wider.
        self.scale, self.offset = (
            self.add_weight(name=name, shape=(self.units,), initializer=initializer, autocast=False)
            for name, initializer in (("scale", "ones"), ("offset", "zeros"))
        )

    def _add_generator(self, name: str, width: int) -> tuple[Any, Any, Any, Any]:
        """Add the weights of an MLP that generates a row of `hidden_units` weights per token."""
        hidden_units = self.hidden_units or 2 * self.units
        hidden = self.add_projection(f"{name}_hidden", width)
        kernel = self.add_kernel(f"{name}_kernel", self.units, hidden_units)
        return (
            *hidden,
            kernel,
            self.add_bias(f"{name}_bias", hidden_units) if self.use_bias else None,
        )

    def _generated(self, x: Any, generator: tuple[Any, Any, Any, Any]) -> Any:
        """Return a matrix with a row for each token, in float32 or wider."""
        hidden_kernel, hidden_bias, kernel, bias = generator
        return to_float32(
            affine(self.activation(affine(x, hidden_kernel, hidden_bias)), kernel, bias)
        )

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute `LayerNorm(W_2 phi(W_1^T X))`."""
        w1 = zero_masked(self._generated(value, self.first), value_mask)
        w2 = self._generated(query, self.second)
        if self.value_kernel is not None:
            value = affine(value, self.value_kernel, self.value_bias)
        hidden = self.activation(ops.matmul(ops.transpose(w1, (0, 2, 1)), to_float32(value)))
        mixed = ops.matmul(w2, self.drop(hidden, training))
        normalized = standardize(mixed) * to_float32(self.scale) + to_float32(self.offset)
        return ops.cast(normalized, query.dtype)
