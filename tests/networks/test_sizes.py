"""Sizes: the found value is the best of all values."""

from __future__ import annotations

from typing import Any

import pytest

from relation_tf.config import load_suite
from relation_tf.networks import count_parameters, match_parameters, sequence_classifier, size_step
from relation_tf.networks.sizes import with_size

# Counts are equal on all backends, and building a hundred networks is slow on JAX.
pytestmark = pytest.mark.tensorflow


def parameters(mechanism: str, **settings: Any) -> int:
    model = sequence_classifier(mechanism, vocabulary_size=50, num_classes=2, **settings)
    return count_parameters(model)["network"]


def test_parameters_are_counted_by_part() -> None:
    model = sequence_classifier(
        "relation", vocabulary_size=50, num_classes=2, embedding_dim=4, units=3, hidden_units=5
    )
    mechanism = 2 * (4 * 3 + 3) + 3 * 3 + 3 * 3
    assert count_parameters(model) == {
        "total": 200 + mechanism + (3 * 5 + 5) + (5 * 2 + 2),
        "embedding": 200,
        "mechanism": mechanism,
        "network": mechanism + (3 * 5 + 5) + (5 * 2 + 2),
    }


@pytest.mark.parametrize("target", [1, 2047])
def test_the_rank_is_the_best(target: int) -> None:
    settings: dict[str, Any] = {"embedding_dim": 8, "network": "plain"}
    match = match_parameters("contextualizer", target, sized_by="rank", **settings)
    misses = {
        rank: abs(parameters("contextualizer", options={"rank": rank}, **settings) - target)
        for rank in range(max(1, match.value - 2), match.value + 3)
    }
    assert match.value == min(misses, key=misses.__getitem__)
    assert abs(match.parameters - target) == misses[match.value]
    assert match.miss == match.parameters / target - 1


def test_heads_of_the_mechanism_in_an_encoder_divide_its_width() -> None:
    inside = {"mechanism": "multi-head-attention", "options": {"num_heads": 3}}
    match = match_parameters("encoder", 5_000, options=inside, embedding_dim=8)
    assert match.value % 3 == 0
    default = {"mechanism": "multi-head-attention"}
    assert size_step("encoder", "units", default) == 4
    assert size_step("encoder", "units", inside | {"num_heads": 2}) == 2
    heads = {"mechanism": "retention", "merge": "concatenate", "options": {"num_heads": 4}}
    directions = {"mechanism": "two-directions", "options": heads}
    assert size_step("encoder", "units", directions) == 8


def test_a_width_is_that_of_embedding_and_layer_and_heads_divide_it() -> None:
    options = {"num_layers": 2}
    match = match_parameters(
        "transformer", 20_000, sized_by="width", options=options, network="plain"
    )
    assert match.value % 4 == 0
    settings = with_size(match, {"options": options, "network": "plain"})
    assert settings["embedding_dim"] == settings["units"] == match.value
    assert parameters("transformer", **settings) == match.parameters


@pytest.mark.slow
def test_the_contextualizer_papers_sizes_are_met() -> None:
    """With five layers; with a feed-forward width of 4m they have 0.66M without attention."""
    suite = load_suite("contextualizer-table2")
    for method in [suite.methods()[i] for i in (0, 3, 4, 7)]:  # 0.5M and 2M
        settings = {"units": method.units, "embedding_dim": suite.embedding_dim, "network": "plain"}
        options, size = method.options, method.size
        assert size is not None
        match = match_parameters(
            method.mechanism, size, method.sized_by, options=options, **settings
        )
        assert abs(match.miss) < 0.005
    assert options["num_layers"] == 5
    wide = {**options, "feed_forward_units": 512}
    match = match_parameters("transformer", 500_000, "key_dim", options=wide, **settings)
    assert match.value == 1
    assert match.parameters > 660_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": 0}, "`target` must be 1 or more. Received: target=0"),
        ({"target": 10**6, "sized_by": "decay"}, "cannot create .* with decay=1"),
        ({"target": 10**6, "sized_by": "window"}, "`sized_by` must be an argument that changes"),
        ({"target": 10**6, "sized_by": "colour"}, "unknown FCSR option 'colour'"),
    ],
)
def test_invalid_sizes(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        match_parameters("fcsr", embedding_dim=4, **arguments)
