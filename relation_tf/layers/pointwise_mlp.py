"""Point-wise baseline without context."""

from __future__ import annotations

from typing import Any

import keras

from relation_tf.layers.arguments import true_or_false
from relation_tf.layers.token_mixer import TokenMixer, affine, presets_with


@keras.saving.register_keras_serializable(package="relation_tf")
class PointwiseMLP(TokenMixer):
    """Baseline of three point-wise dense layers: each token sees only itself.

    `phi(phi(x W1 + b1) W2 + b2) W3 + b3` (the baseline of the Relation paper). With `gated=True`,
    as in that paper's released code: `phi(((x W1 + b1) * (x W2 + b2)) W3)`, a Relation without the
    mean. Time is linear in the number of tokens.

    Args:
        units: Width of all three layers.
        activation: Activation function `phi`.
        gated: If True, multiply the first two layers instead of chaining them. Default: True for
            the released code, else False.
        variant: `"equations"` or `"released_code"`; sets the defaults of `gated`, `dropout` and
            `output_projection`.
        use_bias: If True, the layers have biases (except the third layer of the gated form).
            Default: True.
        dropout: Dropout rate in [0, 1), before W3 and before the output projection. Default: 0, or
            0.5 for the released code.
        **kwargs: As in `TokenMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Checked, but without effect; accepted for compatibility with the other mechanisms.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Checked, but without effect.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import PointwiseMLP
        >>> PointwiseMLP(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, "Baseline".
    """

    presets = presets_with({"gated": True}, use_bias=True, gated=False)

    def __init__(
        self, units: int, activation: Any = "relu", gated: bool | None = None, **kwargs: Any
    ) -> None:
        super().__init__(units, **kwargs)
        self.activation = keras.activations.get(activation)
        self.gated = true_or_false("gated", self.preset("gated", gated))

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W1, W2 and W3."""
        second_width = query_width if self.gated else self.units
        self.kernel1, self.bias1 = self.add_projection("first", query_width)
        self.kernel2, self.bias2 = self.add_projection("second", second_width)
        self.kernel3, self.bias3 = self.add_projection(
            "third", self.units, use_bias=self.use_bias and not self.gated
        )

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Apply the three layers."""
        first = affine(query, self.kernel1, self.bias1)
        if self.gated:
            gated = self.drop(first * affine(query, self.kernel2, self.bias2), training)
            return self.activation(affine(gated, self.kernel3, self.bias3))
        hidden = self.activation(affine(self.activation(first), self.kernel2, self.bias2))
        return affine(self.drop(hidden, training), self.kernel3, self.bias3)
