"""XLA does not change outputs, in inference and in training."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tests.backends import BACKEND, array, close, compiled
from tests.layers.cases import PLAIN, VARIANTS, Case, one_fast, randomize, tokens

pytestmark = pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no XLA here")


# Training, below, compiles the others.
@pytest.mark.parametrize("case", one_fast(case for case in PLAIN if case.causal))
def test_output(case: Case) -> None:
    layer = case.make()
    query, value = tokens(0, 2, 3, 4), tokens(1, 2, 7, 4)
    mask = np.arange(7) < np.array([[7], [4]])
    layer.build(query.shape, value.shape)
    randomize(layer)

    def call(query, value, mask):
        return layer(query, value, value_mask=mask)

    close(array(compiled(call, xla=True)(query, value, mask)), array(call(query, value, mask)))


@pytest.mark.slow
@pytest.mark.parametrize("case", one_fast([PLAIN[-1], *VARIANTS.values()]))
def test_training(case: Case) -> None:
    ids = np.array([[5, 2, 9, 0, 0], [1, 3, 3, 7, 7]])
    labels = np.array([[0, 1, 1, 0, 1], [1, 0, 1, 0, 0]])

    def trained(*, xla: bool) -> list[np.ndarray]:
        inputs = keras.Input((None,), dtype="int32")
        x = keras.layers.Embedding(10, 4, mask_zero=True)(inputs)
        y = keras.layers.Dense(2)(case.make()(x))
        model = keras.Model(inputs, y)
        randomize(model)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=xla, run_eagerly=not xla)
        model.train_on_batch(ids, labels)
        return model.get_weights()

    for one, other in zip(trained(xla=True), trained(xla=False), strict=True):
        close(one, other)
