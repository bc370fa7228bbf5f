from __future__ import annotations

import json

import numpy as np
import pytest
from pydantic import ValidationError

from relation_tf.config import Suite
from relation_tf.errors import DataError, SuiteError, UnknownNameError
from relation_tf.registry import SOURCES, TASKS, register_source, register_task
from relation_tf.tasks import CustomTask, find_source, find_task, listing, load_task, search
from relation_tf.tasks.catalogue import NotFoundError

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
def test_custom_task_from_columns_and_files(tmp_path, kind):
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


def test_regression_with_two_texts(tmp_path):
    for split in ("train", "dev"):
        rows = [("up", "high", "10"), ("up", "down", "0"), ("up", "on", "2.5")]
        write(tmp_path / f"{split}.tsv", rows, ("a", "b", "score"))
    scores = pairs(maximum=10.0, files={"train": "train.tsv", "dev": "dev.tsv"})
    task = load_task(scores, data=tmp_path)
    assert task.splits["train"].labels.tolist() == [1.0, 0.0, 0.25]
    assert task.task.metrics == ("pearson", "spearman")
    assert task.task.scored == {"stars": "dev"}


@pytest.mark.parametrize("word", ["1_0", "\u0663", " 3", "0x1", "nan", "inf", "11", "-1", ""])
def test_scores_are_plain_numbers_from_zero_to_the_maximum(tmp_path, word):
    files = {"train": "train.tsv", "dev": "dev.tsv"}
    for file in files.values():
        write(tmp_path / file, [("up", "on", "1e1"), ("up", "in", word)], ("a", "b", "score"))
    task = pairs(maximum=10.0, files=files)
    with pytest.raises(DataError, match=r"tsv:3: column 'score': expected a number in \[0, 10\]"):
        find_source(task, "files", tmp_path).read()


def test_numbers_in_json_become_text(tmp_path):
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
        ("[1, 2]", "expected a JSON object, found [1, 2]"),
        ('{"text": "x"', "expected a JSON object, found: "),
        ('{"text": "x"}', "expected 'stars' with a string or a number, found None"),
        ('{"text": ["x"], "stars": 1}', "expected 'text' with a string or a number, found ['x']"),
        ('{"text": "x", "stars": 2}', "column 'stars': expected '1' or '3' or '5', found '2'"),
    ],
)
def test_error_names_a_malformed_line(tmp_path, line, found):
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


def test_class_without_training_rows_is_noted(tmp_path):
    for split in ("train", "test"):
        write(tmp_path / "mine" / f"{split}.csv")
    with (tmp_path / "mine" / "test.csv").open("a") as file:
        file.write("more,1\n")
    task = load_task(own(labels=["1", "3", "4", "5"]), data=tmp_path)
    assert task.notes == ("class '4' has no training rows",)
    assert load_task(own(), data=tmp_path).notes == ()


def test_a_class_that_only_validates_is_noted(tmp_path):
    """Without `files.dev`, a tenth of the training rows validates."""
    words = [*map(str, range(10))]
    write(tmp_path / "mine" / "test.csv", [("so good", "5")])
    write(tmp_path / "mine" / "train.csv", [(f"text {word}", word) for word in words])
    notes = load_task(own(labels=words), data=tmp_path).notes
    assert notes == ("class '0' has no training rows",)


def test_training_texts_that_are_scored_are_noted(tmp_path):
    for split in ("train", "test"):
        write(tmp_path / "mine" / f"{split}.csv")
    notes = load_task(own(), data=tmp_path).notes
    assert notes == ("split 'test' has the same texts as the training rows",)


def test_without_data_the_current_folder_is_searched(tmp_path, monkeypatch):
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
        ({"labels": ["1"]}, "labels: must be two or more different labels. Received: ['1']"),
        ({"labels": ["1", "1"]}, "two or more different labels"),
        (
            {"labels": []},
            "two columns for a regression task (without the key 'labels'). Received: one",
        ),
        ({"metrics": ["pearson"]}, "metrics: must be accuracy or matthews or f1"),
        ({"metrics": ["mathews"]}, "Received: 'mathews'. Did you mean 'matthews'?"),
        ({"metrics": ["f1"], "labels": ["a", "b"]}, "Received: 'f1'."),
        (
            {"files": {"train": "a.csv"}},
            "files: must have the key 'test' or 'dev', the split for scores. Received: train",
        ),
        (
            {"files": {"train": "a.csv", "tst": "b.csv"}},
            "files.tst: unknown split. Did you mean 'test'?",
        ),
        (
            {"files": {"train": "a.csv", "dev": "b.csv", "tst": "c.csv"}},
            "files.tst: unknown split. Did you mean 'test'?",
        ),
        (
            {"files": {"train": "a.csv", "dev": "b.csv", "heldout": "c.csv"}, "scored": "held-out"},
            "files.heldout: unknown split. Did you mean 'held-out'?",
        ),
        (
            {"files": {"test": "a.csv"}},
            "files: must have the key 'train', the split for training. Received: test",
        ),
        ({"validation": "dev"}, "files: must have the key 'dev', the split for early stopping"),
        ({"scored": "dev"}, "files: must have the key 'dev', the split for scores"),
        (
            {"files": {"train": "a.txt", "test": "b.csv"}},
            "files.train: must end in one of .csv, .tsv",
        ),
        ({"validation": "train"}, "validation: must be a split other than 'train'"),
        ({"scored": "train"}, "scored: must be a split other than 'train'"),
        ({"label": "text"}, "label: must not be one of the inputs. Received: 'text'"),
        ({"labels": ["a", "b\tc"]}, "labels.1"),
        ({"labels": ["a", ""]}, "labels.1"),
        ({"files": {"train": "/a.csv", "test": "b.csv"}}, "must be a path below --data"),
        ({"files": {"train": "../a.csv", "test": "b.csv"}}, "must be a path below --data"),
        ({"files": {"train": "..\\a.csv", "test": "b.csv"}}, "must be a path below --data"),
        ({"files": {"train": "C:a.csv", "test": "b.csv"}}, "must be a path below --data"),
        (
            {"files": {"train": "a.csv", "test": "a.csv"}},
            "files: must be a different file for each split",
        ),
        (
            {"files": {"train": "a.csv", "test": "./a.csv"}},
            "files: must be a different file for each split",
        ),
        (
            {"files": {"train": "a.csv", "validation": "b.csv", "test": "c.csv"}},
            "files.validation: the split for early stopping must have the key 'dev'",
        ),
        ({"files": {"train": "a.csv", "test": "b.csv", "../x": "c.csv"}}, "files"),
        ({"name": "../x"}, "name"),
        ({"inputs": ["a", "b", "c"]}, "inputs"),
        ({"inputs": ["a", "a"]}, "inputs: must be two different columns. Received: ['a', 'a']"),
        ({"kind": "x"}, "kind"),
        ({"maximum": 1e39}, "maximum"),
        ({"maximum": 1e-46}, "maximum"),
        ({"maximum": 10.0}, "maximum: has no effect with labels. Received: 10"),
        ({"metrics": ["f1", "f1"]}, "metrics: must be different metrics. Received: ['f1', 'f1']"),
    ],
)
def test_errors_of_invalid_tasks(changes, message):
    with pytest.raises(ValidationError) as error:
        own(**changes)
    assert message in str(error.value)


def test_splits_with_any_name_can_be_used():
    files = {"train": "a.csv", "dev": "b.csv", "test": "c.csv", "test2": "d.csv"}
    assert own(files=files).task().scored == {"stars": "test"}
    assert own(files=files, scored="test2").task().scored == {"stars": "test2"}


def test_a_custom_task_is_found():
    task = own()
    assert find_task(task) == task.task()
    with pytest.raises(UnknownNameError, match="unknown task 'stars'"):
        find_task("stars")


def test_other_labels_change_the_cache_key(tmp_path):
    for split in ("train", "test"):
        write(tmp_path / "mine" / f"{split}.csv")
    first = load_task(own(), data=tmp_path).splits["test"].labels.tolist()
    other = load_task(own(labels=["5", "3", "1"]), data=tmp_path)
    assert other.splits["test"].labels.tolist() != first


SUITE = {"name": "x", "seeds": 1, "method": [{"name": "a", "mechanism": "relation"}]}


@pytest.fixture
def registry(isolated):
    """Remove tasks and sources that a test registers."""
    isolated(TASKS)
    isolated(SOURCES)


FIELDS = {
    "inputs": ("text",),
    "label": "stars",
    "labels": ["1", "3", "5"],
    "files": {"train": "mine/train.csv", "test": "mine/test.csv"},
}


def test_registered_task_works_like_other_tasks(tmp_path, registry):
    register_task("stars", **FIELDS)
    register_task("stars", **FIELDS)  # as when a cell of a notebook is run again
    for split in ("train", "test"):
        write(tmp_path / "mine" / f"{split}.csv")
    assert find_task("stars") == own().task()
    assert len(load_task("stars", data=tmp_path).splits["test"]) == 30
    assert list(listing.lines(["stars"], tmp_path))[1].startswith("stars")
    with pytest.raises(UnknownNameError, match=r"Did you mean 'stars'\?"):
        find_task("star")
    suite = Suite(
        name="x", tasks=["stars"], seeds=1, method=[{"name": "a", "mechanism": "relation"}]
    )
    assert suite.find_task("stars").labels == ("1", "3", "5")


def test_task_with_a_custom_reader(tmp_path, registry):
    def read(path):
        for line in path.read_text().splitlines():
            yield tuple(line.split("|"))

    files = {"train": "train.txt", "test": "test.txt"}
    register_task("stars", read=read, **{**FIELDS, "files": files})
    for file in files.values():
        (tmp_path / file).write_text("so good|5\nnot good|1\n")
    split = find_source("stars", "files", tmp_path).read().splits["test"]
    assert (split.texts, split.labels.tolist()) == ((["so good", "not good"],), [2, 0])
    for line, message in (
        ("a", "row 3: must be strings for text, stars"),
        ("a|2", "txt: row 3: column 'stars': expected"),
    ):
        (tmp_path / "train.txt").write_text(f"so good|5\nnot good|1\n{line}\n")
        with pytest.raises(DataError, match=message):
            find_source("stars", "files", tmp_path).read()


def registered(folder, read):
    """Register a task with a reader; write its files."""
    files = {"train": "train.txt", "test": "test.txt"}
    for file in files.values():
        (folder / file).write_text("so good|5\nnot good|1\n" * 10)
    register_task("stars", read=read, **{**FIELDS, "files": files})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (None, "row 2: must be strings for text, stars. Received: None"),
        (5, "row 2: must be strings for text, stars. Received: 5"),
        ("ab", "row 2: must be strings for text, stars. Received: 'ab'"),
        (("a", 5), "row 2: must be strings for text, stars. Received: ('a', 5)"),
        (("a\ud800", "5"), "row 2: expected text, found a lone surrogate, '\\ud800'"),
        (("a\0", "5"), "row 2: expected text, found NUL"),
        (("a", "2"), "row 2: column 'stars': expected '1' or '3' or '5', found '2'"),
    ],
)
def test_error_names_a_malformed_row_of_a_reader(tmp_path, registry, row, message):
    registered(tmp_path, lambda path: iter([("so good", "5"), row, ("bad", "1")]))
    source = find_source("stars", "files", tmp_path)
    with pytest.raises(DataError) as error:
        source.read()
    assert str(error.value) == (
        f"{tmp_path / 'train.txt'}: {message}. Correct the file, or skip malformed rows with "
        "--skip-bad-lines (skip_bad_lines=True)"
    )


def test_a_changed_reader_is_not_answered_from_the_cache(tmp_path, registry):
    def rows(path):
        return [line.split("|") for line in path.read_text().splitlines()]

    registered(tmp_path, rows)
    before = load_task("stars", data=tmp_path)
    del TASKS._entries["stars"]
    registered(tmp_path, lambda path: [("very " + text, label) for text, label in rows(path)])
    after = load_task("stars", data=tmp_path)
    assert "very" in after.vocabulary.words
    assert "very" not in before.vocabulary.words
    assert before.digest != after.digest


def test_a_malformed_row_is_not_answered_from_the_cache(tmp_path, registry):
    registered(tmp_path, lambda path: [line.split("|") for line in path.read_text().splitlines()])
    before = load_task("stars", data=tmp_path)
    with (tmp_path / "train.txt").open("a") as file:
        file.write("no label\n")
    with pytest.raises(DataError, match=r"train\.txt: row 21: must be strings for text, stars"):
        load_task("stars", data=tmp_path)
    assert load_task("stars", data=tmp_path, skip_bad_lines=True).digest == before.digest


@pytest.mark.parametrize("file", [".", ""])
def test_a_file_of_a_reader_has_a_name(registry, file):
    files = {"train": file, "test": "b.txt"}
    with pytest.raises(SuiteError, match=r"files\.train: must be the name of a file\. Received: "):
        register_task("stars", read=list, **{**FIELDS, "files": files})


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("stars", {"labels": ["1"]}, "task 'stars': register_task: labels: must be two or more"),
        (
            "stars",
            {"lables": ["1"]},
            r"task 'stars': register_task: unknown key 'lables'\. Did you mean 'labels'\?",
        ),
        (
            "stars",
            {"inputs": "text"},
            r"task 'stars': register_task: key 'inputs': must be a list, such as \['text'\]\. Rec",
        ),
        ("stars", {"read": 5}, "task 'stars': register_task: key 'read': must be callable"),
        ("CoLA", {}, "task 'CoLA' is registered already, by relation_tf.tasks.catalogue"),
    ],
)
def test_errors_of_registration(registry, name, changes, message):
    with pytest.raises(SuiteError, match=message):
        register_task(name, **{**FIELDS, **changes})


def test_a_registered_source(tmp_path, registry):
    @register_source("mirror")
    def find(dataset, folders):
        if dataset.task.name == "CR":
            return None
        return search(dataset, "mirror", [tmp_path])

    (tmp_path / "rt-polarity.all").write_text("1 good\n0 bad\n" * 20)
    assert load_task("MR", "mirror").source.kind == "mirror"
    assert Suite(tasks=["MR"], source="mirror", **SUITE).source == "mirror"
    with pytest.raises(NotFoundError, match=r"^task CR: the source 'mirror' does not have it$"):
        find_source("CR", "mirror")
    with pytest.raises(NotFoundError, match=r"^task SUBJ: not found\. Searched: .*subj\.all\. To"):
        find_source("SUBJ", "mirror")
