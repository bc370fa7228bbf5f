"""Limits of FourierMixing."""

from __future__ import annotations

import numpy as np
import pytest

from relation_tf.layers import FourierMixing, fourier_mixing
from tests.backends import array
from tests.layers.cases import tokens


def test_too_many_tokens_are_refused() -> None:
    """The square of a position must fit an int32."""
    with pytest.raises(ValueError, match=r"at most 46,340 tokens\. Received: 46,341"):
        FourierMixing(2)(np.zeros((1, 46_341, 2), "float32"))


@pytest.mark.tensorflow
def test_too_many_tokens_of_an_unknown_number_are_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fourier_mixing, "_MOST_TOKENS", 5)
    import tensorflow as tf

    mix = tf.function(FourierMixing(3), input_signature=[tf.TensorSpec((None, None, 3))])
    assert np.isfinite(array(mix(tokens(0, 2, 5, 3)))).all()
    assert np.isnan(array(mix(tokens(0, 2, 6, 3)))).all()


@pytest.mark.parametrize("algorithm", ["direct", "fft"])
def test_zero_tokens(algorithm: str) -> None:
    query, value = tokens(0, 2, 3, 4), np.zeros((2, 0, 4), "float32")
    output = array(FourierMixing(4, algorithm=algorithm)(query, value))
    np.testing.assert_array_equal(output, np.zeros((2, 3, 4)))
