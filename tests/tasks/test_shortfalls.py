"""Missing and short test files, and samples of training sets."""

from __future__ import annotations

import shutil

import pytest

from glue_submit import TASKS
from relation_tf.tasks import find_source, load_task
from relation_tf.tasks.datasets import OFFICIAL_ROWS
from relation_tf.tasks.sources import sample_note, shortfalls


@pytest.fixture
def data(small_glue, tmp_path):
    """Copy the files of two tasks."""
    for name in ("RTE", "MNLI", "diagnostic"):
        shutil.copytree(small_glue / name, tmp_path / name)
    return tmp_path


def test_missing_and_short_test_files(data):
    (data / "MNLI" / "test_mismatched.tsv").unlink()
    of_matched, of_mismatched, _ = shortfalls(find_source("MNLI", data=data))
    file = data / "MNLI" / "test_matched.tsv"
    assert of_matched == f"MNLI-m: {file} has 8 rows, not 9,796"
    assert of_mismatched == "MNLI-mm: MNLI/test_mismatched.tsv is missing (9,847 rows)"
    assert shortfalls(find_source("MNLI-mm", data=data)) == [of_mismatched]


@pytest.mark.parametrize("end", ["\n", "", "\n\n\r\n"])
def test_an_official_number_of_rows_is_complete(data, end):
    rows = "\n".join(f"{index}\ta\tb" for index in range(TASKS["RTE"].test_rows))
    (data / "RTE" / "test.tsv").write_text(f"index\tsentence1\tsentence2\n{rows}{end}", "utf-8")
    source = find_source("RTE", data=data)
    assert shortfalls(source) == []
    assert sample_note(source, OFFICIAL_ROWS["RTE"]) is None
    with (data / "RTE" / "test.tsv").open("a", encoding="utf-8") as file:
        file.write("\n1\ta\tb\n2\ta\tb\n")
    assert len(shortfalls(source)) == 1


@pytest.mark.usefixtures("built_in")
def test_built_in_data_and_other_tasks_have_no_shortfalls():
    assert shortfalls(find_source("RTE", "miniglue")) == []
    assert load_task("RTE", "miniglue").notes == ()
    assert shortfalls(find_source("reversal")) == []


def test_a_sample_is_noted(data):
    (note,) = load_task("RTE", data=data).notes
    assert "40 of 2,490" in note
    assert "12 of 277" in note
    # The validation share is cut from the training rows.
    assert load_task("RTE", data=data, validation_split=0.2).notes == (note,)
