"""Plain text for language models: streamed, encoded once, split into blocks of equal length.

Lines are joined without a separator. Blank lines, and tokens that do not fill the last block, are
omitted.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import tokenizers

from relation_tf.errors import DataError
from relation_tf.tasks.cache import broken_named, made_once
from relation_tf.tasks.sources import digest_of_file
from relation_tf.tasks.tables import decode_record, open_binary, readable
from relation_tf.tasks.vocabulary import WORDPIECES, Vocabulary

HELD_OUT = 0.05
"""Default share of held-out blocks, if no held-out file is given."""

MASKED = 0.15
"""Share of the tokens that are predicted, as in BERT."""

_FORMAT = 1  # version of the cache; increase it to encode again
_LONGEST = 2**20  # bytes of a line read at once
_FIRST_WORD = 2  # previous ids: padding and unknown
_ORDER, _MASKS, _HELD_OUT_MASKS = range(3)  # kinds of random draws, each with its own stream


@dataclass(frozen=True)
class PlainText:
    """Encoded plain text.

    Attributes:
        vocabulary: WordPiece vocabulary, trained on the training files.
        train: Training blocks, shape `(blocks, length)`, memory-mapped.
        held_out: Held-out blocks for evaluation, shape `(blocks, length)`.
        digest: Hash of the files, the vocabulary size and the version of `tokenizers`.
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
    r"""Read and encode text files; the result is cached.

    Memory does not depend on the size of the files, except for the counts of different words.

    Args:
        files: Files of UTF-8 text, plain or gzipped (`.gz`); they are concatenated.
        length: Number of ids per block.
        held_out: File of held-out text, or the share of blocks to hold out from the end.
        vocabulary_size: Largest size of the vocabulary, 3 or more.

    Raises:
        DataError: If an argument is not allowed, or a file cannot be read, is not UTF-8 or is too
            short. The message has the file and the line.

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
        raise DataError("files: must be one or more text files. Received: none")
    apart = Path(held_out) if isinstance(held_out, str | Path) else None
    if not isinstance(held_out, str | Path) and not 0 < held_out < 1:
        raise DataError(f"held-out: must be a file, or a share above 0 and below 1. "
                        f"Received: {held_out:g}")  # fmt: skip
    digests: dict[str, Path] = {}
    for path in [*paths, *([] if apart is None else [apart])]:
        with readable(path):
            digest = digest_of_file(path).hex()
        if digest in digests:
            raise DataError(f"{path}: has the same text as {digests[digest]}. Give each text once")
        digests[digest] = path
    settings = [_FORMAT, tokenizers.__version__, vocabulary_size, apart is None, *digests]
    key = hashlib.sha256(repr(settings).encode()).hexdigest()[:32]

    def make(folder: Path) -> None:
        lines = _Lines(paths)
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
        train, other = train[:-count], train[-count:]
    for name, blocks in ((str(paths[0]), train), (str(apart or paths[-1]), other)):
        if not len(blocks):
            raise DataError(
                f"{name}: expected text for at least one block of {length} tokens, found less"
            )
    return PlainText(vocabulary, train, other, key)


@dataclass(frozen=True)
class _Lines(Iterable[str]):
    """Lines of all files, which can be iterated more than once."""

    paths: Sequence[Path]

    def __iter__(self) -> Iterator[str]:
        return itertools.chain.from_iterable(map(read_lines, self.paths))


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file that are not blank.

    Lines of more than a megabyte are split at a space.

    Raises:
        DataError: If the file cannot be read or is not UTF-8. The message has the file and the
            line.
    """
    line, rest = 1, b""
    with readable(path), open_binary(path) as file:
        while (piece := file.readline(_LONGEST)) or rest:
            record, rest = rest + piece.removeprefix(BOM_UTF8 if line == 1 else b""), b""
            if len(piece) == _LONGEST and not piece.endswith(b"\n"):
                record, blank, rest = record.rpartition(b" ")
                if not blank:
                    raise DataError(
                        f"{path}:{line}: expected words shorter than {_LONGEST:,} bytes"
                    )
            if text := decode_record(path, line, record).strip():
                yield text
            line += piece.endswith(b"\n")


def _dtype(vocabulary: Vocabulary) -> np.dtype[np.unsignedinteger]:
    """Return the smallest type for all ids; it halves memory and disk space."""
    return np.min_scalar_type(vocabulary.size)


def _write_ids(path: Path, vocabulary: Vocabulary, texts: Iterable[str]) -> None:
    with path.open("wb") as file:
        for part in vocabulary.encode_parts(texts):
            part.ids.astype(_dtype(vocabulary)).tofile(file)


def _blocks(path: Path, vocabulary: Vocabulary, length: int) -> np.ndarray:
    dtype = _dtype(vocabulary)
    count = path.stat().st_size // dtype.itemsize // length
    if not count:  # empty files cannot be memory-mapped
        return np.empty((0, length), dtype)
    return np.memmap(path, dtype, "r", shape=(count, length))


def batch_rows(blocks: int, batch_size: int, seed: int, step: int) -> np.ndarray:
    """Return the blocks of a training step; they depend on (seed, step) only.

    All blocks are used in a random order, then again in another random order.

    Args:
        blocks: Number of blocks.
        batch_size: Blocks per step.
        seed: Seed of the run.
        step: Step, from 0.

    Example:
        >>> two = [batch_rows(4, 2, seed=1, step=step) for step in (0, 1)]
        >>> sorted(np.concatenate(two).tolist())
        [0, 1, 2, 3]
    """
    places = step * batch_size + np.arange(batch_size)
    rows = [_order(blocks, seed, int(place) // blocks)[place % blocks] for place in places]
    return np.array(rows)


# A batch can contain the end of one order and the start of the next.
@functools.lru_cache(maxsize=2)
def _order(blocks: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.default_rng([_ORDER, seed, epoch]).permutation(blocks)


def masks_of_step(seed: int, step: int) -> np.random.Generator:
    """Return the random generator for the masks of a step."""
    return np.random.default_rng([_MASKS, seed, step])


def masks_of_held_out(row: int) -> np.random.Generator:
    """Return the random generator for the masks of held-out blocks, the same in all runs."""
    return np.random.default_rng([_HELD_OUT_MASKS, row])


def mask_tokens(
    ids: np.ndarray,
    vocabulary_size: int,
    generator: np.random.Generator,
    share: float = MASKED,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mask some tokens of each block as in BERT.

    The same number of tokens is chosen in each block. 80 % of the chosen tokens are replaced by the
    mask id (`vocabulary_size`), 10 % by a random word, and 10 % are unchanged.

    Args:
        ids: Ids without padding, shape `(blocks, length)`.
        vocabulary_size: Number of word ids.
        generator: Random generator.
        share: Share of chosen tokens; at least one per block.

    Returns:
        Three `int32` arrays: network input, `(blocks, length)`; sorted positions of the chosen
        tokens and their original ids, both `(blocks, chosen)`.

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
