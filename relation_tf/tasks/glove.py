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
from typing import IO, Any

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
        repeated: Number of lines that were skipped because their word, one of the vocabulary,
            occurred before.
    """

    ids: np.ndarray
    values: np.ndarray
    vocabulary_size: int
    repeated: int = 0

    def fill(self, embeddings: np.ndarray) -> np.ndarray:
        """Return a copy of the embeddings with the vectors of the words that were found."""
        filled = embeddings.copy()
        filled[self.ids] = self.values
        return filled

    def __str__(self) -> str:
        share = len(self.ids) / max(1, self.vocabulary_size)
        repeated = f", {self.repeated:,} repeated lines skipped" if self.repeated else ""
        return f"{len(self.ids):,} of {self.vocabulary_size:,} words found ({share:.1%}){repeated}"


def read_glove(path: Path, words: Mapping[str, int], width: int) -> Vectors:
    r"""Read the vectors of the words of a vocabulary.

    Archives are read without unpacking to disk; only vectors of words in the vocabulary are kept.
    If a word occurs twice, the first vector is used.

    Args:
        path: A text file with a word and `width` numbers per line, separated by spaces; the same as
            `.gz`; or a `.zip` with one such file of this width. The first line may be a word2vec
            header: number of vectors and width.
        words: Id of each word.
        width: Width of the embedding.

    Raises:
        DataError: If the file cannot be read, a line has another width or is not numeric, or an
            archive does not have exactly one file of this width.

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
    values = np.empty((len(ids), width), np.float32)
    found: dict[bytes, int] = {}
    repeated = 0
    for place, word, numbers in _lines(path, width):
        if word in found:
            repeated += 1
        elif word in ids:
            values[len(found)] = _vector(place, numbers)
            found[word] = ids[word]
    return Vectors(
        np.array(list(found.values()), np.int64),
        values[: len(found)],
        len(ids),
        repeated,
    )


def check_glove(path: Path, width: int) -> None:
    """Check the first vector of a file: raise an error if it is unreadable or has another width.

    Args:
        path: A file, as for `read_glove`.
        width: Width of the embedding.

    Raises:
        DataError: If the file cannot be read or has another width.
    """
    next(_lines(path, width))


@dataclass
class _Place:
    """Line of a file, for messages."""

    file: Path
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else str(self.file)


def _lines(path: Path, width: int) -> Iterator[tuple[_Place, bytes, bytes]]:
    """Yield the place, the word and the numbers of each line."""
    place = _Place(path)
    with readable(place), _open(path, width) as (place.file, file):
        for word, numbers in _vectors(file, place, width):
            yield place, word, numbers


@contextlib.contextmanager
def _open(path: Path, width: int) -> Iterator[tuple[Path, IO[bytes]]]:
    """Open the text file (decompressed while reading) and return it with its name."""
    refuse_device(path)
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            member = _member(path, archive, width)
            with archive.open(member) as file:
                yield path / member[-60:], file
    else:
        with open_binary(path) as file:
            yield path, file


def _member(path: Path, archive: zipfile.ZipFile, width: int) -> str:
    """Return the file of an archive with vectors of this width, or its only file."""
    files = [name for name in archive.namelist() if not name.endswith("/")]
    files = [name for name in files if name.lower().endswith(".txt")] or files
    if len(files) == 1:
        return files[0]
    fitting = [name for name in files if _fits(archive, name, width)]
    if len(fitting) != 1:
        raise DataError(
            f"{path}: expected one file with vectors of width {width}, found {len(fitting)} "
            f"among {join_names(files) or 'none'}"
        )
    return fitting[0]


def _fits(archive: zipfile.ZipFile, name: str, width: int) -> bool:
    try:
        with archive.open(name) as file:
            next(_vectors(file, _Place(Path(name)), width))
    except DataError:
        return False
    return True


def _vectors(file: Any, place: _Place, width: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the word and the numbers of each line; update `place`."""
    count = 0
    # BufferedReader: ZipExtFile alone searches line ends in Python, which is slow.
    with io.BufferedReader(file) as lines:
        for place.line in itertools.count(1):
            record = lines.readline(_LONGEST)
            if not record:
                break
            if place.line == 1 and _HEADER.fullmatch(record):
                continue
            count += 1
            yield _split(record.rstrip(b"\n\r "), place, width)
    if not count:
        raise DataError(f"{place.file}: expected word vectors, found none")


def _split(record: bytes, place: _Place, width: int) -> tuple[bytes, bytes]:
    """Return the word and the numbers of a line; the numbers are counted but not parsed."""
    blanks = record.count(b" ")
    if blanks == width:
        word, _, numbers = record.partition(b" ")
        return word, numbers
    # Some words of the larger files contain spaces. In a line that is too wide, the rest is a word
    # and a number.
    word, *fields = record.rsplit(b" ", width)
    if blanks < width or _is_number(word.rpartition(b" ")[2]):
        shown = word.split(b" ")[0].decode("utf-8", "replace")
        raise DataError(
            f"{place}: expected a word and {width} numbers, found {blanks} after {shown!r:.40}"
        )
    return word, b" ".join(fields)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _vector(place: _Place, numbers: bytes) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # float32 overflow gives infinity
            vector = np.array(list(map(float, numbers.split(b" "))), np.float32)
    except ValueError as error:
        raise DataError(f"{place}: expected numbers after the word: {error!s:.80}") from error
    if not np.isfinite(vector).all():
        raise DataError(f"{place}: expected finite numbers, found NaN or infinity")
    return vector
