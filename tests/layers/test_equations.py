"""Outputs and gradients of all algorithms equal the papers' equations."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from relation_tf.layers import Attention, LinearAttention, Relation
from tests.backends import array, close, close_gradients, vjp
from tests.layers.cases import (
    CASES,
    EACH_BASE,
    PLAIN,
    Case,
    built,
    close_slopes,
    poisoned,
    some,
    tokens,
    weights_of,
)

all_cases = pytest.mark.parametrize("case", CASES, ids=str)
# Layers in blocks or chunks differ by form.
LONGER = (*PLAIN, *(c for c in CASES if c.causal and c.positional and c not in PLAIN))


def check(case: Case, arrays: list[np.ndarray], masks: list[np.ndarray]) -> None:
    """Compare all algorithms with the equation, and their gradients with those of the first one.

    `arrays` and `masks` belong to the query, or to query and value.
    """
    names = ("query_mask", "value_mask")[: len(masks)]
    given = dict(zip(names, masks, strict=True))
    algorithms = ("auto", *case.algorithms) if len(case.algorithms) > 1 else ("auto",)
    widths = [x.shape[-1] for x in arrays]
    layers = [built(case.make(algorithm=algorithm), *widths) for algorithm in algorithms]
    wide = [x.astype("float64") for x in arrays]
    w = weights_of(layers[0])

    def expected() -> np.ndarray:
        return case.mix(w, wide[0], wide[-1], masks[0], masks[-1])

    outputs = expected()
    cotangent = np.random.default_rng(1).normal(size=outputs.shape)

    def loss() -> float:
        return float(np.sum(expected() * cotangent))

    first: list[np.ndarray] = []
    for layer in layers:
        output, for_inputs, for_weights = vjp(
            lambda *tensors, layer=layer: layer(*tensors, **given),
            arrays,
            layer.weights,
            cotangent,
        )
        close(output, outputs, case.tolerance)
        for gradient, mask in zip(for_inputs, masks, strict=True):
            assert not gradient[~mask].any()
        gradients = [*for_inputs, *for_weights]
        if first:
            close_gradients(gradients, first)
        else:
            close_slopes(loss, [*wide, *w.values()], gradients)
            first = gradients


@pytest.mark.parametrize("length", [1, 63])
@all_cases
def test_one_input_with_poisoned_padding(case: Case, length: int) -> None:
    mask = some(2, 2, length)
    check(case, [poisoned(tokens(3, 2, length, 4), mask)], [mask])


@pytest.mark.slow
@pytest.mark.every_backend
@pytest.mark.parametrize("length", [64, 65, 100, 257])
@pytest.mark.parametrize("case", LONGER, ids=str)
def test_longer_inputs_with_poisoned_padding(case: Case, length: int) -> None:
    mask = some(2, 2, length)
    check(case, [poisoned(tokens(3, 2, length, 4), mask)], [mask])


@pytest.mark.parametrize(("queries", "length"), [(1, 63), (7, 3)])
@all_cases
def test_two_inputs_with_poisoned_padding(case: Case, queries: int, length: int) -> None:
    masks = [some(4, 2, queries), some(5, 2, length)]
    masks[0][-1] = True  # Queries without unmasked tokens.
    width = 4 if case.one_width else 5
    query = poisoned(tokens(6, 2, queries, width), masks[0])
    value = poisoned(tokens(7, 2, length, 4), masks[1])
    check(case, [query, value], masks)


@pytest.mark.parametrize("case", EACH_BASE, ids=str)
def test_value_and_its_mask_default_to_the_query(case: Case) -> None:
    x, mask, whole = tokens(9, 2, 5, 4), some(10, 2, 5), np.ones((2, 5), bool)
    layer = case.make()
    for given, meant in (
        ({}, {"query_mask": whole, "value_mask": whole}),
        ({"query_mask": mask}, {"query_mask": mask, "value_mask": mask}),
        ({"value_mask": mask}, {"value_mask": mask}),
        # A token may be masked in the query and kept in the value.
        ({"query_mask": mask, "value_mask": ~mask}, {"query_mask": mask, "value_mask": ~mask}),
    ):
        close(array(layer(x, **given)), array(layer(x, x, **meant)))


@pytest.mark.tensorflow  # On other backends Keras multiplies matrices in float32.
@all_cases
def test_float64_is_float64_throughout(case: Case) -> None:
    x, mask = tokens(11, 2, 5, 4).astype("float64"), some(12, 2, 5)
    layer = case.make(dtype="float64")
    output = keras.ops.convert_to_numpy(layer(x, query_mask=mask))
    w = {v.name: keras.ops.convert_to_numpy(v) for v in layer.weights}
    # TensorFlow rounds a constant of GELU to float32.
    rounded = getattr(layer, "activation", None) is keras.activations.gelu
    close(output, case.mix(w, x, x, mask, mask), 1e-6 if rounded else 1e-12)
    if case.causal:
        step, _ = layer.step(x[:, :1], layer.initial_state(2, 5))
        assert keras.backend.standardize_dtype(step.dtype) == "float64"


@pytest.mark.parametrize(
    ("layer_class", "count"), [(Attention, 23_296), (LinearAttention, 23_296), (Relation, 21_120)]
)
def test_parameter_counts_of_the_paper(layer_class: type, count: int) -> None:
    layer = layer_class(64, variant="released_code")
    layer.build((None, None, 100))
    assert layer.count_params() == count
