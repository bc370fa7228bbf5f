from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from relation_tf.config import Suite
from relation_tf.errors import DataError, SuiteError, UnknownNameError
from relation_tf.registry import SOURCES, TASKS, register_source, register_task
from relation_tf.tasks import CustomTask, find_source, find_task, load_task, search
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
    between = "\t" if path.suffix == ".tsv" else ","
    lines = [between.join(row) for row in (names, *rows)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_custom_task_from_columns_and_files(tmp_path, kind):
    files = {split: f"mine/{split}.{kind}" for split in ("train", "dev", "test")}
    for file in files.values():
        write(tmp_path / file)
    task = load_task(own(files=files), data=tmp_path)
    assert (task.validation, task.source.layout.name) == ("dev", "own files")
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


@pytest.mark.parametrize("word", ["1_0", "\u0663", "nan", "11", ""])
def test_scores_are_plain_numbers_from_zero_to_the_maximum(tmp_path, word):
    files = {"train": "train.tsv", "dev": "dev.tsv"}
    for file in files.values():
        write(tmp_path / file, [("up", "on", "1e1"), ("up", "in", word)], ("a", "b", "score"))
    task = pairs(maximum=10.0, files=files)
    with pytest.raises(DataError, match=r"tsv:3: column 'score': expected a number in \[0, 10\]"):
        find_source(task, "files", tmp_path).read()


def test_classes_without_training_rows_and_scored_training_texts_are_noted(tmp_path):
    """Without `files.dev`, a tenth of the training rows validates."""
    words = [*map(str, range(10))]
    write(tmp_path / "mine" / "test.csv", [("so good", "5")])
    write(tmp_path / "mine" / "train.csv", [(f"text {word}", word) for word in words])
    (note,) = load_task(own(labels=words), data=tmp_path).notes
    assert "class '0'" in note
    for split in ("train", "test"):
        write(tmp_path / "mine" / f"{split}.csv")
    (note,) = load_task(own(), data=tmp_path).notes
    assert "split 'test'" in note


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": ["1"]}, "labels: must be two or more different labels. Received: ['1']"),
        ({"labels": []}, "two columns for a regression task (without the key 'labels'). Rec"),
        ({"metrics": ["mathews"]}, "Received: 'mathews'. Did you mean 'matthews'?"),
        ({"files": {"train": "a.csv"}}, "files: must have the key 'test' or 'dev', the split for"),
        ({"validation": "dev"}, "files: must have the key 'dev', the split for early stopping"),
        ({"files": {"train": "a.txt", "test": "b.csv"}}, "files.train: must end in one of .csv"),
        ({"validation": "train"}, "validation: must be a split other than 'train'"),
        ({"files": {"train": "/a.csv", "test": "b.csv"}}, "be the name of a file below --data"),
        ({"files": {"train": "a.csv", "test": "./a.csv"}}, "must be a different file for each"),
        (
            {"files": {"train": "a.csv", "validation": "b.csv", "test": "c.csv"}},
            "files.validation: the split for early stopping must have the key 'dev'",
        ),
        ({"inputs": ["a", "a"]}, "must be different columns. Received: ['a', 'a', 'stars']"),
        ({"metrics": ["f1", "f1"]}, "metrics: must be different metrics. Received: ['f1', 'f1']"),
    ],
)
def test_errors_of_invalid_tasks(changes, message):
    with pytest.raises(ValidationError) as error:
        own(**changes)
    assert message in str(error.value)


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
    with pytest.raises(UnknownNameError, match=r"Did you mean 'stars'\?"):
        find_task("star")
    suite = Suite(
        name="x", tasks=["stars"], seeds=1, method=[{"name": "a", "mechanism": "relation"}]
    )
    assert suite.find_task("stars").labels == ("1", "3", "5")


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "stars",
            {"lables": ["1"]},
            r"task 'stars': register_task: unknown key 'lables'\. Did ",
        ),
        ("stars", {"inputs": "text"}, r"task 'stars': register_task: key 'inputs': must be a list"),
        ("CoLA", {}, "task 'CoLA' is registered already, by relation_tf.tasks.catalogue"),
    ],
)
def test_errors_of_registration(registry, name, changes, message):
    with pytest.raises(SuiteError, match=message):
        register_task(name, **{**FIELDS, **changes})


def test_a_registered_source(tmp_path, registry):
    @register_source("mirror")
    def find(dataset, folders):
        return search(dataset, "mirror", [tmp_path])

    (tmp_path / "rt-polarity.all").write_text("1 good\n0 bad\n" * 20)
    assert load_task("MR", "mirror").source.kind == "mirror"
    assert Suite(tasks=["MR"], source="mirror", **SUITE).source == "mirror"
    with pytest.raises(NotFoundError, match=r"^task SUBJ: not found\. Searched: .*subj\.all\. To"):
        find_source("SUBJ", "mirror")
