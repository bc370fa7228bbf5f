from types import SimpleNamespace

import keras
import numpy as np
import pytest

from benchmarks import against_attention
from benchmarks.timing import Spread


def test_table_of_each_form(monkeypatch, capsys):
    suite = SimpleNamespace(
        method=[SimpleNamespace(mechanism=name) for name in ("attention", "baseline")]
    )
    monkeypatch.setattr(against_attention, "load_suite", lambda name: suite)
    monkeypatch.setattr(against_attention, "matrix_rate", lambda: Spread(1e9, 1e9, 1e9, 1))
    against_attention.main(batch=1, length=4, width=8)
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines()]
    rows = [row for row in rows[4:] if row]
    assert [row[1].strip() for row in rows] == ["attention", "attention, causal", "baseline"]
    assert float(rows[0][3]) == 1


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="needs TensorFlow's graphs")
def test_operations_of_the_matrix_products_of_a_step():
    layer = against_attention.mechanism_layer("attention", 8, num_heads=2)
    projections = 3 * 2 * 4 * 8 * 8
    scores_and_outputs = 2 * 2 * 2 * 4 * 4 * 4
    # The gradient of a product is two products of its size.
    expected = 3 * (projections + scores_and_outputs)
    assert against_attention.product_operations(layer, np.ones((1, 4, 8), "float32")) == expected
