"""Writing submissions."""

from __future__ import annotations

import os
import random
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from glue_submit import TASKS, SubmissionError, pack
from glue_submit.files import read_bytes, replacing


def read(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_mapping_of_sequences_gives_the_eleven_files(predictions, members, rows, tmp_path):
    packed = pack(predictions, tmp_path / "s.zip", rows=rows)
    assert read(packed.path) == members
    assert list(read(packed.path)) == [task.file for task in TASKS.values()]
    assert packed.filled == ()
    assert packed.warnings == ()


def test_a_folder(folder, members, rows, tmp_path):
    assert read(pack(folder, tmp_path / "s.zip", rows=rows).path) == members
    (folder / "predictions").mkdir()
    for file in members:
        (folder / file).rename(folder / "predictions" / file)
    assert read(pack(folder, tmp_path / "s.zip", rows=rows).path) == members
    (folder / "RTE.tsv").write_bytes(members["RTE.tsv"])  # two files for one task
    with pytest.raises(SubmissionError, match="RTE: expected one file"):
        pack(folder, tmp_path / "s.zip", rows=rows)


def test_rows_in_any_order_and_further_columns(predictions, members, rows, tmp_path):
    lines = [f"{value}\ttext\t{index}\r\n" for index, value in enumerate(predictions["RTE"])]
    random.Random(0).shuffle(lines)
    file = tmp_path / "shuffled.tsv"
    file.write_bytes("".join(["\ufeffprediction\tsentence\tindex\r\n", *lines]).encode())
    packed = pack({**predictions, "RTE": file}, tmp_path / "s.zip", rows=rows)
    assert read(packed.path) == members


def test_arrays_and_series(predictions, members, rows, tmp_path):
    packed = pack(
        {
            **predictions,
            "CoLA": np.array(predictions["CoLA"], dtype=np.int32),
            "SST-2": np.array(predictions["SST-2"]) == "1",
            "STS-B": np.array(predictions["STS-B"], dtype=np.float64),
            "RTE": pd.Series(predictions["RTE"]),
        },
        tmp_path / "s.zip",
        rows=rows,
    )
    assert read(packed.path) == members


def test_equal_predictions_give_equal_bytes_and_no_leftovers(predictions, rows, tmp_path):
    first = pack(predictions, tmp_path / "new" / "a.zip", rows=rows).path
    second = pack(predictions, tmp_path / "new" / "b.zip", rows=rows).path
    before = first.read_bytes()
    assert second.read_bytes() == before
    with pytest.raises(SubmissionError):
        pack({**predictions, "WNLI": ["2"] * rows["WNLI"]}, second, rows=rows)
    assert second.read_bytes() == before
    assert sorted(path.name for path in first.parent.iterdir()) == ["a.zip", "b.zip"]


@pytest.fixture
def without(predictions):
    return lambda *names: {name: predictions[name] for name in predictions if name not in names}


def test_missing_tasks_are_named_or_filled(without, rows, tmp_path):
    given = without("STS-B", "QQP", "MNLI-m", "RTE")
    with pytest.raises(SubmissionError, match=r"missing: STS-B, QQP, .*--fill-missing"):
        pack(given, tmp_path / "s.zip", rows=rows)
    assert not (tmp_path / "s.zip").exists()
    packed = pack(given, tmp_path / "s.zip", fill_missing=True, rows=rows)
    assert packed.filled == ("STS-B", "QQP", "MNLI-m", "RTE")
    for name, value in (("STS-B", b"2.701"), ("QQP", b"0"), ("MNLI-m", b"contradiction")):
        written = read(packed.path)[f"{name}.tsv"].splitlines()[1:]
        assert written == [b"%d\t%s" % (i, value) for i in range(rows[name])]


def test_files_of_no_task_are_named(folder, rows, tmp_path):
    (folder / "SST-2.tsv").rename(folder / "SST2.tsv")
    (folder / "RTE.dev.tsv").touch()
    with pytest.raises(SubmissionError, match=r"missing: SST-2 \(not used: SST2.tsv\)"):
        pack(folder, tmp_path / "s.zip", rows=rows)
    packed = pack(folder, tmp_path / "s.zip", fill_missing=True, rows=rows)
    assert packed.warnings == ("SST2.tsv: not packed, no task has this name",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected rows, found an empty file"),
        ("id\tlabel\n0\t1\n", "line 1: expected a header with 'index' and 'prediction', found "),
        ("index\tprediction\n0\t1\n1\n", "line 3: expected 2 columns or more, found '1'"),
        ("index\tprediction\n0\t1\n2\t0\n3\t0\n", "Found 3 rows; the first missing index is 1."),
        ("index\tprediction\n0\t1\n0\t1\n", "line 3: expected each index once, found 0 again"),
        ("index\tprediction\n0\t1\n7\t1\n", "line 3: expected an index from 0 to 3, found '7'"),
        ("index\tprediction\n0\tyes\n", "line 2: expected 0 or 1, found 'yes'"),
        ("index\tprediction\n0\t\xff\n", "line 2: expected 0 or 1, found "),
    ],
)
def test_a_file_that_is_refused_names_file_and_line(predictions, rows, tmp_path, text, message):
    file = tmp_path / "CoLA.tsv"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(SubmissionError, match=f"^{re.escape(str(file))}.*{re.escape(message)}"):
        pack({**predictions, "CoLA": file}, tmp_path / "s.zip", rows=rows)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([0, 1, 0], "CoLA predictions: expected 4 rows, found 3"),
        ([0, 1, 0, 2], "CoLA predictions, position 3: expected 0 or 1, found 2"),
        (np.zeros((4, 2)), "CoLA predictions, position 0: expected 0 or 1"),
        (None, "CoLA predictions: must be a sequence or array. Received: None"),
        ("no/such.tsv", "no/such.tsv: cannot be read: No such file"),
    ],
)
def test_a_source_that_is_refused(predictions, rows, tmp_path, source, message):
    with pytest.raises(SubmissionError, match=re.escape(message)):
        pack({**predictions, "CoLA": source}, tmp_path / "s.zip", rows=rows)


def test_a_place_that_cannot_be_written(predictions, rows, tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "s.zip", tmp_path):
        with pytest.raises(SubmissionError, match="cannot be written"):
            pack(predictions, place, rows=rows)


def test_files_of_a_killed_process_are_removed(tmp_path):
    """Not those that another process is writing."""
    path = tmp_path / "a[1].zip"
    (tmp_path / ".a[1].zip.0123.tmp").write_bytes(b"half")
    (tmp_path / ".b.zip.0123.tmp").write_bytes(b"of another file")
    with replacing(path) as file:
        file.write(b"first")
        file.flush()
        with replacing(path) as other:
            other.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert {left.name for left in tmp_path.iterdir()} == {"a[1].zip", ".b.zip.0123.tmp"}


def test_a_link_stays_and_a_pipe_is_not_replaced(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with replacing(tmp_path / "link") as file:
        file.write(b"1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"1"
    os.mkfifo(tmp_path / "pipe")
    with (
        pytest.raises(OSError, match="must be a file, not a device or a pipe"),
        replacing(tmp_path / "pipe"),
    ):
        pass
    assert (tmp_path / "pipe").is_fifo()


def test_a_device_is_no_file(tmp_path):
    with pytest.raises(OSError, match="must be a file, not a device"):
        read_bytes(Path("/dev/zero"))
    (tmp_path / "large").write_bytes(b"12345")
    assert read_bytes(tmp_path / "large", most=5) == b"12345"
    with pytest.raises(OSError, match="larger than 0 MiB"):
        read_bytes(tmp_path / "large", most=4)
