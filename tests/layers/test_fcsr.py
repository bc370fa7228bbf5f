"""FCSR, its contexts (FOFE) and feature attention; `test_contract` has the equation of FCSR."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import FCSR, FOFE, FeatureAttention
from tests.backends import BACKEND, array, close, compiled, vjp, with_unknown_length
from tests.keras_testing import run_layer_test
from tests.layers import naive
from tests.layers.cases import built, poisoned, tokens
from tests.layers.test_masks import EXPLICIT, IDS, embedding, mask_of

all_masks = pytest.mark.parametrize("gaps", [False, True], ids=["padded", "gaps"])


def test_weights_and_their_order() -> None:
    names = ["integration_kernel", "integration_bias", "analysis_kernel", "analysis_bias"]
    weights = built(FCSR(), 5).weights + built(FeatureAttention(3)).weights
    assert [v.name for v in weights] == [*names, "query_kernel", "key_kernel", "feature_kernel"]
    assert [v.shape for v in weights] == [(15, 20), (20,), (15, 20), (20,), (4, 3), (4, 3), (3, 1)]


def fcsr_of(integration: list[int], analysis: list[int], *arguments: Any, **options: Any) -> FCSR:
    """Return a layer with kernels of zero: its gates are the biases, in the order q, k, v, o."""
    layer = FCSR(*arguments, **options)
    layer.build((None, None, 1))
    zeros = np.zeros((3, 4))
    layer.set_weights([zeros, np.array(integration), zeros, np.array(analysis)])
    return layer


def test_by_hand() -> None:
    """Token 2 between tokens 1 and 3."""
    layer = fcsr_of([1, 2, 3, 4], [1, 0, 0, 1])
    output = array(layer(np.array([[[1.0], [2.0], [3.0]]], "float32")))
    c = 2 * 1 + 1 * 2 + 3 * 3
    close(output[0, 1], [c, 4 * np.tanh(c), 2, np.tanh(2)])


def test_the_matrix_of_a_context_is_singular() -> None:
    """The FCSR preprint calls T_l and T_r invertible; their diagonals are zero."""
    left, right = (array(x)[0] for x in FOFE()(np.eye(6, dtype="float32")[None]))
    assert not np.triu(left).any()
    assert not np.tril(right).any()
    assert np.linalg.matrix_rank(left) == np.linalg.matrix_rank(right) == 5


def test_sums_are_not_in_half_precision() -> None:
    """0.999 is 0.99902 in float16, and a sum of ones is infinite, or 256 in bfloat16."""
    many = np.ones((1, 20_000, 1), "float16")
    # With only gate Gk open, the output is the left context of the last token: 1,000.
    output = array(fcsr_of([0, 1, 0, 0], [0] * 4, 0.999, dtype="float16")(many))
    np.testing.assert_allclose(output[0, -1], [1000, 0, 0, 0], rtol=1e-3)
    left, right = FOFE(0.999, dtype="float16")(many)
    np.testing.assert_allclose(array(left)[0, -1], 1000, rtol=1e-3)
    np.testing.assert_allclose(array(right)[0, 0], 1000, rtol=1e-3)
    for dtype in ("float16", "bfloat16"):
        layer = FeatureAttention(1, dtype=dtype)
        layer.build((None, None, 1))
        layer.set_weights([np.ones((1, 1)), np.ones((1, 1)), np.full((1, 1), 2.0**-10)])
        output = array(layer(np.ones((1, 70_000, 1), dtype="float32")))
        np.testing.assert_allclose(output, [[70_000 / 1024]], rtol=4e-3)


# Contexts


def side_by_side(layer: FOFE, x: Any, mask: Any = None) -> Any:
    """Concatenate both contexts."""
    return keras.ops.concatenate(layer(x, mask=mask), axis=-1)


def masks(length: int, *, gaps: bool) -> np.ndarray:
    """Return masks of five sequences: unpadded, padded on one side or both, with gaps, empty."""
    if gaps:
        mask = np.random.default_rng(2).random((5, length)) < 0.6
        mask[0], mask[-1] = True, False
        return mask
    start = np.array([0, 0, length // 3, length // 4, 0])[:, None]
    end = np.array([length, length - length // 3, length, length - length // 4, 0])[:, None]
    return (np.arange(length) >= start) & (np.arange(length) < end)


def twin(x: np.ndarray, mask: np.ndarray, decay: float, window: int | None) -> np.ndarray:
    """Return both contexts of the unmasked tokens of each sequence, concatenated."""
    output = np.zeros((*x.shape[:2], 2 * x.shape[2]))
    for one, kept, row in zip(x.astype("float64"), mask, output, strict=True):
        row[kept] = np.concatenate(naive.fofe(one[kept], decay, window), axis=-1)
    return output


def twin_gradient(
    cotangent: np.ndarray, mask: np.ndarray, decay: float, window: int | None
) -> np.ndarray:
    """Contexts are linear: the contexts of unit vectors are the matrices of the map."""
    width = cotangent.shape[-1] // 2
    gradient = np.zeros((*mask.shape, width))
    for for_output, kept, row in zip(cotangent, mask, gradient, strict=True):
        left, right = naive.fofe(np.eye(kept.sum()), decay, window)
        row[kept] = left.T @ for_output[kept, :width] + right.T @ for_output[kept, width:]
    return gradient


@pytest.mark.parametrize("length", [1, 63])
@all_masks
@pytest.mark.parametrize(
    ("decay", "window"),
    [(0, None), (0, 3), (0.2, None), (0.2, 1), (0.999, None), (0.999, 7), (0.999, 100)],
)
def test_equation_and_gradient(decay: float, window: int | None, gaps: bool, length: int) -> None:
    mask = masks(length, gaps=gaps)
    x, cotangent = tokens(0, 5, length, 4), tokens(1, 5, length, 8)
    layer = FOFE(decay, window)
    output, [gradient], _ = vjp(
        lambda x: side_by_side(layer, x, mask), [poisoned(x, mask)], [], cotangent
    )
    close(output, twin(x, mask, decay, window))
    close(gradient, twin_gradient(cotangent, mask, decay, window))


@pytest.mark.parametrize(
    ("decay", "window"),
    [(0.2, None), (0.9, None), (0.999, None), (0.999, 100), (0.99, 333), (1 - 1e-9, None)],
)
def test_long_sequences(decay: float, window: int | None) -> None:
    """Lengths beyond the reach of the decay and beyond blocks of blocks."""
    x = tokens(3, 1, 1500, 2)
    everything = np.ones((1, 1500), bool)
    expected = twin(x, everything, decay, window)
    for mask in (None, everything):
        close(array(side_by_side(FOFE(decay, window), x, mask)), expected)


@pytest.mark.parametrize("shape", [(0, 7), (2, 0)])
@pytest.mark.parametrize(("decay", "window"), [(0.9, 3), (0.999, None)])
def test_empty_inputs(decay: float, window: int | None, shape: tuple[int, int]) -> None:
    layer, x, mask = FOFE(decay, window), tokens(0, *shape, 4), np.ones(shape, bool)
    output, [gradient], _ = vjp(lambda x: side_by_side(layer, x, mask), [x], [])
    assert (output.shape, gradient.shape) == ((*shape, 8), x.shape)


def test_both_outputs_have_the_mask_and_an_explicit_one_overrides_it() -> None:
    embed, bare = embedding(mask_zero=True)(IDS), embedding(mask_zero=False)(IDS)
    expected = FOFE()(bare, mask=EXPLICIT)
    for output in FOFE()(embed):
        np.testing.assert_array_equal(mask_of(output), IDS != 0)
    for output, wanted in zip(FOFE()(embed, mask=EXPLICIT), expected, strict=True):
        close(array(output), array(wanted))
        np.testing.assert_array_equal(mask_of(output), EXPLICIT)


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no XLA here")
@pytest.mark.parametrize(("decay", "window"), [(0.9, 3), (0.999, None)])
def test_xla_does_not_change_outputs(decay: float, window: int | None) -> None:
    layer, x, mask = FOFE(decay, window), tokens(0, 5, 40, 4), masks(40, gaps=True)

    def step(x: Any, mask: Any) -> Any:
        return side_by_side(layer, x, mask)

    if BACKEND == "tensorflow":
        output, [for_x] = with_unknown_length(step, [x, mask], xla=True)(x, mask)
        close(for_x, twin_gradient(np.ones((5, 40, 8)), mask, decay, window))
    else:
        output = compiled(step, xla=True)(x, mask)
    close(array(output), twin(x, mask, decay, window))


def test_keras_contract() -> None:
    run_layer_test(
        FOFE,
        {"decay": 0.9, "window": 3},
        input_shape=(2, 5, 4),
        expected_output_shape=((2, 5, 4), (2, 5, 4)),
        expected_output_dtype=("float32", "float32"),
        expected_num_trainable_weights=0,
        expected_num_non_trainable_weights=0,
        expected_num_seed_generators=0,
        supports_masking=True,
        run_training_check=False,  # The layer has no weights.
    )
