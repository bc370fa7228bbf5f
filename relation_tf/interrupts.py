"""Delay Ctrl-C and SIGTERM while Keras or TensorFlow work. Imports nothing of the package.

A `KeyboardInterrupt` inside a layer, a trace or an import can become a `TypeError` or disappear.
Inside `interrupts_delayed`, a signal only sets a flag; `check_interrupts` between the steps, or the
end of the block, raises the `KeyboardInterrupt`, at the latest after 5 s: on a busy machine, the
import of TensorFlow takes longer. SIGTERM, which schedulers and `kill` send, raises
`Terminated` inside `interrupts_kept`; elsewhere it ends the process, as in every Python program.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

_DELAY = 5.0  # seconds of the longest delay, and until the next attempt

_Handlers = dict[signal.Signals, Any]


@dataclass(eq=False)
class _Signal:
    number: signal.Signals
    raised: bool = False  # by `check_interrupts` or the end of the block, or about to be


_received: list[_Signal] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled as Ctrl-C."""


@contextmanager
def interrupts_delayed() -> Iterator[None]:
    """Delay Ctrl-C to the next `check_interrupts`, at the latest to the end of the block.

    A second Ctrl-C raises immediately, and so does the first one after 5 s. A block inside another
    one ends without raising. Has no effect in other threads, and where the system handles Ctrl-C.
    """
    before = _own_handlers() if _in_main_thread() else {}
    if not before or _record in before.values():
        yield
        return
    if _received and _raise in before.values():
        raise _error()
    _received.clear()
    _handle(dict.fromkeys(before, _record))
    try:
        yield
    finally:
        for delayed in _received:
            delayed.raised = True
        _handle(before)
        if _received:
            # Also if the block ended with an error: Ctrl-C may be its cause.
            number = _received[0].number
            _received.clear()
            signal.raise_signal(number)


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raise `Terminated` for SIGTERM, and at the end of the block an interrupt that was dropped.

    Python drops it in callbacks of the garbage collector, for example, and prints a traceback.
    """
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before: _Handlers = {n: own for n, own in usual.items() if signal.getsignal(n) is own}
    if not _in_main_thread() or not before:
        yield
        return
    _received.clear()
    print_dropped = sys.unraisablehook

    def drop(error: sys.UnraisableHookArgs) -> None:
        if not (_received and issubclass(error.exc_type, KeyboardInterrupt)):
            print_dropped(error)

    _handle(dict.fromkeys(before, _raise))
    sys.unraisablehook = drop
    try:
        yield
    finally:
        sys.unraisablehook = print_dropped
        _handle(before)
        if _received:
            error = _error()
            _received.clear()
            raise error


def check_interrupts() -> None:
    """Raise `KeyboardInterrupt` if Ctrl-C was delayed.

    Raises:
        KeyboardInterrupt: In a block of `interrupts_delayed` that has received Ctrl-C.
    """
    if _received and _record in _own_handlers().values():
        _received[0].raised = True
        raise _error()


def _own_handlers() -> _Handlers:
    """Return the handler of Ctrl-C, unless it is the system's, and of SIGTERM, if it is ours."""
    interrupt, end = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    handlers: _Handlers = {signal.SIGINT: interrupt} if callable(interrupt) else {}
    return handlers | ({signal.SIGTERM: end} if end in (_raise, _record) else {})


def _handle(handlers: _Handlers) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _record(number: int, frame: FrameType | None) -> None:
    if _received:
        raise _error()
    delayed = _Signal(signal.Signals(number))
    _received.append(delayed)
    # `threading.Thread` takes a lock, which the interrupted code may hold.
    _thread.start_new_thread(_end_delay, (delayed,))


def _end_delay(delayed: _Signal) -> None:
    """After the longest delay, repeat a signal until it is raised: one can disappear."""
    time.sleep(_DELAY)
    while delayed in _received and not delayed.raised:
        if hasattr(signal, "pthread_kill"):  # also ends a waiting system call
            signal.pthread_kill(threading.main_thread().ident or 0, delayed.number)
        else:
            _thread.interrupt_main(delayed.number)
        time.sleep(_DELAY)


def _raise(number: int, frame: FrameType | None) -> None:
    _received.append(_Signal(signal.Signals(number)))
    raise _error()


def _error() -> KeyboardInterrupt:
    """Return the error of the first signal that was received."""
    return Terminated() if _received[0].number == signal.SIGTERM else KeyboardInterrupt()
