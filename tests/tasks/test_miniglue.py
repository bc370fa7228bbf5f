"""Tests of the built-in data: the readers of GLUE read it, and no shortcut gives the labels."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from relation_tf.tasks import GLUE, miniglue
from tests.tasks.equality import read_task

TRAIN, DEV, TEST = 2000, 300, 100


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("miniglue")
    miniglue.write(folder, seed=1, train_rows=TRAIN, dev_rows=DEV, test_rows=TEST)
    return folder


def examples(data: Path, task: str) -> dict[str, list[tuple[tuple[str, ...], float]]]:
    """Return texts and label of each row by split; a label of test rows is None."""
    splits = read_task(task, data).splits.items()
    return {
        name: [*zip(zip(*split.texts, strict=True),
                    [None] * len(split) if split.labels is None else split.labels.tolist(),
                    strict=True)]
        for name, split in splits
    }  # fmt: skip


@pytest.mark.parametrize("task", GLUE)
def test_numbers_of_rows_and_of_labels(data: Path, task: str) -> None:
    for split, rows in examples(data, task).items():
        kind = split.partition("_")[0]
        assert len(rows) == {"train": TRAIN, "dev": DEV}.get(kind, TEST)
        if kind in ("train", "dev"):
            counts = Counter(label for _, label in rows)
            assert len(counts) == len(GLUE[task].labels or range(6))
            assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("task", GLUE)
def test_first_words_do_not_predict_the_label(data: Path, task: str) -> None:
    seen = [
        (tuple(text.split()[0] for text in texts), label)
        for texts, label in examples(data, task)["train"]
    ]
    half = len(seen) // 2
    table: defaultdict[tuple[str, ...], Counter[float]] = defaultdict(Counter)
    for first_words, label in seen[:half]:
        table[first_words][label] += 1
    right = sum(
        table[first_words].most_common(1)[0][0] == label
        for first_words, label in seen[half:]
        if first_words in table
    )
    assert len(table) > 3
    assert right / half < 1 / len(GLUE[task].labels or range(6)) + 0.05


@pytest.mark.parametrize("task", GLUE)
def test_rows_occur_once_and_have_one_label(data: Path, task: str) -> None:
    splits = [{*rows} for rows in examples(data, task).values()]  # pairs of texts and label
    texts = {texts for split in splits for texts, _ in split}
    assert len(texts) == sum(map(len, splits))


def test_bytes_are_those_of_this_version(tmp_path: Path) -> None:
    """After an intended change, increase VERSION and update the digest."""
    miniglue.write(tmp_path, seed=0, train_rows=30, dev_rows=20, test_rows=10)
    total = hashlib.sha256()
    for path in sorted(tmp_path.rglob("*.tsv")):
        total.update(path.relative_to(tmp_path).as_posix().encode() + b"\0" + path.read_bytes())
    assert (miniglue.VERSION, total.hexdigest()) == (
        1,
        "428e044fe47e515e9892969a10ce23b9fc968f31ab8e959b0bf6e00cd5cd51ac",
    )


def test_too_many_rows_for_the_grammar(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"CoLA/dev\.tsv: must not repeat rows .* Received: \d+"):
        miniglue.write(tmp_path, train_rows=300_000, dev_rows=50, test_rows=1)
