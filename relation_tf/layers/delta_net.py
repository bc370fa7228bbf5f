"""DeltaNet and Gated DeltaNet: linear attention that corrects what it stored for a key."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer
from relation_tf.layers.masking import to_float32, transposed, zero_masked
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
from relation_tf.layers.scan import decays_between, joined, number_and_size, split, states_before
from relation_tf.layers.token_mixer import affine, joint_affine, presets_with, rms_normalize

_KEY_EPSILON = 1e-6  # Of the norm of queries and keys, as in the authors' code.
_IN_TURN = 16  # Up to this number of chunks, a loop takes less time than products of transitions.


@keras.saving.register_keras_serializable(package="relation_tf")
class DeltaNet(MatrixStateMixer):
    """DeltaNet: linear attention with the delta rule.

    With `conv`, a causal convolution of each feature over `filter_width` tokens, in heads:

    - `Q = norm(swish(conv(query W_Q)))`, `K = norm(swish(conv(value W_K)))` with norm 1,
      `V = swish(conv(value W_V))`
    - write strength of each head: `b = sigmoid(value W_b)`
    - state of each head: `S_t = S_{t-1} + b_t K_t (V_t - S_{t-1}^T K_t)^T`, which replaces a part
      b of the value stored for the key by V
    - output of each head: `Y_t = RMSNorm(S_t^T Q_t)`, with one scale for all heads
    - output: `Y W_out`

    Masked tokens are absent, also in convolutions. The recurrence uses float32 or wider. Time and
    memory are linear in the number of tokens.

    With `causal=True` query i sees tokens 1 to i. The state of `step` is S, shape
    `(batch, num_heads, units / num_heads, expansion * units / num_heads)`, and the last
    `filter_width - 1` inputs of the convolutions of K and V, and of Q. Otherwise the output of a
    head is normalized after the sum of both directions, with the same Q, K, V and b; so the
    convolutions look back in both.

    Args:
        units: Width of queries, keys and output, a multiple of `num_heads`.
        num_heads: Number of heads. The paper uses heads of 128 features.
        expansion: Width of the values, in multiples of `units`. Default: 1.
        filter_width: Number of tokens of the convolutions.
        use_bias: If True, the projections to Q, K, V and the output have biases. Default: False.
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
        >>> from relation_tf.layers import DeltaNet
        >>> DeltaNet(units=8, num_heads=2)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Yang, Wang, Zhang, Shen, Kim 2024, "Parallelizing Linear Transformers with the Delta Rule
          over Sequence Length", arXiv 2406.06484, section 3.
    """

    presets = presets_with(expansion=1)

    convolves_queries = True

    def __init__(
        self,
        units: int,
        num_heads: int = 1,
        *,
        expansion: int | None = None,
        filter_width: int = 4,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, num_heads, **kwargs)
        self.expansion = positive_integer("expansion", self.preset("expansion", expansion))
        self.filter_width = positive_integer("filter_width", filter_width)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create the matrices, the filters and the scale of the norm."""
        inner = self.expansion * self.units
        self.query_kernel, self.query_bias = self.add_projection("query", query_width)
        self.key_kernel, self.key_bias = self.add_projection("key", value_width)
        self.value_kernel, self.value_bias = self.add_projection("value", value_width, width=inner)
        self.strength_kernel = self.add_kernel("strength_kernel", value_width, self.num_heads)
        self.query_filters = self.add_filters("query_filters", self.filter_width, self.units)
        self.kv_filters = self.add_filters("kv_filters", self.filter_width, self.units + inner)
        self.scale = self.add_weight(
            shape=(inner // self.num_heads,), initializer="ones", name="scale"
        )
        self.out_kernel, self.out_bias = self.add_projection("out", inner)

    def queries(self, query: Any, query_mask: Any) -> Any:
        """Return Q."""
        q = affine(query, self.query_kernel, self.query_bias)
        return self._activated(short_convolution(q, self.query_filters, 0.0, query_mask))

    def terms(self, value: Any, value_mask: Any) -> Terms:
        """Return `sqrt(b) K`, `sqrt(b) V` and the decays."""
        kv = short_convolution(self._kv(value), self.kv_filters, 0.0, value_mask)
        return self._terms(kv, value, value_mask)

    def log_decays(self, value: Any) -> Any:
        """Return the logarithms of the decays, `(batch, tokens, heads)`, or one for all heads."""
        return to_float32(ops.zeros_like(value[..., :1]))

    def gated(self, y: Any, query: Any) -> Any:
        """Apply the gate of the output, if the layer has one."""
        return y

    def recurred(self, queries: Any, terms: Terms, mask: Any) -> Any:
        """Compute the delta rule over the tokens in their order."""
        return delta_rule(queries, terms.keys, terms.values, terms.log_decays)

    def finish(self, output: Any, query: Any, training: bool) -> Any:
        """Apply the norm, the gate and W_out."""
        y = ops.cast(rms_normalize(output), self.compute_dtype) * self.scale
        y = ops.reshape(y, (*ops.shape(query)[:2], self.expansion * self.units))
        return affine(self.drop(self.gated(y, query), training), self.out_kernel, self.out_bias)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the state and the inputs of both convolutions at zero."""
        inner, before = self.expansion * self.units, self.filter_width - 1
        sizes = (self.units // self.num_heads, inner // self.num_heads)
        return (
            self.zeros(batch_size, self.num_heads, *sizes),
            self.zeros(batch_size, before, self.units + inner),
            self.zeros(batch_size, before, self.units),
        )

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Add one token to the state."""
        state, for_kv, for_q = state
        kv, for_kv = convolution_step(self._kv(x), self.kv_filters, 0.0, for_kv, mask)
        q = affine(x, self.query_kernel, self.query_bias)
        q, for_q = convolution_step(q, self.query_filters, 0.0, for_q, mask)
        terms = self._terms(kv, x, mask)
        output, state = delta_rule_step(
            self._activated(q), terms.keys, terms.values, terms.log_decays, state
        )
        return self.finish(output, x, training=False), (state, for_kv, for_q)

    def _kv(self, value: Any) -> Any:
        """Return the projections to K and V."""
        kernels, biases = (self.key_kernel, self.value_kernel), (self.key_bias, self.value_bias)
        return joint_affine(value, kernels, biases)

    def _terms(self, kv: Any, value: Any, value_mask: Any) -> Terms:
        kv = zero_masked(kv, value_mask)
        logits = to_float32(ops.matmul(value, self.strength_kernel))
        root = ops.exp(ops.log_sigmoid(logits) / 2)[..., None]
        k, v = ops.split(kv, [self.units], axis=-1)
        keys, values = self._activated(k, root), root * self.heads(ops.silu(v))
        return Terms(keys, values, zero_masked(self.log_decays(value), value_mask))

    def _activated(self, x: Any, norm: Any = 1.0) -> Any:
        """Return heads of a norm from the output of a convolution."""
        x = self.heads(ops.silu(x))
        square = ops.sum(ops.square(x), axis=-1, keepdims=True) + _KEY_EPSILON
        return x * (norm * ops.rsqrt(square))


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
        use_bias: If True, the projections to Q, K, V and the output have biases. Default: False.
        dropout: Dropout rate in [0, 1), before W_out and before the output projection. Default: 0,
            or 0.5 for the released code.
        **kwargs: As in `DeltaNet`.

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

    presets = presets_with(expansion=2)

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


def delta_rule(queries: Any, keys: Any, values: Any, log_decays: Any) -> Any:
    """Compute `o_t = q_t^T S_t` with `S_t = a_t (I - k_t k_t^T) S_{t-1} + k_t v_t^T`.

    Each head has its own state. With keys n of norm 1 and write strengths b in [0, 1], the rule
    `S_t = a_t (I - b_t n_t n_t^T) S_{t-1} + b_t n_t v_t^T` is this one for the keys `sqrt(b_t) n_t`
    and the values `sqrt(b_t) v_t`.

    The state is a sum of decayed products `k_j u_j^T`, where `u_t = v_t - a_t S_{t-1}^T k_t`.
    With the state S before a chunk, the product `g_t` of its decays up to token t, and the product
    `G_ij` of those after token j up to token i, the rows u of the chunk solve

        (I + L) U = V - diag(g) K S,  L_ij = G_ij k_i^T k_j for j < i

    (the WY form). So the state after the chunk is linear in S: a loop over chunks computes it, or
    `states_before`. Time and memory are linear in the number of tokens.

    A token with the key zero and the log decay zero changes no state, as if it were absent.

    Args:
        queries: Tensor of shape `(batch, tokens, heads, features)`, in float32 or wider.
        keys: Tensor of the shape of `queries`, with norms of at most 1.
        values: Tensor of shape `(batch, tokens, heads, width)`.
        log_decays: Logarithms of `a`, at most 0, of shape `(batch, tokens, heads)`, or of one head
            for all.

    Returns:
        Tensor of shape `(batch, tokens, heads, width)`.

    References:
        - Yang et al. 2024, arXiv 2406.06484, section 3.2, for the form by chunks.
        - Yang, Kautz, Hatamizadeh 2024, arXiv 2412.06464, section 3.3, for decays.
    """
    length = ops.shape(values)[1]
    tensors = (queries, keys, values, log_decays[..., None])
    queries, keys, values, log_decays = (split(x, *number_and_size(length)) for x in tensors)
    between = decays_between(log_decays)
    since_start = ops.exp(ops.cumsum(log_decays, axis=3))
    rows = ops.arange(ops.shape(keys)[3], dtype="int32")
    products = ops.matmul(keys, transposed(keys)) * between
    system = ops.where(rows[:, None] == rows, 1.0, products)  # I + L
    scores = ops.matmul(queries, transposed(keys)) * between
    written = ops.solve_triangular(system, values, lower=True)
    if values.shape[0] == 1:
        return joined(ops.matmul(scores, written), length)
    read = ops.solve_triangular(system, keys * since_start, lower=True)  # U = written - read S.
    to_state = transposed(keys * between[:, :, :, -1, :, None])
    before, written = _states_and_written(since_start[:, :, :, -1:], to_state, read, written)
    outputs = ops.matmul(scores, written) + ops.matmul(queries * since_start, before)
    return joined(outputs, length)


def _states_and_written(decays: Any, to_state: Any, read: Any, written: Any) -> tuple[Any, Any]:
    """Return the state S before each chunk, and U, from the parts of `delta_rule`."""
    count = ops.shape(written)[0]
    if not isinstance(count, int) or count > _IN_TURN:
        identity = ops.eye(read.shape[-1], dtype=read.dtype)
        transitions = decays * identity - ops.matmul(to_state, read)
        before = states_before(transitions, ops.matmul(to_state, written), ops.matmul)
        return before, written - ops.matmul(read, before)
    state, before, after = ops.zeros_like(ops.matmul(to_state[0], written[0])), [], []
    for decay, k, r, u in zip(
        *(ops.unstack(x) for x in (decays, to_state, read, written)), strict=True
    ):
        before.append(state)
        after.append(u - ops.matmul(r, state))
        state = decay * state + ops.matmul(k, after[-1])
    return ops.stack(before), ops.stack(after)


def delta_rule_step(
    queries: Any, keys: Any, values: Any, log_decays: Any, state: Any
) -> tuple[Any, Any]:
    """Return the output of one token, as in `delta_rule`, and the state after it.

    The tensors have one token each; the state has the shape `(batch, heads, features, width)`.
    """
    state = ops.exp(log_decays[:, 0])[..., None, None] * state
    keys = keys[:, 0][..., None, :]
    error = values[:, 0][..., None, :] - ops.matmul(keys, state)
    state = state + transposed(keys) * error
    return ops.matmul(queries[:, 0][..., None, :], state)[:, None, :, 0], state
