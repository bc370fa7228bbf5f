"""Progress of long computations, in a terminal on stderr.

A computation calls `advance`; only within `progress_shown`, as in commands, something is printed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # rich takes long to load
    from rich.console import Console

_QUIET = 3.0  # seconds without output at the start
_UPDATE_EVERY = 0.2  # seconds between updates


class _Steps:
    """Shows the last step: one line of a terminal, which changes."""

    def __init__(self, console: Console) -> None:
        self._status = console.status("")
        self._next = time.monotonic() + _QUIET if console.is_terminal else math.inf

    def show(self, text: str) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._status.update(text)
            self._status.start()
            self._next = now + _UPDATE_EVERY

    def stop(self) -> None:
        self._status.stop()


_shown: ContextVar[_Steps | None] = ContextVar("_shown", default=None)


def advance(what: str, done: int, total: int) -> None:
    """Report the progress of a computation.

    Args:
        what: Name of the steps, such as `"tests of tasks"`.
        done: Number of finished steps.
        total: Number of all steps.
    """
    steps = _shown.get()
    if steps is not None:
        steps.show(f"{what}: {done:,} of {total:,}")


@contextmanager
def progress_shown(console: Console | None = None) -> Iterator[None]:
    """Show the progress of computations that take more than a few seconds.

    Args:
        console: Where to print, by default stderr.
    """
    from rich.console import Console

    steps = _Steps(console or Console(stderr=True, highlight=False))
    token = _shown.set(steps)
    try:
        yield
    finally:
        _shown.reset(token)
        steps.stop()
