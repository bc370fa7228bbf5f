"""Reader of the Keras archives `imdb.npz` and `reuters.npz`.

An archive contains rows of word ranks; the most frequent word has rank 1. The word index
`<archive>_word_index.json` next to it maps ranks to words: lower-case, without punctuation. Words
are joined by spaces. White space inside a word (some words of IMDb contain U+0085) becomes `_`, so
each rank is one word. Without the index the decimal ranks are used as words.

The rows are NumPy object arrays, which are pickles, and a pickle can run any code. Like the Keras
loader, this reader only accepts plain values and runs no code.

References:
    `keras.datasets.imdb` and `keras.datasets.reuters` of Keras.
"""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from relation_tf.errors import DataError, join_names, quote
from relation_tf.tasks.tables import check_spelled, parse_object, readable
from relation_tf.tasks.task import Task, TaskText, TextSplit

_SEED = 113
_LARGEST = 2**30  # limit of array bytes; the arrays of IMDb, the larger dataset, have 23,000,000
_INDEX = "word index"


def read_archive(
    task: Task, files: Mapping[str, Path], arrays: Mapping[str, tuple[str, str]]
) -> TaskText:
    """Read an archive; rows are in the order of the Keras loader.

    Args:
        task: The task.
        files: The archive as `"train"`, and its word index if it exists.
        arrays: Names of the arrays of rows and labels, for each split.

    Returns:
        The splits; `index` is the row in the archive, from 0.

    Raises:
        DataError: If a file cannot be read or has other content, or the word index does not match
            the archive.

    Example:
        >>> import tempfile
        >>> from relation_tf.tasks import find_task
        >>> path = Path(tempfile.mkdtemp()) / "imdb.npz"
        >>> rows = np.array([[2, 1], [1]], object)
        >>> np.savez(path, x=rows, y=[0, 1])
        >>> index = path.with_name("imdb_word_index.json")
        >>> _ = index.write_text('{"good": 1, "so": 2}')
        >>> files = {"train": path, "word index": index}
        >>> split = read_archive(find_task("IMDb"), files, {"train": ("x", "y")}).splits["train"]
        >>> split.texts, split.labels.tolist()
        ((['so good', 'good'],), [0, 1])
    """
    archive = files["train"]
    words = _read_index(files[_INDEX]) if _INDEX in files else None
    classes = len(task.labels or ())
    rows = [_read_split(archive, x, y, classes, words) for x, y in arrays.values()]
    orders = keras_orders(*map(len, rows))
    splits = [split.take(order) for split, order in zip(rows, orders, strict=True)]
    note = (
        f"no {archive.stem}_word_index.json next to {archive.name}: words are replaced by numbers, "
        "word vectors cannot be used"
    )
    notes = () if words else (note,)
    return TaskText(task, dict(zip(arrays, splits, strict=True)), notes=notes, spaced=True)


def keras_orders(*rows: int) -> list[np.ndarray]:
    """Return the orders of the rows of an archive in the Keras loaders.

    The loaders shuffle the arrays one by one with `RandomState(113)`. NumPy has frozen this
    generator, so the orders never change.

    Args:
        rows: Number of rows of each array.

    Example:
        >>> [order.tolist() for order in keras_orders(4, 3)]
        [[3, 2, 0, 1], [1, 0, 2]]
    """
    generator = np.random.RandomState(_SEED)
    return [generator.permutation(count) for count in rows]


def _read_split(
    archive: Path, x: str, y: str, classes: int, words: Mapping[int, str] | None
) -> TextSplit:
    rows, labels = _read_rows(archive, x), _read_labels(archive, y, classes)
    if not len(rows):
        raise DataError(f"{archive}: expected rows {x!r}, found none")
    if len(rows) != len(labels):
        raise DataError(
            f"{archive}: expected as many labels {y!r} as rows {x!r}, found {len(labels):,} and "
            f"{len(rows):,}"
        )
    texts = [_text(f"{archive}: row {i} of {x!r}", row, words) for i, row in enumerate(rows)]
    return TextSplit((texts,), labels.astype(np.int32), np.arange(len(rows)))


def _text(place: str, row: Any, words: Mapping[int, str] | None) -> str:
    if not isinstance(row, list) or not all(type(rank) is int and rank > 0 for rank in row):
        raise DataError(f"{place}: expected a list of word ranks from 1, found {row!r:.60}")
    try:
        return " ".join(map(str, row) if words is None else [words[rank] for rank in row])
    except KeyError as error:
        raise DataError(
            f"{place}: the word index next to the archive has no word of rank {error}"
        ) from error


def _read_rows(archive: Path, name: str) -> list[Any]:
    """Read an object array with a restricted unpickler."""
    file = _member(archive, name)
    try:
        version, _ = np.lib.format.read_magic(file)
        read_header = getattr(np.lib.format, f"read_array_header_{version}_0")
        shape, _, dtype = read_header(file)
        if len(shape) != 1 or not dtype.hasobject:
            raise ValueError(f"an array of {dtype} of shape {shape}")
        # NumPy needs allow_pickle=True, which runs code of the pickle.
        *_, rows = _RowsUnpickler(file).load().state
        if not isinstance(rows, list):
            raise TypeError(f"a state with {rows!r:.60}")
    except Exception as error:  # other pickles can raise any exception
        raise DataError(
            f"{archive}: expected rows {name!r}, an array of lists of word ranks, found "
            f"{error!r:.100}"
        ) from error
    return rows


def _read_labels(archive: Path, name: str, classes: int) -> np.ndarray:
    place = f"{archive}: expected labels {name!r}"
    file = _member(archive, name)
    try:
        labels = np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # other headers can raise any exception
        raise DataError(f"{place}, found: {error!s:.100}") from error
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"{place} as a list of whole numbers, found an array of {labels.dtype} of shape "
            f"{labels.shape}"
        )
    outside = labels[(labels < 0) | (labels >= classes)]
    if len(outside):
        raise DataError(f"{place} from 0 to {classes - 1}, found {outside[0]}")
    return labels


def _member(archive: Path, name: str) -> io.BytesIO:
    with readable(archive), zipfile.ZipFile(archive) as members:
        found = members.namelist()
        if f"{name}.npy" not in found:
            names = join_names([*map(repr, found)])
            raise DataError(f"{archive}: expected an array {name!r}, found {names or 'none'}")
        size = members.getinfo(f"{name}.npy").file_size
        if size > _LARGEST:
            raise DataError(
                f"{archive}: expected arrays of at most {_LARGEST:,} bytes, found {size:,}"
            )
        # Read the complete file first, so that zipfile checks its checksum.
        return io.BytesIO(members.read(f"{name}.npy"))


class _Part:
    """Placeholder for an array or its type, with its pickled state."""

    def __init__(self, *arguments: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _RowsUnpickler(pickle.Unpickler):
    """Unpickler for lists and numbers; NumPy objects become placeholders, others raise an error.

    An object array is pickled as a call of `_reconstruct`, then its state: version, shape, type,
    order and the list of objects.
    """

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("numpy.core.multiarray", "_reconstruct"),  # NumPy 1
            ("numpy._core.multiarray", "_reconstruct"),
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"{module}.{name}, which is no part of an array")
        return _Part


def _read_index(path: Path) -> dict[int, str]:
    with readable(path):
        index = parse_object(path, path.read_bytes())
    words: dict[int, str] = {}
    for word, rank in index.items():
        if not word or type(rank) is not int or rank < 1 or rank in words:
            raise DataError(
                f"{path}: expected words with different ranks from 1, found "
                f"{word!r:.40}: {rank!r:.20}"
            )
        check_spelled(f"{path}: {quote(word)}", word)
        words[rank] = re.sub(r"\s", "_", word)
    if not words:
        raise DataError(f"{path}: expected words, found none")
    return words
