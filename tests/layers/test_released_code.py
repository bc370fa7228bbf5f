"""`variant="released_code"` gives outputs and gradients of the released code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from relation_tf.layers import (
    Attention,
    LinearAttention,
    PointwiseMLP,
    Relation,
    SinePositionEncoding,
)
from tests.backends import array, close, close_gradients, vjp
from tests.golden import below

LAYERS = {
    "attention": Attention,
    "linear_attention": LinearAttention,
    "relation": Relation,
    "pointwise_mlp": PointwiseMLP,
}
ALGORITHMS = [
    (name, algorithm)
    for name, cls in LAYERS.items()
    for algorithm in ("auto", *cls.algorithms)
    if algorithm
    not in (
        "folded",
        "scores",
        "fused",
    )  # They do not support dropout, which the released code uses.
]


def all_tokens(layer: Any, mask: np.ndarray) -> Any:
    return lambda x: layer(x, query_mask=mask)


def first_token(layer: Any, mask: np.ndarray) -> Any:
    return lambda x: layer(x[:, :1], x, query_mask=mask[:, :1], value_mask=mask)


@pytest.mark.parametrize("call", [all_tokens, first_token])
@pytest.mark.parametrize(("name", "algorithm"), ALGORITHMS)
def test_output_and_gradients(
    golden: Mapping[str, np.ndarray], name: str, algorithm: str, call: Any
) -> None:
    x, mask = golden["layers/x"], golden["layers/mask"]
    weights = below(golden, f"layers/{name}/weight/")
    expected = golden[f"layers/{name}/output"]
    gradients = below(golden, f"layers/{name}/grad_of_sum_first_token_squared/")
    layer = LAYERS[name](expected.shape[-1], variant="released_code", algorithm=algorithm)
    layer.build(x.shape)
    layer.set_weights(
        list(weights.values())
    )  # The order of weights is equal in the layer and the file.

    function = call(layer, mask)
    output = array(function(x))
    kept = mask[:, : output.shape[1]]
    close(output[kept], expected[:, : output.shape[1]][kept])
    _, [for_x], for_weights = vjp(lambda x: function(x)[:, 0] ** 2, [x], layer.weights)
    assert [*gradients] == ["x", *weights]
    close_gradients([for_x, *for_weights], [*gradients.values()])


def test_sine_position_encoding(golden: Mapping[str, np.ndarray]) -> None:
    output = SinePositionEncoding()(golden["positional_encoding/x"])
    close(output, golden["positional_encoding/output"])
