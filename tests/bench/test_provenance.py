"""Facts about a run and its machine."""

from __future__ import annotations

import os
import platform

import pytest

from relation_tf.bench.provenance import made_by
from relation_tf.config import load_suite


@pytest.mark.tensorflow
def test_a_run_resumes_with_another_kernel_or_number_of_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, *_ = load_suite("demo").runs()
    before = made_by(first, None)
    monkeypatch.setattr(platform, "platform", lambda: "Linux-99")
    monkeypatch.setattr(os, "cpu_count", lambda: 99)
    assert made_by(first, None) == before
    assert made_by(second, None) != before
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "99"))
    assert made_by(first, None) != before
