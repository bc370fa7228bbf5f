from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.layers import AFTSimple, MinGRU, Relation, TwoDirections
from relation_tf.networks.encoders import (
    BidirectionalEncoder,
    Encoder,
    MultiHeadSelfAttention,
    encoder,
    transformer,
)
from relation_tf.registry import MECHANISMS
from tests.backends import array, close, vjp
from tests.layers import naive
from tests.layers.cases import built, close_slopes, poisoned, randomize, steps, tokens

MASK = np.arange(5) < np.array([[5], [2]])
EQUATIONS = {"variant": "equations"}


def normalized(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    return (x - x.mean(axis=-1, keepdims=True)) / deviation * scale + shift


def block(x: np.ndarray, weights: list[np.ndarray], norm: str) -> np.ndarray:
    """Apply a block around Relation to the unmasked tokens of one sentence."""
    mixer = dict(zip(("g_kernel", "h_kernel", "kernel"), weights[:3], strict=True))
    mixer_norm, w1, b1, w2, b2, feed_norm = weights[3:5], *weights[5:9], weights[9:11]

    def mix(x: np.ndarray) -> np.ndarray:
        return naive.relation(x, x, mixer, naive.relu)

    def feed(x: np.ndarray) -> np.ndarray:
        return naive.relu(x @ w1 + b1) @ w2 + b2

    if norm == "post":
        x = normalized(x + mix(x), *mixer_norm)
        return normalized(x + feed(x), *feed_norm)
    x = x + mix(normalized(x, *mixer_norm))
    return x + feed(normalized(x, *feed_norm))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_mixture_of_layers(norm: str) -> None:
    """The output is the weighted sum of the input and all outputs, also step by step."""
    x = poisoned(tokens(0, 2, 5, 4), MASK)
    mixed = built(encoder("relation", 2, layer_mix=True, causal=True, norm=norm), 4)
    stacks = [encoder("relation", n, causal=True, norm=norm) for n in (1, 2)]
    outputs = [np.where(MASK[..., None], x, 0)]
    for stack in stacks:
        built(stack, 4)
        stack.blocks[0].set_weights(mixed.blocks[0].get_weights())
        if stack.num_layers == 2:
            stack.blocks[1].set_weights(mixed.blocks[1].get_weights())
        if norm == "pre":
            stack.closing.set_weights(mixed.closing.get_weights())
        outputs.append(array(stack(x, mask=MASK)))
    weights, scale = (array(v) for v in mixed.mix.weights)
    shares = np.exp(weights) / np.exp(weights).sum()
    expected = scale * sum(share * y for share, y in zip(shares, outputs, strict=True))
    close(array(mixed(x, mask=MASK)), expected)
    close(steps(mixed, x, MASK), expected)


def test_two_directions_of_a_stack(tmp_path: Path) -> None:
    """Each half of the output sees one direction only; padding changes nothing."""
    x = poisoned(tokens(0, 2, 5, 3), MASK)
    both = built(BidirectionalEncoder("relation", 2, units=8, seed=3, layer_mix=True), 3)
    y = array(both(x, mask=MASK))
    close(array(both(x[1:, :2])), y[1:, :2])
    assert not y[~MASK].any()
    later = x.copy()
    later[0, 3] += 1
    change = np.abs(array(both(later, mask=MASK)) - y)[0]
    assert not change[:3, :4].any()
    assert not change[4:, 4:].any()
    assert change[3:, :4].all(axis=-1).all()
    assert change[:4, 4:].any()
    halves = both.left_to_right.outputs(x[:1]), both.right_to_left.outputs(x[:1, ::-1])
    pairs = [
        np.concatenate([array(left), array(right)[:, ::-1]], axis=-1)
        for left, right in zip(*halves, strict=True)
    ]
    close(array(both.mix(pairs)), y[:1])
    network = keras.Sequential([keras.Input((5, 3)), both])
    network.save(tmp_path / "both.keras")
    close(array(keras.models.load_model(tmp_path / "both.keras")(x[:1])), y[:1])
    with pytest.raises(ValueError, match=r"`units` must be even\. Received: units=7"):
        BidirectionalEncoder("relation", units=7)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_equations(norm: str) -> None:
    x = poisoned(tokens(0, 2, 5, 3), MASK)
    layer = encoder("relation", 2, units=4, feed_forward_units=6, norm=norm, options=EQUATIONS)
    built(layer, 3)
    kernel, bias = (array(v) for v in layer.projection.weights)
    blocks = [[array(v) for v in one.weights] for one in layer.blocks]
    output = array(layer(x, mask=MASK))
    for one, mask, actual in zip(x, MASK, output, strict=True):
        y = one[mask] @ kernel + bias
        for weights in blocks:
            y = block(y, weights, norm)
        if norm == "pre":
            y = normalized(y, *(array(v) for v in layer.closing.weights))
        close(actual[mask], y)
        assert not actual[~mask].any()


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        ("relation", EQUATIONS),
        (Relation, None),
        (Relation(4), None),
        ("relation_tf.layers:Relation", None),
    ],
    ids=["name", "class", "instance", "path"],
)
def test_forms_of_the_mechanism_argument(mechanism: Any, options: Any) -> None:
    x = tokens(0, 2, 5, 4)
    layer = Encoder(mechanism, num_layers=2, options=options)
    expected = Encoder("relation", num_layers=2, options=EQUATIONS)
    output = array(built(expected)(x, mask=MASK))
    for one in (layer, Encoder.from_config(layer.get_config())):
        close(array(built(one)(x, mask=MASK)), output)


FAST = ("relation", "mamba2", "two-directions", "transformer")


@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
        for name, entry in MECHANISMS.items()
        if (entry.output_type, entry.head) == ("tokens", "first")
    ],
)
def test_a_stack_of_each_mechanism_of_tokens(mechanism: str) -> None:
    layer = Encoder(mechanism, units=8, dtype="mixed_bfloat16")
    assert layer(tokens(0, 2, 5, 3), mask=MASK).shape == (2, 5, 8)


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        ("multi-head-attention", {"dropout": 0.5}),
        ("two-directions", {"mechanism": "aft-simple", "options": {"dropout": 0.5}}),
        (AFTSimple(4, dropout=0.5), None),
    ],
    ids=["name", "function", "template"],
)
def test_the_seed_determines_the_dropout_of_the_mechanism(mechanism: Any, options: Any) -> None:
    def output(seed: int) -> np.ndarray:
        layer = Encoder(mechanism, 2, units=4, dropout=0.0, options=options, seed=seed)
        layer.build((None, None, 4))
        for w in layer.trainable_weights:
            w.assign(np.ones(w.shape) + np.arange(w.shape[-1]))
        return array(layer(tokens(0, 2, 5, 4), training=True))

    np.testing.assert_array_equal(output(1), output(1))
    assert not np.allclose(output(1), output(2))


@pytest.mark.parametrize(
    ("mechanism", "options"), [(AFTSimple(4, seed=3), None), ("aft-simple", {"seed": 3})]
)
def test_the_mechanisms_of_the_blocks_have_different_seeds(mechanism: Any, options: Any) -> None:
    layer = Encoder(mechanism, 3, options=options, seed=5)
    layer.build((None, None, 4))
    seeds = [block.mixer.seed for block in layer.blocks]
    assert seeds[0] == 3
    assert len({*seeds}) == 3


@pytest.mark.parametrize(
    ("causal", "options", "normalization"),
    [
        (True, {}, "sum"),
        (False, EQUATIONS, "sum"),
        (False, {}, "released_code"),
        (True, {"normalization": "none"}, "none"),
        (False, {**EQUATIONS, "normalization": "none"}, "none"),
    ],
)
def test_linear_attention_by_its_equations_is_normalized_in_blocks(
    causal: bool, options: dict[str, Any], normalization: str
) -> None:
    layer = Encoder("linear-attention", causal=causal, options=options)
    layer.build((None, None, 4))
    assert layer.blocks[0].mixer.normalization == normalization
    copy = Encoder.from_config(layer.get_config())
    copy.build((None, None, 4))
    assert copy.blocks[0].mixer.normalization == normalization


def test_a_width_of_the_heads_of_a_transformer() -> None:
    layer = transformer(6, num_heads=4, key_dim=5, options={"use_bias": False})
    assert layer(tokens(0, 2, 5, 6), mask=MASK).shape == (2, 5, 6)
    shapes = [tuple(variable.shape) for variable in layer.blocks[1].mixer.weights]
    assert shapes == [(6, 4, 5)] * 3 + [(4, 5, 6)]
    assert Encoder.from_config(layer.get_config()).mixer.options["key_dim"] == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mechanism": 3}, r"`mechanism` must be a name, .* Received: mechanism=3$"),
        ({"norm": "both"}, r"`norm` must be one of 'post', 'pre'\. Received: norm='both'$"),
        ({"num_layers": 0}, r"`num_layers` must be a positive .* num_layers=0$"),
        (
            {"mechanism": "multi-head-attention", "num_heads": 2, "options": {"num_heads": 4}},
            r"`num_heads` must not differ from options\['num_heads'\]",
        ),
        ({"mechanism": Relation(4), "num_heads": 2}, r"layer instance\. .*\{'num_heads': 2\}$"),
        (
            {"mechanism": Relation(4), "options": {"use_bias": True}},
            r"cannot change a layer instance\. .* Received: options=\{'use_bias': True\}$",
        ),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Encoder(**{"mechanism": "relation", **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mechanism": "lstm"}, r"must return \(batch, tokens, units=6\) .* shape \(None, 6\)$"),
        ({"mechanism": Relation(4)}, r"Received: an output of shape \(None, None, 4\)$"),
        (
            {"mechanism": "multi-head-attention", "num_heads": 4},
            r"divisible by `num_heads` unless `key_dim` is set\. Received: units=6, num_heads=4$",
        ),
        ({"mechanism": AFTSimple, "num_heads": 2}, "unknown AFTSimple option 'num_heads'"),
        ({"mechanism": "multi-head-attention", "num_heads": 0}, r"Received: num_heads=0$"),
    ],
)
def test_a_mechanism_that_does_not_fit(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Encoder(**arguments).build((None, None, 6))


INNER = {"mechanism": "relation_tf.layers:Relation"}


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        (Relation, None),
        ("two-directions", INNER),
        ("encoder", {"mechanism": "two-directions", "options": INNER}),
    ],
)
def test_a_file_in_safe_mode_imports_no_mechanism(
    mechanism: Any, options: Any, tmp_path: Path
) -> None:
    x = keras.Input((None, 4))
    model = keras.Model(x, Encoder(mechanism, options=options)(x))
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=r"mechanism='relation_tf.layers.*:Relation'.*safe_mode=F"):
        keras.saving.load_model(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras", safe_mode=False)
    close(array(again(tokens(0, 2, 5, 4))), array(model(tokens(0, 2, 5, 4))))


@pytest.mark.parametrize(
    "template",
    [
        TwoDirections(MinGRU(4, causal=True), merge="sum"),
        keras.layers.Bidirectional(keras.layers.GRU(2, return_sequences=True)),
        Encoder("relation", units=4),
    ],
    ids=["two-directions", "keras", "encoder"],
)
def test_blocks_of_a_template_around_a_layer_share_nothing(tmp_path: Path, template: Any) -> None:
    x = keras.Input((None, 4))
    model = keras.Model(x, Encoder(template, num_layers=2, units=4)(x))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert len(again.weights) == len(model.weights)
    close(array(again(tokens(0, 2, 5, 4))), array(model(tokens(0, 2, 5, 4))))


@pytest.mark.parametrize(
    ("mechanism", "norm"), [("relation", "pre"), ("linear-attention", "pre"), ("attention", "post")]
)
def test_one_token_at_a_time_equals_the_whole(mechanism: str, norm: str) -> None:
    mask = np.array([[1, 1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 0, 1]], bool)
    x = poisoned(tokens(0, 2, 7, 3), mask)
    layer = built(encoder(mechanism, 2, units=4, norm=norm, causal=True), 3)
    close(steps(layer, x, mask), array(layer(x, mask=mask)))


def test_causal_property() -> None:
    assert encoder("relation", causal=True).causal
    assert encoder("relation", options={"causal": True}).causal
    assert encoder(Relation(4, causal=True)).causal
    inner = {"mechanism": "relation", "options": {"causal": True}}
    assert encoder("encoder", options=inner).causal
    assert encoder("encoder", options={"mechanism": "encoder", "options": inner}).causal
    assert not encoder("encoder", options={"mechanism": "relation"}).causal
    assert not encoder("relation").causal
    assert not encoder(Relation(4)).causal
    again = Encoder.from_config(encoder("relation", causal=True).get_config())
    assert again.causal


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        ("relation", {"causal": False}),
        ("encoder", {"mechanism": "relation", "options": {"causal": False}}),
    ],
)
def test_an_option_cannot_show_later_tokens(mechanism: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"`causal` must not differ from options\['causal'\]"):
        encoder(mechanism, units=4, options=options, causal=True)(tokens(0, 2, 5, 4))


def test_a_class_in_the_options_is_saved_as_its_path() -> None:
    layer = encoder(mechanism="two-directions", units=8, options={"mechanism": MinGRU})
    again = type(layer).from_config(layer.get_config())
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    assert layer(x).shape == again(x).shape
    assert json.dumps(layer.get_config())


class Summed(keras.layers.Layer):
    """Running sum, causal without an argument that says so."""

    causal = True

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def call(self, x: Any) -> Any:
        return keras.ops.cumsum(x, axis=1)

    def initial_state(self, batch_size: int, max_length: int | None = None) -> Any:
        return keras.ops.zeros((batch_size, 1, 4))

    def step(self, x: Any, state: Any, mask: Any = None) -> Any:
        return state + x, state + x


def test_a_causal_layer_without_the_argument() -> None:
    stack, x = encoder(Summed, 2, units=4, norm="pre", causal=True), tokens(0, 2, 5, 4)
    whole, state = stack(x), stack.initial_state(2)
    for i in range(5):
        output, state = stack.step(x[:, i : i + 1], state)
        close(output, array(whole)[:, i : i + 1])
    with pytest.raises(ValueError, match="Dense has no causal form"):
        encoder(keras.layers.Dense, 2, units=4, causal=True)(x)


def test_mechanisms_without_causal_form() -> None:
    with pytest.raises(ValueError, match="PointwiseMLP has no causal form"):
        encoder("baseline", causal=True)(tokens(0, 2, 5, 4))
    with pytest.raises(ValueError, match=r"Create 'mine' with causal=True, .*\. Received: causal"):
        encoder(Relation(4, name="mine"), causal=True)


def test_steps_need_a_causal_stack_that_is_built() -> None:
    with pytest.raises(ValueError, match="require causal=True"):
        encoder("relation").initial_state(2)
    with pytest.raises(ValueError, match="before it is built"):
        encoder("relation", causal=True).initial_state(2)

    class Own(keras.layers.Layer):
        causal = True

        def call(self, x: Any) -> Any:
            return x

    own = encoder(Own())
    own.build((None, None, 4))
    with pytest.raises(ValueError, match="Own must have the methods `initial_state` and `step`"):
        own.initial_state(2)


# Multi-head attention

QUERY_MASK = np.array([[True, True, False], [True, False, False], [True] * 3])
VALUE_MASK = np.array([[True, False, True, True], [True, True, False, False], [False] * 4])


def summed_heads(query: np.ndarray, value: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """Return the sum of the projected heads of one sequence."""
    wq, bq, wk, bk, wv, bv, wo, bo = weights
    y = np.zeros((len(query), len(bo)))
    everything = np.ones((len(query), len(value)), bool)
    for i in range(len(bq)):
        names = ("query_kernel", "query_bias", "key_kernel", "key_bias", "value_kernel")
        own = dict(zip(names, (wq[:, i], bq[i], wk[:, i], bk[i], wv[:, i]), strict=True))
        y += naive.attention(query, value, {**own, "value_bias": bv[i]}, everything) @ wo[i]
    return y + bo


@pytest.mark.parametrize(("num_heads", "key_dim"), [(2, 5), (3, 2), (2, None)])
def test_equation_and_gradients_of_heads(num_heads: int, key_dim: int | None) -> None:
    """Also with heads of another total width than the output."""
    query = poisoned(tokens(0, 3, 3, 5), QUERY_MASK).astype("float32")
    value = poisoned(tokens(1, 3, 4, 6), VALUE_MASK).astype("float32")
    layer = MultiHeadSelfAttention(4, num_heads, key_dim=key_dim)
    layer.build(query.shape, value.shape)
    randomize(layer)
    assert layer.weights[0].shape == (5, num_heads, key_dim or 2)
    wide = [x.astype("float64") for x in (query, value)]
    weights = [array(variable).astype("float64") for variable in layer.weights]

    def expected() -> np.ndarray:
        output = np.zeros((3, 3, 4))
        masks = zip(QUERY_MASK, VALUE_MASK, strict=True)
        for b, (mask, kept) in enumerate(masks):
            if kept.any():
                output[b][mask] = summed_heads(wide[0][b][mask], wide[1][b][kept], weights)
        return output

    cotangent = np.random.default_rng(1).normal(size=(3, 3, 4))

    def loss() -> float:
        return float(np.sum(expected() * cotangent))

    output, for_inputs, for_weights = vjp(
        lambda query, value: layer(query, value, query_mask=QUERY_MASK, value_mask=VALUE_MASK),
        [query, value],
        layer.weights,
        cotangent,
    )
    close(output, expected())
    close_slopes(loss, [*wide, *weights], [*for_inputs, *for_weights])
