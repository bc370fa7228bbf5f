"""Gated DeltaNet: the delta rule with decays and a gated output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from relation_tf.layers.delta_net import DeltaNet
from relation_tf.layers.mamba2 import (
    decays_of_steps,
    initial_a_log,
    initial_dt_offset,
    step_sizes,
)
from relation_tf.layers.token_mixer import TokenMixer, affine


@keras.saving.register_keras_serializable(package="relation_tf")
class GatedDeltaNet(DeltaNet):
    """Gated DeltaNet: DeltaNet with the decays of Mamba-2 and a gate of the output.

    With Q, K, V and b as in `DeltaNet`:

    - decay of each head: `a = exp(A dt)` with `A = -exp(A_log)` and
      `dt = softplus(value W_dt + dt_offset)`
    - state of each head: `S_t = a_t S_{t-1} + b_t K_t (V_t - a_t S_{t-1}^T K_t)^T`
    - output of each head: `Y_t = RMSNorm(S_t^T Q_t)`, with one scale for all heads
    - output: `(Y * swish(query W_G)) W_out`

    Convolutions and the state of `step` are those of `DeltaNet`, but values are wider. Time and
    memory are linear in the number of tokens.

    Args:
        units: Width of queries, keys and output, a multiple of `num_heads`.
        num_heads: Number of heads. The paper uses heads of 256 features.
        expansion: Width of the values, in multiples of `units`. Default: 2.
        filter_width: Number of tokens of the convolutions.
        variant: `"equations"`, or `"released_code"` for the defaults of the Relation paper's code;
            sets the defaults of the next three arguments.
        use_bias: If True, the projections to Q, K, V and the output have biases. Default: False.
        dropout: Dropout rate in [0, 1), before W_out and before the output projection. Default: 0,
            or 0.5 for the released code.
        output_projection: If True, the layer ends with `dropout(relu(y)) W_output`. Default: True
            for the released code, else False.
        algorithm: `"direct"` or `"auto"`, which are the same.
        causal: If True, query i sees tokens 1 to i only.
        seed: Random seed of the dropout.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens are absent.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If `num_heads` does not divide `units`, or a size is not a positive integer.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import GatedDeltaNet
        >>> GatedDeltaNet(units=8, num_heads=2)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Yang, Kautz, Hatamizadeh 2024, "Gated Delta Networks: Improving Mamba2 with Delta Rule",
          arXiv 2412.06464, section 3.
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        variant: {**defaults, "expansion": 2} for variant, defaults in TokenMixer.presets.items()
    }

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create the weights of DeltaNet, of the decays and of the gate."""
        super().build_mechanism(query_width, value_width)
        self.dt_kernel = self.add_kernel("dt_kernel", value_width, self.num_heads)
        self.dt_offset = self.add_per_head("dt_offset", initial_dt_offset)
        self.a_log = self.add_per_head("a_log", initial_a_log)
        inner = self.expansion * self.units
        self.gate_kernel, self.gate_bias = self.add_projection("gate", query_width, width=inner)

    def log_decays(self, value: Any) -> Any:
        """Return A dt."""
        return decays_of_steps(step_sizes(value, self.dt_kernel, self.dt_offset), self.a_log)

    def gated(self, y: Any, query: Any) -> Any:
        """Apply the gate."""
        return y * ops.silu(affine(query, self.gate_kernel, self.gate_bias))
