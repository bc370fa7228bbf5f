"""The memory that a computation needs, on Linux."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def added_memory(function: Callable[[], object]) -> int:
    """Bytes by which resident memory at its highest within a call is above what was held before."""
    Path("/proc/self/clear_refs").write_text("5")  # the highest begins anew
    before = resident_memory()
    function()
    return max(0, _resident("VmHWM") - before)


def resident_memory() -> int:
    """Bytes of resident memory that this process holds now."""
    return _resident("VmRSS")


def _resident(kind: str) -> int:
    _, _, rest = Path("/proc/self/status").read_text().partition(f"{kind}:")
    return int(rest.partition("kB")[0]) * 1024
