"""What this package raises for bad input, and what archives raise when they are broken."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib


class SubmissionError(ValueError):
    """Predictions, labels or an argument that cannot be used; the message is one line.

    Example:
        >>> from glue_submit import SubmissionError, get_task
        >>> try:
        ...     get_task("MNLI")
        ... except SubmissionError as error:
        ...     print(str(error).rpartition(". ")[2])
        Received: 'MNLI'
    """


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
