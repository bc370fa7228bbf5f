"""Cache of encoded tasks and of the embedded set."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs
from filelock import FileLock

from relation_tf.errors import DataError
from relation_tf.tasks import miniglue


def cache_folder() -> Path:
    """Return the folder of the cache: `RELATION_TF_CACHE`, or the user's cache folder."""
    default = platformdirs.user_cache_path("relation_tf")
    folder = Path(os.environ.get("RELATION_TF_CACHE", default))
    with _named_in_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache, made where it is not there.

    Of several processes that ask at once one makes it, and the others wait; interrupted at any
    moment it leaves nothing that the next takes for whole.

    Args:
        name: Of the folder.
        make: Fills an empty folder.

    Raises:
        DataError: Where nothing can be written there.
    """
    folder = cache_folder() / name
    if folder.is_dir():
        return folder
    with _named_in_errors(folder.parent), FileLock(folder.with_name(f"{name}.lock")):
        if not folder.is_dir():
            unfinished = folder.with_name(f"{name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
            unfinished.mkdir()
            try:
                make(unfinished)
                unfinished.rename(folder)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return folder


@contextlib.contextmanager
def broken_named(folder: Path) -> Iterator[None]:
    """Name a folder of the cache whose files cannot be read, and say what to do."""
    try:
        yield
    except Exception as error:  # that of `tokenizers` has no kind of its own
        raise DataError(
            f"{folder}: broken, remove it and it is made again ({type(error).__name__}: {error})"
        ) from error


@contextlib.contextmanager
def _named_in_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{error.filename or folder}: {error.strerror or error}. What is encoded is kept in "
            f"{folder}; RELATION_TF_CACHE names another folder"
        ) from error


def miniglue_folder() -> Path:
    """The folder of the embedded set."""
    return made_once(f"miniglue-{miniglue.VERSION}", miniglue.write)
