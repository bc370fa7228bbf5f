"""Errors of this package for bad input, and errors of broken archives."""

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
        Did you mean 'MNLI-m'?
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
"""Errors of `gzip` and `zipfile` for truncated, broken or encrypted files (`RuntimeError`), and for
unknown compression methods."""
