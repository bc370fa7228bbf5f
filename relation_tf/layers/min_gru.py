"""minGRU and minLSTM: gated recurrences whose gates do not depend on the state."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.masking import to_float32, zero_masked
from relation_tf.layers.recurrent_mixer import RecurrentMixer, Terms
from relation_tf.layers.scan import states_before
from relation_tf.layers.token_mixer import affine, presets_with

_LEVELS = 10  # With an unknown number of tokens, a loop has a step for each 2^10.


@keras.saving.register_keras_serializable(package="relation_tf")
class MinGRU(RecurrentMixer):
    """minGRU: a GRU without reset gate, whose update gate depends on the token alone.

    With the update gate `z = sigmoid(value W_z)` and the candidate `c = g(value W_c)`, where
    `g(x) = x + 0.5 if x >= 0 else sigmoid(x)`:

    - state of each feature, and output: `h_t = (1 - z_t) h_{t-1} + z_t c_t`, with `h_0 = 0`

    So the recurrence is linear in the state and needs no loop over tokens. It uses float32 or
    wider. Time and memory are linear in the number of tokens. Masked tokens are absent.

    The content of `query` has no effect, only its position. With `causal=True` query i reads the
    state after tokens 1 to i; the state of `step` is h, shape `(batch, units)`. Otherwise the
    output is the sum of both directions, in each of which token t counts once.

    Args:
        units: Width of the state and the output.
        use_bias: If True, the projections have biases. Default: True.
        dropout: Dropout rate in [0, 1), on the output and before the output projection. Default: 0,
            or 0.5 for the released code.
        **kwargs: As in `RecurrentMixer`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens are absent.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import MinGRU
        >>> MinGRU(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Feng et al. 2024, "Were RNNs All We Needed?", arXiv 2410.01201, sections 3.1 and B.1.
    """

    presets = presets_with(use_bias=True)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_z and W_c."""
        self.update_kernel, self.update_bias = self.add_projection("update", value_width)
        self.candidate_kernel, self.candidate_bias = self.add_projection("candidate", value_width)

    def queries(self, query: Any, query_mask: Any) -> Any:
        """Return the query as one head; only its number of tokens matters."""
        return query[:, :, None]

    def terms(self, value: Any, value_mask: Any) -> Terms:
        """Return `z c` and the logarithms of `1 - z`."""
        candidate = to_float32(affine(value, self.candidate_kernel, self.candidate_bias))
        candidate = ops.where(candidate >= 0, candidate + 0.5, ops.sigmoid(candidate))
        log_forget, log_input = self.log_gates(value)
        values = zero_masked(ops.exp(log_input) * candidate, value_mask)
        log_decays = zero_masked(log_forget, value_mask)
        return Terms(None, values[:, :, None], log_decays[:, :, None])

    def log_gates(self, value: Any) -> tuple[Any, Any]:
        """Return the logarithms of the factors of the state and the candidate."""
        update = to_float32(affine(value, self.update_kernel, self.update_bias))
        return ops.log_sigmoid(-update), ops.log_sigmoid(update)

    def recurred(self, queries: Any, terms: Terms, mask: Any) -> Any:
        """Compute the states."""
        return elementwise_recurrence(terms.values, terms.log_decays)

    def finish(self, output: Any, query: Any, training: bool) -> Any:
        """Apply the dropout."""
        return self.drop(ops.cast(output[:, :, 0], query.dtype), training)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the state at zero."""
        return (self.zeros(batch_size, self.units),)

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the state."""
        terms = self.terms(x, mask)
        h = ops.exp(terms.log_decays[:, 0, 0]) * state[0] + terms.values[:, 0, 0]
        return self.finish(h[:, None, None], x, training=False), (h,)


@keras.saving.register_keras_serializable(package="relation_tf")
class MinLSTM(MinGRU):
    """minLSTM: an LSTM without output gate.

    Its gates depend only on the token, and their sum is one.

    With `f = sigmoid(value W_f)`, `i = sigmoid(value W_i)` and the candidate `c` as in `MinGRU`:

    - state of each feature, and output: `h_t = f_t / (f_t + i_t) h_{t-1} + i_t / (f_t + i_t) c_t`,
      with `h_0 = 0`

    The use of the query and the state of `step` are those of `MinGRU`. Time and memory are linear
    in the number of tokens.

    Args:
        units: Width of the state and the output.
        use_bias: If True, the projections have biases. Default: True.
        dropout: Dropout rate in [0, 1), on the output and before the output projection. Default: 0,
            or 0.5 for the released code.
        **kwargs: As in `MinGRU`.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens are absent.

    Returns:
        Tensor of shape `(batch, queries, units)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import MinLSTM
        >>> MinLSTM(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Feng et al. 2024, "Were RNNs All We Needed?", arXiv 2410.01201, sections 3.2 and B.2.
    """

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_f, W_i and W_c."""
        self.forget_kernel, self.forget_bias = self.add_projection("forget", value_width)
        self.input_kernel, self.input_bias = self.add_projection("input", value_width)
        self.candidate_kernel, self.candidate_bias = self.add_projection("candidate", value_width)

    def log_gates(self, value: Any) -> tuple[Any, Any]:
        """Return the logarithms of `f / (f + i)` and `i / (f + i)`."""
        forget = ops.log_sigmoid(to_float32(affine(value, self.forget_kernel, self.forget_bias)))
        enter = ops.log_sigmoid(to_float32(affine(value, self.input_kernel, self.input_bias)))
        return ops.log_sigmoid(forget - enter), ops.log_sigmoid(enter - forget)


def elementwise_recurrence(values: Any, log_decays: Any) -> Any:
    """Compute `h_t = a_t * h_{t-1} + v_t`, with `h_0 = 0`, for each feature.

    Tokens are joined in pairs, and these again. All factors are products of decays, at most 1, so
    that nothing overflows. Time and memory are linear in the number of tokens.

    Args:
        values: Tensor of shape `(batch, tokens, heads, width)`, in float32 or wider.
        log_decays: Logarithms of `a`, at most 0, of the shape of `values`.

    Returns:
        Tensor with the shape of `values`.

    References:
        - Martin, Cundy 2018, "Parallelizing Linear Recurrent Neural Nets Over Sequence Length",
          arXiv 1709.04057, section 2.
    """
    decays, values = (ops.swapaxes(x, 0, 1) for x in (ops.exp(log_decays), values))
    before = states_before(decays, values, levels=_LEVELS)
    return ops.swapaxes(decays * before + values, 0, 1)
