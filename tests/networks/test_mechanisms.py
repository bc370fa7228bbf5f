from __future__ import annotations

from collections.abc import Callable

import keras
import pytest

from relation_tf.errors import SuiteError, UnknownNameError
from relation_tf.layers import LinearAttention, Relation
from relation_tf.networks import sequence_classifier
from relation_tf.networks.mechanisms import (
    custom_layers,
    find_mechanism,
    is_built_in,
    load,
    make_layer,
    mixing_mechanism,
)
from relation_tf.registry import MECHANISMS, register_mechanism


@pytest.mark.parametrize(
    ("name", "layer_class"), [("linear-attention", LinearAttention), ("relation", Relation)]
)
def test_variants(name: str, layer_class: type) -> None:
    entry = find_mechanism(name)
    released = make_layer(entry, units=8, dropout=0.25)
    expected = layer_class(8, variant="released_code", dropout=0.25, name="mechanism")
    assert released.get_config() == expected.get_config()
    equations = make_layer(entry, units=8, dropout=0.25, options={"variant": "equations"})
    assert equations.get_config() == layer_class(8, name="mechanism").get_config()


def test_units_set_the_declared_option_unless_it_is_given() -> None:
    contextualizer = find_mechanism("contextualizer")
    assert make_layer(contextualizer, 8, dropout=0.5).rank == 8
    assert make_layer(contextualizer, 8, dropout=0.5, options={"rank": 3}).rank == 3
    assert "units" not in make_layer(find_mechanism("fcsr"), 8, dropout=0.5).get_config()


def test_a_path_is_an_entry() -> None:
    entry = find_mechanism("relation_tf.layers:Relation")
    assert (
        make_layer(entry, units=8, dropout=0.5).get_config()
        == Relation(8, name="mechanism").get_config()
    )
    assert (entry.output_type, entry.head) == ("tokens", "first")


@pytest.mark.parametrize("path", ["relation_tf.nothing:Name", "relation_tf.layers:Nothing"])
def test_load_a_missing_file(path: str) -> None:
    with pytest.raises(ValueError, match=f"cannot import mechanism '{path}': "):
        load(path)


def test_a_nested_class_is_found() -> None:
    assert load("tests.networks.nested:Outer.Inner").__name__ == "Inner"


@pytest.mark.parametrize("cls", ["keras.layers:Dense", "relation_tf.layers:Relation"])
def test_an_unknown_option_is_named_whatever_the_class_raises(cls: str) -> None:
    with pytest.raises(
        UnknownNameError, match=r"^unknown \w+ option 'colour'\. .*units, activation"
    ):
        make_layer(find_mechanism(cls), units=8, dropout=0.5, options={"colour": "red"})


@pytest.mark.parametrize(("option", "value"), [("norm", "middle"), ("dropout", 2)])
def test_other_errors_of_causal_encoders_are_reported(option: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"cannot create encoder .*: .*{option}") as error:
        make_layer(find_mechanism("encoder"), 8, 0.0, {"causal": True, option: value})
    assert "no causal form" not in str(error.value)


STEERING = "x\x1b[2J\n" + "y" * 10_000


@pytest.mark.parametrize(
    "refused",
    [
        lambda: find_mechanism(STEERING),
        lambda: load(f"{STEERING}:Name"),
        lambda: load(f"relation_tf.layers:{STEERING}"),
        lambda: make_layer(find_mechanism("relation"), 8, 0.5, {STEERING: 1}),
        lambda: make_layer(find_mechanism("relation"), 8, 0.5, {"variant": STEERING}),
    ],
)
def test_quoted_text_in_messages_is_shortened_and_escaped(refused: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"x\\x1b\[2J.*yyy\.\.\.") as error:
        refused()
    assert len(str(error.value)) < 2000  # other tests register mechanisms, which it lists
    assert str(error.value).isprintable()


def test_a_registered_layer_runs_by_name(isolated: Callable[..., None]) -> None:
    isolated(MECHANISMS)

    @register_mechanism("mine", options={"activation": "tanh"}, positions=None)
    class Mine(keras.layers.Dense):
        pass

    # Its runs restart instead of resuming: it may have state outside variables.
    assert not is_built_in("encoder", {"mechanism": "mine"})
    model = sequence_classifier("mine", 10, 2, units=4)
    layer = model.get_layer("mechanism")
    assert isinstance(layer, Mine)
    assert (layer.units, layer.activation) == (4, keras.activations.tanh)
    assert "positions" not in [layer.name for layer in model.layers]
    with pytest.raises(UnknownNameError, match="Did you mean 'mine'"):
        find_mechanism("mines")


def test_a_misspelled_declaration_is_refused() -> None:
    message = r"^mechanism: positions must be one of 'sine', 'softmax', None\. Received: 'sin'$"
    with pytest.raises(SuiteError, match=message):
        register_mechanism("typo", positions="sin")(keras.layers.Dense)
    assert "typo" not in MECHANISMS


def test_custom_layers_are_found_inside_several_mechanisms() -> None:
    inside = {"mechanism": "two-directions", "options": {"mechanism": "my_module:MyGRU"}}
    assert custom_layers("encoder", inside) == ["my_module:MyGRU"]
    assert not is_built_in("encoder", inside)
    twice = {"mechanism": "encoder", "options": {"mechanism": "my_module:MyGRU"}}
    assert custom_layers("encoder", twice) == ["my_module:MyGRU"]
    assert mixing_mechanism("encoder", inside) == "my_module:MyGRU"
    decoder = {"decoder_mechanism": "two-directions", "decoder_options": inside["options"]}
    assert custom_layers("transformer-encoder-decoder", decoder) == ["my_module:MyGRU"]
    # Building the layer reports options that are no table.
    assert custom_layers("encoder", {"mechanism": "two-directions", "options": "x"}) == []
