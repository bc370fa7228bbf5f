from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.errors import DataError
from relation_tf.tasks.csv_tables import read_csv

# CR is left out: it is a line end to some and text to others.
FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=20)


def read(folder, content, columns=("class", "text"), **options):
    path = folder / "train.csv"
    path.write_bytes(content)
    return read_csv(path, columns, **options)


def rows(table):
    return list(zip(*table.columns.values(), strict=True))


@given(
    fields=st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=6),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    end=st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=100, deadline=None)
def test_reads_back_any_text(tmp_path_factory, fields, quoting, end):
    content = io.StringIO(newline="")
    csv.writer(content, quoting=quoting, lineterminator=end).writerows([("a", "b"), *fields])
    table = read(tmp_path_factory.mktemp("csv"), content.getvalue().encode(), None)
    assert list(table.columns) == ["a", "b"]
    assert rows(table) == fields
    assert table.skipped == ()


def test_quotes_commas_and_line_ends_in_fields(tmp_path):
    table = read(tmp_path, b'"1","He said ""yes"",\nthen\n\n""no"""\n2,plain\n"3",""\n')
    assert rows(table) == [("1", 'He said "yes",\nthen\n\n"no"'), ("2", "plain"), ("3", "")]
    assert table.lines == [1, 5, 6]


def test_other_line_separators_are_text(tmp_path):
    table = read(tmp_path, '1,so\u0085good\u2028really\x0b\x0c\x1c\n"2","a\u0085b"\n'.encode())
    assert rows(table) == [("1", "so\u0085good\u2028really\x0b\x0c\x1c"), ("2", "a\u0085b")]


def test_crlf_byte_order_mark_and_no_last_end(tmp_path):
    table = read(tmp_path, b'\xef\xbb\xbf"1","a\r\nb"\r\n2,c')
    assert rows(table) == [("1", "a\nb"), ("2", "c")]
    assert table.lines == [1, 3]


def test_a_field_may_be_longer_than_the_limit_of_csv_which_stays(tmp_path):
    text = "long " * 40_000
    limit = csv.field_size_limit(1000)
    try:
        assert rows(read(tmp_path, f'1,"{text}"\n'.encode())) == [("1", text)]
        assert csv.field_size_limit() == 1000
        with pytest.raises(DataError):
            read(tmp_path, b'1,"x\n')
        assert csv.field_size_limit() == 1000
    finally:
        csv.field_size_limit(limit)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1,a\n2\n", ":2: expected 2 comma-separated fields ('class', 'text'), found 1"),
        (b"1,a\n2,b,c\n", ":2: expected 2 comma-separated fields ('class', 'text'), found 3"),
        (b"1,a\n\n2,b\n", ":2: expected 2 comma-separated fields ('class', 'text'), found 0"),
        (b'1,a\n2,"b\nb"c"\n', ":2: expected comma-separated fields, a quote within quotes written "
         "twice, found in line 3: ',' expected after '\"'"),
        (b'1,a\n2,"b\nc\nd\n', ":2: expected comma-separated fields, a quote within quotes written "
         "twice, found in line 4: unexpected end of data"),
        (b"1,a\n2,b\rc\n", ":2: expected comma-separated fields"),
        (b"1,a\n2,caf\xe9\n", ":2: expected UTF-8, byte 6 of the line is 0xE9"),
        (b'1,a\n2,"b\ncaf\xe9"\n', ":3: expected UTF-8, byte 4 of the line is 0xE9"),
        (b"1,a\n2,b\0\n", ":2: expected text, found a NUL byte"),
        (b"", "the file is empty"),
    ],
)  # fmt: skip
def test_a_malformed_row_is_named(tmp_path, content, message):
    with pytest.raises(DataError) as error:
        read(tmp_path, content)
    assert str(tmp_path / "train.csv") in str(error.value)
    assert message in str(error.value)


def test_bad_rows_are_left_out_where_asked_and_the_others_keep_their_lines(tmp_path):
    content = b'1,a\n\n2,caf\xe9\n3,"b\nb"c"\n4,"d\ne"\n5\n6,f\n7,"g\n8,h\n'
    table = read(tmp_path, content, skip_bad_lines=True)
    assert rows(table) == [("1", "a"), ("4", "d\ne"), ("6", "f")]
    assert table.lines == [1, 6, 9]
    lines = [int(message.partition("train.csv:")[2].split(":")[0]) for message in table.skipped]
    assert lines == [2, 3, 4, 8, 10]


def test_a_header_is_never_left_out(tmp_path):
    with pytest.raises(DataError, match=r"train\.csv:1: expected comma-separated fields"):
        read(tmp_path, b'a,"b"c\n1,2\n', None, skip_bad_lines=True)
