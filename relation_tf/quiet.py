"""Keep output on stderr out of the terminal. Imports nothing of the package."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def loading_quietly() -> Iterator[None]:
    """Discard what is written to stderr while user code is imported, which may load TensorFlow."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with tempfile.TemporaryDirectory() as folder, stderr_to(Path(folder) / "stderr"):
        yield


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
