"""Full-context semantic representation (FCSR)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import width_of
from relation_tf.layers.base import WeightedLayer
from relation_tf.layers.fofe import checked_reach, contexts
from relation_tf.layers.masking import boolean, zero_masked
from relation_tf.layers.token_mixer import affine


@keras.saving.register_keras_serializable(package="relation_tf")
class FCSR(WeightedLayer):
    """Full-context semantic representation: two gated cells over tokens and their contexts.

    `S` are the tokens, `S_l` and `S_r` their left and right contexts (see `FOFE`). Each cell
    computes four gates from its three inputs, `Gq, Gk, Gv, Go = relu([inputs] W + b)`:

    - context integration of `S, S_l, S_r`: `C = S * Gq + S_l * Gk + S_r * Gv`,
      `C^ = tanh(C) * Go`;
    - semantic analysis of `S, C, C^`: `H = S * Gq + C * Gk + C^ * Gv`, `H^ = tanh(H) * Go`.

    The output is `[C, C^, H, H^]`. Each cell has one matrix for all gates: rows in the order of
    its inputs, columns in the order q, k, v, o. Cost is linear in the number of tokens. On
    JAX there is no forward-mode derivative. H grows with the fourth power of the input and can
    exceed float16: use bfloat16.

    Args:
        decay: Factor in [0, 1) by which the weight of a token decreases per position of distance.
        window: Number of nearest tokens on each side to include, at least 1; None for all.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`. Masked tokens are removed from contexts and distances;
            their outputs are zero.

    Returns:
        Tensor of shape `(batch, tokens, 4 width)`.

    Raises:
        ValueError: If `decay` or `window` is out of range or `x` has another shape.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import FCSR
        >>> FCSR(decay=0.2)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 12)
        True

    References:
        - The FCSR preprint, "Full-context semantic representation".
    """

    def __init__(
        self,
        decay: float = 0.2,
        window: int | None = None,
        *,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            **kwargs,
        )
        self.decay, self.window = checked_reach(decay, window)

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create a matrix and a bias for each cell."""
        self.width = width_of("x", x_shape)
        self.integration_kernel, self.integration_bias = self._add_cell("integration", self.width)
        self.analysis_kernel, self.analysis_bias = self._add_cell("analysis", self.width)
        self.built = True

    def call(self, x: Any, mask: Any = None) -> Any:
        """Apply the two cells."""
        x = self.as_tokens(x)
        mask = boolean(mask, x)
        x = zero_masked(x, mask)
        left, right = contexts(x, mask, self.decay, self.window)
        c, c_hat = _cell(x, left, right, self.integration_kernel, self.integration_bias)
        h, h_hat = _cell(x, c, c_hat, self.analysis_kernel, self.analysis_bias)
        return zero_masked(ops.concatenate([c, c_hat, h, h_hat], axis=-1), mask)

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return `(batch, tokens, 4 width)`."""
        return (*self.checked_shape(x_shape)[:-1], 4 * width_of("x", x_shape))

    def _add_cell(self, name: str, width: int) -> tuple[Any, Any]:
        kernel = self.add_kernel(f"{name}_kernel", 3 * width, 4 * width)
        return kernel, self.add_bias(f"{name}_bias", 4 * width)


def _cell(q: Any, k: Any, v: Any, kernel: Any, bias: Any) -> tuple[Any, Any]:
    """Return the gated sum of three tensors and its tanh times the output gate."""
    gates = ops.relu(affine(ops.concatenate([q, k, v], axis=-1), kernel, bias))
    gate_q, gate_k, gate_v, gate_o = ops.split(gates, 4, axis=-1)
    total = q * gate_q + k * gate_k + v * gate_v
    return total, ops.tanh(total) * gate_o
