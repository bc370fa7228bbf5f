from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.errors import DataError
from relation_tf.tasks import read_tsv

FIELD = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0"), max_size=20
)


def write(folder: Path, content: bytes) -> Path:
    path = folder / "dev.tsv"
    path.write_bytes(content)
    return path


@given(rows=st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=8), mark=st.booleans())
@settings(max_examples=60, deadline=None)
def test_reads_back_any_text(tmp_path_factory, rows, mark):
    text = "\n".join(["a\tb", *map("\t".join, rows)]) + "\n"
    content = text.encode("utf-8-sig" if mark and not text.startswith("\ufeff") else "utf-8")
    table = read_tsv(write(tmp_path_factory.mktemp("tsv"), content))
    assert list(zip(table.columns["a"], table.columns["b"], strict=True)) == rows
    assert table.lines == list(range(2, len(rows) + 2))


def test_quotes_and_other_line_separators_are_text(tmp_path):
    path = write(tmp_path, 'a\tb\nHe said "yes.\tx\u0085y\u2028z\n"\t1\n'.encode())
    assert read_tsv(path).columns == {"a": ['He said "yes.', '"'], "b": ["x\u0085y\u2028z", "1"]}


def test_last_record_may_lack_its_end(tmp_path):
    assert read_tsv(write(tmp_path, b"a\n1\n2")).columns == {"a": ["1", "2"]}


def test_crlf_file_is_read_as_lf(tmp_path):
    assert read_tsv(write(tmp_path, b"a\tb\r\n1\t2\r\n")).columns == {"a": ["1"], "b": ["2"]}


def test_columns_given_for_a_file_without_header(tmp_path):
    assert read_tsv(write(tmp_path, b"1\t2\n"), ("a", "b")).columns == {"a": ["1"], "b": ["2"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"a\tb\n1\n", ":2: expected 2 tab-separated fields (a, b), found 1"),
        (b"a\tb\n1\t2\n1\t2\t3\n", ":3: expected 2 tab-separated fields (a, b), found 3"),
        (b"a\n\xe9t\xe9\n", ":2: expected UTF-8, byte 1 of the line is 0xE9"),
        (b"a\nx\0\n", ":2: expected text, found a NUL byte"),
    ],
)
def test_malformed_file_is_named_with_its_line(tmp_path, content, message):
    with pytest.raises(DataError) as error:
        read_tsv(write(tmp_path, content))
    assert str(tmp_path / "dev.tsv") in str(error.value)
    assert message in str(error.value)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.tsv: cannot be read"):
        read_tsv(tmp_path / "nothing.tsv")


def test_bad_lines_are_left_out_and_reported_where_asked(tmp_path):
    table = read_tsv(write(tmp_path, b"a\tb\n1\t2\nbad\n\xff\t1\n3\t4\n"), skip_bad_lines=True)
    assert table.columns == {"a": ["1", "3"], "b": ["2", "4"]}
    assert table.lines == [2, 5]
    assert [message.split(":")[1] for message in table.skipped] == ["3", "4"]


def test_a_column_that_is_named_twice(tmp_path):
    (tmp_path / "a.tsv").write_text("text\tlabel\ttext\n")
    with pytest.raises(DataError, match=r"a\.tsv:1: expected columns of different names, f"):
        read_tsv(tmp_path / "a.tsv")
