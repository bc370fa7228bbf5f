"""Mechanisms in both directions of a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relation_tf.layers import Relation
from relation_tf.networks import sequence_classifier
from relation_tf.networks.encoder_stack import Encoder
from relation_tf.networks.two_directions import two_directions


@pytest.mark.parametrize(
    "options",
    [{}, {"mechanism": "relation", "merge": "concatenate"}, {"options": {"num_heads": 2}}],
)
def test_a_classifier_reads_both_directions(options: dict[str, Any]) -> None:
    model = sequence_classifier(
        "two-directions", vocabulary_size=9, num_classes=2, units=8, embedding_dim=6,
        options=options,
    )  # fmt: skip
    first = model.predict(np.array([[3, 4, 5, 6]]), verbose=0)
    other = model.predict(np.array([[3, 4, 5, 7]]), verbose=0)
    assert np.abs(first - other).max() > 1e-7, "the first token reads the last one"
    padded = model.predict(np.array([[3, 4, 5, 6, 0, 0]]), verbose=0)
    np.testing.assert_allclose(padded, first, atol=1e-6)


def test_concatenated_directions_have_half_of_the_units_each() -> None:
    layer = two_directions(8, "relation", "concatenate", {"use_bias": True})
    assert isinstance(layer.layer, Relation)
    assert (layer.units, layer.layer.units, layer.layer.use_bias) == (8, 4, True)
    assert two_directions(7, "relation", "concatenate").units == 8


def test_both_directions_have_the_dtype_of_the_stack() -> None:
    stack = Encoder("two-directions", units=8, dtype="mixed_bfloat16")
    assert stack(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
    layer = stack.blocks[0].mixer
    policies = {each.dtype_policy.name for each in (layer, layer.layer, layer.backward)}
    assert policies == {"mixed_bfloat16"}


def test_a_mechanism_without_a_causal_form_is_refused() -> None:
    with pytest.raises(ValueError, match="no causal form"):
        two_directions(8, "fastformer")
