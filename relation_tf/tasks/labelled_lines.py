"""Files with a label and a text a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from relation_tf.errors import DataError, join_names, quote
from relation_tf.tasks.tables import decode_record, read_records
from relation_tf.tasks.task import TextSplit

# Most of these files are older than UTF-8, and some hold lines of both kinds. Bytes that are valid
# UTF-8 and are not ASCII make no sense in Windows-1252.
_ENCODINGS = ("UTF-8", "Windows-1252")

_SEPARATORS = {" ": "a space", "\t": "a tab"}


def read_labelled_lines(
    path: Path, labels: Sequence[str], separator: str, *, skip_bad_lines: bool = False
) -> tuple[TextSplit, tuple[str, ...]]:
    r"""Read a file.

    Args:
        path: Text, each line UTF-8 or else Windows-1252; a line ends at LF and nowhere else.
        labels: The label words in the order of the classes.
        separator: What stands between label and text. The text is what is left of the line, and may
            be empty.
        skip_bad_lines: Leave out a malformed line.

    Returns:
        The rows, their `index` the number of the line from 0, and a message for each line left out.

    Raises:
        DataError: For a file that is missing or holds no row, and for a malformed line.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "reviews.all"
        >>> _ = path.write_bytes(b"1 caf\xe9 , good .\n0 bad .\n")
        >>> split, skipped = read_labelled_lines(path, ("0", "1"), " ")
        >>> split.texts, split.labels.tolist()
        ((['café , good .', 'bad .'],), [1, 0])
    """
    classes = {word: i for i, word in enumerate(labels)}
    texts: list[str] = []
    numbers: list[int] = []
    index: list[int] = []
    skipped: list[str] = []
    for line, record in enumerate(read_records(path), 1):
        try:
            text = decode_record(path, line, record, _ENCODINGS)
            label, found, rest = text.partition(separator)
            if not found or label not in classes:
                raise DataError(
                    f"{path}:{line}: expected {join_names(labels, ' or ')}, "
                    f"{_SEPARATORS[separator]} and a text, found {quote(text)}"
                )
        except DataError as error:
            if not skip_bad_lines:
                raise
            skipped.append(str(error))
            continue
        texts.append(rest)
        numbers.append(classes[label])
        index.append(line - 1)
    if not texts:
        raise DataError(f"{path}: expected labelled rows, found none")
    rows = TextSplit((texts,), np.array(numbers, np.int32), np.array(index, int))
    return rows, tuple(skipped)
