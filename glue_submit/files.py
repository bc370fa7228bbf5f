"""Read files of limited size, write files whole or not at all, and errors of broken archives."""

from __future__ import annotations

import contextlib
import errno
import glob
import lzma
import os
import secrets
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: files of killed processes stay
    fcntl = None  # type: ignore[assignment]


LARGEST = 2**30  # bytes of a file that is read as a whole: 1 GiB

UNREADABLE = (
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    ValueError,
)
"""Errors of `gzip` and `zipfile` for truncated, broken or encrypted files (`RuntimeError`), and for
unknown compression methods."""


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """Return the content of a file.

    Args:
        path: The file.
        most: The largest number of bytes.

    Raises:
        OSError: If it cannot be read, is larger, or is a device such as `/dev/zero`, which has no
            end.
    """
    refuse_device(path)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(size, most) + 1)  # `read(most)` would reserve that much memory
        if len(content) > size:  # a pipe
            content += file.read(most)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most / 2**20:,.0f} MiB", str(path))
    return content


def refuse_device(path: Path) -> None:
    """Raise an `OSError` for a device, whose content may have no end."""
    mode = path.stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise OSError(errno.EINVAL, "must be a file, not a device", str(path))


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` at the end of the block, unless the block fails.

    If `path` is a link, the file that it points to is replaced.

    The temporary file is locked. Those that killed processes left for the same path, which are not
    locked any more, are removed.

    Args:
        path: The path; its folder must exist.

    Raises:
        OSError: If there is something else than a file at the path, such as a device.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.txt"
        >>> with replacing(path) as file:
        ...     _ = file.write(b"1")
        >>> path.read_text()
        '1'
    """
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "must be a file, not a device or a pipe", str(path))
    _remove_stale(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb+") as file:
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl:  # before the lock ends
                temporary.replace(path)
        if not fcntl:  # Windows cannot rename an open file
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp") if fcntl else ():
        with contextlib.suppress(OSError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()
