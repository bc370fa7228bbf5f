"""Tests of `python -m benchmarks`."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from benchmarks import __main__ as command
from benchmarks.worker import MeasurementError

app = typer.Typer()
app.command()(command.main)
ROW = {
    "value": {"median": 5.0, "low": 4.0, "high": 6.0, "n": 5},
    "sides": {}, "unit": "s", "note": "",
}  # fmt: skip


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def measured(monkeypatch):
    """Record the measurements in order instead of running them."""
    asked = []

    def measure(function, arguments, backend):
        asked.append((function, backend))
        if function == "layers:fofe" and asked.count((function, backend)) == 1:
            raise KeyboardInterrupt
        return ROW

    monkeypatch.setattr(command, "measure", measure)
    return asked


def test_an_interrupted_command_resumes(measured, tmp_path):
    arguments = "--out", tmp_path, "--only", "contextualizer, fofe,"
    assert run(*arguments).exit_code == 130
    assert run(*arguments).exit_code == 0
    assert [function for function, _ in measured] == [
        "layers:contextualizer", "layers:contextualizer", "layers:fofe", "layers:fofe",
    ]  # fmt: skip
    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results) == {"contextualizer-467", "contextualizer-2494", "fofe"}
    assert "FOFE" in (tmp_path / "results.md").read_text()


def test_results_are_kept(measured, monkeypatch, tmp_path):
    """Measure again for another commit, or with `--again`."""
    for _ in range(2):
        assert run("--out", tmp_path, "--only", "contextualizer").exit_code == 0
    assert run("--out", tmp_path, "--only", "relation-layer").exit_code == 0
    assert len(measured) == 3
    assert run("--out", tmp_path, "--only", "relation-layer", "--again").exit_code == 0
    assert len(measured) == 4
    monkeypatch.setattr(command, "_commit", lambda: "another")
    assert run("--out", tmp_path, "--only", "relation-layer").exit_code == 0
    assert len(measured) == 5
    assert len(json.loads((tmp_path / "results.json").read_text())) == 3


def test_missing_modules_are_skipped(measured, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "jax" else name)
    names = "attention-memory,curve-JAX-dot_product_attention"
    assert run("--out", tmp_path, "--only", names).exit_code == 0
    assert measured == [("attention:memory", "tensorflow")]
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["curve-JAX-dot_product_attention"]["skipped"] == "jax is not installed"


def test_failures_are_reported_at_the_end(monkeypatch, tmp_path):
    def fail(function, arguments, backend):
        raise MeasurementError("exit code 1: no memory")

    monkeypatch.setattr(command, "measure", fail)
    result = run("--out", tmp_path, "--only", "fofe")
    assert result.exit_code == 1
    assert "code 1: no memory" in result.output
    assert run("--only", "fofo").exit_code == 2
