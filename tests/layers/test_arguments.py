"""Error messages for invalid arguments."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import relation_tf.layers
from relation_tf.layers import (
    FOFE,
    Attention,
    Contextualizer,
    Fastformer,
    HyperMixer,
    LinearAttention,
    PointwiseMLP,
    Relation,
    SinePositionEncoding,
)
from relation_tf.networks.decoders import Decoder
from relation_tf.networks.encoders import Encoder

# The base classes check the arguments of all layers; one layer of each is enough.
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (Relation, {"units": None}, r"Received: units=None$"),
    (Relation, {"dropout": 1}, r"`dropout` must be a number in \[0, 1\)\. Received: dropout=1$"),
    (Relation, {"seed": 1.5}, r"`seed` must be an integer from 0 to .*, or None\. .*: seed=1\.5$"),
    (Relation, {"seed": 2**31}, r"Received: seed=2147483648$"),
    (Relation, {"use_bias": "false"}, r"`use_bias` must be True or False\. .*: use_bias='false'$"),
    (Relation, {"variant": "paper"}, r"'released_code'\. Received: variant='paper'$"),
    (Relation, {"algorithm": "fast"}, r"must be one of 'auto', 'direct'.*: algorithm='fast'$"),
    (Relation, {"algorithm": "folded", "dropout": 0.5}, r"no dropout, .*dropout=0\.5, causal=F"),
    (LinearAttention, {"causal": True, "dropout": 0.5}, r"needs causal=False .*dropout=0\.5, c"),
    (Attention, {"algorithm": "fused", "dropout": 0.5}, r"does not support dropout"),
    (Fastformer, {"causal": True}, r"^Fastformer has no causal form\. Received: causal=True$"),
    (FOFE, {"decay": 1}, r"`decay` must be a number in \[0, 1\)\. Received: decay=1$"),
    (Contextualizer, {"rank": None}, r"^`rank` must be a positive integer\. Received: rank=None$"),
    (Contextualizer, {"initial_context": "zeros"}, r"'ones', 'learned', 'uniform'\. .*'zeros'$"),
    (Contextualizer, {"epsilon": 0}, r"^`epsilon` must be a positive number\. .*: epsilon=0$"),
    (Encoder, {"mechanism": "relation", "causal": "false"}, r"Received: causal='false'$"),
    (Decoder, {"mechanism": "relation"}, r"^`units` must be .* Received: units=None$"),
]


@pytest.mark.parametrize(("make", "arguments", "message"), WRONG)
def test_wrong_arguments(make: Any, arguments: dict[str, Any], message: str) -> None:
    sizes = {"units": 4, "rank": 3}
    takes = () if make in (Encoder, Decoder) else inspect.signature(make).parameters
    needed = {name: size for name, size in sizes.items() if name in takes}
    with pytest.raises(ValueError, match=message):
        make(**{**needed, **arguments})


def test_booleans_and_numbers_of_numpy() -> None:
    layer = Relation(np.int64(4), causal=np.True_, use_bias=np.False_, dropout=np.float32(0.5))
    assert (layer.causal, layer.use_bias, layer.dropout) == (True, False, 0.5)
    assert Relation.from_config(layer.get_config()).get_config() == layer.get_config()


def test_a_seed_of_numpy_is_checked_at_once() -> None:
    """A linear search of its range took minutes."""
    assert Relation(4, seed=np.int64(2**31 - 1)).seed == 2**31 - 1


def test_normalization_of_the_released_code_needs_equal_widths() -> None:
    layer = LinearAttention(4, normalization="released_code")
    message = r"the same width\. Received: query width 3, value width 5$"
    with pytest.raises(ValueError, match=message):
        layer.build((2, 3, 3), (2, 3, 5))


@pytest.mark.parametrize("layer", [Fastformer(4), HyperMixer(4, tied=True)])
def test_shared_matrices_need_equal_widths(layer: Any) -> None:
    with pytest.raises(ValueError, match=r"the same width\. .* query width 3, value width 5$"):
        layer.build((2, 3, 3), (2, 3, 5))


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 5), (2, 3, None), (3,)])
@pytest.mark.parametrize("make", [SinePositionEncoding, FOFE])
def test_wrong_shape(make: Any, shape: tuple[int | None, ...]) -> None:
    with pytest.raises(ValueError, match=r"must have shape \(batch, tokens, width\)") as caught:
        make().build(shape)
    assert str(caught.value).endswith(f".shape={shape}")


def test_wrong_shape_of_value() -> None:
    with pytest.raises(ValueError, match=r"must have shape .* Received: value\.shape=\(2, 4\)"):
        Relation(4)(np.ones((2, 3, 4), "float32"), np.ones((2, 4), "float32"))


@pytest.mark.parametrize("layer_class", [LinearAttention, PointwiseMLP, Relation])
def test_variant_sets_defaults_that_arguments_override(layer_class: type) -> None:
    presets = layer_class.presets  # type: ignore[attr-defined]
    for variant, expected in presets.items():
        config = layer_class(4, variant=variant).get_config()
        assert config["variant"] == variant
        assert expected.items() <= config.items()
    given = {"use_bias": False, "dropout": 0.1, "output_projection": False}
    config = layer_class(4, variant="released_code", **given).get_config()
    assert given.items() <= config.items()
    assert layer_class.from_config(config).get_config() == config  # type: ignore[attr-defined]


PUBLIC = [getattr(relation_tf.layers, name) for name in relation_tf.layers.__all__]


@pytest.mark.parametrize("layer_class", PUBLIC)
def test_the_docstring_lists_the_arguments_of_the_signature(layer_class: type) -> None:
    section = re.split(r"\n\n", inspect.getdoc(layer_class).split("\nArgs:\n")[1])[0]
    documented = re.findall(r"^    (\*{0,2}\w+):", section, re.MULTILINE)
    parameters = inspect.signature(layer_class).parameters.values()
    assert documented == [
        f"**{each.name}" if each.kind is each.VAR_KEYWORD else each.name for each in parameters
    ]
