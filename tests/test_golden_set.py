"""Reports and submissions keep the numbers and bytes of the golden set."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path

import pytest

from glue_submit import TASKS, pack
from relation_tf.bench import RunFolder, read_results, write_submissions
from relation_tf.files import write_table
from relation_tf.report import Report
from tests.bench.finished_runs import write_finished
from tests.golden_set import PAGES, REPORTS, differences, make_reports, pages, reduce_reports


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    return make_reports()


def test_reports_have_the_same_numbers(reports):
    before = json.loads(REPORTS.read_text(encoding="utf-8"))
    assert [*differences(before, reduce_reports(reports), 1e-9)] == []


def test_reports_have_the_same_words(reports, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    for name, page in pages(reports).items():
        assert page == (PAGES / name).read_text(encoding="utf-8"), name


def test_a_changed_number_and_a_lost_row_are_found():
    before = {"p": [0.04, "better"], "mean": [1.0, None], "lost": [1]}
    after = {"p": [0.04 + 1e-12, "worse"], "mean": [1.0 + 1e-8, None], "new": []}
    found = [line.partition(":")[0] for line in differences(before, after, 1e-9)]
    assert found == ["lost", "mean", "p"]


@pytest.mark.skipif("ng" in zlib.ZLIB_RUNTIME_VERSION, reason="zlib-ng writes other bytes")
def test_submissions_have_the_same_bytes(tmp_path: Path, suite):
    every = {
        name: [task.spell(task.labels[i % 2] if task.labels else i / 2) for i in range(6)]
        for name, task in TASKS.items()
    }
    full = pack(every, tmp_path / "full.zip", rows=dict.fromkeys(TASKS, 6))
    filled = pack({"WNLI": [0, 1] * 73}, tmp_path / "filled.zip", fill_missing=True)
    folder, one = RunFolder(tmp_path / "runs"), suite(tasks=["CoLA"], seeds=[1])
    folder.open(one)
    run = folder.start(one.runs()[0])
    write_finished(run, one.runs()[0])
    (run / "predictions").mkdir()
    rows = range(TASKS["CoLA"].test_rows)
    columns = {"index": rows, "prediction": [row % 2 for row in rows]}
    write_table(run / "predictions" / "CoLA.test.tsv", columns, "\t")
    (trained,) = write_submissions(read_results(folder.path), fill_missing=True).packed
    zips = [each.path.read_bytes() for each in (full, filled, trained)]
    assert [hashlib.sha256(each).hexdigest()[:16] for each in zips] == [
        "e405b0e955d0c040",
        "2471163f0fce0dd3",
        "e9918b5d4fa3dae5",
    ]
