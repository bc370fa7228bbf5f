"""Gated linear attention."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import positive_integer
from relation_tf.layers.masking import to_float32, zero_masked
from relation_tf.layers.recurrent_mixer import MatrixStateMixer, Terms
from relation_tf.layers.token_mixer import affine, standardize

_TEMPERATURE = 16.0


@keras.saving.register_keras_serializable(package="relation_tf")
class GatedLinearAttention(MatrixStateMixer):
    """Gated linear attention (GLA): linear attention with a decay for each feature of the key.

    With `Q = query W_Q`, `K = value W_K`, `V = value W_V`, split into heads:

    - decays: `a = sigmoid(value W_1 W_2 + b)^(1/16)`, with `W_1` of `gate_rank` columns
    - state of each head: `S_t = diag(a_t) S_{t-1} + K_t V_t^T`
    - output of a head: `Y_t = LayerNorm(Q_t^T S_t / sqrt(key_dim))`, with mean 0 and variance 1
      over the features of the head, without scale and offset
    - output: `(swish(query W_R + b_R) * Y) W_O`

    Masked tokens are absent. The recurrence uses float32 or wider. Time and memory are linear in
    the number of tokens.

    With `causal=True` query i sees tokens 1 to i; the state of `step` is S, shape
    `(batch, num_heads, key_dim, units / num_heads)`. Otherwise the output of a head is normalized
    after the sum of both directions, in each of which token t counts once.

    Args:
        units: Width of values and output, a multiple of `num_heads`.
        num_heads: Number of heads. The paper uses 4. A head of one feature is always zero after
            LayerNorm.
        key_dim: Number of features of queries and keys in a head. Default: half of the values'
            `units / num_heads`, rounded down, at least 1.
        gate_rank: Rank of the projection to the decays.
        use_bias: If True, the projections to Q, K, V and the output have biases. The gates always
            have biases. Default: False.
        dropout: Dropout rate in [0, 1), before W_O and before the output projection. Default: 0,
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
        >>> from relation_tf.layers import GatedLinearAttention
        >>> layer = GatedLinearAttention(units=8, num_heads=2)
        >>> layer(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Yang et al. 2024, "Gated Linear Attention Transformers with Hardware-Efficient Training",
          arXiv 2312.06635, section 4.4.
    """

    def __init__(
        self,
        units: int,
        num_heads: int = 1,
        *,
        key_dim: int | None = None,
        gate_rank: int = 16,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, num_heads, **kwargs)
        if key_dim is None:
            key_dim = max(self.units // (2 * self.num_heads), 1)
        self.key_dim = positive_integer("key_dim", key_dim)
        self.gate_rank = positive_integer("gate_rank", gate_rank)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create W_Q, W_K, W_V, W_1, W_2, W_R and W_O."""
        keys = self.num_heads * self.key_dim
        self.query_kernel, self.query_bias = self.add_projection("query", query_width, width=keys)
        self.key_kernel, self.key_bias = self.add_projection("key", value_width, width=keys)
        self.value_kernel, self.value_bias = self.add_projection("value", value_width)
        self.decay_down_kernel = self.add_kernel("decay_down_kernel", value_width, self.gate_rank)
        self.decay_up_kernel, self.decay_up_bias = self.add_projection(
            "decay_up", self.gate_rank, use_bias=True, width=keys
        )
        self.gate_kernel, self.gate_bias = self.add_projection("gate", query_width, use_bias=True)
        self.out_kernel, self.out_bias = self.add_projection("out", self.units)

    def queries(self, query: Any, query_mask: Any) -> Any:
        """Return Q, scaled."""
        return self.heads(affine(query, self.query_kernel, self.query_bias)) * self.key_dim**-0.5

    def terms(self, value: Any, value_mask: Any) -> Terms:
        """Return K, V and the logarithms of the decays."""
        keys = zero_masked(affine(value, self.key_kernel, self.key_bias), value_mask)
        values = affine(value, self.value_kernel, self.value_bias)
        gate = ops.matmul(value, self.decay_down_kernel)
        gate = to_float32(affine(gate, self.decay_up_kernel, self.decay_up_bias))
        log_decays = zero_masked(ops.log_sigmoid(gate) / _TEMPERATURE, value_mask)
        return Terms(self.heads(keys), self.heads(values), self.heads(log_decays))

    def finish(self, output: Any, query: Any, training: bool) -> Any:
        """Normalize the heads and apply W_R and W_O."""
        gate = ops.silu(affine(query, self.gate_kernel, self.gate_bias))
        y = ops.cast(ops.reshape(standardize(output), ops.shape(gate)), gate.dtype) * gate
        return affine(self.drop(y, training), self.out_kernel, self.out_bias)

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the state at zero."""
        width = self.units // self.num_heads
        return (self.zeros(batch_size, self.num_heads, self.key_dim, width),)
