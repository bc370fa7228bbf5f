"""Half precision and mixed policies."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np
import pytest

import relation_tf.layers
from relation_tf.layers import (
    AFTLocal,
    AFTSimple,
    Attention,
    Fastformer,
    LinearAttention,
    Mamba2,
    Relation,
    SummaryMixing,
    TwoDirections,
)
from relation_tf.layers.token_mixer import CausalMixer
from tests.backends import array, close
from tests.layers.cases import tokens

# Half an ulp of 1 is 5e-4 in float16 and 4e-3 in bfloat16; a few roundings follow each other.
TOLERANCE = {"float16": 5e-3, "bfloat16": 4e-2}


@pytest.mark.parametrize("algorithm", ["direct", "auto"])
@pytest.mark.parametrize("layer_class", [Attention, LinearAttention, Relation])
def test_long_sequences_do_not_overflow_float16(layer_class: type, algorithm: str) -> None:
    """In float16 a sum of 70,000 ones is infinite; their mean is 1."""
    options = {"normalization": "sum"} if layer_class is LinearAttention else {}
    options |= {"kernel_initializer": "ones", "dtype": "float16", "algorithm": algorithm}
    layer = layer_class(2, **options)
    ones = np.ones((1, 70_000, 2), "float16")
    output = layer(ones[:, :1], ones)  # G and H (or V) are 2 at all tokens.
    expected = 8.0 if layer_class is Relation else 2.0
    close(output, np.full((1, 1, 2), expected), TOLERANCE["float16"])


@pytest.mark.parametrize(
    ("layer_class", "causal"),
    [
        (SummaryMixing, False),
        (SummaryMixing, True),
        (AFTSimple, False),
        (AFTSimple, True),
        (AFTLocal, False),
        (AFTLocal, True),
        (Fastformer, False),
    ],
)
def test_many_equal_tokens_have_the_output_of_one(layer_class: type, causal: bool) -> None:
    """Their mean is one of them, but sums of so many in half precision are wrong."""
    options = {"causal": True, "dtype": "bfloat16"} if causal else {"dtype": "float16"}
    layer = layer_class(2, **options)
    same = np.ones((1, 70_000, 2), "float32")
    output = array(layer(same if causal else same[:, :1], same))
    close(output, np.broadcast_to(array(layer(same[:, :1])), output.shape), 1e-2)


# Products of large tokens exceed float16; their docstrings say so.
CAN_EXCEED_FLOAT16 = {"FCSR", "FeatureAttention", "Fastformer", "LinearAttention", "MLSTM"}


def made(name: str, length: int, **options: Any) -> Any:
    layer_class = getattr(relation_tf.layers, name)
    if layer_class is TwoDirections:
        return TwoDirections(Mamba2(16, causal=True, dtype=options["dtype"]), **options)
    sizes = {"units": 16, "rank": 4, "max_length": length}
    parameters = inspect.signature(layer_class).parameters
    return layer_class(**{key: size for key, size in sizes.items() if key in parameters}, **options)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", sorted({*relation_tf.layers.__all__} - CAN_EXCEED_FLOAT16))
def test_large_inputs_of_long_texts_stay_finite_in_float16(name: str, causal: bool) -> None:
    if causal and not issubclass(getattr(relation_tf.layers, name), CausalMixer):
        pytest.skip("no causal form")
    keras.utils.set_random_seed(0)
    layer = made(name, 512, dtype="mixed_float16", **({"causal": True} if causal else {}))
    assert np.isfinite(array(layer(30 * tokens(0, 1, 512, 16)))).all()
