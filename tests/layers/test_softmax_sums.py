"""Softmax sums over tokens: large keys, and lengths known only at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relation_tf.layers import MLSTM, AFTLocal, AFTSimple
from tests.backends import BACKEND, array, close, close_gradients, vjp, with_unknown_length
from tests.layers import naive
from tests.layers.cases import built, meant, poisoned, some, steps, tokens


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_large_keys_do_not_overflow_or_vanish(dtype: str, causal: bool) -> None:
    """The exponential of 100 is infinite in float32, that of -110 is zero."""
    mask = some(0, 3, 70)
    x = tokens(1, 3, 70, 4)
    x[:, 60:] *= 2  # Later tokens do not make earlier sums vanish.
    layer = built(AFTSimple(3, causal=causal, dtype=dtype))
    x *= 500 / np.abs(x @ layer.get_weights()[1]).max()
    expected = meant(layer, naive.aft_simple, x, mask)
    output = array(layer(poisoned(x, mask), query_mask=mask))
    close(output, expected, 1e-5 if dtype == "float32" else 0.3)


@pytest.mark.tensorflow
@pytest.mark.parametrize(("xla", "lengths"), [(False, (1, 33, 1100)), (True, (100,))])
def test_unknown_length(xla: bool, lengths: tuple[int, ...]) -> None:
    layer = built(AFTSimple(3, causal=True))

    def call(x: Any, mask: Any) -> Any:
        return layer(x, query_mask=mask)

    unknown = with_unknown_length(call, [tokens(2, 3, 1, 4), some(3, 3, 1)], xla)
    for length in lengths:
        x, mask = tokens(2, 3, length, 4), some(3, 3, length)
        output, gradients = unknown(x, mask)
        expected, for_x, _ = vjp(lambda x, mask=mask: call(x, mask), [x], [])
        close(output, expected)
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
