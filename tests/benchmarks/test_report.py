"""Tests of the report of measurements."""

from __future__ import annotations

import pytest

from benchmarks.report import decoder_name, draw, markdown, name_of, slope
from benchmarks.table import CURVES, DECODERS


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
    assert "[1] | products with the N x N matrix | 5 (4.5 to 5.5) | at least 4 | yes |" in fofe
    assert fofe.endswith("| 2 ms | 1.5 s |")
    assert "| at least 40 | **no** |" in readout
    assert "[1] A note." in lines
    assert lines[0] == "A processor, 2 cores, 8.0 GiB; Python 3.11, keras 3."
    assert "200.0 (180.0 to 220.0) billion" in lines[2]


@pytest.mark.parametrize("why", [{"skipped": "jax is not installed"}, {"failed": "exit code 1"}])
def test_missing_measurements_have_a_reason(why):
    kind, reason = next(iter(why.items()))
    why = {"commit": "1234"} | why
    curve = next(curve for curve in CURVES if curve.backend == "jax")
    text = markdown({"fofe": why, name_of(curve): why})
    assert text.count(f"| {kind}: {reason} |") == 2


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_growth(power):
    curve = next(curve for curve in CURVES if curve.linear)
    assert slope(points(power), 128, 32_768) == pytest.approx(power)
    row = markdown({name_of(curve): of(points(power))}).splitlines()[2]
    kept = "yes" if power == 1 else "**no**"
    begins = (
        f"| {curve.subject} | 128 to 50,000 | {power:.2f} | {power:.2f} | at most 1.1 | {kept} |"
    )
    assert row.startswith(begins)


def test_target_of_growth_applies_up_to_a_length():
    curve = next(curve for curve in CURVES if curve.linear)
    *most, last = points(1.0)
    slow = last | {"seconds": figure(100 * last["seconds"]["median"])}
    row = markdown({name_of(curve): of([*most, slow])}).splitlines()[2].split(" | ")
    assert row[3:6] == ["1.00", "at most 1.1", "yes"]
    assert float(row[2]) > 1.1


@pytest.mark.parametrize(("power", "kept"), [(0.0, "yes"), (1.0, "**no**")])
def test_a_decoder_that_is_flat(power, kept):
    flat, other = DECODERS[0], DECODERS[-1]
    text = markdown({decoder_name(curve): of(points(power)) for curve in (flat, other)})
    cells = [line.split(" | ") for line in text.splitlines()[2:4]]
    assert cells[0][1:5] == ["128 to 50,000", f"{power:.2f}", "at most 0.1", kept]
    assert cells[1][3:5] == ["", ""]
    tokens = 4 / (1e-6 * 50_000**power)
    assert cells[0][5].startswith(f"{tokens:,.0f} tokens per second, 51,200,000.0 KiB")


def test_the_picture_has_every_curve_that_was_measured(tmp_path):
    measured = {name_of(curve): of(points(1.0)) for curve in CURVES[:-1]}
    draw(measured | {name_of(CURVES[-1]): {"skipped": "it is not installed"}}, tmp_path)
    picture = (tmp_path / "scaling.svg").read_text()
    assert "legend" in picture
    assert not (tmp_path / "decoding.svg").exists()


def test_the_picture_of_decoders(tmp_path):
    draw({decoder_name(curve): of(points(0.0)) for curve in DECODERS}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["decoding.svg"]


def test_no_figure_without_measurements(tmp_path):
    draw({"fofe": of(ROW)}, tmp_path)
    assert not list(tmp_path.iterdir())
