"""Mamba-2: a selective state space with a scalar decay for each head."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer
from relation_tf.layers.masking import to_float32, zero_masked
from relation_tf.layers.recurrence import recurrence_step
from relation_tf.layers.recurrent_mixer import (
    MatrixStateMixer,
    Terms,
    convolution_step,
    decays_of_steps,
    initial_a_log,
    initial_dt_offset,
    short_convolution,
    step_sizes,
)
from relation_tf.layers.token_mixer import affine, joint_affine, rms_normalize


@keras.saving.register_keras_serializable(package="relation_tf")
class Mamba2(MatrixStateMixer):
    """Mamba-2: state space duality (SSD) with decays that depend on the tokens.

    With `conv`, a causal convolution of each feature over `filter_width` tokens:

    - `X = swish(conv(value W_X))` in heads of width p, `B = swish(conv(value W_B))` and
      `C = swish(conv(query W_C))` of `state_size` features for all heads
    - step size of each head: `dt = softplus(value W_dt + dt_offset)`, with `A = -exp(A_log)`
    - state of each head: `S_t = exp(A dt_t) S_{t-1} + B_t (dt_t X_t)^T`
    - output of each head: `Y_t = C_t^T S_t + D X_t`
    - output: `RMSNorm(Y * swish(query W_Z)) W_out`

    The heads have `expansion * units` features together. Masked tokens are absent, also in
    convolutions. The recurrence uses float32 or wider. Time and memory are linear in the number of
    tokens.

    With `causal=True` query i sees tokens 1 to i. The state of `step` is S, shape
    `(batch, num_heads, state_size, p)`, and the last `filter_width - 1` inputs of the convolutions
    of X and B, and of C. Otherwise the states of both directions are read with the same B, C, X and
    dt, so the convolutions look back in both; D counts once.

    Args:
        units: Width of the output, a multiple of `num_heads`.
        num_heads: Number of heads. The paper uses heads of 64 features.
        state_size: Number of features of B and C.
        expansion: Width of the heads together, in multiples of `units`.
        filter_width: Number of tokens of the convolutions.
        use_bias: If True, the projections to X, B, C, Z and the output have biases. Convolutions
            always have biases. Default: False.
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
        ValueError: If `num_heads` does not divide `units`, or a size is not a positive integer.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import Mamba2
        >>> Mamba2(units=8, num_heads=2)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Dao, Gu 2024, "Transformers are SSMs: Generalized Models and Efficient Algorithms Through
          Structured State Space Duality", arXiv 2405.21060, section 7.
    """

    convolves_queries = True

    def __init__(
        self,
        units: int,
        num_heads: int = 1,
        *,
        state_size: int = 64,
        expansion: int = 2,
        filter_width: int = 4,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, num_heads, **kwargs)
        self.state_size = positive_integer("state_size", state_size)
        self.expansion = positive_integer("expansion", expansion)
        self.filter_width = positive_integer("filter_width", filter_width)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create the matrices, the filters, and dt_offset, A_log, D and the scale of the norm."""
        inner = self.expansion * self.units
        self.x_kernel, self.x_bias = self.add_projection("x", value_width, width=inner)
        self.b_kernel, self.b_bias = self.add_projection("b", value_width, width=self.state_size)
        self.c_kernel, self.c_bias = self.add_projection("c", query_width, width=self.state_size)
        self.z_kernel, self.z_bias = self.add_projection("z", query_width, width=inner)
        self.dt_kernel = self.add_kernel("dt_kernel", value_width, self.num_heads)
        self.xb_filters = self.add_filters("xb_filters", self.filter_width, inner + self.state_size)
        self.xb_filter_bias = self.add_bias("xb_filter_bias", inner + self.state_size)
        self.c_filters = self.add_filters("c_filters", self.filter_width, self.state_size)
        self.c_filter_bias = self.add_bias("c_filter_bias", self.state_size)
        self.dt_offset = self.add_per_head("dt_offset", initial_dt_offset)
        self.a_log = self.add_per_head("a_log", initial_a_log)
        self.d = self.add_per_head("d", "ones")
        self.scale = self.add_weight(shape=(inner,), initializer="ones", name="scale")
        self.out_kernel, self.out_bias = self.add_projection("out", inner)

    def queries(self, query: Any, query_mask: Any) -> Any:
        """Return C."""
        c = affine(query, self.c_kernel, self.c_bias)
        c = short_convolution(c, self.c_filters, self.c_filter_bias, query_mask)
        return to_float32(ops.silu(c))[:, :, None]

    def terms(self, value: Any, value_mask: Any) -> Terms:
        """Return B, dt X, A dt and D X."""
        xb = short_convolution(self._xb(value), self.xb_filters, self.xb_filter_bias, value_mask)
        return self._terms(xb, value, value_mask)

    def _xb(self, value: Any) -> Any:
        """Return the projections to X and B."""
        return joint_affine(value, (self.x_kernel, self.b_kernel), (self.x_bias, self.b_bias))

    def _terms(self, xb: Any, value: Any, value_mask: Any) -> Terms:
        xb = zero_masked(ops.silu(xb), value_mask)
        x, b = ops.split(xb, [self.expansion * self.units], axis=-1)
        d = ops.repeat(ops.cast(self.d, x.dtype), x.shape[-1] // self.num_heads)
        skip = self.heads(d * x)
        x, b = self.heads(x), to_float32(b)
        dt = step_sizes(value, self.dt_kernel, self.dt_offset)
        log_decays = zero_masked(decays_of_steps(dt, self.a_log), value_mask)
        return Terms(b[:, :, None], dt[..., None] * x, log_decays, skip)

    def finish(self, output: Any, query: Any, training: bool) -> Any:
        """Apply the gate, the norm and W_out."""
        z = affine(query, self.z_kernel, self.z_bias)
        y = ops.reshape(output, ops.shape(z)) * to_float32(ops.silu(z))
        y = self.drop(ops.cast(rms_normalize(y), z.dtype) * self.scale, training)
        return affine(y, self.out_kernel, self.out_bias)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the state and the inputs of both convolutions at zero."""
        inner, before = self.expansion * self.units, self.filter_width - 1
        return (
            self.zeros(batch_size, self.num_heads, self.state_size, inner // self.num_heads),
            self.zeros(batch_size, before, inner + self.state_size),
            self.zeros(batch_size, before, self.state_size),
        )

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the state."""
        state, for_xb, for_c = state
        xb, for_xb = convolution_step(
            self._xb(x), self.xb_filters, self.xb_filter_bias, for_xb, mask
        )
        c = affine(x, self.c_kernel, self.c_bias)
        c, for_c = convolution_step(c, self.c_filters, self.c_filter_bias, for_c, mask)
        terms = self._terms(xb, x, mask)
        queries = to_float32(ops.silu(c))[:, :, None]
        output, state = recurrence_step(queries, terms.keys, terms.values, terms.log_decays, state)
        return self.finish(output + terms.skip, x, training=False), (state, for_xb, for_c)
