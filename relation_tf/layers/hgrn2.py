"""HGRN2: a gated linear RNN with state expansion."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import rate
from relation_tf.layers.masking import to_float32, zero_masked
from relation_tf.layers.recurrent_mixer import MatrixStateMixer, Terms
from relation_tf.layers.token_mixer import affine, presets_with, standardize


@keras.saving.register_keras_serializable(package="relation_tf")
class HGRN2(MatrixStateMixer):
    """HGRN2: a gated linear RNN whose state is expanded by outer products.

    With `i = swish(value W_i)`, `o = sigmoid(query W_o)` and
    `f = lower_bound + (1 - lower_bound) sigmoid(value W_f)`, split into heads of width d:

    - state of each head: `S_t = diag(f_t) S_{t-1} + (1 - f_t) i_t^T`
    - output of each head: `y_t = o_t^T S_t`
    - output: `LayerNorm(y) W_out`, with mean 0 and variance 1 over all heads, without scale and
      offset

    So in terms of linear attention, the output gate o is the query, 1 - f is the key, the input i
    is the value, and the forget gate f is the decay. Masked tokens are absent. The recurrence uses
    float32 or wider. Time and memory are linear in the number of tokens.

    With `causal=True` query i sees tokens 1 to i; the state of `step` is S, shape
    `(batch, num_heads, d, d)`. Otherwise the output is normalized after the sum of both directions,
    in each of which token t counts once.

    Args:
        units: Width of the gates, the input and the output, a multiple of `num_heads`.
        num_heads: Number of heads. Fewer heads have larger states. The paper expands the state 128
            times: heads of 128 features.
        lower_bound: Minimum of the forget gates, in [0, 1). The paper learns one for each feature
            and layer, which increases from 0 in the first layer.
        use_bias: If True, the projections have biases. Default: True.
        dropout: Dropout rate in [0, 1), before W_out and before the output projection. Default: 0,
            or 0.5 for the released code.
        **kwargs: As in `MatrixStateMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens are absent.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If `num_heads` does not divide `units`, or `lower_bound` is not in [0, 1).

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import HGRN2
        >>> HGRN2(units=8, num_heads=2)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Qin et al. 2024, "HGRN2: Gated Linear RNNs with State Expansion", arXiv 2404.07904,
          section 3.
    """

    presets = presets_with(use_bias=True)

    def __init__(
        self, units: int, num_heads: int = 1, *, lower_bound: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(units, num_heads, **kwargs)
        self.lower_bound = rate("lower_bound", lower_bound)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_o, W_f, W_i and W_out."""
        self.output_gate_kernel, self.output_gate_bias = self.add_projection(
            "output_gate", query_width
        )
        self.forget_gate_kernel, self.forget_gate_bias = self.add_projection(
            "forget_gate", value_width
        )
        self.input_kernel, self.input_bias = self.add_projection("input", value_width)
        self.out_kernel, self.out_bias = self.add_projection("out", self.units)

    def queries(self, query: Any, query_mask: Any) -> Any:
        """Return the output gates."""
        gate = affine(query, self.output_gate_kernel, self.output_gate_bias)
        return self.heads(ops.sigmoid(gate))

    def terms(self, value: Any, value_mask: Any) -> Terms:
        """Return 1 - f, i and log f."""
        gate = to_float32(affine(value, self.forget_gate_kernel, self.forget_gate_bias))
        keys = (1 - self.lower_bound) * ops.sigmoid(-gate)
        if self.lower_bound > 0:
            log_decays = ops.log(self.lower_bound + (1 - self.lower_bound) * ops.sigmoid(gate))
        else:
            log_decays = ops.log_sigmoid(gate)  # Finite where the sigmoid is rounded to zero.
        keys, log_decays = zero_masked(keys, value_mask), zero_masked(log_decays, value_mask)
        values = ops.silu(affine(value, self.input_kernel, self.input_bias))
        return Terms(self.heads(keys), self.heads(values), self.heads(log_decays))

    def finish(self, output: Any, query: Any, training: bool) -> Any:
        """Normalize and apply W_out."""
        y = ops.reshape(output, (*ops.shape(query)[:2], self.units))
        y = self.drop(ops.cast(standardize(y), query.dtype), training)
        return affine(y, self.out_kernel, self.out_bias)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the state at zero."""
        width = self.units // self.num_heads
        return (self.zeros(batch_size, self.num_heads, width, width),)
