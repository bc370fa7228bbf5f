"""Missing and short test files, and samples of training sets."""

from __future__ import annotations

import shutil

import pytest

from glue_submit import TASKS
from relation_tf.tasks import GLUE, find_source, find_task, load_task
from relation_tf.tasks.group import TaskGroup
from relation_tf.tasks.listing import describe, lines
from relation_tf.tasks.official import (
    OFFICIAL_ROWS,
    leaderboard_file,
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
    assert str(found["MNLI-m"]) == f"MNLI-m: {data}/MNLI/test_matched.tsv has 8 rows, not 9,796"
    assert str(found["MNLI-mm"]) == (
        f"MNLI-mm: {data}/MNLI/test_mismatched.tsv is missing (9,847 rows)"
    )
    files = {"MNLI-m": ["test_matched"], "MNLI-mm": ["test_mismatched"]}
    for name, own in files.items():
        source = find_source(name, data=data)
        places = [each.place for each in shortfalls(source) if each.name != "AX"]
        assert places == [f"{data}/MNLI/{file}.tsv" for file in own]
        (note,) = load_task(name, data=data).notes
        assert note.startswith("a sample: 40 of 392,702 training rows, ")
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


def test_groups(data):
    group = TaskGroup(name="both", tasks=["RTE", "MNLI"])
    found = shortfalls(find_source(group, data=data))
    assert [each.name for each in found] == ["RTE", "MNLI-m", "MNLI-mm", "AX"]
    assert [note.partition(":")[0] for note in load_task(group, data=data).notes] == ["RTE", "MNLI"]


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
    expected = (
        "a sample: 40 of 2,490 training rows, 12 of 277 dev rows, not comparable with published "
        "results"
    )
    assert load_task("RTE", data=data).notes == (expected,)
    # The validation share is cut from the training rows.
    assert load_task("RTE", data=data, validation_split=0.2).notes == (expected,)


def test_listings_mark_samples_and_test_sets(data):
    (data / "RTE" / "test.tsv").unlink()
    listed = "\n".join(lines(["RTE"], data))
    assert "40*" in listed
    assert "* RTE: a sample: 40 of 2,490 training rows" in listed
    assert f"* no complete test set for RTE: {data}/RTE/test.tsv is missing (3,000 rows)" in listed
    described = describe("RTE", data)
    assert "note: a sample: 40 of 2,490 training rows" in described
    assert "note: no complete test set for RTE" in described


def test_leaderboard_files():
    assert leaderboard_file("AX") == "diagnostic/diagnostic.tsv"
    assert {leaderboard_file(name) for name in TASKS} == {
        *(f"{name}/test.tsv" for name in GLUE if name != "MNLI"),
        "MNLI/test_matched.tsv", "MNLI/test_mismatched.tsv", "diagnostic/diagnostic.tsv",
    }  # fmt: skip
