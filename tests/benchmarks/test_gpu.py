import contextlib
import re
from pathlib import Path

import numpy as np
import pytest
import typer

from benchmarks import gpu

ROWS = """\
backend,device,mechanism,length,precision,seconds,low,high,error,failed
torch,GPU,relation,2048,TF32,0.002,0.001,0.003,0.000513,
torch,GPU,relation,2048,bfloat16,0.0052,0.005,0.006,0.00531,
torch,GPU,attention,32768,bfloat16,,,,,out of memory
"""


def test_table(tmp_path):
    file = tmp_path / "gpu.csv"
    file.write_text(ROWS, encoding="utf-8")
    _, _, relation, attention = gpu.table(file).splitlines()
    assert relation == "| relation |  |  | 5.2 |  |  |  |  |  | 0.051 % | 0.53 % |"
    assert attention == "| attention |  |  |  |  | out of memory |  |  |  |  |  |"


@pytest.mark.parametrize("mechanism", ["relation", "linear-attention", gpu._PEER])
def test_precisions_have_equal_weights_and_heads(mechanism):
    exact, half = (gpu._layer(gpu.Case(mechanism, 128, p)) for p in ("float32", "bfloat16"))
    assert exact.num_heads == half.num_heads == 8
    assert exact.compute_dtype == "float32"
    assert half.compute_dtype == "bfloat16"
    for a, b in zip(exact.get_weights(), half.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


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


def test_memory_is_a_result_and_other_errors_are_not(monkeypatch):
    def fail(*arguments):
        raise RuntimeError(reason)

    monkeypatch.setattr(gpu, "_matmul_precision", lambda precision: contextlib.nullcontext())
    monkeypatch.setattr(gpu, "train_step", fail)
    reason = "CUDA out of memory. Tried to allocate 64 GiB"
    assert gpu._measure(gpu.Case("baseline", 128, "float32")) == {"failed": "out of memory"}
    reason = "Expected all tensors to be on the same device"
    with pytest.raises(RuntimeError, match="same device"):
        gpu._measure(gpu.Case("baseline", 128, "float32"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"only": "relatoin"}, "unknown mechanism 'relatoin'. Did you mean 'relation'?"),
        ({"file": Path("missing.csv"), "show": True}, "missing.csv does not exist"),
    ],
)
def test_wrong_arguments(arguments, words, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "_device", lambda: "GPU")
    with pytest.raises(typer.BadParameter, match=re.escape(words)):
        gpu.main(**{"file": tmp_path / "gpu.csv", "only": "", "show": False, **arguments})


def test_a_measured_file_can_be_read(tmp_path):
    file = tmp_path / "gpu.csv"
    for length in (128, 512):
        gpu._append(file, gpu.Result("torch", "GPU", "relation", length, "TF32", seconds=0.5))
    assert [key for key, _ in gpu._rows(file)] == [
        ("torch", "relation", 128, "TF32"),
        ("torch", "relation", 512, "TF32"),
    ]
