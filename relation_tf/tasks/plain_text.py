"""Plain text for language models: streamed, encoded once, cut into blocks of equal length.

Lines follow each other without a mark between them, and blank ones are left out. What does not fill
a last block is left out as well.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import tokenizers

from relation_tf.errors import DataError
from relation_tf.tasks.cache import broken_named, made_once
from relation_tf.tasks.sources import digest_of_file
from relation_tf.tasks.tables import decode_record, readable
from relation_tf.tasks.vocabulary import WORDPIECES, Chained, Vocabulary

HELD_OUT = 0.05
"""The share of the blocks that is held out where no file is."""

MASKED = 0.15
"""The share of the tokens that is predicted, as in BERT."""

_FORMAT = 1  # of what is kept; another number makes it anew
_LONGEST = 2**20  # bytes of a line that are read at once
_FIRST_WORD = 2  # the ids before it are padding and what is unknown
_ORDER, _MASKS, _HELD_OUT_MASKS = range(3)  # what is drawn, so that no two draws are the same


@dataclass(frozen=True)
class PlainText:
    """Text as ids.

    Attributes:
        vocabulary: WordPiece, trained on the files to learn from.
        train: Blocks to learn from, `(blocks, length)`, mapped from a file.
        held_out: Blocks to evaluate on, of the same form.
        digest: Equal for equal files, vocabulary size and version of `tokenizers`.
    """

    vocabulary: Vocabulary
    train: np.ndarray
    held_out: np.ndarray
    digest: str


def read_plain_text(
    files: Sequence[str | Path],
    length: int = 128,
    held_out: str | Path | float = HELD_OUT,
    vocabulary_size: int = WORDPIECES,
) -> PlainText:
    r"""Read text files, encoded the first time and kept in the cache for the next.

    Memory does not grow with the files, but for the counts of their different words.

    Args:
        files: UTF-8 text, also packed by gzip (`.gz`), one after the other.
        length: Ids of a block.
        held_out: A file of text that is evaluated on, or the share of the blocks, from the end,
            that is.
        vocabulary_size: The most ids of the vocabulary.

    Raises:
        DataError: For a file that cannot be read, is not UTF-8 or too short; it names the file
            and the line.

    Example:
        >>> import os, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> os.environ["RELATION_TF_CACHE"] = str(folder / "cache")
        >>> _ = (folder / "a.txt").write_text("so good\n\nso bad\n" * 50)
        >>> text = read_plain_text([folder / "a.txt"], length=20, held_out=0.2)
        >>> text.train.shape, text.held_out.shape
        ((8, 20), (2, 20))
    """
    paths = tuple(Path(file) for file in files)
    if not paths:
        raise DataError("files: expected one or more text files. Received: none")
    apart = Path(held_out) if isinstance(held_out, str | Path) else None
    if not isinstance(held_out, str | Path) and not 0 < held_out < 1:
        raise DataError(f"held-out: expected a file, or a share above 0 and below 1. "
                        f"Received: {held_out:g}")  # fmt: skip
    digests = [_digest(path) for path in paths]
    if apart is not None:
        if _digest(apart) in digests:
            raise DataError(f"{apart}: held out, and one of the files to learn from")
        digests.append(_digest(apart))
    elif len({*digests}) < len(digests):
        again = next(path for i, path in enumerate(paths) if digests[i] in digests[:i])
        raise DataError(f"{again}: given twice, so that what is held out of it would be learned")
    said = [_FORMAT, tokenizers.__version__, vocabulary_size, apart is None, *digests]
    key = hashlib.sha256(repr(said).encode()).hexdigest()[:32]

    def make(folder: Path) -> None:
        lines = Chained(read_lines, paths)
        vocabulary = Vocabulary.train(lines, vocabulary_size, "wordpiece")
        (folder / "vocabulary.json").write_text(vocabulary.to_json(), encoding="utf-8")
        _write_ids(folder / "train.ids", vocabulary, lines)
        if apart is not None:
            _write_ids(folder / "held_out.ids", vocabulary, read_lines(apart))

    folder = made_once(f"text-{key}", make)
    with broken_named(folder):
        vocabulary = Vocabulary.from_json((folder / "vocabulary.json").read_text(encoding="utf-8"))
        train = _blocks(folder / "train.ids", vocabulary, length)
        other = None if apart is None else _blocks(folder / "held_out.ids", vocabulary, length)
    if other is None:
        count = max(1, round(cast(float, held_out) * len(train)))
        if len(train) == count:
            raise DataError(
                f"{paths[0]}: expected text for more than the {count} blocks of {length} tokens "
                "that are held out, found no more"
            )
        train, other = train[:-count], train[-count:]
    for name, blocks in ((str(paths[0]), train), (str(apart or paths[-1]), other)):
        if not len(blocks):
            raise DataError(
                f"{name}: expected text for one block of {length} tokens and more, found less"
            )
    return PlainText(vocabulary, train, other, key)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file that are not blank, one after the other.

    A line of more than a megabyte comes in parts, cut at a blank.

    Raises:
        DataError: For what cannot be read or is not UTF-8; it names the file and the line.
    """
    open_file = gzip.open if path.suffix == ".gz" else Path.open
    with readable(path), cast(BinaryIO, open_file(path, "rb")) as file:
        yield from _decoded(path, file)


def _decoded(path: Path, file: BinaryIO) -> Iterator[str]:
    line, rest, start = 1, b"", BOM_UTF8
    while piece := file.readline(_LONGEST):
        record, rest = rest + piece.removeprefix(start), b""
        start = b""
        ended = record.endswith(b"\n")
        if not ended and len(piece) == _LONGEST:
            record, blank, rest = record.rpartition(b" ")
            if not blank:
                raise DataError(f"{path}:{line}: expected words shorter than {_LONGEST:,} bytes")
        if text := decode_record(path, line, record).strip():
            yield text
        line += ended
    if text := decode_record(path, line, rest).strip():
        yield text


def _digest(path: Path) -> str:
    with readable(path):
        return digest_of_file(path).hex()


def _dtype(vocabulary: Vocabulary) -> np.dtype[np.unsignedinteger]:
    """The smallest that holds all ids: half of the memory and the disk."""
    return np.min_scalar_type(vocabulary.size)


def _write_ids(path: Path, vocabulary: Vocabulary, texts: Iterable[str]) -> None:
    with path.open("wb") as file:
        for part in vocabulary.encode_parts(texts):
            part.ids.astype(_dtype(vocabulary)).tofile(file)


def _blocks(path: Path, vocabulary: Vocabulary, length: int) -> np.ndarray:
    dtype = _dtype(vocabulary)
    count = path.stat().st_size // dtype.itemsize // length
    if not count:  # nothing cannot be mapped
        return np.empty((0, length), dtype)
    return np.memmap(path, dtype, "r", shape=(count, length))


def batch_rows(blocks: int, batch_size: int, seed: int, step: int) -> np.ndarray:
    """Which blocks a step learns from; (seed, step) decides.

    Steps go through all blocks in a random order, and then again in another.

    Args:
        blocks: How many there are.
        batch_size: How many a step takes.
        seed: Of the run.
        step: From 0.

    Example:
        >>> two = [batch_rows(4, 2, seed=1, step=step) for step in (0, 1)]
        >>> sorted(np.concatenate(two).tolist())
        [0, 1, 2, 3]
    """
    places = step * batch_size + np.arange(batch_size)
    rows = [_order(blocks, seed, int(place) // blocks)[place % blocks] for place in places]
    return np.array(rows)


@functools.lru_cache(maxsize=2)  # a batch may end one order and begin the next
def _order(blocks: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.default_rng([_ORDER, seed, epoch]).permutation(blocks)


def masks_of_step(seed: int, step: int) -> np.random.Generator:
    """Return the generator of the masks of a step."""
    return np.random.default_rng([_MASKS, seed, step])


def masks_of_held_out(row: int) -> np.random.Generator:
    """Return the generator of the masks of held-out blocks from a row on, the same in all runs."""
    return np.random.default_rng([_HELD_OUT_MASKS, row])


def mask_tokens(
    ids: np.ndarray,
    vocabulary_size: int,
    generator: np.random.Generator,
    share: float = MASKED,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hide some tokens of each block as BERT does.

    A share of a block's tokens is chosen, as many in each block; of the chosen ones 80 % are
    replaced by the id of a masked token, `vocabulary_size`, 10 % by any word, and 10 % are left.

    Args:
        ids: `(blocks, length)`, without padding.
        vocabulary_size: Number of word ids.
        generator: What draws.
        share: Of the tokens, at least one of a block.

    Returns:
        `int32`: what a network is given, `(blocks, length)`; the chosen places, in order, and the
        ids that were there, both `(blocks, chosen)`.

    Example:
        >>> ids = np.full((1, 20), 5)
        >>> given, at, words = mask_tokens(ids, 9, np.random.default_rng(0))
        >>> at.shape, words.tolist(), bool((np.delete(given, at[0], axis=1) == 5).all())
        ((1, 3), [[5, 5, 5]], True)

    References:
        Devlin et al. 2019, "BERT" (NAACL), section 3.1.
    """
    count = max(1, round(share * ids.shape[1]))
    at = np.sort(np.argsort(generator.random(ids.shape), axis=1)[:, :count], axis=1)
    words = np.take_along_axis(ids, at, axis=1).astype(np.int32)
    draw = generator.random(words.shape)
    others = generator.integers(_FIRST_WORD, vocabulary_size, words.shape, np.int32)
    hidden = np.select([draw < 0.8, draw < 0.9], [np.int32(vocabulary_size), others], words)
    given = ids.astype(np.int32)
    np.put_along_axis(given, at, hidden, axis=1)
    return given, at.astype(np.int32), words
