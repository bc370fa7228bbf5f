"""Measurement of what a layer passes: crippled layers must show their weakness, and only it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from relation_tf.networks import LayerProbe, probe_layer


class Mixer(keras.layers.Layer):
    """Base of the layers: queries, keys and values of the tokens."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dense = [keras.layers.Dense(units, name=name) for name in ("q", "k", "v")]

    def call(self, x: Any, mask: Any = None) -> Any:
        kept = ops.cast(ops.ones_like(x[..., 0]) if mask is None else mask, x.dtype)
        return self.mix(*(dense(x) for dense in self.dense), kept)

    def mix(self, q: Any, k: Any, v: Any, kept: Any) -> Any:
        raise NotImplementedError


def attend(q: Any, k: Any, v: Any, kept: Any) -> Any:
    scores = ops.matmul(q, ops.transpose(k, (0, 2, 1)))
    return ops.matmul(ops.softmax(scores - 1e9 * (1 - kept[:, None])), v)


def distances(x: Any) -> Any:
    place = ops.cast(ops.arange(ops.shape(x)[1]), x.dtype)
    return place[None] - place[:, None]  # of column to row


def wrong_shift(q: Any, k: Any, v: Any, kept: Any) -> Any:
    return ops.pad((v * kept[..., None])[:, :-2], ((0, 0), (2, 0), (0, 0))) + q


def saturated_gate(q: Any, k: Any, v: Any, kept: Any) -> Any:
    gate = ops.sigmoid(20 + 0 * q)
    return gate * q + (1 - gate) * attend(q, k, v, kept)


def four_numbers(q: Any, k: Any, v: Any, kept: Any) -> Any:
    weights = ops.cast(distances(q) <= 0, q.dtype) * ops.power(0.98, ops.abs(distances(q)))
    state = ops.matmul(weights, (k * v * kept[..., None])[..., :4])
    return q + ops.concatenate([state, state], axis=-1)


def window(q: Any, k: Any, v: Any, kept: Any) -> Any:
    near = ops.cast(ops.abs(distances(q)) <= 1, q.dtype) * kept[:, None]
    return q + ops.matmul(near * ops.exp(ops.sin(distances(q))), k * v)


def mean_only(q: Any, k: Any, v: Any, kept: Any) -> Any:
    mean = ops.sum(v * kept[..., None], axis=1, keepdims=True)
    return q + mean / ops.maximum(ops.sum(kept, axis=1), 1)[:, None, None]


def frozen_decay(q: Any, k: Any, v: Any, kept: Any) -> Any:
    decay = ops.power(ops.cast(0.7, q.dtype), ops.abs(distances(q))) * kept[:, None]
    scores = ops.matmul(q, ops.transpose(k, (0, 2, 1)))
    return q + ops.matmul(decay * scores, v)


def no_values(q: Any, k: Any, v: Any, kept: Any) -> Any:
    return q + attend(q, k, ops.ones_like(v), kept)


class OneVector(Mixer):
    def mix(self, q: Any, k: Any, v: Any, kept: Any) -> Any:
        return q * ops.sum(k * v * kept[..., None], axis=1, keepdims=True)


def reading(seen: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return the attention of output i to the tokens j with `seen(i, j)`."""

    def mix(q: Any, k: Any, v: Any, kept: Any) -> Any:
        place = ops.arange(q.shape[1])
        allowed = ops.cast(seen(place[:, None], place[None]), q.dtype) * kept[:, None]
        scores = ops.matmul(q, ops.transpose(k, (0, 2, 1))) - 1e9 * (1 - allowed)
        return q + ops.matmul(ops.softmax(scores) * allowed, v)

    return mix


def copying(source: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a layer in which output i receives the token `source(places)[i]`."""
    return lambda q, k, v, kept: q + ops.take(v * kept[..., None], source(np.arange(q.shape[1])), 1)


def attending(q: Any, k: Any, v: Any, kept: Any) -> Any:
    return q + attend(q, k, v, kept)


def vector_of(v: Any, kept: Any) -> Any:
    return ops.sum(v * kept[..., None], axis=1, keepdims=True) / 8


def rounded(x: Any) -> Any:
    return ops.round(x * 64) / 64


def choosing(scores: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return the value of the token with the largest score."""

    def mix(q: Any, k: Any, v: Any, kept: Any) -> Any:
        best = ops.argmax(scores(q, k) - 1e9 * (1 - kept[:, None]), axis=-1)
        return q + ops.matmul(ops.one_hot(best, v.shape[1], dtype=v.dtype), v)

    return mix


def isolating(q: Any, k: Any, v: Any, kept: Any) -> Any:
    even = ops.cast(ops.arange(q.shape[1]) % 2 == 0, q.dtype)[None, :, None]
    return q + even * attend(q, k, v, kept)


def largest(q: Any, k: Any, v: Any, kept: Any) -> Any:
    return q * ops.max(v - 1e9 * (1 - kept[..., None]), axis=1, keepdims=True)


def both_sides(q: Any, k: Any, v: Any, kept: Any) -> Any:
    """Sum of squares of the tokens before, minus that of those after: an even function."""
    squares = v * v * kept[..., None]
    return q + ops.cumsum(squares, 1) - ops.flip(ops.cumsum(ops.flip(squares, 1), 1), 1)


def scores_of_pairs(q: Any, k: Any) -> Any:
    return ops.matmul(q, ops.transpose(k, (0, 2, 1)))


VECTOR = {"order", "bottleneck"}
CRIPPLED = {
    "wrong shift": (wrong_shift, {"window", "earlier"}),
    "saturated gate": (saturated_gate, {"no mixing"}),
    "four numbers": (four_numbers, {"earlier", "bottleneck"}),
    "window": (window, {"window"}),
    "mean": (mean_only, {*VECTOR, "mean"}),
    "frozen decay": (frozen_decay, {"fading"}),
    "no values": (no_values, {"no mixing"}),
}
OF_PLACES = {
    "even tokens": (reading(lambda i, j: j % 2 + 0 * i == 0), {"pairs"}),
    "only the first": (
        reading(lambda i, j: j + 0 * i == 0), {"pairs", "earlier", "fixed", "bottleneck"}
    ),
    "even outputs": (isolating, {"pairs", "order"}),
    "pooling of pairs": (reading(lambda i, j: i // 2 == j // 2), {"pairs"}),
    "blocks of 16": (reading(lambda i, j: i // 16 == j // 16), {"pairs", "bottleneck"}),
    "window and first": (
        reading(lambda i, j: ops.logical_or(ops.abs(i - j) <= 2, j == 0)), {"pairs"}
    ),
    "neighbours": (copying(lambda i: i ^ 1), {"pairs"}),
    "reversal": (copying(lambda i: i[::-1]), {"pairs", "fixed"}),
    "dilated": (reading(lambda i, j: ops.abs(i - j) == 4), {"window"}),
    "both sides": (both_sides, {"bottleneck"}),
}  # fmt: skip
OF_CHOICES = {
    "attention": (attending, {"order"}),
    "maximum": (largest, VECTOR),
    "hard attention": (choosing(scores_of_pairs), {"order"}),
    "one token": (choosing(lambda q, k: ops.sum(k, axis=-1)[:, None]), VECTOR),
    "8 bits": (lambda q, k, v, kept: q * rounded(vector_of(v, kept)), VECTOR),
    "weak mean": (
        lambda q, k, v, kept: q + 0.05 * vector_of(v, kept), {*VECTOR, "mean"}
    ),
}  # fmt: skip


probe_once = cache(probe_layer)


@cache
def probed(mix: Any) -> LayerProbe:
    return probe_layer(type("Blind", (Mixer,), {"mix": staticmethod(mix)}))


LAYERS = CRIPPLED | OF_PLACES | OF_CHOICES


@pytest.mark.parametrize(("mix", "weaknesses"), LAYERS.values(), ids=LAYERS)
def test_weaknesses_are_named(mix: Any, weaknesses: set[str]) -> None:
    assert {*probed(mix).weaknesses} == weaknesses


def test_pairs() -> None:
    neighbours = probed(OF_PLACES["neighbours"][0])
    assert neighbours.pairs == {(place ^ 1, place) for place in range(32)}


def test_numbers() -> None:
    assert probed(four_numbers).passed == 4
    assert probed(frozen_decay).half_life == pytest.approx(2, abs=0.7)  # .7^2 = .49
    assert "window of 3." in str(probed(window))
    for name, weaknesses in (("fourier-mixing", {"fixed"}), ("retention", set())):
        assert {*probe_once(name).weaknesses} == weaknesses


def test_one_direction() -> None:
    causal = {"causal": True, "variant": "equations"}
    assert "earlier" in probe_layer("relation", options=causal).weaknesses
    later = {*probed(reading(lambda i, j: j >= i)).weaknesses}
    assert "later" in later
    assert "bottleneck" not in later


@pytest.mark.slow
def test_which_side_a_token_is_on_is_order() -> None:
    """A mean of the tokens before and one of those after: each does not know their order."""
    probe = probe_layer("two-directions", options={"mechanism": "relation"})
    assert "order" not in probe.weaknesses
    assert "order" in probe_once("relation").weaknesses


class FirstValue(Mixer):
    def mix(self, q: Any, k: Any, v: Any, kept: Any) -> Any:
        return q + ops.sum(k[..., :1] * kept[..., None], axis=1, keepdims=True) * v


def test_windows_and_one_value() -> None:
    for window in (10, 16):
        probe = probe_layer("local-attention", options={"window": window, "global_tokens": 0})
        assert f"window of {2 * window - 1}." in str(probe)
    assert probe_layer(FirstValue).passed == 1


@pytest.mark.slow
@pytest.mark.parametrize("units", [2, 8])
@pytest.mark.parametrize(
    "name", ["retention", "gated-linear-attention", "mamba2", "hgrn2", "mlstm"]
)
def test_a_recurrence_is_no_window(name: str, units: int) -> None:
    assert not {"window", "places"} & {*probe_layer(name, units).weaknesses}


@pytest.mark.parametrize(("name", "units"), [("relation", 16), ("aft-simple", 8)])
def test_pooling_layers_pass_one_vector(name: str, units: int) -> None:
    probe = probe_layer(name, units)
    assert probe.passed == units
    assert "bottleneck" in probe.weaknesses


def test_attention_passes_many_vectors() -> None:
    assert probed(attending).passed > 5 * 8


@pytest.mark.parametrize("name", ["dan", "contextualizer"])
def test_layer_with_one_vector_per_text_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="vector of `units` values for each token"):
        probe_layer(name)


def test_layer_with_nan_is_refused() -> None:
    class Undefined(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x * float("nan")

    with pytest.raises(ValueError, match=r"Undefined.*, which returns NaN or infinity$"):
        probe_layer(Undefined())
