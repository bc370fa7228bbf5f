"""Mechanisms in both directions of a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relation_tf.layers import AFTSimple, MinGRU, TwoDirections
from relation_tf.networks import sequence_classifier
from relation_tf.networks.encoders import Encoder
from relation_tf.networks.mixing import two_directions
from tests.backends import array, close


@pytest.mark.parametrize(
    "options",
    [{}, {"mechanism": "relation", "merge": "concatenate"}, {"options": {"num_heads": 2}}],
)
def test_a_classifier_reads_both_directions(options: dict[str, Any]) -> None:
    model = sequence_classifier(
        "two-directions", vocabulary_size=9, num_classes=2, units=8, embedding_dim=6,
        options=options,
    )  # fmt: skip
    first = array(model(np.array([[3, 4, 5, 6]])))
    others = array(model(np.array([[3, 4, 5, last] for last in range(1, 9)])))
    assert np.abs(first - others).max() > 1e-6, "the first token reads the last one"
    close(array(model(np.array([[3, 4, 5, 6, 0, 0]]))), first)


def test_only_convolutions_need_all_queries() -> None:
    needed = {name: two_directions(8, name).reads_later_queries
              for name in ("relation", "mamba2", "delta-net", "gated-delta-net")}  # fmt: skip
    assert needed == {"relation": False, "mamba2": True, "delta-net": True, "gated-delta-net": True}


@pytest.mark.parametrize("mechanism", ["delta-net", "mamba2", "retention"])
def test_the_first_token_is_the_same_if_all_tokens_are_computed(mechanism: str) -> None:
    """A convolution over queries sees later queries in the reversed text."""
    settings: dict[str, Any] = {"vocabulary_size": 9, "num_classes": 2, "units": 8}
    options = {"mechanism": mechanism}
    one, all_tokens = (
        sequence_classifier("two-directions", **settings, options=options, compute=compute)
        for compute in ("readout", "all")
    )
    random = np.random.default_rng(0)
    one.set_weights([random.normal(size=weight.shape) for weight in one.get_weights()])
    all_tokens.set_weights(one.get_weights())
    ids = np.array([[3, 4, 5, 6, 0], [7, 8, 1, 2, 3]])
    close(array(one(ids)), array(all_tokens(ids)))


def test_blocks_have_other_seeds() -> None:
    template = TwoDirections(AFTSimple(8, causal=True, dropout=0.5, seed=3), "sum")
    for stack in (
        Encoder(template, units=8, num_layers=2),
        Encoder("two-directions", units=8, num_layers=2,
                options={"mechanism": "aft-simple", "options": {"dropout": 0.5, "seed": 5}}),
    ):  # fmt: skip
        stack(np.ones((1, 2, 8), "float32"))
        mixers = [block.mixer for block in stack.blocks]
        seeds = [each.seed for mixer in mixers for each in (mixer.layer, mixer.backward)]
        assert len({*seeds}) == 4


def test_a_layer_instance_is_refused() -> None:
    with pytest.raises(ValueError, match=r"for a layer, use TwoDirections\(layer\)\. Received: M"):
        two_directions(units=8, mechanism=MinGRU(8, causal=True))


def test_a_mechanism_without_a_causal_form_is_refused() -> None:
    with pytest.raises(ValueError, match="no causal form"):
        two_directions(8, "fastformer")
