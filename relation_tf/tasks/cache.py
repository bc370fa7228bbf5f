"""Cache of encoded tasks and of the built-in miniGLUE data."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs
from filelock import FileLock

from relation_tf.errors import DataError
from relation_tf.files import environment_folder


def cache_folder() -> Path:
    """Return the cache folder: `RELATION_TF_CACHE`, or the user's cache folder."""
    default = platformdirs.user_cache_path("relation_tf")
    folder = environment_folder("RELATION_TF_CACHE", default)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _named(folder, error) from error
    return folder


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; create it if it does not exist.

    If several processes need the folder at the same time, one creates it and the others wait. The
    folder is renamed when it is complete, so an interruption leaves no partial folder.

    Args:
        name: Name of the folder.
        make: Function that fills an empty folder.

    Raises:
        DataError: If the folder cannot be written.
    """
    folder = cache_folder() / name
    if folder.is_dir():
        return folder
    unfinished = folder.with_name(f"{name}.unfinished")
    try:
        with FileLock(folder.with_name(f"{name}.lock")):
            if not folder.is_dir():
                shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed process
                unfinished.mkdir()
                try:
                    make(unfinished)
                    unfinished.rename(folder)
                finally:
                    shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        # `make` also reads files, which can be elsewhere; an error of writing may name no file.
        if error.filename and not Path(os.fsdecode(error.filename)).is_relative_to(folder.parent):
            raise
        raise _named(folder.parent, error) from error
    return folder


@contextlib.contextmanager
def broken_named(folder: Path) -> Iterator[None]:
    """Raise `DataError` with the folder and a solution if cached files cannot be read."""
    try:
        yield
    except Exception as error:  # `tokenizers` raises plain Exception
        raise DataError(
            f"{folder}: broken cache. Delete this folder and run the command again "
            f"({type(error).__name__}: {error})"
        ) from error


def _named(folder: Path, error: OSError) -> DataError:
    return DataError(
        f"{error.filename or folder}: {error.strerror or error}. The cache is {folder}; set "
        "RELATION_TF_CACHE to use another folder"
    )
