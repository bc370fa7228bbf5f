"""Modules and functions that only some operating systems have. Imports nothing of the package.

What Windows lacks is used here, and in `glue_submit.files`, which locks temporary files.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import suppress

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


def kill_group(leader: int) -> None:
    """Kill the processes of a group that are left; on Windows, which has no groups, none.

    Args:
        leader: Number of the process that leads, or led, the group.
    """
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def lacks_memory(error: BaseException | None) -> bool:
    """Return True if an error, or an error that caused it, is a lack of memory.

    Besides a `MemoryError`, this can be a library that cannot be loaded or a thread that cannot be
    started.

    Example:
        >>> lacks_memory(MemoryError()), lacks_memory(OSError(2, "No such file or directory"))
        (True, False)
    """
    while error is not None:
        if (
            isinstance(error, MemoryError)
            or getattr(error, "errno", None) == errno.ENOMEM
            or (isinstance(error, ImportError | RuntimeError) and _says_memory(str(error)))
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def _says_memory(message: str) -> bool:
    """Return True for messages of the dynamic linker, of Python and of TensorFlow."""
    messages = (
        "failed to map segment", "cannot allocate memory", "can't start new thread",
        "out of memory", "std::bad_alloc",
    )  # fmt: skip
    return any(text in message.lower() for text in messages)
