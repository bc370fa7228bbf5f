"""Masks: sources, precedence, and outputs that do not depend on padding."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import Relation
from relation_tf.layers.token_mixer import TokenMixer
from tests.backends import array, close, with_unknown_length
from tests.layers.cases import CASES, MIXERS, PLAIN, Case, built, tokens

IDS = np.array([[5, 2, 9, 0, 0], [1, 0, 3, 3, 7], [0, 0, 0, 0, 0]])
OTHER_IDS = np.array([[4, 0, 8], [6, 6, 0], [2, 3, 4]])
EXPLICIT = np.array(
    [[True, False, True, True, False], [False, True, True, False, False], [True] * 5]
)


def embedding(mask_zero: bool) -> keras.layers.Embedding:
    layer = keras.layers.Embedding(10, 4, mask_zero=mask_zero)
    layer.build()
    layer.set_weights([tokens(0, 10, 4)])
    return layer


def mask_of(x: Any) -> np.ndarray:
    return keras.ops.convert_to_numpy(x._keras_mask)


def test_the_base_class_chooses_the_masks() -> None:
    for layer in MIXERS:
        assert (layer.__call__, layer.call) == (TokenMixer.__call__, TokenMixer.call)


LAYER = built(Relation(3, activation="tanh", use_bias=True))  # one for all


def test_masks_of_two_embeddings_in_a_functional_model() -> None:
    inputs = [keras.Input((None,), dtype="int32") for _ in range(2)]
    output = LAYER(*map(embedding(mask_zero=True), inputs))
    bare, embed = embedding(mask_zero=False), embedding(mask_zero=True)
    expected = LAYER(bare(IDS), bare(OTHER_IDS), query_mask=IDS != 0, value_mask=OTHER_IDS != 0)
    np.testing.assert_array_equal(mask_of(LAYER(embed(IDS), embed(OTHER_IDS))), IDS != 0)
    close(array(keras.Model(inputs, output)([IDS, OTHER_IDS])), array(expected))


def test_explicit_masks_override_attached_ones() -> None:
    x, bare = embedding(mask_zero=True)(IDS), embedding(mask_zero=False)(IDS)
    expected = array(LAYER(bare, query_mask=EXPLICIT))
    for name in ("query_mask", "mask"):
        output = LAYER(x, **{name: EXPLICIT})
        close(array(output), expected)
        np.testing.assert_array_equal(mask_of(output), EXPLICIT)
    output = LAYER(x, x, value_mask=EXPLICIT)  # the query keeps its own
    close(array(output), array(LAYER(bare, bare, query_mask=IDS != 0, value_mask=EXPLICIT)))
    np.testing.assert_array_equal(mask_of(output), IDS != 0)
    ids, mask = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="bool")
    x = embedding(mask_zero=True)(ids)
    outputs = [LAYER(x, query_mask=mask), LAYER(x, x, query_mask=mask, value_mask=mask)]
    for output in keras.Model([ids, mask], outputs)([IDS, EXPLICIT]):
        close(array(output), expected)


def test_query_mask_overrides_mask_and_has_any_dtype() -> None:
    x = tokens(1, 3, 5, 4)
    expected = array(LAYER(x, query_mask=EXPLICIT))
    close(array(LAYER(x, query_mask=EXPLICIT, mask=~EXPLICIT)), expected)
    for dtype in ("int32", "float32"):
        close(array(LAYER(x, query_mask=EXPLICIT.astype(dtype))), expected)


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_unknown_lengths(case: Case) -> None:
    layer = case.built()
    query, value = keras.Input((None, 4)), keras.Input((None, 4))
    first = keras.ops.expand_dims(
        query[:, 0], axis=1
    )  # The length of the input is known, the length of the slice is not.
    outputs = [layer(query), layer(query, value), layer(first, value)]
    assert [y.shape for y in outputs] == [(None, None, 3), (None, None, 3), (None, 1, 3)]
    q, v = tokens(6, 2, 3, 4), tokens(7, 2, 63, 4)
    close(array(layer(q[:, :1], v)), array(layer(q, v))[:, :1])


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_graph_serves_all_lengths(case: Case) -> None:
    layer = case.built()
    traced = with_unknown_length(layer, [tokens(6, 2, 1, 4)] * 2)
    for queries, length in [(1, 1), (3, 63), (63, 5)]:
        q, v = tokens(6, 2, queries, 4), tokens(7, 2, length, 4)
        close(traced(q, v)[0], array(layer(q, v)))


@pytest.mark.parametrize("shape", [(2, 1), (5,), (2, 5, 1), (1, 5), (3, 5)])
def test_a_mask_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    """It would be broadcast, or fail with a message of the backend."""
    layer = MIXERS[0](4)
    with pytest.raises(ValueError, match=r"must have shape \(batch=2, tokens=5\)"):
        layer(tokens(0, 2, 5, 4), mask=np.ones(shape, bool))


def test_a_mask_of_the_value_has_its_tokens() -> None:
    mixer = MIXERS[0](4)
    with pytest.raises(ValueError, match=r"`value_mask` must have shape \(batch=2, tokens=3\)"):
        mixer(tokens(0, 2, 5, 4), tokens(1, 2, 3, 4), value_mask=np.ones((2, 5), bool))
