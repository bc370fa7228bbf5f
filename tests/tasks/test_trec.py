from __future__ import annotations

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import find_source, find_task, read_task
from relation_tf.tasks.sources import search
from relation_tf.tasks.trec import COLLECTION

NUMBERED, PUBLISHED = COLLECTION.layouts
TRAIN = b"DESC:manner How did it end ?\nNUM:date When ?\nLOC:city Which sister\xf0city ?\n"


def write(folder, train=TRAIN, test=b"HUM:ind Who ?\n"):
    (folder / "TREC.train").write_bytes(train)
    (folder / "TREC.test").write_bytes(test)
    return folder


def test_the_kind_is_what_stands_before_the_colon(tmp_path):
    splits = read_task("TREC", write(tmp_path)).splits
    words = find_task("TREC").labels
    assert words == ("DESC", "ENTY", "ABBR", "HUM", "LOC", "NUM")
    assert [words[label] for label in splits["train"].labels] == ["DESC", "NUM", "LOC"]
    assert splits["train"].texts == (["How did it end ?", "When ?", "Which sisterðcity ?"],)
    assert splits["test"].labels.tolist() == [words.index("HUM")]


def test_the_fifty_kinds(tmp_path):
    splits = read_task("TREC-fine", write(tmp_path)).splits
    words = find_task("TREC-fine").labels
    assert len(set(words)) == 50
    assert [words[i] for i in splits["train"].labels] == ["DESC:manner", "NUM:date", "LOC:city"]


def test_the_numbered_files_come_first_and_have_no_fifty_kinds(tmp_path):
    write(tmp_path)
    (tmp_path / "TREC.train.all").write_bytes(b"5 When ?\n")
    (tmp_path / "TREC.test.all").write_bytes(b"3 Who ?\n")
    text = read_task("TREC", tmp_path)
    assert text.splits["train"].labels.tolist() == [5]
    assert text.splits["test"].texts == (["Who ?"],)
    assert text.spaced
    assert find_source("TREC-fine", "files", tmp_path).layout is PUBLISHED


def test_a_share_of_train_stops_the_training():
    for name, task in COLLECTION.tasks.items():
        assert (task.validation, task.scored) == (None, {name: "test"})


@pytest.mark.parametrize(
    ("line", "name", "found"),
    [
        (b"DESC How ?", "TREC", "'DESC How ?'"),
        (b"DESC:date How ?", "TREC", "'DESC:date How ?'"),
        (b"NUM:date", "TREC-fine", "'NUM:date'"),
        (b"0 How ?", "TREC-fine", "'0 How ?'"),
    ],
)
def test_bad_lines_are_named_or_left_out_of_train_alone(tmp_path, line, name, found):
    write(tmp_path, train=TRAIN + line + b"\n")
    with pytest.raises(DataError) as error:
        read_task(name, tmp_path)
    assert f"{tmp_path / 'TREC.train'}:4: expected DESC:def or " in str(error.value)
    assert str(error.value).endswith(f"found {found}")
    text = read_task(name, tmp_path, skip_bad_lines=True)
    assert len(text.splits["train"]) == 3
    assert len(text.skipped) == 1
    write(tmp_path, test=line + b"\n")
    with pytest.raises(DataError, match=r"TREC\.test:1"):
        read_task(name, tmp_path, skip_bad_lines=True)


def test_the_real_files_have_their_published_rows_in_either_layout(shared):
    folder = shared("data/sentence_classification").parent
    task = find_task("TREC")
    numbered, published = (
        layout.read(task, search(layout, task, folder), False).splits
        for layout in (NUMBERED, PUBLISHED)
    )
    for split, counts in {
        "train": [1162, 1250, 86, 1223, 835, 896],
        "test": [138, 94, 9, 65, 81, 113],
    }.items():
        assert np.bincount(numbered[split].labels).tolist() == counts
        assert numbered[split].labels.tolist() == published[split].labels.tolist()
        assert numbered[split].index.tolist() == published[split].index.tolist()
        assert numbered[split].texts == published[split].texts


def test_the_real_fifty_kinds(shared):
    folder = shared("data/sentence_classification")
    train = read_task("TREC-fine", folder).splits["train"]
    assert len(train) == 5452
    assert set(train.labels) == set(range(50))
