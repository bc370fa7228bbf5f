"""Read named columns of a file in any format, chosen by its suffix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relation_tf.tasks.arrow import read_arrow
from relation_tf.tasks.tables import Table, read_csv, read_jsonl, read_tsv

_WITH_HEADER = {".csv": read_csv, ".tsv": read_tsv}

TEXT_SUFFIXES = (*_WITH_HEADER, ".jsonl")
"""Suffixes of text files."""

SUFFIXES = (*TEXT_SUFFIXES, ".parquet")
"""Suffixes of files; a folder of `save_to_disk` has none."""


def read_table(
    path: Path,
    columns: Sequence[str],
    labels: Sequence[str] = (),
    skipped: list[str] | None = None,
) -> Table:
    r"""Read a table: text files with `read_csv`, `read_tsv` or `read_jsonl`, others as Arrow.

    Args:
        path: File or folder, see `read_arrow`.
        columns: Columns; a file with a header is read whole, and is not checked for them.
        labels: Label words, see `read_arrow`.
        skipped: If given, malformed rows are skipped and a message for each is added.

    Raises:
        DataError: If the file cannot be read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "dev.csv"
        >>> _ = path.write_text("text,label\nyes,1\n")
        >>> read_table(path, ("text",)).columns
        {'text': ['yes'], 'label': ['1']}
    """
    read = _WITH_HEADER.get(path.suffix)
    if read is not None:
        return read(path, None, skipped)
    if path.suffix == ".jsonl":
        return read_jsonl(path, columns, skipped)
    return read_arrow(path, columns, labels, skipped)
