from __future__ import annotations

import shutil

import numpy as np
import pytest

from relation_tf.tasks import DataError, encoding, load_task


def same(first, second):
    assert first.vocabulary.words == second.vocabulary.words
    assert set(first.splits) == set(second.splits)
    for name, split in first.splits.items():
        other = second.splits[name]
        for rows, other_rows in zip(split.inputs, other.inputs, strict=True):
            assert np.array_equal(rows.ids, other_rows.ids)
            assert np.array_equal(rows.offsets, other_rows.offsets)
        assert np.array_equal(split.index, other.index)
        assert (split.labels is None) == (other.labels is None)
        if split.labels is not None:
            assert np.array_equal(split.labels, other.labels)


@pytest.mark.parametrize("name", ["CoLA", "STS-B", "MNLI"])
def test_cache_gives_what_was_encoded(small_glue, name, monkeypatch):
    first = load_task(name, data=small_glue)
    monkeypatch.setattr(encoding, "read_task", None)  # the cache has no need of the text
    same(first, load_task(name, data=small_glue))


def test_rows_decode_to_the_text(small_glue):
    task = load_task("SST-2", data=small_glue)
    text = (small_glue / "SST-2" / "train.tsv").read_text().splitlines()[1].split("\t")[0]
    words = {i: word for word, i in task.vocabulary.words.items()}
    ids = task.splits["train"].inputs[0].pad(np.array([0]))[0]
    assert " ".join(words[i] for i in ids) == text.lower().replace(".", " .").replace(",", " ,")


def test_changed_file_or_setting_is_encoded_anew(small_glue, tmp_path):
    folder = tmp_path / "data" / "CoLA"
    shutil.copytree(small_glue / "CoLA", folder)
    before = load_task("CoLA", data=folder.parent)
    with (folder / "train.tsv").open("a", encoding="utf-8", newline="\n") as file:
        file.write("x\t1\t\tzebras zigzag\n")
    after = load_task("CoLA", data=folder.parent)
    assert before.digest != after.digest
    assert len(after.splits["train"]) == len(before.splits["train"]) + 1
    assert "zebras" in after.vocabulary.words
    assert load_task("CoLA", data=folder.parent, max_words=5).vocabulary.size == 5
    assert load_task("CoLA", data=folder.parent, max_length=3).splits["train"].lengths.max() == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "cola"}, "unknown task 'cola': expected one of CoLA"),
        ({"name": "CoLA"}, "task CoLA: expected --data DIR"),
    ],
)
def test_errors_say_what_is_expected(arguments, message):
    with pytest.raises(DataError, match=message):
        load_task(**arguments)
