"""Tests of broken and malicious archives: little memory is used and nothing is unpacked."""

from __future__ import annotations

import functools
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from glue_submit import TASKS, SubmissionError, check
from tests.fuzz.mutations import COUNTS, check_line, mutations, refusal, zipped

pytestmark = pytest.mark.fuzz

ROWS = dict.fromkeys(TASKS, 4)
PEAK = 64 * 2**20  # bytes; the largest honest file and what is made of it take 170 MB


def column(name: str, rows: int = 4) -> bytes:
    words = TASKS[name].labels or ("0.000", "5.000")
    lines = (f"{index}\t{words[index % len(words)]}\n" for index in range(rows))
    return "".join(["index\tprediction\n", *lines]).encode()


MEMBERS = {f"{name}.tsv": column(name) for name in TASKS}


def checked(path: Path) -> bool:
    """Check a zip; the findings are few printable lines."""
    report = check(path, rows=ROWS)
    lines = str(report).split("\n")
    assert len(lines) < 400
    for line in lines:
        check_line(line, "")
    return report.ok


@COUNTS
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_broken_zip_is_checked_to_its_end(tmp_path, method, count):
    whole = zipped(MEMBERS, method)
    path = tmp_path / "s.zip"
    path.write_bytes(whole)
    assert checked(path)
    refused = 0
    for data in mutations(whole, count):
        path.write_bytes(data)
        assert refusal(functools.partial(checked, path), SubmissionError, "s.zip") is None
        refused += not check(path, rows=ROWS).ok
    assert refused > count // 2
    assert list(tmp_path.iterdir()) == [path]


def peak_of(path: Path, **options: object) -> tuple[int, list[str]]:
    tracemalloc.start()
    try:
        report = check(path, **options)
        return tracemalloc.get_traced_memory()[1], [str(fault) for fault in report.faults]
    finally:
        tracemalloc.stop()


def end_of_directory(**fields: int) -> bytes:
    values = {"here": 1, "all": 1, "size": 46, "offset": 0} | fields
    return struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, *values.values(), 0)


def zip64(size: int, offset: int, count: int = 1) -> bytes:
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, offset)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 1)
    most = {"here": 0xFFFF, "all": 0xFFFF, "size": 0xFFFFFFFF, "offset": 0xFFFFFFFF}
    return record + locator + end_of_directory(**most)


@pytest.mark.parametrize(
    "data",
    [zip64(size, offset, count)
     for size in (0, 46, 2**31, 2**62, 2**64 - 1)
     for offset in (0, 2**31, 2**64 - 1)
     for count in (0, 2**64 - 1)]
    + [end_of_directory(size=size, offset=offset)
       for size in (0, 46, 2**31) for offset in (0, 46, 2**31)],
)  # fmt: skip
def test_a_directory_that_lies(tmp_path, data):
    path = tmp_path / "s.zip"
    for front in (b"", b"PK\x01\x02" + bytes(42), zipped(MEMBERS)):
        path.write_bytes(front + data)
        peak, faults = peak_of(path, rows=ROWS)
        assert faults
        assert peak < PEAK
        for fault in faults:
            check_line(fault, "")


def test_a_directory_of_a_million_files_is_not_read(tmp_path):
    header = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", *(0,) * 18)
    path = tmp_path / "s.zip"
    path.write_bytes(header * 1_000_000 + end_of_directory(size=46_000_000, all=0xFFFE))
    peak, faults = peak_of(path)
    assert faults == [
        "cannot be read as a zip archive: a directory of 46,000,000 bytes, more than 1,048,576"
    ]
    assert peak < PEAK
