"""Memory use of a computation, on Linux."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path


def added_memory(function: Callable[[], object]) -> int:
    """Return the peak resident memory of a call minus the memory before the call, in bytes."""
    # Otherwise a call that fits into memory that an earlier one has freed would seem to need none.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = resident_memory()
    function()
    return max(0, _resident("VmHWM") - before)


def resident_memory() -> int:
    """Return the resident memory of this process in bytes."""
    return _resident("VmRSS")


def _resident(kind: str) -> int:
    _, _, rest = Path("/proc/self/status").read_text().partition(f"{kind}:")
    return int(rest.partition("kB")[0]) * 1024
