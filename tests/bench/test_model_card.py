"""Model cards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from relation_tf.bench.model_card import needs_unsafe_mode


@pytest.mark.parametrize(
    ("mechanism", "layers", "unsafe"),
    [
        ("relation", [], False),
        ("my_layer:Mixer", ["my_layer:Mixer"], False),  # Keras imports a registered class
        ("encoder", ["my_layer:Mixer"], True),  # the encoder imports it by its name
        ("saved-model:folder", [], True),
    ],
)
def test_models_that_keras_refuses_in_safe_mode(
    mechanism: str, layers: list[str], unsafe: bool
) -> None:
    config: Any = SimpleNamespace(mechanism=mechanism, custom_layers=layers)
    assert needs_unsafe_mode(config) == unsafe
