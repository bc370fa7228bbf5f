from __future__ import annotations

import csv
import json
import re
import shutil
from collections import Counter

import numpy as np
import pytest
import tensorflow_datasets

from relation_tf.errors import DataError
from relation_tf.tasks import find_source, find_task, load_task
from relation_tf.tasks.tfds import PREPARED
from tests.tasks.equality import read_task, same_encoded, same_rows

TASKS = ("CoLA", "STS-B", "MNLI", "RTE", "WNLI")


def builder_of(root, name, examples):
    """Return the builder of a TFDS dataset with the given examples, by split."""
    builder = tensorflow_datasets.builder(name, data_dir=root)
    builder._split_generators = lambda manager: [
        tensorflow_datasets.core.SplitGenerator(split, {"split": split}) for split in examples
    ]
    builder._generate_examples = lambda split: enumerate(examples[split])
    return builder


def prepare(root, name, examples):
    builder_of(root, name, examples).download_and_prepare()
    return root / name / str(builder_of(root, name, {}).version)


def glue_rows(name, folder):
    """Return the rows that TFDS generates from GLUE files, by split."""
    prepared = PREPARED[name]
    builder = tensorflow_datasets.builder(prepared.set_of(), data_dir=folder / "nowhere")
    rows = {}
    for split, tfds_split in prepared.splits.items():
        if split != "diagnostic":
            file = folder / name / f"{split}.tsv"
            examples = builder._generate_examples(file, split.partition("_")[0])
            rows[tfds_split] = [row for _, row in examples]
    return rows


def ax_rows(folder):
    builder = tensorflow_datasets.builder("glue/ax", data_dir=folder / "nowhere")
    file = folder / "diagnostic" / "diagnostic.tsv"
    return {"test": [row for _, row in builder._generate_examples(file, "test")]}


@pytest.fixture(scope="session")
def prepared_glue(small_glue, tmp_path_factory):
    """Return a TFDS folder with the rows of `small_glue`."""
    root = tmp_path_factory.mktemp("tensorflow_datasets")
    for name in TASKS:
        prepare(root, PREPARED[name].set_of(), glue_rows(name, small_glue))
    prepare(root, "glue/ax", ax_rows(small_glue))
    return root


def read(name, root):
    return find_source(name, "tfds", tfds_folder=root).read()


@pytest.mark.parametrize("name", [*TASKS, "MNLI-m"])
def test_a_task_is_the_same_as_from_files(name, small_glue, prepared_glue):
    ours = load_task(name, "files", small_glue)
    theirs = load_task(name, "tfds", tfds_folder=prepared_glue)
    assert ours.digest != theirs.digest
    same_encoded(ours, theirs)
    for split, rows in read(name, prepared_glue).splits.items():
        same_rows(rows, read_task(name, small_glue).splits[split])


def test_the_diagnostic_set_may_be_missing(prepared_glue, tmp_path):
    shutil.copytree(prepared_glue / "glue" / "mnli", tmp_path / "glue" / "mnli")
    assert set(read("MNLI", tmp_path).splits) == {
        "train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched",
    }  # fmt: skip
    (tmp_path / "glue" / "ax").mkdir()
    with pytest.raises(DataError, match=r"glue/ax: expected version 2\.0\.0, found none$"):
        read("MNLI", tmp_path)


def test_files_come_first(small_glue, prepared_glue, tmp_path):
    def kind(data, tfds_folder):
        return find_source("RTE", "auto", data, tfds_folder).kind

    assert kind(small_glue, prepared_glue) == "files"
    assert kind(tmp_path, prepared_glue) == "tfds"
    assert kind(None, prepared_glue) == "tfds"
    with pytest.raises(DataError) as error:
        find_source("RTE", "tfds", tfds_folder=tmp_path)
    assert f"not found. Searched: {tmp_path}/glue/rte" in str(error.value)
    assert "run `tfds build glue/rte`" in str(error.value)


# Sets whose rows have no number.


def write_imdb(tmp_path):
    reviews = ["Bad.<br /><br />So bad.", "Naïve, good.", "Fine."]
    rows = [{"text": text, "label": i % 2} for i, text in enumerate(reviews)]
    prepare(tmp_path, "imdb_reviews/plain_text", {"train": rows, "test": rows[:1]})
    header = "id\tlabel\trating\treview\n"
    for split, some in (("train", rows), ("test", rows[:1])):
        lines = (f"0\t{('neg', 'pos')[row['label']]}\t5\t{row['text']}\n" for row in some)
        path = tmp_path / "imdb" / f"{split}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(header + "".join(lines), encoding="utf-8")


def write_ag_news(tmp_path):
    rows = [
        {"label": 3, "title": "Chips", "description": 'A "new" one.'},
        {"label": 0, "title": "", "description": "Talks #39;end"},
        {"label": 2, "title": "Oil", "description": "Up,"},
        {"label": 1, "title": "Cup", "description": ""},
    ]
    prepare(tmp_path, "ag_news_subset", {"train": rows, "test": rows[1:]})
    (tmp_path / "ag_news_csv").mkdir()
    for split, some in (("train", rows), ("test", rows[1:])):
        with (tmp_path / "ag_news_csv" / f"{split}.csv").open("w", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
            writer.writerows([row["label"] + 1, row["title"], row["description"]] for row in some)


UNNUMBERED = {"IMDb": write_imdb, "AG-News": write_ag_news}


@pytest.mark.parametrize("name", UNNUMBERED)
def test_a_task_has_the_rows_of_its_files_in_any_order(name, tmp_path):
    UNNUMBERED[name](tmp_path)
    rows_in_any_order(read(name, tmp_path), read_task(name, tmp_path))


def rows_in_any_order(found, expected):
    """Check that rows are equal in any order."""
    assert (found.task, found.spaced) == (expected.task, expected.spaced)
    assert set(found.splits) == set(expected.splits)
    for name, split in expected.splits.items():
        other = found.splits[name]
        assert np.array_equal(other.index, np.arange(len(split)))
        rows, expected_rows = (
            Counter(zip(*each.texts, each.labels.tolist(), strict=True)) for each in (other, split)
        )
        assert rows == expected_rows


# What is refused.


@pytest.mark.parametrize(
    ("name", "label", "message"),
    [
        ("RTE", -1, "expected 'entailment' or 'not_entailment', found '-1'"),
        ("STS-B", 5.5, "expected a number in [0, 5], found '5.5'"),
    ],
)
def test_errors_of_invalid_labels(small_glue, tmp_path, name, label, message):
    rows = glue_rows(name, small_glue)
    rows["train"][7] = {**rows["train"][7], "label": label}
    folder = prepare(tmp_path, PREPARED[name].set_of(), rows)
    with pytest.raises(DataError) as error:
        read(name, tmp_path)
    assert re.match(rf"{folder}/train: row \d+: column 'label': ", str(error.value))
    assert str(error.value).endswith(message)


def test_a_broken_file_is_named(prepared_glue, tmp_path):
    folder = shutil.copytree(prepared_glue / "glue" / "rte", tmp_path / "glue" / "rte") / "2.0.0"
    path = next(folder.glob("*-train.tfrecord*"))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError) as error:
        read("RTE", tmp_path)
    assert str(error.value).startswith(f"{folder}: TFDS cannot read split train of glue/rte: ")
    assert "\n" not in str(error.value)


# Every set of the table as the installed TFDS declares it.


@pytest.mark.parametrize("name", PREPARED)
def test_table_lists_tfds_datasets(name, tmp_path):
    prepared, task = PREPARED[name], find_task(name)
    assert set(task.scored.values()) | {"train"} <= set(prepared.splits)
    assert set(prepared.splits) - {"train"} == {*task.scored.values(), *task.answered.values()}
    assert set(prepared.labels.values()) == set(task.labels or ())
    for split in ("train", *prepared.apart):
        set_name = prepared.set_of(split)
        builder = tensorflow_datasets.builder(set_name, data_dir=tmp_path)
        assert str(builder.version) == prepared.version
        features = builder.info.features
        assert set(prepared.inputs) <= set(features)
        assert (prepared.index in features) == (prepared.index is not None)
        if task.labels:
            assert features["label"].names == [*prepared.labels]


def drop_split(folder):
    path = folder / "dataset_info.json"
    info = json.loads(path.read_text())
    info["splits"] = [split for split in info["splits"] if split["name"] != "validation"]
    path.write_text(json.dumps(info))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop_split, "2.0.0: expected a split 'validation', found 'train', 'test'"),
        (lambda folder: (folder / "dataset_info.json").unlink(), "dataset_info.json is missing"),
    ],
)
def test_errors_of_an_incomplete_folder(prepared_glue, tmp_path, change, message):
    shutil.copytree(prepared_glue / "glue" / "rte", tmp_path / "glue" / "rte")
    change(tmp_path / "glue" / "rte" / "2.0.0")
    with pytest.raises(DataError, match=f"^{re.escape(str(tmp_path))}/glue/rte.*{message}"):
        read("RTE", tmp_path)
