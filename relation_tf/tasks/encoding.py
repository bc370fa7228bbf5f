"""Tasks encoded as token ids, with a cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tokenizers
from pydantic import ValidationError

from relation_tf.errors import DataError
from relation_tf.settings import first_fault
from relation_tf.tasks import diagnostics
from relation_tf.tasks.cache import broken_named, made_once
from relation_tf.tasks.catalogue import Entry, find_source
from relation_tf.tasks.datasets import cut
from relation_tf.tasks.diagnostics import LabelledTokens, Symbols
from relation_tf.tasks.generated import GENERATED, Characters, GeneratedTask
from relation_tf.tasks.plain_text import Lines
from relation_tf.tasks.rows import START, Ragged
from relation_tf.tasks.sources import (
    TaskSource,
    digest_of_file,
    joined_digest,
    sample_note,
    vocabulary_files,
)
from relation_tf.tasks.task import Reading, Task, TextSplit, Tokens, VocabularyTexts
from relation_tf.tasks.vocabulary import Vocabulary

_Value = TypeVar("_Value")

_CUT = "validation"  # split cut from the training rows

VALIDATION = 0.1
"""Share of the training rows for early stopping, for tasks without a validation split."""

_FORMAT = 9  # increase it after any change of the files or of reading, truncating or splitting


@dataclass(frozen=True)
class EncodedSplit:
    """Encoded split of a task.

    Attributes:
        inputs: Token ids of the rows of each input.
        labels: As in `TextSplit`.
        index: As in `TextSplit`.
    """

    inputs: tuple[Ragged, ...]
    labels: np.ndarray | None
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each row, shape `(inputs, rows)`."""
        return np.stack([rows.lengths for rows in self.inputs])

    @cached_property
    def first_equal(self) -> np.ndarray:
        """Number of the first row with the same texts as each row, shape `(rows,)`."""
        seen: dict[bytes, int] = {}
        between = np.int32(0).tobytes()  # no id of a text
        keys = map(_digest, map(between.join, zip(*self.inputs, strict=True)))
        return np.array([seen.setdefault(key, row) for row, key in enumerate(keys)], np.int64)


def _digest(content: bytes) -> bytes:
    """Return a short key, because rows can be long."""
    return hashlib.blake2b(content, digest_size=16).digest()


@dataclass(frozen=True)
class EncodedTask:
    """Encoded task.

    Attributes:
        task: The task.
        vocabulary: Vocabulary of the training rows; for generated tasks, the characters or symbols
            of the sources.
        splits: Encoded splits; those of a group are named by `Task.split_of`.
        validation: Split for early stopping; "validation" if it was cut from "train". Each member
            of a group has its own.
        digest: SHA-256 of the files.
        source: Source of the text.
        notes: Differences that make results not comparable with published results.
        targets: Characters of the targets (sequence-to-sequence), or symbols of the labels (token
            classification); otherwise None.
        digests: SHA-256 of the file of each split; empty for generated text.
    """

    task: Task
    vocabulary: Vocabulary | Characters | Symbols
    splits: Mapping[str, EncodedSplit]
    validation: str
    digest: str
    source: TaskSource
    notes: tuple[str, ...] = ()
    targets: Characters | Symbols | None = None
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def members(self) -> list[EncodedTask]:
        """Tasks of a group, each with its own splits, source and notes, or this task."""
        if not self.task.members:
            return [self]
        return [*map(self._member, self.task.members, self.source.members)]

    @property
    def scored(self) -> dict[str, str]:
        """Scored splits by name: those of the task, and its diagnostics with labels."""
        labelled = {split for split, rows in self.splits.items() if rows.labels is not None}
        return {
            name: split
            for name, split in self.task.scorable.items()
            if name in self.task.scored or split in labelled
        }

    def _member(self, task: Task, source: TaskSource) -> EncodedTask:
        prefix, of_note = self.task.split_of(task, ""), f"{task.name}: "
        splits, digests = _of_member(prefix, self.splits), _of_member(prefix, self.digests)
        notes = (note for note in self.notes if note.startswith(of_note))
        return replace(
            self,
            task=task,
            splits=splits,
            validation=_CUT if _CUT in splits else str(task.validation),
            digest=joined_digest(digests),
            source=source,
            notes=tuple(note.removeprefix(of_note) for note in notes),
            digests=digests,
        )


def _of_member(prefix: str, values: Mapping[str, _Value]) -> dict[str, _Value]:
    """Return the values of a member of a group by the names that they have without the group."""
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }


def load_task(
    name: Entry,
    source: str = "auto",
    data: str | Path | None = None,
    *,
    tfds_folder: str | Path | None = None,
    tokens: Tokens = "word",
    start_token: bool = False,
    validation_split: float | None = None,
    split_seed: int | None = None,
    vocabulary_size: int | None = None,
    max_length: int | None = None,
    vocabulary: VocabularyTexts | Path = "train",
) -> EncodedTask:
    """Read and encode a task, or load it from the cache.

    Args:
        name: A registered task, a custom task, or a group of tasks.
        source: Source of the data, see `find_source`.
        data: Folder with the files.
        tfds_folder: TFDS folder; by default the default of TFDS.
        tokens: `"word"` or `"wordpiece"`.
        start_token: If True, put the token `[START]` before each text.
        validation_split: Share of the training rows, in (0, 1), for early stopping; stratified by
            class. Default: the validation split of the task, or a share of `VALIDATION` if the task
            has none.
        split_seed: Seed of the choice of these rows; by default always the same rows.
        vocabulary_size: Size of the vocabulary, including padding and unknown; default: all words,
            or 8,000 for WordPiece.
        max_length: Largest number of tokens of a text, including a start token; longer texts are
            truncated. Default: no limit.
        vocabulary: Texts whose words are the vocabulary: `"train"`, or `"all"` for the rows of all
            splits (their texts, not their labels); names of other text files in `data`; or the path
            of a file written with `Vocabulary.to_json`.

    Raises:
        UnknownNameError: If the task or source is unknown.
        DataError: If a setting is not allowed, settings conflict or have no effect on a generated
            task, a file is missing, or a line is malformed.
        MissingPackageError: If a package that reads the source is not installed.

    Example:
        >>> task = load_task("RTE", source="miniglue")
        >>> task.splits["train"].lengths.shape[0], task.validation
        (2, 'dev')
    """
    try:
        reading = Reading(
            tokens=tokens,
            start_token=start_token,
            validation_split=validation_split,
            vocabulary_size=vocabulary_size,
            max_length=max_length,
            vocabulary="train" if isinstance(vocabulary, Path) else vocabulary,
        )
    except ValidationError as error:
        raise DataError(f"load_task: {first_fault(error, Reading)}") from error
    chosen = reading.model_dump(exclude_defaults=True)
    if start_token and max_length == 1:
        raise DataError(
            "max_length must be 2 or more with start_token: the start token counts. Received: "
            "max_length=1"
        )
    given = None
    if isinstance(vocabulary, Path):
        _refuse(chosen, ("start_token", "vocabulary_size"), f"with the vocabulary {vocabulary}")
        given = Vocabulary.read(vocabulary)
        if given.kind != tokens:
            raise DataError(
                f"{vocabulary}: must be a vocabulary of tokens={tokens!r}. "
                f"Received: tokens={given.kind!r}"
            )
        if START in given.words:
            raise DataError(
                f"{vocabulary}: must not have the token {START}, which starts each text"
            )
    found = find_source(name, source, data, tfds_folder)
    texts = vocabulary_files(reading.vocabulary, data)
    task = found.task
    if task.generated:
        chosen |= {} if split_seed is None else {"split_seed": split_seed}
        chosen |= {} if given is None else {"vocabulary": vocabulary}
        if task.token_labels:  # with learned positions, suites set the number of positions with it
            chosen.pop("max_length", None)
        _refuse(chosen, chosen, f"on {task.name}, which is generated")
        return _generated(found, found.digest())
    digests = found.digests()
    shares = [
        validation_split or (VALIDATION if each.validation is None else None)
        for each in task.each()
    ]
    if split_seed is not None and None in shares:
        raise DataError(
            f"split_seed needs validation_split: the validation rows of {task.name} are fixed. "
            f"Received: split_seed={split_seed}"
        )
    settings = {
        "format": _FORMAT,
        "tokenizers": tokenizers.__version__,
        "task": repr(task),
        "layout": found.layout.name,
        "kind": found.kind,
        "digest": joined_digest(digests),
        **reading.model_dump(),
        "validation_split": shares,
        "split_seed": split_seed,
        "given": given and given.to_json(),
        "texts": [digest_of_file(path).hex() for path in texts],
    }
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def make(folder: Path) -> None:
        text = found.read()
        splits = _with_validation(task, text.splits, shares, split_seed)
        notes = (*text.notes, *_notes_on_rows(found, text.splits, splits))
        words = given
        if words is None:
            train = [task.split_of(each, "train") for each in task.each()]
            names = [name for name in splits if vocabulary == "all" or name in train]
            rows = [row for name in names for column in splits[name].texts for row in column]
            words = Vocabulary.train(Lines(texts) if texts else rows, vocabulary_size, tokens,
                                     start_token=start_token, spaced=text.spaced)  # fmt: skip
        _write(folder, words, splits, notes, max_length)

    folder = made_once(f"{task.name}-{key[:32]}", make)
    validation = "each task's own" if task.members else _CUT if shares[0] else str(task.validation)
    with broken_named(folder):
        return _read(folder, found, validation, digests)


def _notes_on_rows(
    source: TaskSource, read: Mapping[str, TextSplit], splits: Mapping[str, TextSplit]
) -> Iterator[str]:
    """Yield notes on classes without training rows, scored texts that are trained on, and samples.

    Args:
        source: Source of the task or group.
        read: Splits of its files.
        splits: The same, without the validation rows.
    """
    for member in source.members or (source,):
        task, prefix = member.task, source.task.split_of(member.task, "")
        rows, train = _of_member(prefix, read), splits[f"{prefix}train"].labels
        notes = []
        if train is not None:
            missing = [word for n, word in enumerate(task.labels or ()) if not np.any(train == n)]
            notes += [f"class {word!r} has no training rows" for word in missing]
        for split in dict.fromkeys(task.scored.values()):
            if rows[split].texts == rows["train"].texts:
                notes.append(f"split {split!r} has the same texts as the training rows")
        if sample := sample_note(member, {name: len(split) for name, split in rows.items()}):
            notes.append(sample)
        yield from (f"{task.name}: {note}" if prefix else note for note in notes)


def _generated(source: TaskSource, digest: str) -> EncodedTask:
    """Return a generated task, without the cache: it is generated in seconds."""
    name = source.task.name
    data: GeneratedTask | LabelledTokens = (
        diagnostics.make(name) if name in diagnostics.DIAGNOSTICS else GENERATED[name]()
    )
    splits = {
        name: EncodedSplit(data.encode(name), None, np.arange(len(rows)))
        for name, rows in data.splits.items()
    }
    validation = str(source.task.validation)
    return EncodedTask(
        source.task, data.source, splits, validation, digest, source, targets=data.target
    )


def _with_validation(
    task: Task,
    splits: Mapping[str, TextSplit],
    shares: Iterable[float | None],
    split_seed: int | None,
) -> dict[str, TextSplit]:
    """Return the splits of all tasks, with a share of the training rows cut for early stopping."""
    splits = dict(splits)
    for each, share in zip(task.each(), shares, strict=True):
        if share is not None:
            train, what = task.split_of(each, "train"), f"task {each.name}, validation split"
            splits[train], cut_rows = cut(splits[train], share, what, split_seed)
            splits[task.split_of(each, _CUT)] = cut_rows
    return splits


def _refuse(chosen: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    """Raise an error if a setting is chosen that has no effect."""
    for name in names:
        if name in chosen:
            raise DataError(f"{name} has no effect {where}. Received: {name}={chosen[name]!r}")


def _write(
    folder: Path,
    vocabulary: Vocabulary,
    splits: Mapping[str, TextSplit],
    notes: Sequence[str],
    max_length: int | None,
) -> None:
    """Write arrays as memory-mappable files, so that processes share one copy."""
    keys: dict[str, list[str]] = {}
    for name, split in splits.items():
        arrays = {"index": split.index}
        if split.labels is not None:
            arrays["labels"] = split.labels
        for i, texts in enumerate(split.texts):
            encoded = vocabulary.encode(texts, max_length)
            arrays |= {f"rows{i}": encoded.ids, f"offsets{i}": encoded.offsets}
        keys[name] = [*arrays]
        for key, array in arrays.items():
            np.save(folder / f"{name}.{key}.npy", array)
    about = {"vocabulary": vocabulary.to_json(), "arrays": keys, "notes": notes}
    (folder / "task.json").write_text(json.dumps(about), encoding="utf-8")


def _read(
    folder: Path, source: TaskSource, validation: str, digests: Mapping[str, str]
) -> EncodedTask:
    about = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    splits = {}
    for name, keys in about["arrays"].items():
        arrays = {
            # Plain ndarray: slicing a `memmap` is several times slower.
            key: np.asarray(np.load(folder / f"{name}.{key}.npy", "r", allow_pickle=False))
            for key in keys
        }
        inputs = sum(key.startswith("rows") for key in keys)
        texts = (Ragged(arrays[f"rows{i}"], arrays[f"offsets{i}"]) for i in range(inputs))
        splits[name] = EncodedSplit(tuple(texts), arrays.get("labels"), arrays["index"])
    vocabulary = Vocabulary.from_json(about["vocabulary"])
    digest, notes = joined_digest(digests), tuple(about["notes"])
    return EncodedTask(
        source.task, vocabulary, splits, validation, digest, source, notes, digests=digests
    )
