"""Delay Ctrl-C while Keras or TensorFlow work. Imports nothing of the package.

A `KeyboardInterrupt` inside a layer, a trace or an import can become a `TypeError` or disappear.
Inside `interrupts_delayed`, Ctrl-C only sets a flag; `check_interrupts` between the steps, or the
end of the block, raises the `KeyboardInterrupt`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_received: list[int] = []


@contextmanager
def interrupts_delayed() -> Iterator[None]:
    """Delay Ctrl-C to the next `check_interrupts`, at the latest to the end of the block.

    A second Ctrl-C raises immediately, for code that does not end. A block inside another one ends
    without raising. Has no effect in other threads, and where the system handles Ctrl-C.
    """
    before = signal.getsignal(signal.SIGINT)
    mine = threading.current_thread() is threading.main_thread()
    if not mine or not callable(before) or before is _record:
        yield
        return
    _received.clear()
    signal.signal(signal.SIGINT, _record)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if _received:
            # Also if the block ended with an error: Ctrl-C may be its cause.
            _received.clear()
            signal.raise_signal(signal.SIGINT)


def check_interrupts() -> None:
    """Raise `KeyboardInterrupt` if Ctrl-C was delayed.

    Raises:
        KeyboardInterrupt: In a block of `interrupts_delayed` that has received Ctrl-C.
    """
    if _received and signal.getsignal(signal.SIGINT) is _record:
        raise KeyboardInterrupt


def _record(number: int, frame: FrameType | None) -> None:
    if _received:
        raise KeyboardInterrupt
    _received.append(number)
