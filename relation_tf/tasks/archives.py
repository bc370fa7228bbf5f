"""What goes wrong with a file in an archive."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib

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
"""What `gzip` and `zipfile` raise for a file that is cut off, broken, encrypted (`RuntimeError`) or
packed in a way that they do not know."""
