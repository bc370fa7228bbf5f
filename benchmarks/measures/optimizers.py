"""Adam on a large embedding with few rows per batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from benchmarks.measured import Measured, compare
from relation_tf.optimizers import Adam

_ROWS, _WIDTH, _OCCURRING = 214_100, 100, 4000


def embedding_updates() -> Measured:
    """Compare embedding updates of all rows and of the rows in the batch."""
    return compare(_update("rows"), _update("dense"), f"{_OCCURRING} of {_ROWS} rows occur")


def _update(kind: str) -> Callable[[], Any]:
    embedding = keras.layers.Embedding(_ROWS, _WIDTH)
    embedding.build()
    optimizer = Adam(embedding_updates=kind)
    optimizer.build(embedding.trainable_variables)
    generator = np.random.default_rng(0)
    rows = generator.choice(_ROWS, _OCCURRING, replace=False).astype(np.int32)
    values = generator.normal(size=(_OCCURRING, _WIDTH)).astype(np.float32)
    make = {"tensorflow": _on_tensorflow, "jax": _on_jax}[keras.backend.backend()]
    return make(optimizer, embedding.embeddings, rows, values)


def _on_tensorflow(
    optimizer: Any, variable: Any, rows: np.ndarray, values: np.ndarray
) -> Callable[[], Any]:
    import tensorflow as tf

    gradient = tf.IndexedSlices(tf.constant(values), tf.constant(rows), tf.constant(variable.shape))

    @tf.function
    def step() -> None:
        optimizer.apply([gradient], [variable])

    def run() -> None:
        step()
        tf.test.experimental.sync_devices()

    return run


def _on_jax(
    optimizer: Any, variable: Any, rows: np.ndarray, values: np.ndarray
) -> Callable[[], Any]:
    import jax

    # As in Keras training on JAX: the gradient is dense and the state is donated, so it must be
    # returned in the same order.
    gradient = jax.numpy.zeros(variable.shape).at[rows].set(values)
    state = [variable.value + 0], [v.value for v in optimizer.variables]

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state: Any, gradient: Any) -> Any:
        return optimizer.stateless_apply(state[1], [gradient], state[0])

    def run() -> None:
        nonlocal state
        state = jax.block_until_ready(step(state, gradient))

    return run
