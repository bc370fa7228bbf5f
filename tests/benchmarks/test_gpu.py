import numpy as np

from benchmarks import gpu


def test_error_in_bfloat16(monkeypatch):
    monkeypatch.setattr(gpu, "_tokens", lambda length: np.ones((1, 4, 512), "float32"))
    case = gpu.Case("baseline", "layer", 2048)
    exact = gpu._output(gpu._layer(case, "float32"))
    assert gpu._error(gpu._layer(case, "float32"), exact) == 0
    assert 1e-4 < gpu._error(gpu._layer(case, "mixed_bfloat16"), exact) < 0.05


def test_tables_of_a_measured_file(tmp_path):
    file = tmp_path / "gpu.csv"
    for backend, seconds in (("torch", 0.032768), ("jax", 0.065536)):
        for form in ("layer", "causal"):
            gpu._append(
                file,
                gpu.Result(backend, "GPU", "relation", form, 2048, seconds, seconds / 2, seconds),
            )
    every, causal = gpu.tables(file)
    assert every.splitlines()[2] == "| relation | 1 (1-2) |  |  | 0.5 (0.5-1) |  |  |  |"
    assert (
        causal.splitlines()[2]
        == "| relation | 1 (1-2) |" + "  |" * 5 + " 0.5 (0.5-1) |" + "  |" * 3
    )
