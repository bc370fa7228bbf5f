import numpy as np
import pytest

from benchmarks import gpu

ROWS = """\
backend,device,mechanism,length,precision,seconds,low,high,bytes,error,failed
torch,GPU,relation,2048,TF32,0.002,0.001,0.003,10,0.000513,
torch,GPU,relation,2048,bfloat16,0.0052,0.005,0.006,10,0.00531,
torch,GPU,attention,32768,bfloat16,,,,,,out of memory
"""


def test_table_leaves_cells_without_a_measurement_empty(tmp_path):
    file = tmp_path / "gpu.csv"
    file.write_text(ROWS, encoding="utf-8")
    _, _, relation, attention = gpu.table(file).splitlines()
    assert relation == "| relation |  |  | 5.2 |  |  |  |  |  | 0.05 % | 0.53 % |"
    assert attention == "| attention |  |  |  |  |  |  |  |  |  |  |"


@pytest.mark.parametrize("mechanism", ["relation", "linear-attention", gpu._PEER])
def test_precisions_have_equal_weights_and_heads(mechanism):
    exact, half = (gpu._layer(gpu.Case(mechanism, 128, p)) for p in ("float32", "bfloat16"))
    assert exact.num_heads == half.num_heads == 8
    assert exact.compute_dtype == "float32"
    assert half.compute_dtype == "bfloat16"
    for a, b in zip(exact.get_weights(), half.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_failed_compilation_is_the_result():
    assert gpu._measure(gpu.Case("relation", 128, "float32"), "out of memory", None) == {
        "failed": "out of memory"
    }


def test_a_measured_file_can_be_read(tmp_path):
    file = tmp_path / "gpu.csv"
    for length in (128, 512):
        gpu._append(file, gpu.Result("torch", "GPU", "relation", length, "TF32", seconds=0.5))
    assert [key for key, _ in gpu._rows(file)] == [
        ("torch", "relation", 128, "TF32"),
        ("torch", "relation", 512, "TF32"),
    ]
