"""AFT: windows of any length, large keys and biases, and the causal forms."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from relation_tf.layers import MLSTM, AFTLocal, AFTSimple
from tests.backends import BACKEND, array, close, close_gradients, started, vjp, with_unknown_length
from tests.layers import naive
from tests.layers.cases import built, close_slopes, meant, poisoned, some, steps, tokens, weights_of

both_forms = pytest.mark.parametrize("causal", [False, True])


def aft(window: int, causal: bool = False, **arguments: Any) -> Any:
    return built(AFTLocal(6, window, causal=causal, **arguments))


def expected(layer: Any, *inputs: np.ndarray) -> np.ndarray:
    return meant(layer, partial(naive.aft_local, window=layer.window), *inputs)


@both_forms
@pytest.mark.parametrize("window", [1, 63, 65, 500])
def test_windows_of_any_length(window: int, causal: bool) -> None:
    layer = aft(window, causal)
    for length in (1, 20, 64, 130):
        x = tokens(0, 2, length, 4)
        close(started(layer)(x), expected(layer, x, np.ones((2, length), "bool")))


@pytest.mark.parametrize("window", [1, 5, 32])
def test_causal_with_gaps_in_the_masks(window: int) -> None:
    layer = aft(window, causal=True)
    run = started(lambda *arguments: layer(*arguments))
    for queries, length in ((130, 130), (100, 70), (3, 70)):
        x, value = tokens(0, 3, queries, 4), tokens(3, 3, length, 4)
        mask, other = some(1, 3, queries), some(2, 3, length)
        given = (poisoned(x, mask), poisoned(value, other), mask, other)
        close(run(*given), expected(layer, x, mask, value, other))


@pytest.mark.parametrize("length", [64, 65, 100, 257])
def test_causal_gradients(length: int) -> None:
    """Compare with slopes of the equation in random directions."""
    layer, mask = aft(20, causal=True), some(1, 2, length)
    x, cotangent = tokens(0, 2, length, 4), tokens(2, 2, length, 6)
    _, for_inputs, for_weights = vjp(
        lambda x: layer(x, query_mask=mask), [poisoned(x, mask)], layer.weights, cotangent
    )
    wide, w = x.astype("float64"), weights_of(layer)
    equation = partial(naive.aft_local, window=20)

    def loss() -> float:
        output = naive.mix(equation, w, wide, wide, mask, mask, causal=True, positional=True)
        return float(np.sum(output * cotangent))

    close_slopes(loss, [wide, *w.values()], [*for_inputs, *for_weights])


@both_forms
@pytest.mark.parametrize("largest", [90.0, -200.0])
def test_large_position_biases(largest: float, causal: bool) -> None:
    """The exponential of 90 is infinite in float32."""
    layer = aft(2, causal)
    layer.position_bias.assign([largest, -0.5] if causal else [0.5, largest, -0.5])
    x, mask = tokens(0, 2, 9, 4), np.ones((2, 9), "bool")
    close(started(layer)(x), expected(layer, x, mask))


@pytest.mark.parametrize("distance", [0, 3])
@pytest.mark.parametrize("bias", [-1e9, 200.0])
def test_causal_with_a_large_bias_at_any_distance(bias: float, distance: int) -> None:
    """A bias of -1e9 hides a distance, except from a token that sees no other."""
    layer = aft(4, causal=True)
    biases = array(layer.position_bias)
    biases[distance] = bias
    layer.position_bias.assign(biases)
    x, mask = tokens(0, 2, 20, 4), some(1, 2, 20)
    mask[-1] = True
    wanted = expected(layer, x, mask)
    close(masked(layer, poisoned(x, mask), mask), wanted)
    close(steps(layer, x, mask), wanted)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("form", ["simple", "simple causal", "local causal"])
def test_large_keys_do_not_overflow_or_vanish(form: str, dtype: str) -> None:
    """The exponential of 100 is infinite in float32, that of -110 is zero."""
    causal, equation = form.endswith("causal"), naive.aft_simple
    if form == "local causal":
        layer, equation = aft(20, causal, dtype=dtype), partial(naive.aft_local, window=20)
    else:
        layer = built(AFTSimple(3, causal=causal, dtype=dtype))
    x, mask = tokens(1, 3, 130, 4), some(0, 3, 130)
    x[:, 60:] *= 2  # Later tokens do not make earlier sums vanish.
    x *= 500 / np.abs(x @ layer.get_weights()[1]).max()
    wanted, tolerance = meant(layer, equation, x, mask), 1e-5 if dtype == "float32" else 0.3
    close(masked(layer, poisoned(x, mask), mask), wanted, tolerance)
    if causal:
        close(steps(layer, x, mask), wanted, tolerance)


def masked(layer: Any, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the outputs of a call."""
    return started(lambda x, mask: layer(x, query_mask=mask))(x, mask)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("causal", "window", "xla"),
    [
        (False, 100, False),
        *((True, window, False) for window in (5, None)),
        *(pytest.param(True, window, True, marks=pytest.mark.slow) for window in (5, None)),
    ],
)
def test_an_unknown_length(causal: bool, window: int | None, xla: bool) -> None:
    layer = built(AFTSimple(3, causal=causal)) if window is None else aft(window, causal)

    def call(x: Any, mask: Any) -> Any:
        return layer(x, query_mask=mask)

    unknown = with_unknown_length(call, [tokens(0, 3, 1, 4), some(1, 3, 1)], xla)
    for length in (100,) if xla else (1, 40, 1100 if window is None else 200):
        x, mask = tokens(0, 3, length, 4), some(1, 3, length)
        output, gradients = unknown(x, mask)
        wanted, for_x, _ = vjp(lambda x, mask=mask: call(x, mask), [x], [])
        close(output, wanted)
        close_gradients(gradients, for_x)


@pytest.mark.skipif(BACKEND == "jax", reason="JAX has no float64 without an option")
@pytest.mark.parametrize("layer_class", [AFTSimple, AFTLocal, MLSTM])
def test_steps_after_masked_tokens_are_finite_in_float64(layer_class: Any) -> None:
    """On PyTorch the maximum is rounded to float32, also that of float64."""
    layer = built(layer_class(4, causal=True, dtype="float64"))
    x, mask = tokens(0, 1, 6, 4).astype("float64"), np.array([[False] * 3 + [True] * 3])
    close(steps(layer, x, mask), array(layer(x, query_mask=mask)))
    state = layer.initial_state(1)
    _, after = layer.step(x[:, :1], state, mask[:, :1])
    assert [part.dtype for part in after] == [part.dtype for part in state]
