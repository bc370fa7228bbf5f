from __future__ import annotations

import shutil

import numpy as np
import pytest

from relation_tf.errors import DataError, MissingPackageError
from relation_tf.tasks import TaskGroup, examples, listing, load_task


def test_line_of_a_task(small_glue):
    task = load_task("MNLI", data=small_glue)
    _, line, *_ = listing.lines(["MNLI"], small_glue)
    cells = [cell.strip() for cell in line.split("  ") if cell]
    mean = task.splits["train"].lengths.mean(axis=1)
    longest = [max(split.inputs[i].lengths.max() for split in task.splits.values()) for i in (0, 1)]
    assert cells[:4] == ["MNLI", "files: TSV", "40*", "3"]
    assert cells[4].strip() == f"{mean[0]:.1f} + {mean[1]:.1f}"
    assert cells[5].strip() == f"{longest[0]} + {longest[1]}"
    assert cells[6].strip() == task.digest[:12]
    assert cells[7].strip() == ", ".join(
        f"{name} {len(split)}" for name, split in task.splits.items() if name != "train"
    )


def test_examples_show_encoded_rows(small_glue):
    task = load_task("CoLA", data=small_glue, start_token=True, max_length=4)
    (first, *_, last) = examples(task, "dev", count=3)
    ids = task.splits["dev"].inputs[0].pad(np.array([0]))[0].tolist()
    label, tokens, numbers = first.split("\n")
    assert label == f"label: {task.task.labels[task.splits['dev'].labels[0]]}"
    assert tokens.startswith("sentence: [START] ")
    assert len(tokens.split()) == 5
    assert numbers.split() == [str(i) for i in ids]
    assert last != first
    unlabelled = next(examples(task, "test"))
    assert unlabelled.startswith("sentence: ")


def test_table_lists_missing_tasks(small_glue, tmp_path):
    table = list(listing.lines(["CoLA", "MR", "RTE"], small_glue, tmp_path))
    assert [line.split()[0] for line in table[1:3]] == ["CoLA", "RTE"]
    assert table[-2] == "not found: MR"
    assert "relation-tf tasks NAME" in table[-1]


def test_a_task_without_its_package_does_not_end_the_table(small_glue, monkeypatch):
    def load(name, **options):
        if name == "CoLA":
            raise MissingPackageError("TFDS", "tensorflow_datasets", "tensorflow")
        return load_task(name, **options)

    monkeypatch.setattr(listing, "load_task", load)
    table = [*listing.lines(["CoLA", "RTE"], small_glue)]
    assert "tensorflow_datasets" in table[1]
    assert table[2].startswith("RTE")
    found = [*listing.facts(["CoLA", "RTE"], small_glue)]
    assert [each["status"] for each in found] == ["unreadable", "found"]
    with pytest.raises(MissingPackageError):
        [*listing.facts(["CoLA"], small_glue, skip_missing=False)]


def test_description_of_a_task(small_glue, tmp_path):
    said = listing.describe("RTE", small_glue, tmp_path, {"vocabulary_size": 10})
    assert f"files: TSV, {small_glue / 'RTE' / 'train.tsv'}" in said
    assert "stops on:               dev\n" in said
    assert "vocabulary:             10\n" in said
    assert "classes of dev:         entailment " in said
    assert "[UNK]" in said
    with pytest.raises(DataError, match=r"task MR: not found\. Searched: "):
        listing.describe("MR", small_glue, tmp_path)


def test_a_diagnostic_set_without_labels_is_named(small_glue, tmp_path, label_diagnostic):
    data = shutil.copytree(small_glue, tmp_path / "glue_data")
    note = "diagnostic/diagnostic-full.tsv"
    group = TaskGroup(name="pairs", tasks=["MNLI", "RTE"])
    for entry in ("MNLI", group):
        assert note in "\n".join(listing.lines([entry], data))
        assert note in listing.describe(entry, data)
    label_diagnostic(data)
    assert "not scored" not in "\n".join(listing.lines(["MNLI"], data))
    assert "AX (diagnostic, matthews)" in listing.describe("MNLI", data)
