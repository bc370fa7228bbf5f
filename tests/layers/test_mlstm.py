"""mLSTM: exponential gates."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from relation_tf.layers import MLSTM
from tests.backends import array, close, vjp
from tests.layers import naive
from tests.layers.cases import built, meant, some, tokens


@pytest.mark.parametrize("causal", [False, True])
def test_large_gates_do_not_overflow_or_vanish(causal: bool) -> None:
    """The exponential of 100 is infinite in float32, that of -110 is zero."""
    layer, mask = built(MLSTM(4, 2, causal=causal)), some(0, 3, 70)
    layer.i_kernel.assign(layer.i_kernel * 60)
    x = tokens(1, 3, 70, 4)
    log_i = x @ array(layer.i_kernel)
    assert log_i.max() > 200
    assert log_i[:, 0].min() < -120
    expected = meant(layer, partial(naive.mlstm, num_heads=2), x, mask)
    output, [for_x], for_weights = vjp(
        lambda x: layer(x, query_mask=mask), [x], layer.trainable_weights
    )
    close(output, expected, 1e-3)  # Logarithms around 200 have errors of 1e-5.
    assert all(np.isfinite(gradient).all() for gradient in (for_x, *for_weights))


@pytest.mark.parametrize("gate", [0.0, 60.0, 120.0])
@pytest.mark.parametrize(("options", "token"), [({"causal": True}, 1), ({"use_bias": False}, 0)])
def test_a_query_of_zero_gives_zero(gate: float, options: dict[str, Any], token: int) -> None:
    """exp(-m), the least relative normalizer, is zero in float32 for m above 104."""
    layer, mask = MLSTM(4, **options), np.array([[True, True, token == 0]])
    layer.build((None, None, 4))
    layer.i_offset.assign([gate])
    x = tokens(0, 1, 3, 4)
    x[:, 2] = token
    output, [for_x], for_weights = vjp(
        lambda x: layer(x, query_mask=mask), [x], layer.trainable_weights
    )
    assert not output[:, 2].any()
    assert np.isfinite(output).all()
    assert all(np.isfinite(gradient).all() for gradient in (for_x, *for_weights))


def test_gates_start_without_effect_of_the_text() -> None:
    """As in the authors' code: normal with 0.1 (input) and from 3 to 6 (forget)."""
    layer = MLSTM(64, 64)
    layer.build((None, None, 4))
    assert not array(layer.i_kernel).any()
    assert not array(layer.f_kernel).any()
    assert 0.05 < array(layer.i_offset).std() < 0.15
    close(array(layer.f_offset), np.linspace(3, 6, 64))
