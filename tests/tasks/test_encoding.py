from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import TaskSource, load_task, vocabulary
from tests.tasks.equality import same_encoded


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("CoLA", {}),
        ("STS-B", {"validation_split": 0.2}),
        ("MNLI", {"tokens": "wordpiece"}),
        ("MRPC", {"start_token": True}),
    ],
)
def test_cache_returns_the_encoded_task(small_glue, name, settings, monkeypatch):
    first = load_task(name, data=small_glue, **settings)
    monkeypatch.setattr(TaskSource, "read", None)  # the cache has no need of the text
    again = load_task(name, data=small_glue, **settings)
    same_encoded(first, again)
    assert (first.validation, first.digest) == (again.validation, again.digest)
    rows = again.splits["train"].inputs[0]  # shared by processes
    assert isinstance(rows.offsets.base, np.memmap)
    assert not rows.offsets.flags.writeable


def test_changed_file_or_setting_is_encoded_again(small_glue, tmp_path):
    folder = tmp_path / "data" / "CoLA"
    shutil.copytree(small_glue / "CoLA", folder)
    before = load_task("CoLA", data=folder.parent)
    with (folder / "train.tsv").open("a", encoding="utf-8", newline="\n") as file:
        file.write("x\t1\t\tzebras zigzag\n")
    after = load_task("CoLA", data=folder.parent)
    assert before.digest != after.digest
    assert len(after.splits["train"]) == len(before.splits["train"]) + 1
    assert "zebras" in after.vocabulary.words
    assert load_task("CoLA", data=folder.parent, vocabulary_size=5).vocabulary.size == 5
    assert load_task("CoLA", data=folder.parent, max_length=3).splits["train"].lengths.max() == 3


@pytest.mark.parametrize("tokens", ["word", "wordpiece"])
def test_texts_may_all_be_empty(tmp_path, tokens):
    (tmp_path / "subj.all").write_text("".join(f"{i % 2} \n" for i in range(40)))
    for _ in ("encoded", "from the cache"):
        task = load_task("SUBJ", data=tmp_path, tokens=tokens)
        assert task.splits["train"].lengths.tolist() == [[0] * len(task.splits["train"])]
        batch = task.splits["test"].inputs[0].pad(np.arange(2))
        assert batch.tolist() == [[0], [0]]


@pytest.mark.parametrize("name", ["CoLA", "STS-B"])
def test_validation_split_is_a_share_of_train(small_glue, name):
    own, cut = (
        load_task(name, data=small_glue),
        load_task(name, data=small_glue, validation_split=0.25),
    )
    assert (own.validation, cut.validation) == ("dev", "validation")
    assert "validation" not in own.splits
    train, validation = cut.splits["train"], cut.splits["validation"]
    assert (len(own.splits["train"]), len(train), len(validation)) == (40, 30, 10)
    assert sorted([*train.index, *validation.index]) == list(range(40))
    if own.task.labels:
        # To the row that rounding leaves over.
        shares = [np.bincount(split.labels, minlength=2) for split in (train, validation)]
        assert abs(shares[0] / 3 - shares[1]).max() < 1.5
    for split in ("dev", "test"):
        assert np.array_equal(own.splits[split].index, cut.splits[split].index)


def test_default_validation_split_is_a_tenth_of_train(tmp_path):
    lines = "".join(f"{i % 2} row{i} is here .\n" for i in range(100))
    (tmp_path / "subj.all").write_text(lines)
    task = load_task("SUBJ", data=tmp_path)
    assert task.validation == "validation"
    assert {name: len(split) for name, split in task.splits.items()} == {
        "train": 81, "validation": 9, "test": 10,
    }  # fmt: skip
    # Words of the training rows and of no others.
    rows = task.splits["train"].index
    assert {word for word in task.vocabulary.words if word.startswith("row")} == {
        f"row{i}" for i in rows
    }
    assert (task.splits["validation"].inputs[0].pad(np.arange(9))[:, 0] == 1).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "files"}, "task CoLA: needs --data DIR"),
        ({"tokens": "words"}, "key 'tokens': must be 'word' .* Received: 'words'"),
        ({"max_length": 1, "start_token": True}, "max_length must be 2 or more with start_token"),
        ({"name": "dates", "vocabulary": "all"}, "vocabulary has no effect on dates, which is gen"),
    ],
)
def test_errors_of_settings(arguments, message):
    with pytest.raises(DataError, match=message):
        load_task(**{"name": "CoLA", **arguments})


def test_the_vocabulary_can_have_the_words_of_all_splits(small_glue, tmp_path):
    """Rows and their order stay the same; words of dev and test rows get ids."""
    folder = shutil.copytree(small_glue / "CoLA", tmp_path / "CoLA")
    for split, start in (("dev", "x\t1\t\t"), ("test", "8\t")):
        with (folder / f"{split}.tsv").open("a", encoding="utf-8") as file:
            file.write(f"{start}zebra of {split}\n")
    train = load_task("CoLA", data=tmp_path)
    everything = load_task("CoLA", data=tmp_path, vocabulary="all")
    assert {"zebra", "dev", "test"} <= {*everything.vocabulary.words} - {*train.vocabulary.words}
    for split in ("dev", "test"):
        assert (train.splits[split].inputs[0].ids == 1).any()
        assert not (everything.splits[split].inputs[0].ids == 1).any()
    assert train.splits["dev"].labels.tolist() == everything.splits["dev"].labels.tolist()


def test_the_vocabulary_can_be_that_of_other_texts(small_glue, tmp_path):
    """A change of these texts is another training, and another cache."""
    folder = shutil.copytree(small_glue, tmp_path / "data")
    digests = []
    for words in ("zebra and yak", "a zebra"):
        (folder / "other.txt").write_text(words, encoding="utf-8")
        task = load_task("CoLA", data=folder, vocabulary=["other.txt"])
        assert {*task.vocabulary.words} >= {*words.split()}
        assert task.vocabulary.size == 2 + len(words.split())
        digests.append(task.source.training_digests(["other.txt"], folder))
    differing = {key for key in digests[0] if digests[0][key] != digests[1][key]}
    assert differing == {"vocabulary/other.txt"}
    (folder / "other.txt").unlink()
    (tmp_path / "outside.txt").write_text("zebra", encoding="utf-8")
    for name in ("other.txt", "../outside.txt", str(tmp_path / "outside.txt")):
        with pytest.raises(DataError, match="must be a text file in the folder of --data"):
            load_task("CoLA", data=folder, vocabulary=[name])
    with pytest.raises(DataError, match=r"vocabulary: --data must be the folder of other.txt"):
        load_task("CoLA", source="miniglue", vocabulary=["other.txt"])
    with pytest.raises(DataError, match="'train', 'all' or a list of text files"):
        load_task("CoLA", data=folder, vocabulary="al")


def test_given_vocabulary_is_used(small_glue, tmp_path):
    pieces = vocabulary.Vocabulary.train(["some other words of it"], tokens="wordpiece")
    path = tmp_path / "vocabulary.json"
    path.write_text(pieces.to_json(), encoding="utf-8")
    task = load_task("CoLA", data=small_glue, tokens="wordpiece", vocabulary=path)
    assert task.vocabulary.words == pieces.words
    own = load_task("CoLA", data=small_glue, tokens="wordpiece")
    assert own.vocabulary.words != pieces.words
    text = (small_glue / "CoLA" / "train.tsv").read_text().splitlines()[0].split("\t")[3]
    ids = task.splits["train"].inputs[0].pad(np.array([0]))[0]
    assert ids.tolist() == pieces.encode([text]).ids.tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocabulary_size": 50}, "vocabulary_size has no effect with the vocabulary .*=50"),
        ({"start_token": True}, "start_token has no effect with the vocabulary "),
        ({}, "vocabulary.json: must be a vocabulary of tokens='wordpiece'. .*: tokens='word'"),
        ({"vocabulary": Path("none.json")}, "none.json: expected a vocabulary: No such file"),
    ],
)
def test_errors_of_a_given_vocabulary(small_glue, tmp_path, settings, message):
    path = tmp_path / "vocabulary.json"
    path.write_text(vocabulary.Vocabulary.train(["a b"]).to_json(), encoding="utf-8")
    values = {"tokens": "wordpiece", "vocabulary": path, **settings}
    with pytest.raises(DataError, match=message):
        load_task("CoLA", data=small_glue, **values)
