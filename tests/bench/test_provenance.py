"""Facts about a run and its machine."""

from __future__ import annotations

import os
import platform

import pytest

from relation_tf.bench.train import conditions_of
from relation_tf.config import load_suite


@pytest.mark.tensorflow
def test_a_run_resumes_with_another_kernel_or_number_of_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, *_ = load_suite("demo").runs()
    before = conditions_of(first, None)
    monkeypatch.setattr(platform, "platform", lambda: "Linux-99")
    monkeypatch.setattr(os, "cpu_count", lambda: 99)
    assert conditions_of(first, None) == before
    assert conditions_of(second, None) != before
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "99"))
    assert conditions_of(first, None) != before
