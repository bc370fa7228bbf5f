"""mLSTM: exponential gates."""

from __future__ import annotations

import numpy as np
import pytest

from relation_tf.layers import MLSTM
from tests.backends import array, close, vjp
from tests.layers import naive
from tests.layers.cases import randomize, some, tokens, weights_of


@pytest.mark.parametrize("causal", [False, True])
def test_large_gates_do_not_overflow_or_vanish(causal: bool) -> None:
    """The exponential of 100 is infinite in float32, that of -110 is zero."""
    layer, mask = MLSTM(4, 2, causal=causal), some(0, 3, 70)
    layer.build((None, None, 4))
    randomize(layer)
    layer.i_kernel.assign(layer.i_kernel * 60)
    x = tokens(1, 3, 70, 4)
    log_i = x @ array(layer.i_kernel)
    assert log_i.max() > 200
    assert log_i[:, 0].min() < -120
    expected = naive.mix(
        lambda *arguments, **seen: naive.mlstm(*arguments, num_heads=2, **seen),
        weights_of(layer),
        x.astype("float64"),
        x,
        mask,
        mask,
        causal,
        positional=True,
    )
    output, [for_x], for_weights = vjp(
        lambda x: layer(x, query_mask=mask), [x], layer.trainable_weights
    )
    close(output, expected, 1e-3)  # Logarithms around 200 have errors of 1e-5.
    assert all(np.isfinite(gradient).all() for gradient in (for_x, *for_weights))
