"""Keep output on stderr out of the terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from relation_tf.interrupts import interrupts_delayed


@contextlib.contextmanager
def loading_quietly() -> Iterator[None]:
    """Import user code, which may load TensorFlow: discard its stderr and delay Ctrl-C."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with (
        tempfile.TemporaryDirectory() as folder,
        stderr_to(Path(folder) / "stderr"),
        interrupts_delayed(),
    ):
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
