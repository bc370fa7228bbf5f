from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import read_task
from relation_tf.tasks.reviews import DOMAINS, REVIEWS

# Rows of the training file, the 200 of dev included, as published; all others have 1600.
TRAIN_ROWS = {"baby": 1500, "camera_photo": 1597, "electronics": 1598, "magazines": 1570,
              "software": 1515}  # fmt: skip


def write(folder, train=230, test=8):
    for split, rows in {"train": train, "test": test}.items():
        lines = "".join(f"{i % 2}\treview {i} .\n" for i in range(rows))
        (folder / f"toys_games.task.{split}").write_text(lines)
    return folder


def test_dev_is_200_rows_of_the_training_file(tmp_path):
    text = read_task("fdu-toys_games", write(tmp_path))
    assert {name: len(split) for name, split in text.splits.items()} == {
        "train": 30, "dev": 200, "test": 8,
    }  # fmt: skip
    assert np.bincount(text.splits["dev"].labels).tolist() == [100, 100]
    for split in text.splits.values():
        assert split.texts == ([f"review {row} ." for row in split.index],)
    assert not set(text.splits["train"].index) & set(text.splits["dev"].index)


def test_the_sixteen_domains():
    assert len(DOMAINS) == 16
    assert list(REVIEWS) == [f"fdu-{domain}" for domain in DOMAINS]
    for name, task in REVIEWS.items():
        assert task.scored == {name: "test"}
        assert task.validation == "dev"
        assert task.metrics == ("accuracy",)


def test_too_few_rows_to_cut_dev_from(tmp_path):
    with pytest.raises(DataError, match=r"train: expected more than 200 rows, .* found 200"):
        read_task("fdu-toys_games", write(tmp_path, train=200))


def test_bad_training_lines_can_be_left_out_but_never_those_of_test(tmp_path):
    write(tmp_path)
    train, test = (tmp_path / f"toys_games.task.{split}" for split in ("train", "test"))
    train.write_bytes(b"broken\n" + train.read_bytes())
    with pytest.raises(DataError, match=r"train:1: expected 0 or 1, a tab and a text"):
        read_task("fdu-toys_games", tmp_path)
    text = read_task("fdu-toys_games", tmp_path, skip_bad_lines=True)
    assert len(text.splits["train"]) + len(text.splits["dev"]) == 230
    assert len(text.skipped) == 1
    test.write_bytes(b"broken\n" + test.read_bytes())
    with pytest.raises(DataError, match=r"test:1: expected 0 or 1, a tab and a text"):
        read_task("fdu-toys_games", tmp_path, skip_bad_lines=True)


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_real_files_have_their_published_rows(shared, domain):
    splits = read_task(f"fdu-{domain}", shared("data/fdu_mtl").parent).splits
    assert {name: len(split) for name, split in splits.items()} == {
        "train": TRAIN_ROWS.get(domain, 1600) - 200, "dev": 200, "test": 400,
    }  # fmt: skip
    counts = {name: np.bincount(split.labels) for name, split in splits.items()}
    whole = counts["train"] + counts["dev"]
    assert np.all(abs(counts["dev"] - 200 * whole / whole.sum()) < 1)
    if domain == "baby":
        assert whole.tolist() == [700, 800]
    if domain == "software":
        assert whole.tolist() == [727, 788]


def test_the_rows_of_dev_stay_the_same(shared):
    digest = hashlib.sha256()
    for domain in DOMAINS:
        splits = read_task(f"fdu-{domain}", shared("data/fdu_mtl").parent).splits
        digest.update(json.dumps(splits["dev"].index.tolist()).encode())
    assert digest.hexdigest()[:16] == "f58045ed4b7eaa0b"


def test_the_real_files_keep_their_characters(shared):
    splits = read_task("fdu-MR", shared("data/fdu_mtl").parent).splits
    text = "".join(row for split in splits.values() for row in split.texts[0])
    assert "é" in text
    assert not set(text) & set("\u0085\ufffd")
