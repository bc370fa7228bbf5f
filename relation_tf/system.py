"""Modules and functions that only some operating systems have. Imports nothing of the package.

What Windows lacks is used here, and in `glue_submit.files`, which locks temporary files.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def peak_memory() -> int | None:
    """Return the largest resident memory of this process in bytes; None on Windows.

    Example:
        >>> memory = peak_memory()
        >>> memory is None or memory > 2**20
        True
    """
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C, also for processes that start meanwhile. Has no effect on Windows."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the first process starts it, and it unblocks Ctrl-C
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
