"""mLSTM: the matrix memory of the xLSTM, with exponential gates."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.masking import LOWEST, to_float32, zero_masked
from relation_tf.layers.recurrence import recurrence_step
from relation_tf.layers.recurrent_mixer import MatrixStateMixer, Terms
from relation_tf.layers.token_mixer import affine, presets_with


@keras.saving.register_keras_serializable(package="relation_tf")
class MLSTM(MatrixStateMixer):
    """mLSTM of the xLSTM: a matrix of memory for each head, with scalar gates.

    With `q = query W_q`, `k = value W_k / sqrt(d)`, `v = value W_v`, split into heads of width d,
    and the gates of each head `i = exp(value W_i + i_offset)`, `f = sigmoid(value W_f + f_offset)`:

    - memory: `C_t = f_t C_{t-1} + i_t k_t v_t^T`, and normalizer `n_t = f_t n_{t-1} + i_t k_t`
    - output of each head: `h_t = C_t^T q_t / max(|n_t^T q_t|, 1)`
    - output: `sigmoid(query W_o) * h`

    The layer is the cell without the normalization of each head, which is in the authors' code.

    Both sums are computed relative to `exp(m_t)` with `m_t = max(log f_t + m_{t-1}, log i_t)`, so
    that no gate overflows. They use float32 or wider, as does the output gate. Where the
    normalizer is small, outputs of large inputs can exceed float16: use bfloat16. Time and memory
    are linear in the number of tokens.

    With `causal=True` query i sees tokens 1 to i; the state of `step` is C with n as its last
    column, shape `(batch, num_heads, d, d + 1)`, and m, `(batch, 1, num_heads)`. Otherwise h is the
    sum of both directions, each with its own normalizer.

    Args:
        units: Width of queries, keys, values and output, a multiple of `num_heads`.
        num_heads: Number of heads.
        use_bias: If True, the projections to q, k, v and the output gate have biases. Default:
            True.
        dropout: Dropout rate in [0, 1), on the output and before the output projection. Default: 0,
            or 0.5 for the released code.
        kernel_initializer: Initializer of the matrices except W_i and W_f, which start at zero.
        bias_initializer: Initializer of the biases; the offsets of the gates start with a normal
            distribution of standard deviation .1 (i) and with 3 to 6 (f).
        **kwargs: As in `MatrixStateMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens are absent.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If `num_heads` does not divide `units`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import MLSTM
        >>> MLSTM(units=8, num_heads=2)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Beck et al. 2024, "xLSTM: Extended Long Short-Term Memory", arXiv 2405.04517, section 2.3
          and equation 15 for m.
    """

    presets = presets_with(use_bias=True)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_q, W_k, W_v, W_o and the weights of the gates."""
        self.add_query_key_value(query_width, value_width)
        self.gate_kernel, self.gate_bias = self.add_projection("gate", query_width)
        # Initialized as in the authors' code.
        near_zero = keras.initializers.RandomNormal(stddev=0.1)
        self.i_kernel = self._add_gate_kernel("i_kernel", value_width)
        self.i_offset = self.add_per_head("i_offset", near_zero)
        self.f_kernel = self._add_gate_kernel("f_kernel", value_width)
        self.f_offset = self.add_per_head("f_offset", _three_to_six)

    def _add_gate_kernel(self, name: str, width: int) -> Any:
        shape, regularizer = (width, self.num_heads), self.kernel_regularizer
        return self.add_weight(shape, initializer="zeros", regularizer=regularizer, name=name)

    def queries(self, query: Any, query_mask: Any) -> Any:
        """Return q."""
        return self.heads(affine(query, self.query_kernel, self.query_bias))

    def terms(self, value: Any, value_mask: Any) -> Terms:
        """Return k, v and the logarithms of the gates."""
        scale = (self.units // self.num_heads) ** -0.5
        keys = affine(value, self.key_kernel * scale, self.key_bias)
        values = self.heads(affine(value, self.value_kernel, self.value_bias))
        values = ops.concatenate([values, ops.ones_like(values[..., :1])], axis=-1)
        log_f = ops.log_sigmoid(_logits(value, self.f_kernel, self.f_offset))
        log_i = _logits(value, self.i_kernel, self.i_offset)
        if value_mask is not None:
            log_i = ops.where(value_mask[..., None], log_i, LOWEST)
        keys = self.heads(zero_masked(keys, value_mask))
        return Terms(keys, values, zero_masked(log_f, value_mask), log_inputs=log_i)

    def recurred(self, queries: Any, terms: Terms, mask: Any) -> Any:
        """Compute h in one direction."""
        # The output does not depend on m.
        log_f, log_i = map(ops.stop_gradient, (terms.log_decays, terms.log_inputs))
        peaks = _running_peaks(log_f, log_i)
        before = ops.concatenate([peaks[:, :1], peaks[:, :-1]], axis=1)
        output = super().recurred(queries, _relative(terms, before, peaks), mask)
        return _normalized(output, peaks)

    def finish(self, output: Any, query: Any, training: bool) -> Any:
        """Apply the output gate, in float32 or wider: h can exceed float16 where it is closed."""
        gate = to_float32(affine(query, self.gate_kernel, self.gate_bias))
        return self.drop(ops.reshape(output, ops.shape(gate)) * ops.sigmoid(gate), training)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the memory at zero."""
        width = self.units // self.num_heads
        memory = self.zeros(batch_size, self.num_heads, width, width + 1)
        return memory, self.zeros(batch_size, 1, self.num_heads) + LOWEST

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the memory."""
        memory, before = state
        terms = self.terms(x, mask)
        # The maximum is float32 on PyTorch, also of float64.
        peaks = ops.maximum(terms.log_decays + before, terms.log_inputs)
        peaks = ops.cast(peaks, before.dtype)
        keys, values, log_decays = _relative(terms, before, peaks)[:3]
        output, memory = recurrence_step(self.queries(x, mask), keys, values, log_decays, memory)
        return self.finish(_normalized(output, peaks), x, training=False), (memory, peaks)


def _logits(value: Any, kernel: Any, offset: Any) -> Any:
    """Return `value W + offset` in float32 or wider."""
    logits = to_float32(ops.matmul(value, kernel))
    return logits + ops.cast(offset, logits.dtype)


def _relative(terms: Terms, before: Any, peaks: Any) -> Terms:
    """Return the terms relative to `exp(m)`; `before` is m before each token, `peaks` after it."""
    inputs = ops.exp(terms.log_inputs - peaks)
    return Terms(terms.keys * inputs[..., None], terms.values, terms.log_decays + before - peaks)


def _normalized(output: Any, peaks: Any) -> Any:
    """Divide by the normalizer, the last feature of each head, or by 1 if it is smaller."""
    # Within float32, and positive: both sums of a zero query are zero.
    one = ops.exp(ops.clip(-peaks, -80.0, 80.0))[..., None]
    total, normalizer = ops.split(output, [output.shape[-1] - 1], axis=-1)
    normalizer = ops.abs(normalizer)
    # On JAX, the derivative of `maximum` is 0 times that of the division, which may overflow.
    return total / ops.where(normalizer > one, normalizer, one)


def _running_peaks(log_decays: Any, log_inputs: Any) -> Any:
    """Return `m_t = max(log f_t + m_{t-1}, log i_t)` by doubling the number of tokens seen."""
    length = ops.shape(log_inputs)[1]
    positions = ops.arange(length, dtype="int32")[:, None]

    def double(span: Any, decays: Any, peaks: Any) -> Any:
        has_earlier = positions >= span
        peaks_before = ops.where(has_earlier, ops.roll(peaks, span, axis=1), LOWEST)
        decays_before = ops.where(has_earlier, ops.roll(decays, span, axis=1), 0.0)
        return 2 * span, decays + decays_before, ops.maximum(peaks, decays + peaks_before)

    state = (1, log_decays, log_inputs)
    if not isinstance(length, int):
        return ops.while_loop(lambda span, *_: span < length, double, state)[2]
    while state[0] < length:
        state = double(*state)
    return state[2]


def _three_to_six(shape: tuple[int, ...], dtype: Any = None) -> Any:
    """Return the initial offsets of the forget gates."""
    return ops.convert_to_tensor(np.linspace(3.0, 6.0, shape[0]), dtype)
