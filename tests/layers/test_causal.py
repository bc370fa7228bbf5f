"""Causal forms: visible tokens per position, and steps of one token."""

from __future__ import annotations

from functools import cache
from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from relation_tf.layers import (
    GMLP,
    Attention,
    LinearAttention,
    Relation,
    causal_linear_attention,
)
from tests.backends import BACKEND, array, close, compiled, started, vjp
from tests.layers.cases import CAUSAL, Case, one_fast, poisoned, randomize, tokens
from tests.layers.test_attention_algorithms import shapes_of_a_step
from tests.layers.test_properties import few

WIDTH = 4
# The last variant of each layer with linear time. GMLP has a matrix of all positions; the memory of
# Attention is tested in `test_attention_algorithms`.
LINEAR = {c.layer: c for c in CAUSAL if c.layer not in (Attention, GMLP)}.values()
all_cases = pytest.mark.parametrize("case", CAUSAL, ids=str)
all_algorithms = pytest.mark.parametrize(
    ("case", "algorithm"),
    [
        pytest.param(case, algorithm, id=f"{case}-{algorithm}")
        for case in CAUSAL
        for algorithm in case.algorithms
    ],
)


def built(case: Case, **arguments: Any) -> Any:
    layer = case.make(**arguments)
    layer.build((None, None, WIDTH))
    randomize(layer)
    return layer


def some(seed: int, batch: int, length: int) -> np.ndarray:
    """Return a random mask; the first sequence starts masked, the last is fully masked."""
    mask = np.random.default_rng(seed).random((batch, length)) < 0.6
    mask[0, :2] = False
    mask[-1] = False
    return mask


@pytest.fixture
def chunks_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small chunks, so that short sequences have several."""
    monkeypatch.setattr(causal_linear_attention, "_CHUNK", 4)


# Visible tokens


@all_algorithms
@pytest.mark.usefixtures("chunks_of_four")
def test_each_output_is_the_last_of_its_prefix(case: Case, algorithm: str) -> None:
    """Compare with the same layer without `causal`, on each prefix."""
    if case.positional:
        pytest.skip("outputs depend on positions relative to the query")
    layer, whole = built(case, algorithm=algorithm), built(case, causal=False)
    x, mask = tokens(0, 3, 13, WIDTH), some(1, 3, 13)
    mask[:, -1] = True  # Without fully masked sequences.
    output = array(layer(x, query_mask=mask))
    for i in (0, 1, 2, 6, 12):
        own = (slice(None), slice(i, i + 1))
        seen = (slice(None), slice(0, i + 1))
        prefix = whole(x[own], x[seen], query_mask=mask[own], value_mask=mask[seen])
        close(output[own], array(prefix))


@pytest.mark.parametrize(("queries", "length"), [(3, 7), (7, 3), (5, 5)])
def test_positions_count_from_the_start_as_in_keras(queries: int, length: int) -> None:
    query, value = tokens(0, 2, queries, WIDTH), tokens(1, 2, length, WIDTH)
    layer = Attention(3, causal=True)
    peer = keras.layers.MultiHeadAttention(1, 3, use_bias=False, output_shape=3)
    expected = peer(query, value, use_causal_mask=True)
    layer.build(query.shape, value.shape)
    q, k, v, out = peer.get_weights()
    layer.set_weights([q[:, 0], k[:, 0], v[:, 0]])
    close(array(layer(query, value)) @ out[0], array(expected))


@cache
def mixer(case: Case, algorithm: str) -> Any:
    layer = built(case, algorithm=algorithm)
    return started(lambda x, mask: layer(x, query_mask=mask))


@all_algorithms
@few
@given(data=st.data(), seed=st.integers(0, 2**16))
def test_later_tokens_do_not_change_outputs(
    case: Case, algorithm: str, data: st.DataObject, seed: int
) -> None:
    length = data.draw(st.sampled_from([1, 5, 150]))
    t = data.draw(st.integers(0, length - 1))
    x, mask = tokens(seed, 2, length, WIDTH), some(seed, 2, length)
    other, other_mask = 3 * tokens(seed + 1, 2, length, WIDTH), some(seed + 1, 2, length)
    other[:, : t + 1], other_mask[:, : t + 1] = x[:, : t + 1], mask[:, : t + 1]
    mix = mixer(case, algorithm)
    one, two = mix(x, mask), mix(other, other_mask)
    np.testing.assert_array_equal(one[:, : t + 1], two[:, : t + 1])


@all_algorithms
def test_outputs_have_no_gradient_for_later_tokens(case: Case, algorithm: str) -> None:
    layer, x = built(case, algorithm=algorithm), tokens(0, 2, 9, WIDTH)
    _, [for_x], _ = vjp(lambda x: layer(x)[:, :4], [x], layer.weights, tokens(1, 2, 4, 3))
    assert not for_x[:, 4:].any()
    assert for_x[:, :4].any()


# Chunks


@pytest.mark.parametrize("length", [127, 128, 129, 257, 300])
@pytest.mark.parametrize("normalization", ["sum", "none"])
@pytest.mark.parametrize("algorithm", ["direct", "factored"])
def test_chunks_equal_all_scores(algorithm: str, normalization: str, length: int) -> None:
    mask = some(0, 3, length)
    x, cotangent = poisoned(tokens(1, 3, length, WIDTH), mask), tokens(2, 3, length, 5)

    def results(algorithm: str) -> list[np.ndarray]:
        layer = LinearAttention(5, normalization, causal=True, use_bias=True, algorithm=algorithm)
        layer.build(x.shape)
        randomize(layer)
        output, for_x, for_weights = vjp(
            lambda x: layer(x, query_mask=mask), [x], layer.weights, cotangent
        )
        return [output, *for_x, *for_weights]

    for actual, expected in zip(results(algorithm), results("scores"), strict=True):
        close(actual, expected, 2e-5)


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no graph here")
@pytest.mark.parametrize("algorithm", ["direct", "factored"])
def test_chunks_hold_neither_all_scores_nor_all_states(algorithm: str) -> None:
    length, units = 1031, 64

    def largest(algorithm: str) -> int:
        layer = LinearAttention(units, causal=True, algorithm=algorithm)
        layer.build((None, None, WIDTH))
        return max(int(np.prod(shape)) for shape in shapes_of_a_step(layer, length))

    assert largest("scores") >= 2 * length**2
    assert largest(algorithm) <= 3 * length * 128 < length * units**2


def growth(layer: Any) -> float:
    """Return by which factor the tensors of a training step grow for twice as many tokens."""
    short, long = (
        sum(int(np.prod(shape)) for shape in shapes_of_a_step(layer, length))
        for length in (1031, 2062)
    )
    return long / short


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no graph here")
@pytest.mark.parametrize("case", LINEAR, ids=str)
def test_memory_is_linear_in_tokens(case: Case) -> None:
    assert growth(built(case)) < 2.1


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no graph here")
def test_memory_of_all_scores_is_quadratic_in_tokens() -> None:
    case = next(case for case in LINEAR if case.layer is LinearAttention)
    assert growth(built(case, algorithm="scores")) > 3.5


@pytest.mark.parametrize("shape", [(0, 7), (2, 0), (0, 0)])
@all_algorithms
def test_empty_inputs(case: Case, algorithm: str, shape: tuple[int, int]) -> None:
    layer = built(case, algorithm=algorithm)
    output, [for_x], _ = vjp(layer, [tokens(0, *shape, WIDTH)], layer.weights)
    assert output.shape == (*shape, 3)
    assert for_x.shape == (*shape, WIDTH)


@pytest.mark.parametrize(
    ("length", "width", "algorithm"),
    [(128, 4, "scores"), (129, 4, "factored"), (129, 6, "direct"), (None, 6, "direct")],
)
def test_auto_selects_chunks_if_there_are_several(
    length: int | None, width: int, algorithm: str
) -> None:
    assert LinearAttention(6, causal=True)._choose_causal(length, width, 6) == algorithm
    assert LinearAttention(200, causal=True)._choose_causal(200, width, 200) == "scores"


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16"])
def test_sums_of_many_tokens_are_accurate(dtype: str) -> None:
    """In bfloat16 a sum of ones stops at 256."""
    ones = np.ones((1, 3000, 2), "float32")
    relation = Relation(2, kernel_initializer="ones", causal=True, dtype=dtype)
    np.testing.assert_array_equal(array(relation(ones)), np.full((1, 3000, 2), 8.0))
    linear = LinearAttention(2, "sum", kernel_initializer="ones", causal=True, dtype=dtype)
    np.testing.assert_array_equal(array(linear(ones)), np.full((1, 3000, 2), 2.0))


# Steps of one token


def steps(layer: Any, x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    # JAX takes long for a first eager step.
    step = compiled(layer.step, xla=True) if BACKEND == "jax" else layer.step
    state = layer.initial_state(len(x), max_length=x.shape[1])
    outputs = []
    for i in range(x.shape[1]):
        own = (slice(None), slice(i, i + 1))
        output, state = step(x[own], state, None if mask is None else mask[own])
        outputs.append(array(output))
    return np.concatenate(outputs, axis=1)


@all_cases
def test_steps_equal_the_full_call(case: Case) -> None:
    layer, x, mask = built(case), tokens(0, 3, 11, WIDTH), some(1, 3, 11)
    close(steps(layer, x), array(layer(x)))
    x = poisoned(x, mask)
    close(steps(layer, x, mask), array(layer(x, query_mask=mask)))


@pytest.mark.slow
@pytest.mark.every_backend
@all_cases
def test_steps_equal_a_longer_call(case: Case) -> None:
    """Windows, chunks and blocks are shorter than this text."""
    layer, x, mask = built(case), tokens(0, 3, 100, WIDTH), some(1, 3, 100)
    x = poisoned(x, mask)
    whole = started(lambda x, mask: layer(x, query_mask=mask))
    close(steps(layer, x, mask), whole(x, mask))


@pytest.mark.parametrize("case", one_fast(CAUSAL))
def test_a_compiled_loop_of_steps(case: Case) -> None:
    """Requires a state with constant shapes and dtypes."""
    layer, x = built(case), tokens(0, 2, 7, WIDTH)

    def last(x: Any) -> Any:
        def forth(i: Any, carry: Any) -> Any:
            output, state = layer.step(ops.take(x, i, axis=1)[:, None], carry[1:])
            return output, *state

        start = (ops.zeros((2, 1, 3)), *layer.initial_state(2, max_length=7))
        return ops.fori_loop(0, 7, forth, start)[0]

    run = last if BACKEND == "torch" else compiled(last, xla=True)
    close(array(run(ops.convert_to_tensor(x))), array(layer(x))[:, -1:])


@pytest.mark.parametrize("case", [c for c in CAUSAL if c.layer is not Attention], ids=str)
def test_states_of_sums_have_constant_size(case: Case) -> None:
    layer = built(case)
    sizes = {sum(int(np.prod(s.shape)) for s in layer.initial_state(2, n)) for n in (1, 10_000)}
    assert len(sizes) == 1


@pytest.mark.parametrize(("policy", "tolerance"), [("float16", 2e-2), ("mixed_bfloat16", 0.1)])
@all_cases
def test_steps_in_half_precision(case: Case, policy: str, tolerance: float) -> None:
    exact, layer = built(case), built(case, dtype=policy)
    x = 0.3 * tokens(0, 2, 6, WIDTH)
    output, _ = layer.step(x[:, :1], layer.initial_state(2, max_length=6))
    assert keras.backend.standardize_dtype(output.dtype) == policy.removeprefix("mixed_")
    close(steps(layer, x), array(exact(x)), tolerance)


def test_attention_returns_nan_after_max_length() -> None:
    layer, x = Attention(3, causal=True), tokens(0, 2, 3, WIDTH)
    layer.build(x.shape)
    state, outputs = layer.initial_state(2, max_length=2), []
    for i in range(3):
        output, state = layer.step(x[:, i : i + 1], state)
        outputs.append(array(output))
    close(np.concatenate(outputs[:2], axis=1), array(layer(x))[:, :2])
    assert np.isnan(outputs[2]).all()


# Errors


def test_folded_relation_has_no_causal_form() -> None:
    with pytest.raises(ValueError, match=r"no causal form\. .* Received: causal=True$"):
        Relation(3, algorithm="folded", causal=True)


@pytest.mark.parametrize("variant", ["equations", "released_code"])
def test_causal_linear_attention_refuses_dropout(variant: str) -> None:
    with pytest.raises(
        ValueError, match=r"causal=True does not support .* Received: dropout=0\.5$"
    ):
        LinearAttention(3, variant=variant, dropout=0.5, causal=True)


@pytest.mark.parametrize("layer_class", [Attention, LinearAttention, Relation])
def test_steps_need_a_built_causal_layer(layer_class: type) -> None:
    with pytest.raises(ValueError, match=r"require causal=True\. Received: causal=False$"):
        layer_class(3).initial_state(2)
    with pytest.raises(ValueError, match="before it is built"):
        layer_class(3, causal=True).initial_state(2)


def test_attention_needs_max_length() -> None:
    layer = Attention(3, causal=True)
    layer.build((None, None, WIDTH))
    for length in (None, 0, 2.5):
        with pytest.raises(ValueError, match=rf"Received: max_length={length}$"):
            layer.initial_state(2, length)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(2, 2, WIDTH), (2, 0, WIDTH), (2, WIDTH)])
@pytest.mark.parametrize("layer_class", [Attention, LinearAttention, Relation])
def test_a_step_takes_one_token(layer_class: type, shape: tuple[int, ...]) -> None:
    layer = layer_class(3, causal=True)
    layer.build((None, None, WIDTH))
    state = layer.initial_state(2, max_length=3)
    with pytest.raises(ValueError, match=r"Received: x\.shape=\(2, "):
        layer.step(np.zeros(shape, "float32"), state)


@pytest.mark.parametrize("layer_class", [LinearAttention, Relation])
def test_a_mask_of_a_step_has_one_token(layer_class: type) -> None:
    layer = layer_class(3, causal=True)
    layer.build((None, None, WIDTH))
    with pytest.raises(ValueError, match=r"`mask` must have shape \(batch, 1\)\. .*=\(2,\), "):
        layer.step(np.zeros((2, 1, WIDTH), "float32"), layer.initial_state(2), np.ones(2, "bool"))


@pytest.mark.parametrize("width", [4, 6])
def test_a_step_needs_equal_widths_of_query_and_value(width: int) -> None:
    layer = Attention(3, causal=True)
    layer.build((None, None, 4), (None, None, 6))
    with pytest.raises(ValueError, match=rf"`x` must have the width {10 - width} with which"):
        layer.step(tokens(0, 2, 1, width), layer.initial_state(2, 5))
