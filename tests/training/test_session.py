"""Memory of a process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from relation_tf.training.session import memory_of, uses_gpu

pytestmark = pytest.mark.tensorflow
MIB = 2**20


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
def test_memory_of_a_computation_is_what_it_adds() -> None:
    if uses_gpu():
        pytest.skip("memory of a GPU is not measured")
    np.ones(128 * MIB // 8)  # an earlier computation that needed more
    kept = np.ones(64 * MIB // 8)
    found = memory_of(lambda: float(np.ones(32 * MIB // 8).sum()))
    assert kept.size
    assert found is not None
    assert 30 * MIB <= found <= 48 * MIB


def test_memory_is_unknown_without_the_files_of_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relation_tf.training.session._STATUS", Path("/no/such/file"))
    assert memory_of(lambda: None) is None
