"""Causal forms: visible tokens per position, and steps of one token."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from relation_tf.layers import GMLP, Attention, Relation
from tests.backends import BACKEND, array, close, compiled, started, vjp
from tests.layers.cases import CAUSAL, Case, built, one_fast, poisoned, steps, tokens
from tests.layers.test_attention import shapes_of_a_step

WIDTH = 4
# The last variant of each layer with linear time. GMLP has a matrix of all positions; the memory of
# Attention is tested in `test_attention`.
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


def some(seed: int, batch: int, length: int) -> np.ndarray:
    """Return a random mask; the first sequence starts masked, the last is fully masked."""
    mask = np.random.default_rng(seed).random((batch, length)) < 0.6
    mask[0, :2] = False
    mask[-1] = False
    return mask


# Visible tokens


@all_algorithms
def test_later_tokens_do_not_change_outputs(case: Case, algorithm: str) -> None:
    t, x, mask = 70, tokens(0, 2, 150, WIDTH), some(0, 2, 150)
    other, other_mask = 3 * tokens(1, 2, 150, WIDTH), some(1, 2, 150)
    other[:, : t + 1], other_mask[:, : t + 1] = x[:, : t + 1], mask[:, : t + 1]
    layer = case.built(algorithm=algorithm)
    mix = started(lambda x, mask: layer(x, query_mask=mask))
    one, two = mix(x, mask), mix(other, other_mask)
    np.testing.assert_array_equal(one[:, : t + 1], two[:, : t + 1])


# Chunks


def growth(layer: Any) -> float:
    """Return by which factor the tensors of a training step grow for twice as many tokens."""
    short, long = (
        sum(int(np.prod(shape)) for shape in shapes_of_a_step(layer, length))
        for length in (1031, 2062)
    )
    return long / short


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no graph here")
@pytest.mark.parametrize("case", one_fast(LINEAR))
def test_memory_is_linear_in_tokens(case: Case) -> None:
    assert growth(case.built()) < 2.1


@all_algorithms
def test_no_tokens(case: Case, algorithm: str) -> None:
    layer = case.built(algorithm=algorithm)
    output, [for_x], _ = vjp(layer, [tokens(0, 2, 0, WIDTH)], layer.weights)
    assert (output.shape, for_x.shape) == ((2, 0, 3), (2, 0, WIDTH))


# Steps of one token


@all_cases
def test_steps_equal_the_full_call(case: Case) -> None:
    layer, x, mask = case.built(), tokens(0, 3, 11, WIDTH), some(1, 3, 11)
    close(steps(layer, x), array(layer(x)))
    x = poisoned(x, mask)
    close(steps(layer, x, mask), array(layer(x, query_mask=mask)))


@pytest.mark.slow
@pytest.mark.every_backend
@all_cases
def test_steps_equal_a_longer_call(case: Case) -> None:
    """Windows, chunks and blocks are shorter than this text."""
    layer, x, mask = case.built(), tokens(0, 3, 100, WIDTH), some(1, 3, 100)
    x = poisoned(x, mask)
    whole = started(lambda x, mask: layer(x, query_mask=mask))
    close(steps(layer, x, mask), whole(x, mask))


@pytest.mark.parametrize("case", one_fast(CAUSAL))
def test_a_compiled_loop_of_steps(case: Case) -> None:
    """Requires a state with constant shapes and dtypes."""
    layer, x = case.built(), tokens(0, 2, 7, WIDTH)

    def last(x: Any) -> Any:
        def forth(i: Any, carry: Any) -> Any:
            output, state = layer.step(ops.take(x, i, axis=1)[:, None], carry[1:])
            return output, *state

        start = (ops.zeros((2, 1, 3)), *layer.initial_state(2, max_length=7))
        return ops.fori_loop(0, 7, forth, start)[0]

    run = last if BACKEND == "torch" else compiled(last, xla=True)
    close(array(run(ops.convert_to_tensor(x))), array(layer(x))[:, -1:])


@all_cases
def test_steps_in_half_precision(case: Case) -> None:
    exact, layer = case.built(), case.built(dtype="mixed_bfloat16")
    x = 0.3 * tokens(0, 2, 6, WIDTH)
    output, _ = layer.step(x[:, :1], layer.initial_state(2, max_length=6))
    assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"
    close(steps(layer, x), array(exact(x)), 0.1)


def test_attention_returns_nan_after_max_length() -> None:
    layer, x = built(Attention(3, causal=True)), tokens(0, 2, 3, WIDTH)
    outputs = steps(layer, x, state=layer.initial_state(2, max_length=2))
    close(outputs[:, :2], array(layer(x))[:, :2])
    assert np.isnan(outputs[:, 2]).all()


# Errors


def test_steps_need_a_built_causal_layer() -> None:
    with pytest.raises(ValueError, match=r"require causal=True\. Received: causal=False$"):
        Relation(3).initial_state(2)
    with pytest.raises(ValueError, match="before it is built"):
        Relation(3, causal=True).initial_state(2)


def test_attention_needs_max_length() -> None:
    layer = built(Attention(3, causal=True))
    for length in (None, 0, 2.5):
        with pytest.raises(ValueError, match=rf"Received: max_length={length}$"):
            layer.initial_state(2, length)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [4, 6])
def test_a_step_needs_equal_widths_of_query_and_value(width: int) -> None:
    layer = built(Attention(3, causal=True), 4, 6)
    with pytest.raises(ValueError, match=rf"`x` must have the width {10 - width} with which"):
        layer.step(tokens(0, 2, 1, width), layer.initial_state(2, 5))


def test_a_step_takes_one_token_and_its_state() -> None:
    layer = built(Relation(3, causal=True))
    with pytest.raises(ValueError, match=r"Received: x\.shape=\(2, 2, 4\)"):
        layer.step(tokens(0, 2, 2, WIDTH), layer.initial_state(2))
