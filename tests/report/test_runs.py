"""Tables of runs, compared with their files."""

from __future__ import annotations

import numpy as np
import pytest

from relation_tf.bench.results import read_results
from relation_tf.report.runs import all_runs, computed, how_run

TWO = [{"name": name, "mechanism": name} for name in ("baseline", "relation")]


def noisy(config, task, metric):
    where = [config.seed, *task.encode(), *config.method.encode(), *metric.encode()]
    return float(np.random.default_rng(where).uniform(0.4, 0.8))


def test_costs_are_medians_over_seeds(suite_of, fabricate):
    def change(config, files):
        files["result"]["epochs"] = 10 * config.seed
        files["result"]["peak_memory_mib"] = 100 * config.seed
        files["result"]["stopped"] = "reached the end" if config.seed == 3 else "not better"

    runs = all_runs(read_results(fabricate(suite_of(method=TWO, seeds=3), noisy, change)))
    row = how_run(runs).iloc[0]
    assert (row["task"], row["method"], row["n"]) == ("CoLA", "baseline", 3)
    assert (row["parameters"], row["without_embedding"]) == (569_186, 569_186 - 541_600)
    assert (row["epochs"], row["peak_memory_mib"]) == (20, 300)
    assert row["stopped"] == "not better (2); reached the end (1)"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, 'Computation: only the first token (compute = "readout"), float32, without XLA.'),
        ({"compute": "all", "precision": "bfloat16", "xla": True},
         'Computation: all tokens (compute = "all"), bfloat16, training step compiled with XLA.'),
        ({"method": [{"mechanism": "fcsr"}]}, "Computation: float32, without XLA."),
    ],
)  # fmt: skip
def test_sentence_on_computation(suite_of, fabricate, values, expected):
    assert computed(read_results(fabricate(suite_of(**values), lambda *_: None))) == expected
