"""The baseline that sees no context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import keras

from relation_tf.layers.token_mixer import TokenMixer, affine


@keras.saving.register_keras_serializable(package="relation_tf")
class PointwiseMLP(TokenMixer):
    """Three point-wise layers: what a mechanism reaches that sees no token but its own.

    `phi(phi(x W1 + b1) W2 + b2) W3 + b3` (the baseline of the Relation paper). `gated=True` is
    the form of that paper's released code, a Relation without its mean:
    `phi(((x W1 + b1) * (x W2 + b2)) W3)`.

    `value` and its mask are taken, as by the other mechanisms, and ignored.

    Args:
        units: Width of all three layers.
        activation: `phi`.
        gated: If True, the first two layers are multiplied instead of chained. By default for the
            released code only.
        variant: `"equations"` or `"released_code"`, which differ in the defaults below.
        use_bias: If True, the layers have biases (the gated form's third has none). By default
            True.
        dropout: Rate in [0, 1), before W3 (and before the closing projection). By default 0, for
            the released code 0.5.
        output_projection: If True, `dropout(relu(y)) W_output` closes the layer. By default for the
            released code only.
        **kwargs: As in `TokenMixer`: initializers, regularizers, `seed`, `name`, `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Ignored.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Ignored.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import PointwiseMLP
        >>> PointwiseMLP(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Yamada, Baladram, Lin 2022, doi 10.3389/frai.2022.924688, "Baseline".
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "equations": {**TokenMixer.presets["equations"], "use_bias": True, "gated": False},
        "released_code": {**TokenMixer.presets["released_code"], "use_bias": True, "gated": True},
    }

    def __init__(
        self,
        units: int,
        activation: Any = "relu",
        gated: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        self.activation = keras.activations.get(activation)
        self.gated = self.preset("gated", gated)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """W1, W2, W3."""
        second_width = query_width if self.gated else self.units
        self.kernel1, self.bias1 = self.add_projection("first", query_width)
        self.kernel2, self.bias2 = self.add_projection("second", second_width)
        self.kernel3, self.bias3 = self.add_projection(
            "third", self.units, use_bias=self.use_bias and not self.gated
        )

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """The three layers."""
        first = affine(query, self.kernel1, self.bias1)
        if self.gated:
            gated = self.drop(first * affine(query, self.kernel2, self.bias2), training)
            return self.activation(affine(gated, self.kernel3, self.bias3))
        hidden = self.activation(affine(self.activation(first), self.kernel2, self.bias2))
        return affine(self.drop(hidden, training), self.kernel3, self.bias3)
