"""Other readings of the FCSR paper.

Equation 9 with element-wise products; the gates of equations 5 and 7 with the logistic function.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers import FCSR
from relation_tf.layers.fcsr import contexts
from relation_tf.layers.masking import boolean, zero_masked
from relation_tf.registry import register_mechanism

register_mechanism("fcsr-elements", head="feature-products", positions=None, size=None)(FCSR)


@register_mechanism("fcsr-logistic", head="feature-attention", positions=None, size=None)
@keras.saving.register_keras_serializable(package="readings")
class LogisticGates(FCSR):
    """FCSR whose gates are between 0 and 1; like FCSR it keeps the width of its input."""

    def __init__(self, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def call(self, x: Any, mask: Any = None) -> Any:
        """Apply the two cells."""
        x = self.as_tokens(x)
        mask = boolean(mask, x)
        x = zero_masked(x, mask)
        left, right = contexts(x, mask, self.decay, self.window)
        c, c_hat = _cell(x, left, right, self.integration_kernel, self.integration_bias)
        h, h_hat = _cell(x, c, c_hat, self.analysis_kernel, self.analysis_bias)
        return zero_masked(ops.concatenate([c, c_hat, h, h_hat], axis=-1), mask)


def _cell(q: Any, k: Any, v: Any, kernel: Any, bias: Any) -> tuple[Any, Any]:
    gates = ops.sigmoid(ops.matmul(ops.concatenate([q, k, v], axis=-1), kernel) + bias)
    gate_q, gate_k, gate_v, gate_o = ops.split(gates, 4, axis=-1)
    total = q * gate_q + k * gate_k + v * gate_v
    return total, ops.tanh(total) * gate_o
