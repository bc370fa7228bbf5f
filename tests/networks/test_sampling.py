"""The probabilities of the next token, compared with a naive computation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.networks.sampling import next_token_probabilities


def naive(logits, temperature, top_k, top_p, excluded):
    """Remove tokens one by one from a list of the most probable ones."""
    kept = [i for i in range(len(logits)) if i not in excluded]
    kept.sort(key=lambda i: (-logits[i], i))
    kept = kept[:top_k]
    largest = max(logits[i] for i in kept)
    weights = {i: math.exp((logits[i] - largest) / temperature) for i in kept}
    if top_p is not None:
        total, reached, nucleus = sum(weights.values()), 0.0, {}
        for i in kept:
            if reached / total >= top_p:
                break
            nucleus[i] = weights[i]
            reached += weights[i]
        weights = nucleus
    total = sum(weights.values())
    return [weights.get(i, 0.0) / total for i in range(len(logits))]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-6, 6), min_size=3, max_size=12),
    st.sampled_from([0.3, 1.0, 2.5]),
    st.none() | st.integers(1, 15),
    st.none() | st.sampled_from([0.01, 0.37, 0.63, 0.91, 0.999]),
    st.sets(st.integers(0, 1)),
)
def test_equals_the_naive_computation(logits, temperature, top_k, top_p, excluded):
    """Integers as logits: many tokens are equally probable."""
    p = next_token_probabilities(np.array(logits), temperature, top_k, top_p, [*excluded])
    np.testing.assert_allclose(p, naive(logits, temperature, top_k, top_p, excluded), atol=1e-12)


def test_all_tokens_are_kept_at_top_p_1():
    logits = np.random.default_rng(0).normal(size=5000).astype("float32") * 6
    softmax = np.exp(logits.astype(float)) / np.exp(logits.astype(float)).sum()
    for p in (next_token_probabilities(logits, top_p=1.0), next_token_probabilities(logits)):
        np.testing.assert_allclose(p, softmax, rtol=1e-9)
        assert p.min() > 0


def test_extreme_temperatures():
    logits = np.array([-1e4, 3.0, 7.0, 6.999])
    np.testing.assert_array_equal(next_token_probabilities(logits, 1e-300), [0, 0, 1, 0])
    np.testing.assert_allclose(next_token_probabilities(logits, 1e300), 0.25)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": 0.0}, r"`temperature` must be above 0\. Received: temperature=0\.0"),
        ({"temperature": math.nan}, r"`temperature` must be above 0"),
        ({"temperature": math.inf}, r"`temperature` must be above 0"),
        ({"top_k": 0}, r"`top_k` must be a positive integer\. Received: top_k=0"),
        ({"top_p": 0.0}, r"`top_p` must be above 0 and at most 1\. Received: top_p=0\.0"),
        ({"top_p": 1.01}, r"`top_p` must be above 0 and at most 1"),
        ({"excluded": [0, 1]}, r"`excluded` must leave a token\. Received: excluded=\[0, 1\]"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        next_token_probabilities(np.zeros(2), **arguments)
