import contextlib

import numpy as np

from benchmarks import gpu


def test_error_of_a_precision(monkeypatch):
    monkeypatch.setattr(gpu, "_tokens", lambda length: np.ones((1, 4, 512), "float32"))
    monkeypatch.setattr(gpu, "_matmul_precision", lambda precision: contextlib.nullcontext())
    gpu._exact.cache_clear()
    cases = [gpu.Case("baseline", 2048, p) for p in ("float32", "TF32", "bfloat16")]
    exact, same, half = (gpu._error(case, gpu._layer(case)) for case in cases)
    gpu._exact.cache_clear()
    assert exact is None  # the reference
    assert same == 0
    assert 1e-4 < half < 0.05


def test_a_measured_file_can_be_read(tmp_path):
    file = tmp_path / "gpu.csv"
    for length in (128, 512):
        gpu._append(file, gpu.Result("torch", "GPU", "relation", length, "TF32", seconds=0.5))
    assert [key for key, _ in gpu._rows(file)] == [
        ("torch", "relation", 128, "TF32"),
        ("torch", "relation", 512, "TF32"),
    ]
