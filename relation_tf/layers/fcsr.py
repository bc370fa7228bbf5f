"""Full-context semantic representation."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.fofe import check_reach, contexts
from relation_tf.layers.masking import zero_masked
from relation_tf.layers.token_mixer import affine, width_of


@keras.saving.register_keras_serializable(package="relation_tf")
class FCSR(keras.layers.Layer):
    """Each token with all that stands left and right of it, through two gated cells.

    With `S` the tokens and `S_l`, `S_r` their left and right contexts (see `FOFE`), and gates
    `Gq, Gk, Gv, Go = relu([a cell's three inputs] W + b)`:

    - context integration, of `S, S_l, S_r`: `C = S * Gq + S_l * Gk + S_r * Gv`,
      `C^ = tanh(C) * Go`;
    - semantic analysis, of `S, C, C^`: `H = S * Gq + C * Gk + C^ * Gv`, `H^ = tanh(H) * Go`.

    The output is `[C, C^, H, H^]`. Each cell has one matrix for all four gates: rows in the order
    of its inputs, columns in the order q, k, v, o. Cost is linear in the number of tokens.

    Args:
        decay: Weight of a token relative to its nearer neighbour, in [0, 1).
        window: How many of the nearest tokens on each side count, at least 1; None for all.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`. Masked tokens might as well not be there; outputs at them
            are zero.

    Returns:
        Tensor of shape `(batch, tokens, 4 width)`.

    Raises:
        ValueError: `decay` or `window` is out of its range, or `x` of another shape.

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
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_reach(decay, window)
        self.decay = float(decay)
        self.window = None if window is None else int(window)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.supports_masking = True

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """A matrix and a bias for each cell."""
        width = width_of("x", x_shape)
        self.integration_kernel, self.integration_bias = self._add_cell("integration", width)
        self.analysis_kernel, self.analysis_bias = self._add_cell("analysis", width)
        self.built = True

    def call(self, x: Any, mask: Any = None) -> Any:
        """The two cells."""
        mask = None if mask is None else ops.cast(mask, "bool")
        x = zero_masked(x, mask)
        left, right = contexts(x, mask, self.decay, self.window)
        c, c_hat = _cell(x, left, right, self.integration_kernel, self.integration_bias)
        h, h_hat = _cell(x, c, c_hat, self.analysis_kernel, self.analysis_bias)
        return zero_masked(ops.concatenate([c, c_hat, h, h_hat], axis=-1), mask)

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """`(batch, tokens, 4 width)`."""
        return (*x_shape[:-1], 4 * width_of("x", x_shape))

    def _add_cell(self, name: str, width: int) -> tuple[Any, Any]:
        kernel = self.add_weight(
            name=f"{name}_kernel",
            shape=(3 * width, 4 * width),
            # An initializer without a seed draws one when it is made: cells that shared it would
            # start alike.
            initializer=self.kernel_initializer.clone(),
            regularizer=self.kernel_regularizer,
        )
        bias = self.add_weight(
            name=f"{name}_bias",
            shape=(4 * width,),
            initializer=self.bias_initializer.clone(),
            regularizer=self.bias_regularizer,
        )
        return kernel, bias

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {
            **super().get_config(),
            "decay": self.decay,
            "window": self.window,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
        }


def _cell(q: Any, k: Any, v: Any, kernel: Any, bias: Any) -> tuple[Any, Any]:
    """The gated sum of three tensors, and its tanh through the fourth gate."""
    gates = ops.relu(affine(ops.concatenate([q, k, v], axis=-1), kernel, bias))
    gate_q, gate_k, gate_v, gate_o = ops.split(gates, 4, axis=-1)
    total = q * gate_q + k * gate_k + v * gate_v
    return total, ops.tanh(total) * gate_o
