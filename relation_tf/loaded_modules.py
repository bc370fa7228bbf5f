"""Imported modules of users, whose files can change after the import."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from relation_tf.errors import SuiteError

_read: dict[str, tuple[Any, bytes]] = {}  # import specification and source of each module


def check_unedited(module: str) -> None:
    """Check that the file of an imported module has not changed since the first call.

    Python does not import a module again after its file is edited, as in a notebook: it would
    train the old code, while digests of the file describe the new code. After a new import of the
    module, such as by `importlib.reload`, the next call is the first.

    Args:
        module: Name of the module. Modules without a Python file are not checked.

    Raises:
        SuiteError: If the file has changed.
    """
    loaded = sys.modules.get(module)
    spec, file = getattr(loaded, "__spec__", None), getattr(loaded, "__file__", None)
    if spec is None or file is None or not file.endswith(".py"):
        return
    try:
        source = Path(file).read_bytes()
    except OSError:  # in an archive, or removed
        return
    known, before = _read.get(module, (None, b""))
    if known is not spec:
        _read[module] = spec, source
    elif source != before:
        raise SuiteError(
            f"{file}: has changed since it was imported. Restart Python (in a notebook, the "
            "kernel) to use the new version"
        )
