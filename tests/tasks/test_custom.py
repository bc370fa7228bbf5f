from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from relation_tf.errors import DataError
from relation_tf.tasks import CustomTask, find_source, find_task, load_task

ROWS = [("so good", "5"), ("not so good", "1"), ("good enough", "3")] * 10


def own(**changes):
    values = {
        "name": "stars",
        "inputs": ["text"],
        "label": "stars",
        "labels": ["1", "3", "5"],
        "files": {"train": "mine/train.csv", "test": "mine/test.csv"},
    }
    return CustomTask(**(values | changes))


def pairs(**changes):
    values = {"inputs": ["a", "b"], "labels": [], "label": "score"}
    return own(**values, **changes)


def write(path, rows=ROWS, names=("text", "stars")):
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    else:
        between = "\t" if path.suffix == ".tsv" else ","
        lines = [between.join(row) for row in (names, *rows)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_columns_and_files_are_a_task(tmp_path, kind):
    files = {split: f"mine/{split}.{kind}" for split in ("train", "dev", "test")}
    for split in files:
        write(tmp_path / files[split])
    task = load_task(own(files=files), data=tmp_path)
    assert task.validation == "dev"
    assert task.source.layout.name == "own files"
    assert set(task.splits) == set(files)
    assert task.splits["test"].labels[:3].tolist() == [2, 0, 1]
    words = {i: word for word, i in task.vocabulary.words.items()}
    (second,) = task.splits["train"].inputs[0].pad(np.array([1]))
    assert [words[i] for i in second] == ["not", "so", "good"]


def test_a_score_of_two_texts(tmp_path):
    for split in ("train", "dev"):
        rows = [("up", "high", "10"), ("up", "down", "0"), ("up", "on", "2.5")]
        write(tmp_path / f"{split}.tsv", rows, ("a", "b", "score"))
    scores = pairs(maximum=10.0, files={"train": "train.tsv", "dev": "dev.tsv"})
    task = load_task(scores, data=tmp_path)
    assert task.splits["train"].labels.tolist() == [1.0, 0.0, 0.25]
    assert task.task.metrics == ("pearson", "spearman")
    assert task.task.scored == {"stars": "dev"}


def test_numbers_in_json_are_their_words(tmp_path):
    (tmp_path / "mine").mkdir()
    for split in ("train", "test"):
        lines = ['{"text": "so good", "stars": 5}', '{"text": 7, "stars": "1"}']
        (tmp_path / "mine" / f"{split}.jsonl").write_text("\n".join(lines))
    files = {split: f"mine/{split}.jsonl" for split in ("train", "test")}
    split = find_source(own(files=files), "files", tmp_path).read().splits["train"]
    assert (split.texts, split.labels.tolist()) == ((["so good", "7"],), [2, 0])


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("[1, 2]", "expected a JSON object, found '[1, 2]'"),
        ('{"text": "x"', "expected a JSON object, found: "),
        ('{"text": "x"}', "expected 'stars' with a text or a number, found None"),
        ('{"text": ["x"], "stars": 1}', "expected 'text' with a text or a number, found ['x']"),
        ('{"text": "x", "stars": 2}', "expected stars 1 or 3 or 5, found '2'"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path, line, found):
    files = {split: f"mine/{split}.jsonl" for split in ("train", "test")}
    for file in files.values():
        write(tmp_path / file)
    with (tmp_path / files["train"]).open("a") as file:
        file.write(f"{line}\n")
    source = find_source(own(files=files), "files", tmp_path)
    with pytest.raises(DataError) as error:
        source.read()
    assert f"train.jsonl:31: {found}" in str(error.value)
    text = source.read(skip_bad_lines=True)
    assert (len(text.splits["train"]), len(text.skipped)) == (30, 1)


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_line_of_json_is_read_or_named(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("json")
    task = own(files={"train": "train.jsonl", "test": "test.jsonl"})
    (folder / "test.jsonl").write_text("{}")
    (folder / "train.jsonl").write_text(f"{text}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"train\.jsonl"):
        find_source(task, "files", folder).read()


def test_a_class_that_is_not_to_be_learned_is_noted(tmp_path):
    for split in ("train", "test"):
        write(tmp_path / "mine" / f"{split}.csv")
    task = load_task(own(labels=["1", "3", "4", "5"]), data=tmp_path)
    assert task.notes == ("no training row is of class '4'",)
    assert load_task(own(), data=tmp_path).notes == ()


def test_without_data_files_are_looked_for_where_the_command_is_called(tmp_path, monkeypatch):
    for split in ("train", "test"):
        write(tmp_path / "mine" / f"{split}.csv")
    monkeypatch.chdir(tmp_path)
    assert len(load_task(own()).splits["test"]) == 30
    (tmp_path / "elsewhere").mkdir()
    assert len(load_task(own(), data=tmp_path / "elsewhere").splits["test"]) == 30
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(DataError) as error:
        find_source(own(), "files", tmp_path / "elsewhere")
    assert str(tmp_path / "elsewhere" / "mine" / "train.csv") in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": ["1"]}, "labels: expected two or more, each once, found ['1']"),
        ({"labels": ["1", "1"]}, "each once"),
        ({"labels": []}, "a score, which has none, needs two inputs, found one"),
        ({"metrics": ["pearson"]}, "accuracy or matthews or f1. Received: 'pearson'."),
        ({"metrics": ["mathews"]}, "Received: 'mathews'. Did you mean 'matthews'?"),
        ({"metrics": ["f1"], "labels": ["a", "b"]}, "accuracy or matthews. Received: 'f1'."),
        ({"files": {"train": "a.csv"}}, "expected a file of 'test', found files of train"),
        ({"files": {"test": "a.csv"}}, "files: expected a file of 'train', found files of test"),
        ({"validation": "dev"}, "validation: expected a file of 'dev'"),
        ({"scored": "dev"}, "scored: expected a file of 'dev'"),
        ({"files": {"train": "a.txt", "test": "b.csv"}}, "files.train: expected a file .csv, .tsv"),
        ({"validation": "train"}, "validation: expected other rows than those of 'train'"),
        ({"scored": "train"}, "scored: expected other rows than those of 'train'"),
        ({"label": "text"}, "label: expected another column than the inputs, found 'text'"),
        ({"labels": ["a", "b\tc"]}, "labels.1"),
        ({"labels": ["a", ""]}, "labels.1"),
        ({"files": {"train": "/a.csv", "test": "b.csv"}}, "expected a path below --data"),
        ({"files": {"train": "../a.csv", "test": "b.csv"}}, "expected a path below --data"),
        ({"files": {"train": "a.csv", "test": "a.csv"}}, "files: expected a file for each split"),
        (
            {"files": {"train": "a.csv", "validation": "b.csv", "test": "c.csv"}},
            "files.validation: call the file that stops the training 'dev'",
        ),
        ({"files": {"train": "a.csv", "test": "b.csv", "../x": "c.csv"}}, "files"),
        ({"name": "../x"}, "name"),
        ({"inputs": ["a", "b", "c"]}, "inputs"),
        ({"inputs": ["a", "a"]}, "inputs: expected two columns, found ['a', 'a']"),
        ({"kind": "x"}, "kind"),
    ],
)
def test_what_cannot_be_a_task(changes, message):
    with pytest.raises(ValidationError) as error:
        own(**changes)
    assert message in str(error.value)


def test_a_task_is_found_by_itself():
    task = own()
    assert find_task(task) == task.task()
    with pytest.raises(DataError, match="unknown task 'stars'"):
        find_task("stars")


def test_other_labels_are_another_task_for_the_cache(tmp_path):
    for split in ("train", "test"):
        write(tmp_path / "mine" / f"{split}.csv")
    first = load_task(own(), data=tmp_path).splits["test"].labels.tolist()
    other = load_task(own(labels=["5", "3", "1"]), data=tmp_path)
    assert other.splits["test"].labels.tolist() != first
