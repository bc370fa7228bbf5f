"""Memory of a computation."""

from __future__ import annotations

import pytest
import tensorflow as tf

from relation_tf.training import session

pytestmark = pytest.mark.tensorflow
MIB = 2**20


def _ones(mib: int) -> tf.Tensor:
    return tf.ones(mib * MIB // 4)


def test_memory_of_a_computation_is_what_it_adds() -> None:
    _ones(128)  # an earlier computation that needed more, and whose memory TensorFlow keeps
    kept = _ones(64)
    found = session.memory_of(lambda: _ones(32))
    if found is None:
        pytest.skip("TensorFlow's allocator does not count the memory of this processor")
    assert kept.shape
    assert 32 * MIB <= found < 33 * MIB


def test_peak_of_a_gpu_stays_that_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = {"current": 100 * MIB, "peak": 512 * MIB}
    experimental = tf.config.experimental
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [kind])
    monkeypatch.setattr(experimental, "get_memory_info", lambda device: dict(gpu))
    monkeypatch.setattr(
        experimental, "reset_memory_stats", lambda device: gpu.update(peak=gpu["current"])
    )
    session.forget_peaks()
    gpu["peak"] = 512 * MIB
    assert session.memory_of(lambda: gpu.update(peak=130 * MIB)) == 30 * MIB
    assert session.peaks()["peak_device_memory_mib"] == 512
    session.forget_peaks()
    assert session.peaks()["peak_device_memory_mib"] == 100
