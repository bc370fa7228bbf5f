"""Heads of attention and Relation."""

from __future__ import annotations

from functools import partial

import keras
import pytest

from relation_tf.layers import Attention, Relation
from tests.backends import BACKEND, array, close, started
from tests.layers import naive
from tests.layers.cases import built, meant, poisoned, some, tokens


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("algorithm", ["auto", "direct", "factored", "chunked", "fused"])
def test_heads_of_attention(algorithm: str, causal: bool) -> None:
    layer = built(Attention(6, 2, algorithm=algorithm, causal=causal, use_bias=True))
    run = started(lambda x, mask: layer(x, query_mask=mask))
    for length in (7, 600):
        x, mask = tokens(0, 2, length, 4), some(1, 2, length)
        wanted = meant(layer, partial(naive.attention, num_heads=2), x, mask)
        close(run(poisoned(x, mask), mask), wanted)


@pytest.mark.skipif(BACKEND == "torch", reason="the draws of dropout differ")
def test_heads_equal_those_of_keras() -> None:
    x = tokens(0, 2, 5, 4)
    peer = keras.layers.MultiHeadAttention(2, 3, use_bias=False, output_shape=6)
    expected = array(peer(x, x))
    layer = Attention(6, 2)
    layer.build(x.shape)
    *projections, out = peer.get_weights()
    layer.set_weights([w.reshape(4, 6) for w in projections])
    close(array(layer(x)) @ out.reshape(6, 6), expected)


@pytest.mark.parametrize("layer", [Attention, Relation])
def test_numbers_of_heads_that_do_not_divide_the_units(layer: type) -> None:
    with pytest.raises(ValueError, match=r"must divide `units`. Received: units=6, num_heads=4"):
        layer(6, num_heads=4)


def test_folding_has_one_head() -> None:
    with pytest.raises(ValueError, match="algorithm='folded' has one head"):
        Relation(6, num_heads=2, algorithm="folded")
