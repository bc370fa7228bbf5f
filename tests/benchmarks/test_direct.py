"""Tests that direct implementations and layers give equal results."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import direct
from relation_tf import layers
from tests.backends import close
from tests.layers.cases import randomize

X = np.random.default_rng(0).normal(size=(2, 7, 5)).astype(np.float32)


@pytest.mark.parametrize(
    ("make", "equations"),
    [
        (lambda: layers.Relation(4), direct.relation),
        (lambda: layers.LinearAttention(4), direct.linear_attention),
        (lambda: layers.Contextualizer(rank=3), direct.contextualizer),
        (lambda: layers.LocalAttention(4, window=2), direct.local_attention),
        (lambda: layers.SummaryMixing(4), direct.summary_mixing),
        (lambda: layers.AFTSimple(4), direct.aft_simple),
        (lambda: layers.AFTLocal(4, window=3), direct.aft_local),
        (lambda: layers.Fastformer(4), direct.fastformer),
        (lambda: layers.HyperMixer(5), direct.hyper_mixer),
        (lambda: layers.GMLP(4, max_length=7), direct.gmlp),
    ],
)
def test_equations(make, equations):
    layer = make()
    layer.build(X.shape)
    randomize(layer)
    close(layer(X), equations(layer, X))


@pytest.mark.parametrize("decay", [0.2, 0.9])
def test_fofe(decay):
    left, right = layers.FOFE(decay)(X)
    matrix = direct.fofe_matrix(7, decay)
    close(left, matrix @ X)
    close(right, matrix.T @ X)
