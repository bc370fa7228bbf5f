"""Output in a terminal: progress of long computations, and no messages of libraries.

A computation calls `advance`; only within `progress_shown`, as in commands, something is printed.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relation_tf.errors import MissingPackageError, SuiteError, join_names
from relation_tf.system import interrupts_delayed

if TYPE_CHECKING:
    from rich.console import Console

_BACKENDS = ("tensorflow", "jax", "torch")  # of Keras; extras have the same names


@contextlib.contextmanager
def loading_quietly() -> Iterator[None]:
    """Import user code, which may load TensorFlow: discard its stderr and delay Ctrl-C."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with stderr_to(Path(os.devnull)), interrupts_delayed():
        yield


def start_quietly(get: Callable[[str], Any]) -> Callable[[str], Any]:
    """Wrap the `__getattr__` of a package: the first import of Keras prints no log messages.

    A `TF_CPP_MIN_LOG_LEVEL` of the user is kept. Nothing changes if Keras is imported already.
    If its backend is not installed, the error says what to install.
    """

    @functools.wraps(get)
    def get_quietly(name: str) -> Any:
        if "keras" in sys.modules:
            return get(name)
        # TensorFlow also logs later, at the first use of a device. Errors are still raised.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        with loading_quietly(), _naming_missing_backend():
            return get(name)

    return get_quietly


def check_backend_name() -> None:
    """Check the name of Keras's backend before Keras is imported.

    Raises:
        SuiteError: If the environment variable has another name, such as `"pytorch"`.
    """
    backend = os.environ.get("KERAS_BACKEND") or _BACKENDS[0]
    if backend not in (*_BACKENDS, "numpy", "openvino"):
        raise SuiteError(
            f"KERAS_BACKEND: must be one of {join_names(_BACKENDS)}. Received: {backend}"
        )


@contextlib.contextmanager
def _naming_missing_backend() -> Iterator[None]:
    check_backend_name()
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _BACKENDS:
            raise
        others = " or ".join(name for name in _BACKENDS if name != error.name)
        raise MissingPackageError(
            "the backend of Keras",
            error.name,
            error.name,
            f"set KERAS_BACKEND to {others}",
        ) from error


@contextlib.contextmanager
def errors_only(package: str) -> Iterator[None]:
    """Drop the messages of a package's logger that are not errors.

    Example:
        >>> with errors_only("tensorflow"):
        ...     logging.getLogger("tensorflow").warning("retracing")
    """
    logger = logging.getLogger(package)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Append stderr to a file; no setting silences TensorFlow while it starts or compiles."""
    if sys.stderr is None:  # closed before the process started
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


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
