from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.errors import DataError
from relation_tf.tasks import read_tsv
from relation_tf.tasks.tables import read_arrow, read_csv

TAB_FIELD = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0"), max_size=20
)
# CR is left out: it is a line end to some and text to others.
COMMA_FIELD = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=20
)


def read(folder, content, columns=("class", "text"), reader=read_csv):
    path = folder / "train.csv"
    path.write_bytes(content)
    return reader(path, columns)


def rows(table):
    return list(zip(*table.columns.values(), strict=True))


@given(rows=st.lists(st.tuples(TAB_FIELD, TAB_FIELD), min_size=1, max_size=8), mark=st.booleans())
@settings(max_examples=60, deadline=None)
def test_tab_separated_fields_round_trip(tmp_path_factory, rows, mark):
    text = "\n".join(["a\tb", *map("\t".join, rows)]) + "\n"
    content = text.encode("utf-8-sig" if mark and not text.startswith("\ufeff") else "utf-8")
    table = read(tmp_path_factory.mktemp("tsv"), content, None, reader=read_tsv)
    assert list(zip(table.columns["a"], table.columns["b"], strict=True)) == rows
    assert table.lines == list(range(2, len(rows) + 2))


@given(
    fields=st.lists(st.tuples(COMMA_FIELD, COMMA_FIELD), min_size=1, max_size=6),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    end=st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=100, deadline=None)
def test_comma_separated_fields_round_trip(tmp_path_factory, fields, quoting, end):
    content = io.StringIO(newline="")
    csv.writer(content, quoting=quoting, lineterminator=end).writerows([("a", "b"), *fields])
    table = read(tmp_path_factory.mktemp("csv"), content.getvalue().encode(), None)
    assert list(table.columns) == ["a", "b"]
    assert rows(table) == fields


@pytest.mark.parametrize(
    ("reader", "content", "expected", "lines"),
    [
        (read_tsv, b"1\t2\n3\t4", [("1", "2"), ("3", "4")], [1, 2]),
        (read_tsv, 'He said "yes.\tx\u0085y\u2028z\n"\t1\n'.encode(),
         [('He said "yes.', "x\u0085y\u2028z"), ('"', "1")], [1, 2]),
        (read_csv, b'"1","He said ""yes"",\nthen\n\n""no"""\n2,plain\n"3",""\n',
         [("1", 'He said "yes",\nthen\n\n"no"'), ("2", "plain"), ("3", "")], [1, 5, 6]),
        (read_csv, '1,so\u0085good\u2028really\x0b\x0c\x1c\n"2","a\u0085b"\n'.encode(),
         [("1", "so\u0085good\u2028really\x0b\x0c\x1c"), ("2", "a\u0085b")], [1, 2]),
        (read_csv, b'\xef\xbb\xbf"1","a\r\nb"\r\n2,c', [("1", "a\nb"), ("2", "c")], [1, 3]),
    ],
)  # fmt: skip
def test_row_ends_and_text(tmp_path, reader, content, expected, lines):
    table = read(tmp_path, content, reader=reader)
    assert rows(table) == expected
    assert table.lines == lines


def test_a_field_may_be_longer_than_the_limit_of_csv(tmp_path):
    text = "long " * 40_000
    assert rows(read(tmp_path, f'1,"{text}"\n'.encode())) == [("1", text)]


@pytest.mark.parametrize(
    ("reader", "content", "message"),
    [
        (read_tsv, b"", "the file is empty"),
        (read_tsv, b"1\t2\n\n1\t2\n", ":2: expected 2 fields ('class', 'text'), found a blank"),
        (read_tsv, b"1\t2\n\xe9t\t\xe9\n", ":2: expected UTF-8, byte 1 of the line is 0xE9"),
        (read_csv, b"1,a\n2,b,c\n", ":2: expected 2 fields ('class', 'text'), found 3"),
        (read_csv, b'1,a\n2,"b\nb"c"\n', ":2: expected comma-separated fields (write a quote "
         "within quotes twice), found in line 3: ',' expected after '\"'"),
        (read_csv, b'1,a\n2,"b\nc\nd\n', ":2: expected comma-separated fields (write a quote "
         "within quotes twice), found in line 4: unexpected end of data"),
        (read_csv, b"1,a\n2,b\0\n", ":2: expected text, found a NUL byte"),
    ],
)  # fmt: skip
def test_a_malformed_row_is_named(tmp_path, reader, content, message):
    with pytest.raises(DataError) as error:
        read(tmp_path, content, reader=reader)
    assert str(tmp_path / "train.csv") in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize("end", [b"\n", b"\r\n \r\n", b"\n\n"])
def test_blank_lines_at_the_end_are_no_rows(tmp_path, end):
    assert rows(read(tmp_path, b"1,a\r\n2,b\r\n" + end)) == [("1", "a"), ("2", "b")]
    assert rows(read(tmp_path, b"1\ta\n2\tb\n" + end, reader=read_tsv)) == [("1", "a"), ("2", "b")]


def test_a_malformed_header_is_named(tmp_path):
    with pytest.raises(DataError, match=r"train\.csv:1: expected comma-separated fields"):
        read(tmp_path, b'a,"b"c\n1,2\n', None)
    with pytest.raises(DataError, match=r"train\.csv:1: column names must be unique, fou"):
        read(tmp_path, b"text\tlabel\ttext\n", None, read_tsv)
    (tmp_path / "blank.csv").write_text(",,\n,,\n")
    with pytest.raises(DataError, match=r"blank\.csv:1: expected column names, found none$"):
        read_csv(tmp_path / "blank.csv", blank_rows=True)


# Arrow.

ARROW_ROWS = {"text": ["so good", "", 'He said "no".'], "label": [1, 0, 1]}


def write_arrow(path, rows=ARROW_ROWS, names=None):
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
        write_arrow(folder / file)
    state = {"_data_files": [{"filename": file} for file in files]}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_columns_become_text(tmp_path, name):
    rows = {"x": ["a", "b"], "n": [3, -1], "f": [0.5, 2.0], "b": [True, False], "unread": [[], []]}
    table = read_arrow(write_arrow(tmp_path / name, rows), ("b", "x", "n", "f"))
    assert table.columns == {
        "b": ["true", "false"], "x": ["a", "b"], "n": ["3", "-1"], "f": ["0.5", "2.0"],
    }  # fmt: skip
    assert table.lines == [2, 3]
    assert table.place(1) == f"{tmp_path / name}: row 2"


def test_shards_are_read_in_order(tmp_path):
    shards = [
        write_arrow(tmp_path / f"train-0000{i}-of-00003.parquet", {"text": [f"text {i}"]})
        for i in range(3)
    ]
    write_arrow(tmp_path / "train-00000-of-00002.parquet", {"text": ["other"]})
    assert read_arrow(shards[0], ("text",)).columns == {"text": ["text 0", "text 1", "text 2"]}
    shards[2].unlink()
    with pytest.raises(DataError) as error:
        read_arrow(shards[0], ("text",))
    assert str(error.value) == f"{shards[0]}: expected 3 files of this split, found 2"


def test_a_saved_folder_has_its_files_in_the_order_of_its_state(tmp_path):
    folder = save(tmp_path / "train", ("b.arrow", "a.arrow"))
    write_arrow(folder / "b.arrow", {"text": ["first"]})
    write_arrow(folder / "a.arrow", {"text": ["second"]})
    assert read_arrow(folder, ("text",)).columns == {"text": ["first", "second"]}
    (folder / "state.json").write_text("{}")
    with pytest.raises(DataError, match=r"state\.json: cannot be read: the key '_data_files' is m"):
        read_arrow(folder, ("text",))
    (folder / "state.json").unlink()
    with pytest.raises(DataError, match=r"train: expected a split saved by save_to_disk, but"):
        read_arrow(folder, ("text",))


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (("neg", "pos"), ["pos", "neg", "pos"]),
        (("0", "1"), ["1", "0", "1"]),
        ((), ["1", "0", "1"]),
    ],
)
def test_classes_have_names_if_the_labels_are_their_names(tmp_path, labels, found):
    path = write_arrow(tmp_path / "a.parquet", names=["neg", "pos"])
    assert read_arrow(path, ("label",), labels).columns["label"] == found
    unlabelled = write_arrow(tmp_path / "b.parquet", {"label": [-1]}, names=["neg", "pos"])
    assert read_arrow(unlabelled, ("label",), ("neg", "pos")).columns["label"] == ["-1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ([None, "b"], "row 1: expected 'text' with a string or a number, found None"),
        (["a", "b\0"], "row 2: expected text, found NUL"),
    ],
)
def test_errors_of_values_name_the_row(tmp_path, text, message):
    path = write_arrow(tmp_path / "a.parquet", {"text": text})
    with pytest.raises(DataError) as error:
        read_arrow(path, ("text",))
    assert str(error.value) == f"{path}: {message}"


def test_a_broken_file_is_named_in_one_line(tmp_path):
    path = write_arrow(tmp_path / "a.parquet", {"text": ["long text"] * 500})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError) as error:
        read_arrow(path, ("text",))
    assert str(error.value).startswith(f"{path}: cannot be read: ")
    assert "\n" not in str(error.value)
