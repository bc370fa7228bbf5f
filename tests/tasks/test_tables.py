from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.errors import DataError
from relation_tf.tasks import read_tsv
from relation_tf.tasks.tables import read_csv, read_jsonl

TAB_FIELD = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0"), max_size=20
)
# CR is left out: it is a line end to some and text to others.
COMMA_FIELD = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=20
)


def read(folder, content, columns=("class", "text"), skipped=None, reader=read_csv):
    path = folder / "train.csv"
    path.write_bytes(content)
    return reader(path, columns, skipped)


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
        (read_tsv, b"1\t2\r\n", [("1", "2")], [1]),
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
    ("reader", "content", "message"),
    [
        (read_tsv, b"", "the file is empty"),
        (read_tsv, b"1\t2\n\n1\t2\n", ":2: expected 2 fields ('class', 'text'), found a blank"),
        (read_tsv, b"1\t2\n1\n", ":2: expected 2 fields ('class', 'text'), found 1"),
        (read_tsv, b"1\t2\n1\t2\t3\n", ":2: expected 2 fields ('class', 'text'), found 3"),
        (read_tsv, b"1\t2\n\xe9t\t\xe9\n", ":2: expected UTF-8, byte 1 of the line is 0xE9"),
        (read_tsv, b"1\t2\nx\t\0\n", ":2: expected text, found a NUL byte"),
        (read_csv, b"", "the file is empty"),
        (read_csv, b"1,a\n2\n", ":2: expected 2 fields ('class', 'text'), found 1"),
        (read_csv, b"1,a\n2,b,c\n", ":2: expected 2 fields ('class', 'text'), found 3"),
        (read_csv, b"1,a\n,,\n2,b\n", ":2: expected 2 fields ('class', 'text'), found 3"),
        (read_csv, b"1,a\n\n2,b\n", ":2: expected 2 fields ('class', 'text'), found a blank line"),
        (read_csv, b'1,a\n2,"b\nb"c"\n', ":2: expected comma-separated fields (write a quote "
         "within quotes twice), found in line 3: ',' expected after '\"'"),
        (read_csv, b'1,a\n2,"b\nc\nd\n', ":2: expected comma-separated fields (write a quote "
         "within quotes twice), found in line 4: unexpected end of data"),
        (read_csv, b"1,a\n2,b\rc\n", ":2: expected comma-separated fields"),
        (read_csv, b"1,a\n2,caf\xe9\n", ":2: expected UTF-8, byte 6 of the line is 0xE9"),
        (read_csv, b'1,a\n2,"b\ncaf\xe9"\n', ":3: expected UTF-8, byte 4 of the line is 0xE9"),
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
    objects = tmp_path / "a.jsonl"
    objects.write_bytes(b'{"text": "yes"}\n' + end)
    assert read_jsonl(objects, ("text",)).columns == {"text": ["yes"]}


@pytest.mark.parametrize(
    ("line", "found"),
    [("", "a blank line"), ('{"text": NaN}', "nan"), ('{"text": -Infinity}', "-inf")],
)
def test_an_object_without_text_is_named(tmp_path, line, found):
    objects = tmp_path / "a.jsonl"
    objects.write_text(f'{line}\n{{"text": "yes"}}\n')
    with pytest.raises(DataError, match=rf"a\.jsonl:1: .*, found {found}$"):
        read_jsonl(objects, ("text",))


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.tsv: cannot be read: No such file"):
        read_tsv(tmp_path / "nothing.tsv")


@pytest.mark.parametrize(
    ("reader", "content", "expected", "lines", "bad"),
    [
        (read_tsv, b"1\t2\nbad\n\xff\t1\n3\t4\n", [("1", "2"), ("3", "4")], [1, 4], [2, 3]),
        (read_csv, b'1,a\n\n4,"d\ne"\n5\n6,f\n', [("1", "a"), ("4", "d\ne"), ("6", "f")],
         [1, 3, 6], [2, 5]),
    ],
)  # fmt: skip
def test_skipped_rows_do_not_change_line_numbers(tmp_path, reader, content, expected, lines, bad):
    skipped = []
    table = read(tmp_path, content, skipped=skipped, reader=reader)
    assert rows(table) == expected
    assert table.lines == lines
    assert [int(each.partition("train.csv:")[2].split(":")[0]) for each in skipped] == bad


def test_malformed_header_is_always_an_error(tmp_path):
    with pytest.raises(DataError, match=r"train\.csv:1: expected comma-separated fields"):
        read(tmp_path, b'a,"b"c\n1,2\n', None, [])
    with pytest.raises(DataError, match=r"train\.csv:1: column names must be unique, fou"):
        read(tmp_path, b"text\tlabel\ttext\n", None, [], read_tsv)
    with pytest.raises(DataError, match=r"train\.csv:1: expected column names, found none"):
        read(tmp_path, b"\n\nlabel,text\n1,x\n", None)


@pytest.mark.parametrize(
    "malformed", [b'"He said "no", then\nleft",pos', b'"caf\xe9",pos', b'"a\0",pos', b'"a,pos']
)
def test_wrong_quotes_and_bytes_of_csv_are_never_skipped(tmp_path, malformed):
    with pytest.raises(DataError, match=r"train\.csv:3: expected "):
        read(tmp_path, b"text,label\nfine,pos\n" + malformed + b"\n", None, [])
