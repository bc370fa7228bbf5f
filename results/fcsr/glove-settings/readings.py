"""Other readings of the FCSR paper.

Equation 9 with element-wise products; the gates of equations 5 and 7 with the logistic function.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers import FCSR
from relation_tf.registry import register_mechanism

register_mechanism("fcsr-elements", head="feature-products", positions=None, size=None)(FCSR)


@register_mechanism("fcsr-logistic", head="feature-attention", positions=None, size=None)
@keras.saving.register_keras_serializable(package="readings")
class LogisticGates(FCSR):
    """FCSR whose gates are between 0 and 1; like FCSR it keeps the width of its input."""

    def __init__(self, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def _gates(self, x: Any) -> Any:
        return ops.sigmoid(x)
