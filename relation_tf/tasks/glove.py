"""Pre-trained word vectors in GloVe's text format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relation_tf.tasks.tsv import DataError
from relation_tf.tasks.vocabulary import PADDING, UNKNOWN


@dataclass(frozen=True)
class Vectors:
    """Vectors for some words of a vocabulary.

    Attributes:
        ids: The ids of the words that were found.
        values: Their vectors, `(found, width)`, float32.
        vocabulary_size: How many words were looked for, padding and unknown left out.
    """

    ids: np.ndarray
    values: np.ndarray
    vocabulary_size: int

    def fill(self, embeddings: np.ndarray) -> np.ndarray:
        """A copy of start values in which the found words have their vectors."""
        filled = embeddings.copy()
        filled[self.ids] = self.values
        return filled

    def __str__(self) -> str:
        share = len(self.ids) / max(1, self.vocabulary_size)
        return f"{len(self.ids):,} of {self.vocabulary_size:,} words found ({share:.1%})"


def read_glove(path: Path, words: Mapping[str, int], width: int) -> Vectors:
    """Read the vectors of the words of a vocabulary.

    Args:
        path: A text file with a word and `width` numbers a line, apart by blanks. A first line with
            two numbers (word2vec's header) is passed over.
        words: The id of each word.
        width: The width of the embedding.

    Raises:
        DataError: Where the file cannot be read, or a line has another width or is not numbers.
    """
    found: dict[int, np.ndarray] = {}
    for line, fields in _lines(path, width):
        word = fields[0].decode("utf-8", "replace")
        if word in words and words[word] not in found:
            found[words[word]] = _vector(path, line, fields[1:])
    ids = np.array(list(found), np.int64)
    values = np.array(list(found.values()), np.float32).reshape(len(ids), width)
    return Vectors(ids, values, sum(word not in (PADDING, UNKNOWN) for word in words))


def check_glove(path: Path, width: int) -> None:
    """Refuse a file that cannot be read or is of another width, by its first vector.

    Args:
        path: As for `read_glove`.
        width: The width of the embedding.

    Raises:
        DataError: Where `read_glove` would.
    """
    next(_lines(path, width), None)


def _lines(path: Path, width: int) -> Iterator[tuple[int, list[bytes]]]:
    """The word and the numbers of each line, with its number."""
    try:
        with path.open("rb") as file:
            for line, record in enumerate(file, 1):
                fields = record.rstrip(b"\n\r ").rsplit(b" ", width)
                if line == 1 and len(fields) == 2 and all(map(bytes.isdigit, fields)):
                    continue
                _check_width(path, line, fields, width)
                yield line, fields
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def _check_width(path: Path, line: int, fields: list[bytes], width: int) -> None:
    # A few words of the larger files hold blanks; what is left of a line that is too wide is a word
    # and a number.
    excess = fields[0].rpartition(b" ")[2] if b" " in fields[0] else b""
    if len(fields) <= width or _is_number(excess):
        count = len(b" ".join(fields).split(b" ")) - 1
        raise DataError(
            f"{path}:{line}: expected a word and {width} numbers, found {count} after "
            f"{fields[0].split(b' ')[0].decode('utf-8', 'replace')!r}"
        )


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _vector(path: Path, line: int, fields: list[bytes]) -> np.ndarray:
    try:
        vector = np.array(fields, np.float32)
    except ValueError as error:
        raise DataError(f"{path}:{line}: expected numbers after the word: {error}") from error
    if not np.isfinite(vector).all():
        raise DataError(f"{path}:{line}: expected finite numbers, found NaN or infinity")
    return vector
