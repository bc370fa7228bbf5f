"""Signals, memory and processes. Imports nothing of the package.

Runs are trained in worker processes, which ignore Ctrl-C; the process of a command ends them. Where
it imports TensorFlow, or calls a custom layer, a `KeyboardInterrupt` can become another error or
disappear: inside `interrupts_delayed`, a signal only sets a flag. SIGTERM, which schedulers and
`kill` send, raises `Terminated` inside `interrupts_kept`; elsewhere it ends the process, as in
every Python program.

What Windows lacks is used here, and in `glue_submit.files`, which locks temporary files.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_Handlers = dict[signal.Signals, Any]

_delayed: list[signal.Signals] = []
_raised: list[signal.Signals] = []  # inside `interrupts_kept`


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled as Ctrl-C."""


@contextmanager
def interrupts_delayed() -> Iterator[None]:
    """Delay Ctrl-C to the next `check_interrupts`, at the latest to the end of the block.

    A second Ctrl-C raises immediately. A block inside another one has no effect, nor has one in
    another thread, or where the system handles Ctrl-C.
    """
    numbers = (signal.SIGINT, signal.SIGTERM)
    before: _Handlers = {n: handler for n in numbers if callable(handler := signal.getsignal(n))}
    if not before or _delay in before.values() or not _in_main_thread():
        yield
        return
    if _raised and _raise in before.values():  # it was dropped
        raise _error(_raised[0])
    _delayed.clear()
    _handle(dict.fromkeys(before, _delay))
    try:
        yield
    finally:
        _handle(before)
        if _delayed:  # also after an error: Ctrl-C may be its cause
            signal.raise_signal(_delayed.pop(0))


def check_interrupts() -> None:
    """Raise `KeyboardInterrupt` if Ctrl-C was delayed.

    Raises:
        KeyboardInterrupt: In a block of `interrupts_delayed` that has received Ctrl-C.
    """
    if _delayed:
        raise _error(_delayed[0])


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raise `Terminated` for SIGTERM, and at the end of the block an interrupt that was caught.

    Typer turns it into an exit code, and Python drops it in callbacks of the garbage collector.
    """
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before: _Handlers = {n: usual[n] for n in usual if signal.getsignal(n) is usual[n]}
    if not _in_main_thread() or not before:
        yield
        return
    _raised.clear()
    print_dropped = sys.unraisablehook

    def drop(error: sys.UnraisableHookArgs) -> None:
        if not (_raised and issubclass(error.exc_type, KeyboardInterrupt)):
            print_dropped(error)

    _handle(dict.fromkeys(before, _raise))
    sys.unraisablehook = drop
    try:
        yield
    finally:
        sys.unraisablehook = print_dropped
        _handle(before)
        if _raised:
            raise _error(_raised[0])


def _handle(handlers: _Handlers) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _delay(number: int, frame: FrameType | None) -> None:
    if _delayed:
        raise _error(_delayed[0])
    _delayed.append(signal.Signals(number))


def _raise(number: int, frame: FrameType | None) -> None:
    _raised.append(signal.Signals(number))
    raise _error(_raised[0])


def _error(number: signal.Signals) -> KeyboardInterrupt:
    return Terminated() if number == signal.SIGTERM else KeyboardInterrupt()


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
