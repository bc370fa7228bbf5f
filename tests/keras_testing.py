"""Wrapper of the private test helpers of Keras."""

from __future__ import annotations

import warnings
from typing import Any

from keras.src.testing import TestCase


def run_layer_test(layer_class: type, arguments: dict[str, Any], **expectations: Any) -> None:
    """Run the Keras layer checks: serialization, shapes, weights, training, mixed precision."""
    with warnings.catch_warnings():
        # It trains from a generator and leaves fit's `shuffle` on.
        warnings.filterwarnings("ignore", "`shuffle=True` was passed", UserWarning)
        TestCase("run_layer_test").run_layer_test(layer_class, arguments, **expectations)
