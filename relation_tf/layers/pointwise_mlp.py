"""Point-wise baseline without context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import keras

from relation_tf.layers.arguments import true_or_false
from relation_tf.layers.token_mixer import TokenMixer, Variant, affine


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
        output_projection: If True, the layer ends with `dropout(relu(y)) W_output`. Default: True
            for the released code, else False.
        algorithm: `"direct"` or `"auto"`, which are the same.
        seed: Random seed of the dropout.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

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

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "equations": {**TokenMixer.presets["equations"], "use_bias": True, "gated": False},
        "released_code": {**TokenMixer.presets["released_code"], "use_bias": True, "gated": True},
    }

    def __init__(
        self,
        units: int,
        activation: Any = "relu",
        gated: bool | None = None,
        *,
        variant: Variant = "equations",
        use_bias: bool | None = None,
        dropout: float | None = None,
        output_projection: bool | None = None,
        algorithm: str = "auto",
        seed: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            units,
            variant=variant,
            use_bias=use_bias,
            dropout=dropout,
            output_projection=output_projection,
            algorithm=algorithm,
            seed=seed,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            **kwargs,
        )
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
