"""The dtype policy of networks while they are built."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import keras


@contextlib.contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Set Keras's global dtype policy within a block."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
