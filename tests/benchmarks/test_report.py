"""Tests of the report of measurements."""

from __future__ import annotations

import pytest

from benchmarks.report import markdown, name_of, slope
from benchmarks.table import CURVES


def figure(median):
    return {"median": median, "low": 0.9 * median, "high": 1.1 * median, "n": 5}


def points(power):
    return [
        {"length": n, "seconds": figure(1e-6 * n**power), "bytes": 2**20 * n}
        for n in (128, 2048, 4096, 50_000)
    ]


def of(measured):
    return {"commit": "1234", "measured": measured}


ROW = {
    "value": figure(5.0),
    "sides": {"what": figure(0.002), "against": figure(1.5)},
    "unit": "s",
    "note": "a note",
}
MACHINE = {
    "description": {
        "processor": "A processor", "cores": 2, "memory_gib": 8.0, "python": "3.11",
        "versions": {"keras": "3"},
    },
    "operations": figure(2e11), "bytes": figure(3e10),
}  # fmt: skip


def test_rows_within_and_outside_their_bound():
    lines = markdown(
        {"machine": of(MACHINE), "fofe": of(ROW), "relation-readout": of(ROW)}
    ).splitlines()
    fofe, readout = (next(x for x in lines if name in x) for name in ("FOFE", "Relation network"))
    cells = [fofe.split(" | "), readout.split(" | ")]
    assert [each[2:5] for each in cells] == [
        ["5 (4.5 to 5.5)", "at least 4", "yes"], ["5 (4.5 to 5.5)", "at least 40", "**no**"],
    ]  # fmt: skip
    assert [cell.strip(" |") for cell in cells[0][-2:]] == ["2 ms", "1.5 s"]


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_growth(power):
    curve = next(curve for curve in CURVES if curve.linear)
    assert slope(points(power), 128, 32_768) == pytest.approx(power)
    row = markdown({name_of(curve): of(points(power))}).splitlines()[2]
    kept = "yes" if power == 1 else "**no**"
    assert row.split(" | ")[2:6] == [f"{power:.2f}"] * 2 + ["at most 1.1", kept]
