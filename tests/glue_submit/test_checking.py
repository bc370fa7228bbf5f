"""Checking submissions that anyone wrote."""

from __future__ import annotations

import struct
import tracemalloc
import warnings
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glue_submit import TASKS, SubmissionError, check, pack
from glue_submit.checking import read_submission

HEADER = b"index\tprediction\n"


def messages(report):
    return [str(fault) for fault in report.faults]


def test_stored_entries_missing_last_line_end_and_free_floats(members, rows, tmp_path):
    members = {
        **members,
        "STS-B.tsv": HEADER + b"0\t3.5\n1\t4.99999\n2\t5\n3\t.5\n4\t1e0\n5\t+0.\n6\t0",
    }
    path = tmp_path / "s.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert check(path, rows=rows).ok


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"id\tlabel\n0\t0\n1\t1\n2\t0\n3\t1\n", ["line 1: expected the header"]),
        (HEADER + b"0\t0\n1\t1\n3\t1\n", ["expected 4 rows, found 3", "expected index 2, found"]),
        (
            HEADER + b"0\t0\n1\t1\n1\t0\n3\t1\n",
            ["line 4: expected each index", "expected index 2"],
        ),
        (
            HEADER + b"1\t0\n2\t1\n3\t0\n4\t1\n",
            ["from 0 to 3, found '4'", "expected index 0,"],
        ),
        (HEADER + b"0\t0\n2\t0\n1\t1\n3\t1\n", ["line 4: expected an index above 2, found 1"]),
        (HEADER + b"0\t0\n1\tx\n2\t0\n3\t1\n", ["line 3: expected 0 or 1, found 'x'"]),
        # Three columns and one column in a row add up to two and two.
        (HEADER + b"0\t0\t1\n1\n2\t0\n3\t1\n", ["line 2: expected index", "line 3: expected ind"]),
        (
            HEADER + b"0\t0\n1\t\xff\n2\t0\n3\t1\n",
            ["line 3: expected UTF-8", "expected 0 or 1"],
        ),
        (b"\xef\xbb\xbf" + HEADER + b"0\t0\n1\t1\n2\t0\n3\t1\n", ["found a byte order mark"]),
    ],
)
def test_faults_of_a_file(members, rows, write_zip, content, expected):
    report = check(write_zip({**members, "CoLA.tsv": content}), rows=rows)
    assert len(report.faults) == len(expected), str(report)
    for fault, part in zip(messages(report), expected, strict=True):
        assert fault.startswith("CoLA.tsv")
        assert part in fault
    assert ("(1 fault" if len(expected) == 1 else f"({len(expected)} faults") in str(report)


def test_crlf_is_a_warning(members, rows, write_zip):
    content = members["QQP.tsv"].replace(b"\n", b"\r\n")
    report = check(write_zip({**members, "QQP.tsv": content}), rows=rows)
    assert report.ok
    (warning,) = report.warnings
    assert warning.file == "QQP.tsv"
    assert "9 CRLF" in str(warning)


def test_missing_and_extra_files(members, rows, write_zip):
    members = dict(members)
    members["preds/RTE.tsv"] = members.pop("RTE.tsv")
    extra = ("notes.txt", "empty/", "__MACOSX/._CoLA.tsv", "a\nb\x1b[31m")
    report = check(write_zip({**members, **dict.fromkeys(extra, b"")}), rows=rows)
    files = [fault.file for fault in report.faults]
    assert files == ["RTE.tsv", "preds/RTE.tsv", *extra[:3], "'a\\nb\\x1b[31m'"]
    in_folders = [fault.file for fault in report.faults if "zip the files" in fault.message]
    assert in_folders == ["preds/RTE.tsv"]
    assert len(str(report).splitlines()) == 1 + len(files)


def test_a_name_with_nul_is_no_task(tmp_path):
    path = tmp_path / "s.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("RTE.tsvXY", b"\xff")
    path.write_bytes(path.read_bytes().replace(b"RTE.tsvXY", b"RTE.tsv\0Y"))
    assert read_submission(path) == {}


def test_a_file_twice(members, rows, write_zip):
    path = write_zip(members)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("AX.tsv", members["AX.tsv"])
    (message,) = messages(check(path, rows=rows))
    assert message == "AX.tsv: expected once in the archive, found 2 times"


def test_many_faults_of_a_kind_are_counted(members, rows, write_zip):
    content = HEADER + b"".join(b"%d\tmaybe\n" % index for index in range(1239))
    report = check(write_zip({**members, "WNLI.tsv": content}), rows={**rows, "WNLI": 1239})
    assert len(report.faults) == 6
    assert str(report.faults[-1]) == "WNLI.tsv: ... and 1,234 more: refused predictions"


def patch_entries(path, offsets, value):
    """Overwrite a 16-bit field of the first entry, in its local and its central header."""
    content = bytearray(path.read_bytes())
    local, central = content.index(b"PK\x03\x04"), content.index(b"PK\x01\x02")
    for start, offset in zip((local, central), offsets, strict=True):
        struct.pack_into("<H", content, start + offset, value)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("offsets", "value", "expected"),
    [
        ((6, 8), 1, "cannot be read: "),
        ((8, 10), 12, "store (0) or deflate (8), found met"),
    ],
)
def test_an_entry_that_cannot_be_read(members, rows, write_zip, offsets, value, expected):
    path = write_zip(members)
    patch_entries(path, offsets, value)
    (message,) = messages(check(path, rows=rows))
    assert message.startswith("CoLA.tsv: ")
    assert expected in message


def test_what_is_no_zip(tmp_path):
    path = tmp_path / "s.zip"
    for content in (b"", b"not a zip", b"PK\x05\x06" + b"\xff" * 18):
        path.write_bytes(content)
        (fault,) = check(path).faults
        assert str(fault).startswith("cannot be read as a zip archive: ")
    with pytest.raises(SubmissionError, match=r"cannot be read: No such file"):
        check(tmp_path / "none.zip")
    with pytest.raises(SubmissionError, match="must be a zip file, not a folder"):
        check(tmp_path)


def test_zip_bomb_with_a_wrong_size(members, rows, write_zip):
    path = write_zip({**members, "CoLA.tsv": bytes(50_000_000)})
    (fault,) = messages(check(path, rows=rows))
    assert "at most 1,048,832 bytes" in fault
    content = bytearray(path.read_bytes())
    for start, offset in ((content.index(b"PK\x03\x04"), 22), (content.index(b"PK\x01\x02"), 24)):
        struct.pack_into("<I", content, start + offset, 20)
    path.write_bytes(content)
    tracemalloc.start()
    try:
        report = check(path, rows=rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (fault,) = messages(report)
    assert fault.startswith("CoLA.tsv: cannot be read: Bad CRC-32")
    assert peak < 10_000_000


PREDICTION = {
    name: st.sampled_from(task.labels)
    if task.labels
    else st.floats(0, 5) | st.floats(0, 5).map(repr) | st.integers(0, 5)
    for name, task in TASKS.items()
}
SUBMISSION = st.fixed_dictionaries(
    {name: st.lists(one, min_size=1, max_size=6) for name, one in PREDICTION.items()}
)


@given(predictions=SUBMISSION)
@settings(deadline=None, derandomize=True, max_examples=50)
def test_packed_submission_is_accepted(tmp_path_factory, predictions):
    rows = {name: len(column) for name, column in predictions.items()}
    packed = pack(predictions, tmp_path_factory.mktemp("pack") / "s.zip", rows=rows)
    report = check(packed.path, rows=rows)
    assert report.ok
    assert [str(warning) for warning in report.warnings] == [*packed.warnings]
