"""Missing and short test files, and samples of training sets."""

from __future__ import annotations

import shutil

import pytest

from glue_submit import TASKS
from relation_tf.tasks import GLUE, find_source, find_task, load_task
from relation_tf.tasks.custom import TaskGroup
from relation_tf.tasks.official import (
    OFFICIAL_ROWS,
    sample_note,
    shortfalls,
)


@pytest.fixture
def data(small_glue, tmp_path):
    """Copy the files of two tasks."""
    for name in ("RTE", "MNLI", "diagnostic"):
        shutil.copytree(small_glue / name, tmp_path / name)
    return tmp_path


def test_every_labelled_split_has_a_number_of_rows():
    assert {*OFFICIAL_ROWS} == {*GLUE, "MNLI-m", "MNLI-mm"}
    for name, rows in OFFICIAL_ROWS.items():
        assert {*rows} == {"train", *find_task(name).scored.values()}


def test_missing_and_short_test_files(data):
    (data / "MNLI" / "test_mismatched.tsv").unlink()
    found = {each.name: each for each in shortfalls(find_source("MNLI", data=data))}
    counts = {name: (each.rows, each.expected) for name, each in found.items() if name != "AX"}
    assert counts == {"MNLI-m": (8, 9796), "MNLI-mm": (None, 9847)}
    files = {"MNLI-m": ["test_matched"], "MNLI-mm": ["test_mismatched"]}
    for name, own in files.items():
        source = find_source(name, data=data)
        places = [each.place for each in shortfalls(source) if each.name != "AX"]
        assert places == [f"{data}/MNLI/{file}.tsv" for file in own]
        assert len(load_task(name, data=data).notes) == 1
    (data / "glue_data").mkdir()
    shutil.move(data / "RTE", data / "glue_data" / "RTE")
    (data / "glue_data" / "RTE" / "test.tsv").unlink()
    (short,) = shortfalls(find_source("RTE", data=data))
    assert short.place == f"{data}/glue_data/RTE/test.tsv"


@pytest.mark.parametrize("end", ["\n", "", "\n\n\r\n"])
def test_an_official_number_of_rows_is_complete(data, end):
    rows = "\n".join(f"{index}\ta\tb" for index in range(TASKS["RTE"].test_rows))
    (data / "RTE" / "test.tsv").write_text(f"index\tsentence1\tsentence2\n{rows}{end}", "utf-8")
    source = find_source("RTE", data=data)
    assert shortfalls(source) == []
    assert sample_note(source, OFFICIAL_ROWS["RTE"]) is None
    with (data / "RTE" / "test.tsv").open("a", encoding="utf-8") as file:
        file.write("\n1\ta\tb\n2\ta\tb\n")
    assert [each.rows > each.expected for each in shortfalls(source)] == [True]


@pytest.mark.usefixtures("built_in")
def test_built_in_data_and_other_tasks_have_no_shortfalls():
    assert shortfalls(find_source("RTE", "miniglue")) == []
    assert load_task("RTE", "miniglue").notes == ()
    assert shortfalls(find_source("reversal")) == []


@pytest.mark.parametrize("entry", ["RTE", TaskGroup(name="both", tasks=["RTE", "CoLA"])])
def test_read_rows_show_a_short_test_set_without_the_files(data, small_glue, entry):
    """Nodes of a cluster have the encoded rows, but no files."""
    shutil.copytree(small_glue / "CoLA", data / "CoLA")
    encoded = load_task(entry, data=data)
    shutil.rmtree(data)
    rows = {name: len(split) for name, split in encoded.splits.items()}
    assert [each.name for each in shortfalls(encoded.source, rows)] == [
        each.name for each in encoded.task.each()
    ]
    full = {encoded.task.split_of(each, "test"): TASKS[each.name].test_rows
            for each in encoded.task.each()}  # fmt: skip
    assert not shortfalls(encoded.source, rows | full)


def test_a_sample_is_noted(data):
    (note,) = load_task("RTE", data=data).notes
    assert "40 of 2,490" in note
    assert "12 of 277" in note
    # The validation share is cut from the training rows.
    assert load_task("RTE", data=data, validation_split=0.2).notes == (note,)
