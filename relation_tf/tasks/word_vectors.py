"""Train word vectors on text with gensim and write them in GloVe's text format."""

from __future__ import annotations

import contextlib
import gzip
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from relation_tf.errors import DataError, MissingPackageError, OptionError, SuiteError, reason_of
from relation_tf.files import expand_home, replacing
from relation_tf.interrupts import interrupts_delayed
from relation_tf.quiet import errors_only
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.encoding import load_task
from relation_tf.tasks.plain_text import check_list, read_lines
from relation_tf.tasks.rows import Ragged
from relation_tf.tasks.tables import is_gzip
from relation_tf.tasks.vector_settings import VectorSettings
from relation_tf.tasks.vocabulary import Chained, Vocabulary

_LONGEST = 10_000  # gensim ignores further words of a text


@dataclass(frozen=True)
class TrainedVectors:
    """Word vectors in a file.

    Attributes:
        path: The file.
        words: Number of words with a vector.
        width: Width of the vectors.
        tokens: Number of tokens of the text.
    """

    path: Path
    words: int
    width: int
    tokens: int

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.words:,} words, width {self.width}, trained on "
            f"{self.tokens:,} tokens"
        )


def train_vectors(
    out: str | Path,
    files: Sequence[str | Path] = (),
    tasks: Sequence[str] = (),
    settings: VectorSettings | None = None,
    *,
    data: str | Path | None = None,
    tfds_folder: str | Path | None = None,
    skip_bad_lines: bool = False,
    quiet: bool = False,
) -> TrainedVectors:
    """Train word vectors on files, and on the training rows of tasks.

    The text is split into words as in suites with `tokens = "word"`; a line, or an input of a row,
    is a text. One thread trains, so the same text and settings give the same file.

    Args:
        out: The file to write: a word and its numbers per line, frequent words first; compressed if
            it ends in `.gz`.
        files: Files of UTF-8 text, plain or gzipped.
        tasks: Names of tasks. Rows for early stopping are omitted, as in training.
        settings: Other settings, by default `VectorSettings()`.
        data: Folder with the files of the tasks.
        tfds_folder: TFDS folder.
        skip_bad_lines: If True, skip malformed lines of training files.
        quiet: If True, print nothing.

    Raises:
        RelationError: If gensim is missing, the text cannot be read or has no frequent word, or the
            file cannot be written.

    References:
        - Mikolov et al. 2013, "Distributed Representations of Words and Phrases" (NeurIPS).
        - Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information" (TACL).
    """
    settings = settings or VectorSettings()
    out = expand_home(out)
    check_list("files", files)
    check_list("tasks", tasks)
    if out.suffix.lower() == ".zip":
        raise OptionError("out", f"must be a text file or end in .gz. Received: {out}")
    if not out.parent.is_dir():
        raise SuiteError(f"{out}: cannot be written: {out.parent} is not a folder")
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        raise SuiteError(f"{out}: cannot be written: must be a file in a writable folder")
    if out.resolve() in {expand_home(file).resolve() for file in files}:
        raise OptionError("out", f"must not be a file of the training text. Received: {out}")
    if not files and not tasks:
        raise OptionError("tasks", "must name one or more tasks if no files are given")
    reading = {"data": data, "tfds_folder": tfds_folder, "skip_bad_lines": skip_bad_lines}
    for name in () if tasks else [name for name, given in reading.items() if given]:
        flag = "--tfds" if name == "tfds_folder" else None
        raise OptionError(name, "applies to tasks, but only files are given", flag)
    make_model = _model_class(settings.model)
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        rows = _rows_of_files([expand_home(file) for file in files])
        tokens = _write_words(text, [rows, *(_rows_of_task(name, reading) for name in tasks)])
        # gensim advises several threads, with which a seed gives other vectors.
        with _progress(settings.epochs * tokens, quiet) as advance, errors_only("gensim"):
            model = _train(make_model, _Texts(text), settings, tokens, advance)
    vectors = model.wv
    with _writing(out) as file:
        for word in vectors.index_to_key:
            # The shortest numbers that give the same float32 values.
            file.write(f"{word} {' '.join(vectors[word].astype(str))}\n".encode())
    return TrainedVectors(out, len(vectors), settings.width, tokens)


def _model_class(name: str) -> Any:
    try:
        with interrupts_delayed():
            from gensim.models import FastText, Word2Vec
    except ImportError as error:
        raise MissingPackageError("training word vectors", "gensim", "vectors") from error
    return FastText if name == "fasttext" else Word2Vec


_Rows = tuple[Vocabulary, Iterable[Ragged]]


def _rows_of_files(paths: Sequence[Path]) -> _Rows:
    """Return the encoded lines of files, and the vocabulary of all their words."""
    lines = Chained(read_lines, paths)
    vocabulary = Vocabulary.train(lines)
    return vocabulary, vocabulary.encode_parts(lines)


def _rows_of_task(name: str, reading: dict[str, Any]) -> _Rows:
    """Return the encoded inputs of the training rows of a task, and their vocabulary."""
    if find_task(name).generated:
        raise DataError(f"task {name}: is generated and has no words. Choose other tasks")
    task = load_task(name, **reading)
    assert isinstance(task.vocabulary, Vocabulary)  # of a task that is not generated
    return task.vocabulary, [each for each in task.splits["train"].inputs
                             if isinstance(each, Ragged)]  # fmt: skip


def _write_words(path: Path, sources: Iterable[_Rows]) -> int:
    """Write a text of words per line; return the number of words."""
    tokens = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for vocabulary, parts in sources:
            words = np.empty(vocabulary.size, object)
            for word, i in vocabulary.words.items():
                words[i] = word
            for rows in parts:
                tokens += len(rows.ids)
                for start, end in zip(rows.offsets[:-1], rows.offsets[1:], strict=True):
                    for first in range(start, end, _LONGEST):
                        ids = rows.ids[first : min(end, first + _LONGEST)]
                        file.write(" ".join(words[ids]) + "\n")
    return tokens


class _Texts:
    """Texts as lists of words, which can be iterated more than once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.advance: Any = None

    def __iter__(self) -> Iterator[list[str]]:
        with self.path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                words = line[:-1].split(" ")
                yield words
                if self.advance is not None:
                    try:
                        self.advance(len(words))
                    except (OSError, SystemExit):
                        # The output was closed. An error here would end the thread of gensim that
                        # reads the texts, and the training would wait for it forever.
                        self.advance = None


def _train(
    make_model: Any, texts: _Texts, settings: VectorSettings, tokens: int, advance: Any
) -> Any:
    kind = {} if settings.model == "cbow" else {"sg": 1}
    model = make_model(
        vector_size=settings.width, window=settings.window, min_count=settings.min_count,
        negative=settings.negative, seed=settings.seed, workers=1, **kind,
    )  # fmt: skip
    model.build_vocab(texts)
    if not len(model.wv):
        raise DataError(
            f"no word of the {tokens:,} tokens occurs {settings.min_count} times or more. "
            "Use more text or a smaller --min-count"
        )
    texts.advance = advance
    model.train(texts, total_examples=model.corpus_count, epochs=settings.epochs)
    return model


@contextlib.contextmanager
def _progress(total: int, quiet: bool) -> Iterator[Any]:
    """Show a bar in a terminal, lines elsewhere, and yield the function that advances it."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(quiet=quiet)
    if not console.is_terminal:
        yield _Lines(console, total)
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("training", total=total)
        yield lambda count: bar.advance(task, count)


class _Lines:
    """Prints a line after each tenth of the training."""

    def __init__(self, console: Any, total: int) -> None:
        self.console, self.total, self.done = console, total, 0

    def __call__(self, count: int) -> None:
        before, self.done = self.done, self.done + count
        tenth = 10 * self.done // self.total
        if tenth > 10 * before // self.total:
            self.console.print(f"trained on {10 * tenth} % of {self.total:,} tokens")


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[IO[bytes]]:
    """Open the file to write, whole or not at all."""
    try:
        with replacing(path) as file:
            if not is_gzip(path):
                yield file
                return
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                yield cast(IO[bytes], packed)
    except OSError as error:
        raise SuiteError(f"{path}: cannot be written: {reason_of(error)}") from error
