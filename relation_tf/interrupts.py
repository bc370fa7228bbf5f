"""Delay Ctrl-C while Keras or TensorFlow work. Imports nothing of the package.

A `KeyboardInterrupt` inside a layer, a trace or an import can become a `TypeError` or disappear.
Inside `interrupts_delayed`, Ctrl-C only sets a flag; `check_interrupts` between the steps, or the
end of the block, raises the `KeyboardInterrupt`.
"""

from __future__ import annotations

import signal
import sys
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
    if not _in_main_thread() or not callable(before) or before is _record:
        yield
        return
    if _received and before is raise_interrupt:
        raise KeyboardInterrupt
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


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raise `KeyboardInterrupt` at the end of the block if other code has dropped it.

    Python drops it in callbacks of the garbage collector, for example, and prints a traceback.
    """
    before = signal.getsignal(signal.SIGINT)
    if not _in_main_thread() or before is not signal.default_int_handler:
        yield
        return
    _received.clear()
    print_dropped = sys.unraisablehook

    def drop(error: sys.UnraisableHookArgs) -> None:
        if not (_received and issubclass(error.exc_type, KeyboardInterrupt)):
            print_dropped(error)

    signal.signal(signal.SIGINT, raise_interrupt)
    sys.unraisablehook = drop
    try:
        yield
    finally:
        sys.unraisablehook = print_dropped
        signal.signal(signal.SIGINT, before)
        if _received:
            _received.clear()
            raise KeyboardInterrupt


def check_interrupts() -> None:
    """Raise `KeyboardInterrupt` if Ctrl-C was delayed.

    Raises:
        KeyboardInterrupt: In a block of `interrupts_delayed` that has received Ctrl-C.
    """
    if _received and signal.getsignal(signal.SIGINT) is _record:
        raise KeyboardInterrupt


def raise_interrupt(number: int, frame: FrameType | None) -> None:
    """Handle Ctrl-C in a block of `interrupts_kept`."""
    _received.append(number)
    raise KeyboardInterrupt


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _record(number: int, frame: FrameType | None) -> None:
    if _received:
        raise KeyboardInterrupt
    _received.append(number)
