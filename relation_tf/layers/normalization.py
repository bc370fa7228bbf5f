"""Normalization over features."""

from __future__ import annotations

from typing import Any

from keras import ops

_EPSILON = 1e-5


def standardize(x: Any, epsilon: float = _EPSILON) -> Any:
    """Shift and scale the last axis to mean 0 and variance 1, as LayerNorm without weights."""
    return rms_normalize(x - ops.mean(x, axis=-1, keepdims=True), epsilon)


def rms_normalize(x: Any, epsilon: float = _EPSILON) -> Any:
    """Scale the last axis to mean square 1, as RMSNorm without weights."""
    return x * ops.rsqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + epsilon)
