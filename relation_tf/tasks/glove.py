"""Pre-trained word vectors in GloVe's text format, plain, gzipped or in a zip archive."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relation_tf.errors import DataError, join_names
from relation_tf.files import refuse_device
from relation_tf.tasks.rows import PADDING, START, UNKNOWN
from relation_tf.tasks.tables import open_binary, readable

_LONGEST = 2**20  # longest line of vectors in bytes
_HEADER = re.compile(rb"\d+ \d+\s*")  # of word2vec: number of vectors and width


@dataclass(frozen=True)
class Vectors:
    """Word vectors for some words of a vocabulary.

    Attributes:
        ids: Ids of the words that were found.
        values: Vectors of these words, shape `(found, width)`, float32.
        vocabulary_size: Number of words in the vocabulary, without padding and other special ids.
    """

    ids: np.ndarray
    values: np.ndarray
    vocabulary_size: int

    def fill(self, embeddings: np.ndarray) -> np.ndarray:
        """Return a copy of the embeddings with the vectors of the words that were found."""
        filled = embeddings.copy()
        filled[self.ids] = self.values
        return filled

    def __str__(self) -> str:
        share = len(self.ids) / max(1, self.vocabulary_size)
        return f"{len(self.ids):,} of {self.vocabulary_size:,} words found ({share:.1%})"


def read_glove(path: Path, words: Mapping[str, int], width: int) -> Vectors:
    r"""Read the vectors of the words of a vocabulary.

    Archives are read without unpacking to disk; only vectors of words in the vocabulary are kept.
    If a word occurs twice, the first vector is used.

    Args:
        path: A text file with a word and `width` numbers per line, separated by spaces; the same as
            `.gz`; or a `.zip` with one such file, or several with the width in their names, such as
            `glove.6B.100d.txt`. The first line may be a word2vec header: number of vectors and
            width.
        words: Id of each word.
        width: Width of the embedding.

    Raises:
        DataError: If the file cannot be read, a line has another width or is not numeric, or an
            archive has no or several files for this width.

    Example:
        >>> import gzip, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "glove.txt.gz"
        >>> _ = path.write_bytes(gzip.compress(b"the 0.5 -1\ncat 2 3\n"))
        >>> vectors = read_glove(path, {"[PAD]": 0, "[UNK]": 1, "cat": 2, "zyx": 3}, width=2)
        >>> vectors.ids, vectors.values, str(vectors)
        (array([2]), array([[2., 3.]], dtype=float32), '1 of 2 words found (50.0%)')
    """
    special = (PADDING, UNKNOWN, START)
    ids = {word.encode(): number for word, number in words.items() if word not in special}
    vectors: dict[int, np.ndarray] = {}
    for line, word, numbers in _lines(path, width):
        if word in ids and ids[word] not in vectors:
            vectors[ids[word]] = _vector(f"{path}:{line}", numbers)
    values = np.array([*vectors.values()], np.float32).reshape(-1, width)
    return Vectors(np.array([*vectors], np.int64), values, len(ids))


def check_glove(path: Path, width: int) -> None:
    """Check the first vector of a file: raise an error if it is unreadable or has another width.

    Args:
        path: A file, as for `read_glove`.
        width: Width of the embedding.

    Raises:
        DataError: If the file cannot be read or has another width.
    """
    next(_lines(path, width))


def _lines(path: Path, width: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the number, the word and the numbers of each line; the numbers are not parsed."""
    count = 0
    # BufferedReader: ZipExtFile alone searches line ends in Python, which is slow.
    with readable(path), _open(path, width) as file, io.BufferedReader(file) as lines:
        for line in itertools.count(1):
            record = lines.readline(_LONGEST)
            if not record:
                break
            if line == 1 and _HEADER.fullmatch(record):
                continue
            count += 1
            record = record.rstrip(b"\n\r ")
            word, _, numbers = record.partition(b" ")
            if (blanks := record.count(b" ")) != width:
                # Some words of the larger files contain spaces, but do not end in a number.
                longer, *fields = record.rsplit(b" ", width)
                if blanks < width or _is_number(longer.rpartition(b" ")[2]):
                    raise DataError(
                        f"{path}:{line}: expected a word and {width} numbers, found {blanks} "
                        f"after {word.decode('utf-8', 'replace')!r:.40}"
                    )
                word, numbers = longer, b" ".join(fields)
            yield line, word, numbers
    if not count:
        raise DataError(f"{path}: expected word vectors, found none")


@contextlib.contextmanager
def _open(path: Path, width: int) -> Iterator[Any]:
    """Open the text file; it is decompressed while it is read."""
    refuse_device(path)
    if path.suffix.lower() != ".zip":
        with open_binary(path) as file:
            yield file
        return
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        names = [name for name in names if name.lower().endswith(".txt")] or names
        fitting = names if len(names) == 1 else [name for name in names if f".{width}d." in name]
        if len(fitting) != 1:
            raise DataError(
                f"{path}: expected one file with vectors of width {width}, found {len(fitting)} "
                f"among {join_names(names) or 'none'}"
            )
        with archive.open(fitting[0]) as file:
            yield file


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _vector(place: str, numbers: bytes) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # float32 overflow gives infinity
            vector = np.array(list(map(float, numbers.split(b" "))), np.float32)
    except ValueError as error:
        raise DataError(f"{place}: expected numbers after the word: {error!s:.80}") from error
    if not np.isfinite(vector).all():
        raise DataError(f"{place}: expected finite numbers, found NaN or infinity")
    return vector
