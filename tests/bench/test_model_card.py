"""Model cards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from relation_tf.bench.model_card import needs_unsafe_mode


@pytest.mark.parametrize(
    ("mechanism", "inner", "unsafe"),
    [
        ("relation", None, False),
        ("my_layer:Mixer", None, False),  # Keras reads a registered class
        ("two-directions", "my_layer:Mixer", False),
        ("encoder", "relation", False),
        ("encoder", "my_layer:Mixer", True),  # the encoder imports it by its name
        ("saved-model:folder", None, True),
    ],
)
def test_models_that_keras_refuses_in_safe_mode(
    mechanism: str, inner: str | None, unsafe: bool
) -> None:
    options = {} if inner is None else {"mechanism": inner}
    layers = [name for name in (mechanism, inner) if name is not None and "my_layer" in name]
    config: Any = SimpleNamespace(mechanism=mechanism, options=options, custom_layers=layers)
    assert needs_unsafe_mode(config) == unsafe
