from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks import CustomTask, TaskSource, find_source, load_task, vocabulary
from relation_tf.tasks.cache import cache_folder


def same(first, second):
    if first.vocabulary is None:
        assert second.vocabulary is None
    else:
        assert first.vocabulary.words == second.vocabulary.words
    assert (first.validation, first.digest) == (second.validation, second.digest)
    assert set(first.splits) == set(second.splits)
    for name, split in first.splits.items():
        other = second.splits[name]
        for rows, other_rows in zip(split.inputs, other.inputs, strict=True):
            values = "data" if first.vocabulary is None else "ids"
            assert np.array_equal(getattr(rows, values), getattr(other_rows, values))
            assert np.array_equal(rows.offsets, other_rows.offsets)
        assert np.array_equal(split.index, other.index)
        assert (split.labels is None) == (other.labels is None)
        if split.labels is not None:
            assert np.array_equal(split.labels, other.labels)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("CoLA", {}),
        ("STS-B", {"tokens": "text", "validation_split": 0.2}),
        ("MNLI", {"tokens": "wordpiece"}),
        ("MRPC", {"tokens": "byte", "start_token": True}),
    ],
)
def test_cache_returns_the_encoded_task(small_glue, name, settings, monkeypatch):
    first = load_task(name, data=small_glue, **settings)
    monkeypatch.setattr(TaskSource, "read", None)  # the cache has no need of the text
    same(first, load_task(name, data=small_glue, **settings))


def test_rows_decode_to_the_text(small_glue):
    task = load_task("SST-2", data=small_glue)
    text = (small_glue / "SST-2" / "train.tsv").read_text().splitlines()[1].split("\t")[0]
    words = {i: word for word, i in task.vocabulary.words.items()}
    ids = task.splits["train"].inputs[0].pad(np.array([0]))[0]
    assert " ".join(words[i] for i in ids) == text.lower().replace(".", " .").replace(",", " ,")


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


@pytest.mark.parametrize(
    "setting",
    [
        {"tokens": "wordpiece"},
        {"tokens": "byte"},
        {"tokens": "text"},
        {"validation_split": 0.2},
        {"validation_split": 0.3},
        {"vocabulary_size": 9},
        {"max_length": 2},
    ],
)
def test_each_setting_is_cached_separately(small_glue, setting):
    load_task("CoLA", data=small_glue)
    load_task("CoLA", data=small_glue, validation_split=0.4)
    first = load_task("CoLA", data=small_glue, **setting)
    shutil.rmtree(cache_folder())
    same(first, load_task("CoLA", data=small_glue, **setting))


@pytest.mark.parametrize("tokens", ["word", "wordpiece", "byte", "text"])
def test_processes_share_the_encoded_data(small_glue, tokens):
    rows = load_task("RTE", data=small_glue, tokens=tokens).splits["train"].inputs[1]
    for array in (rows.offsets, rows.data if tokens == "text" else rows.ids):
        assert isinstance(array.base, np.memmap)
        assert type(array) is np.ndarray
        assert not array.flags.writeable


@pytest.mark.parametrize("tokens", ["word", "wordpiece", "byte", "text"])
def test_parts_join_to_the_whole(small_glue, tokens, monkeypatch):
    settings = {} if tokens == "text" else {"start_token": True, "max_length": 5}
    whole = load_task("MRPC", data=small_glue, tokens=tokens, **settings)
    shutil.rmtree(cache_folder())
    monkeypatch.setattr(vocabulary, "_PART", 300)
    monkeypatch.setattr(vocabulary, "_WORDS", 20)
    same(whole, load_task("MRPC", data=small_glue, tokens=tokens, **settings))


@pytest.mark.parametrize("tokens", ["word", "wordpiece", "byte", "text"])
def test_texts_may_all_be_empty(tmp_path, tokens):
    (tmp_path / "subj.all").write_text("".join(f"{i % 2} \n" for i in range(40)))
    for _ in ("encoded", "from the cache"):
        task = load_task("SUBJ", data=tmp_path, tokens=tokens)
        assert task.splits["train"].lengths.tolist() == [[0] * len(task.splits["train"])]
        batch = task.splits["test"].inputs[0].pad(np.arange(2))
        assert batch.tolist() == (["", ""] if tokens == "text" else [[0], [0]])


@pytest.mark.parametrize(("spaced", "word"), [(False, "don"), (True, "don't")])
def test_spaced_words_are_not_split(tmp_path, monkeypatch, spaced, word):
    (tmp_path / "subj.all").write_text("".join(f"{i % 2} I don't .\n" for i in range(40)))
    read = TaskSource.read
    monkeypatch.setattr(
        TaskSource, "read", lambda *arguments: dataclasses.replace(read(*arguments), spaced=spaced)
    )
    words = load_task("SUBJ", data=tmp_path).vocabulary.words
    assert word in words
    assert ("'" in words) != spaced


def test_text_is_unchanged(small_glue):
    task = load_task("RTE", data=small_glue, tokens="text")
    assert task.vocabulary is None
    lines = (small_glue / "RTE" / "dev.tsv").read_text().splitlines()[1:]
    for column, rows in zip((1, 2), task.splits["dev"].inputs, strict=True):
        expected = [line.split("\t")[column] for line in lines]
        assert rows.pad(np.arange(len(rows))).tolist() == expected
        assert rows.lengths.tolist() == [len(text) for text in expected]
    assert task.splits["dev"].lengths.shape == (2, len(lines))


@pytest.mark.parametrize("name", ["SST-2", "RTE"])
def test_bytes_are_those_of_the_text(small_glue, name):
    text = load_task(name, data=small_glue, tokens="text")
    task = load_task(name, data=small_glue, tokens="byte", max_length=30)
    assert task.vocabulary.size == 257
    for split, rows in task.splits.items():
        for texts, column in zip(text.splits[split].inputs, rows.inputs, strict=True):
            for i, own in enumerate(texts.pad(np.arange(len(texts)))):
                ids = column.pad(np.array([i]))[0]
                assert bytes((ids - 1).astype(np.uint8)) == own.encode()[:30]


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


def test_validation_split_does_not_depend_on_tokens(small_glue):
    rows = [
        load_task("MRPC", data=small_glue, validation_split=0.3, tokens=tokens)
        .splits["validation"]
        .index
        for tokens in ("word", "wordpiece", "byte", "text")
    ]
    for own in rows[1:]:
        assert np.array_equal(rows[0], own)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "files"}, "task CoLA: needs --data DIR"),
        ({"name": "MR", "source": "miniglue"}, "task MR: source='miniglue' only has CoLA, "),
        ({"tokens": "words"}, "tokens must be one of .* Received: tokens='words'"),
        ({"validation_split": 0.0}, "above 0 and below 1. Received: validation_split=0.0"),
        ({"validation_split": 1.0}, "above 0 and below 1. Received: validation_split=1.0"),
        ({"validation_split": float("nan")}, "above 0 and below 1. Received: validation_split=nan"),
        (
            {"tokens": "text", "vocabulary_size": 9},
            "vocabulary_size has no effect .* Received: vocabulary_size=9",
        ),
        (
            {"tokens": "byte", "vocabulary_size": 9},
            "vocabulary_size has no effect with tokens='byte': .* Received: vocabulary_size=9",
        ),
        ({"tokens": "text", "max_length": 9}, "max_length has no .* Received: max_length=9"),
        ({"tokens": "text", "start_token": True}, "start_token has .* Received: start_token=True"),
        ({"vocabulary_size": 2}, "vocabulary_size must be a whole number, 3 or more. Received: "),
        ({"max_length": 0}, "max_length must be a whole number, 1 or more. Rec.*: max_length=0"),
        ({"max_length": "5"}, "max_length must be a whole .* Received: max_length='5'"),
        ({"max_length": 2.5}, "max_length must be a whole .* Received: max_length=2.5"),
        ({"validation_split": "a"}, "above 0 and below 1. Received: validation_split='a'"),
        ({"max_length": 1, "start_token": True}, "max_length must be 2 or more with start_token"),
        ({"name": "dates", "max_length": 5}, "max_length has no effect on dates, which is gen"),
        ({"name": "dates", "split_seed": 5}, "split_seed has no effect on dates, which is gen"),
        ({"name": "dates", "vocabulary": "all"}, "vocabulary has no effect on dates, which is gen"),
        ({"name": "parity", "tokens": "byte"}, "tokens has no effect on parity, which is gen"),
    ],
)
def test_errors_of_settings(arguments, message):
    with pytest.raises(DataError, match=message):
        load_task(**{"name": "CoLA", **arguments})


def test_the_vocabulary_can_have_the_words_of_all_splits(small_glue, tmp_path):
    """Rows and their order stay the same; words of dev and test rows get ids."""
    folder = shutil.copytree(small_glue / "CoLA", tmp_path / "CoLA")
    for split in ("dev", "test"):
        with (folder / f"{split}.tsv").open("a", encoding="utf-8") as file:
            number = len((folder / "test.tsv").read_text("utf-8").splitlines()) - 1
            start = "x\t1\t\t" if split == "dev" else f"{number}\t"
            file.write(f"{start}zebra of {split}\n")
    train, everything = (
        load_task("CoLA", data=tmp_path, vocabulary=rows) for rows in ("train", "all")
    )
    new = everything.vocabulary.words.keys() - train.vocabulary.words.keys()
    assert {"zebra", "dev", "test"} <= new
    unknown = train.vocabulary.words["[UNK]"]
    for split in ("dev", "test"):
        assert (train.splits[split].inputs[0].ids == unknown).any()
        assert not (everything.splits[split].inputs[0].ids == unknown).any()
    assert train.splits["dev"].labels.tolist() == everything.splits["dev"].labels.tolist()
    with pytest.raises(DataError, match="vocabulary must be 'train', 'all' or the path"):
        load_task("CoLA", data=small_glue, vocabulary="test")


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
        ({"tokens": "word"}, "tokens: must be 'wordpiece' with the .*tokens='word'"),
        ({"vocabulary_size": 50}, "vocabulary_size: must be None with the WordPiece vocabulary"),
        ({"start_token": True}, "start_token: must be False with the WordPiece vocabulary"),
        ({}, "vocabulary.json: expected a vocabulary: No such file"),
    ],
)
def test_errors_of_a_given_vocabulary(small_glue, tmp_path, settings, message):
    with pytest.raises(DataError, match=message):
        load_task(
            "CoLA",
            data=small_glue,
            vocabulary=tmp_path / "vocabulary.json",
            **{"tokens": "wordpiece", **settings},
        )


@pytest.mark.parametrize("kind", ["word", "byte"])
def test_a_given_vocabulary_must_be_of_word_pieces(small_glue, tmp_path, kind):
    path = tmp_path / "vocabulary.json"
    path.write_text(vocabulary.Vocabulary.train(["a b"], tokens=kind).to_json(), encoding="utf-8")
    with pytest.raises(DataError) as error:
        load_task("CoLA", data=small_glue, tokens="wordpiece", vocabulary=path)
    assert str(error.value) == (
        f"{path}: must be a vocabulary of tokens='wordpiece'. Received: tokens={kind!r}"
    )


def test_a_given_vocabulary_must_not_have_a_start_token(small_glue, tmp_path):
    path = tmp_path / "vocabulary.json"
    made = vocabulary.Vocabulary.train(["a b"], tokens="wordpiece", start_token=True)
    path.write_text(made.to_json(), encoding="utf-8")
    with pytest.raises(DataError, match=r"must not have the token \[START\]"):
        load_task("CoLA", data=small_glue, tokens="wordpiece", vocabulary=path)


def test_rows_that_are_skipped_later_are_not_read_from_the_cache(tmp_path):
    """The digest of Parquet files is that of the other rows."""
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    task = CustomTask(name="tones", inputs=["text"], label="label", labels=["calm", "loud"],
                      files={"train": "train.parquet", "test": "test.parquet"})  # fmt: skip
    rows = {"text": ["so loud", "so calm"] * 20, "label": ["loud", "calm"] * 20}
    parquet.write_table(pyarrow.table(rows), tmp_path / "test.parquet")
    skipped = []
    for more in ({"text": [], "label": []}, {"text": ["no"], "label": ["odd"]}):
        own = {name: [*values, *more[name]] for name, values in rows.items()}
        parquet.write_table(pyarrow.table(own), tmp_path / "train.parquet")
        skipped.append(len(load_task(task, data=tmp_path, skip_bad_lines=True).skipped))
    assert skipped == [0, 1]


def test_digests_are_those_of_the_source(small_glue):
    task, source = load_task("MNLI", data=small_glue), find_source("MNLI", data=small_glue)
    assert task.digests == source.digests()
    assert task.digest == source.digest()
    assert {*task.digests} - {*source.training_digests()} == {
        "test_matched", "test_mismatched", "diagnostic",
    }  # fmt: skip


def test_messages_on_skipped_lines_do_not_name_another_folder(small_glue, tmp_path):
    for name in ("first", "second"):
        data = tmp_path / name
        shutil.copytree(small_glue / "CoLA", data / "CoLA")
        with (data / "CoLA" / "train.tsv").open("a", encoding="utf-8") as file:
            file.write("broken\n")
        (message,) = load_task("CoLA", data=data, skip_bad_lines=True).skipped
        assert message.startswith("train.tsv:41: expected 4 fields")
