from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relation_tf.errors import DataError
from relation_tf.tasks.arrow import read_arrow

ROWS = {"text": ["so good", "", 'He said "no".'], "label": [1, 0, 1]}


def write(path, rows=ROWS, names=None):
    table = pa.table(rows)
    if names is not None:
        about = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(about)})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
    return path


def save(folder, files=("data-00000-of-00001.arrow",)):
    """Write a folder as `Dataset.save_to_disk` does."""
    folder.mkdir()
    for file in files:
        write(folder / file)
    state = {"_data_files": [{"filename": file} for file in files]}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_columns_become_text(tmp_path, name):
    rows = {"x": ["a", "b"], "n": [3, -1], "f": [0.5, 2.0], "b": [True, False], "unread": [[], []]}
    table = read_arrow(write(tmp_path / name, rows), ("b", "x", "n", "f"))
    assert table.columns == {
        "b": ["true", "false"], "x": ["a", "b"], "n": ["3", "-1"], "f": ["0.5", "2.0"],
    }  # fmt: skip
    assert table.lines == [2, 3]
    assert table.place(1) == f"{tmp_path / name}: row 2"


def test_shards_are_read_in_order(tmp_path):
    shards = [
        write(tmp_path / f"train-0000{i}-of-00003.parquet", {"text": [f"text {i}"]})
        for i in range(3)
    ]
    write(tmp_path / "train-00000-of-00002.parquet", {"text": ["other"]})
    assert read_arrow(shards[0], ("text",)).columns == {"text": ["text 0", "text 1", "text 2"]}
    shards[2].unlink()
    with pytest.raises(DataError) as error:
        read_arrow(shards[0], ("text",))
    assert str(error.value) == f"{shards[0]}: expected 3 files of this split, found 2"


def test_a_saved_folder_has_its_files_in_the_order_of_its_state(tmp_path):
    folder = save(tmp_path / "train", ("b.arrow", "a.arrow"))
    write(folder / "b.arrow", {"text": ["first"]})
    write(folder / "a.arrow", {"text": ["second"]})
    assert read_arrow(folder, ("text",)).columns == {"text": ["first", "second"]}


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (("neg", "pos"), ["pos", "neg", "pos"]),
        (("0", "1"), ["1", "0", "1"]),
        ((), ["1", "0", "1"]),
    ],
)
def test_classes_have_names_if_the_labels_are_their_names(tmp_path, labels, found):
    path = write(tmp_path / "a.parquet", names=["neg", "pos"])
    assert read_arrow(path, ("label",), labels).columns["label"] == found
    unlabelled = write(tmp_path / "b.parquet", {"label": [-1]}, names=["neg", "pos"])
    assert read_arrow(unlabelled, ("label",), ("neg", "pos")).columns["label"] == ["-1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ([None, "b"], "row 1: expected 'text' with a string or a number, found None"),
        (["a", "b\0"], "row 2: expected text, found NUL"),
    ],
)
def test_errors_of_values_name_the_row(tmp_path, text, message):
    path = write(tmp_path / "a.parquet", {"text": text})
    with pytest.raises(DataError) as error:
        read_arrow(path, ("text",))
    assert str(error.value) == f"{path}: {message}"
    skipped = []
    assert len(read_arrow(path, ("text",), skipped=skipped)) + len(skipped) == 2
    assert skipped[0] == str(error.value)


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-30])


def fill(path):
    path.write_bytes(b"text,label\nyes,1\n")


def remove(path):
    path.unlink()


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
@pytest.mark.parametrize("change", [cut_off, fill, remove])
def test_broken_files_are_named_in_one_line(tmp_path, name, change):
    path = write(tmp_path / name, {"text": ["long text"] * 500})
    change(path)
    with pytest.raises(DataError) as error:
        read_arrow(path, ("text",))
    assert str(error.value).startswith(f"{path}: cannot be read: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, "train: expected a split saved by save_to_disk, but state.json is missing"),
        ("{", "state.json: cannot be read: "),
        ("{}", "state.json: cannot be read: the key '_data_files' is missing"),
        (
            '{"_data_files": [{"filename": "../a.arrow"}]}',
            "state.json: expected names of files in this folder, found '../a.arrow'",
        ),
    ],
)
def test_errors_of_saved_folders(tmp_path, state, message):
    folder = save(tmp_path / "train")
    (folder / "state.json").unlink()
    if state is not None:
        (folder / "state.json").write_text(state)
    with pytest.raises(DataError) as error:
        read_arrow(folder, ("text",))
    assert message in str(error.value)
