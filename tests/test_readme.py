"""Tests of the examples in README."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def named(start: str) -> str:
    """Return the only program that begins with this text."""
    (block,) = (text for text in PROGRAMS if text.startswith(start))
    return block


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))


def test_the_first_layer(tmp_path):
    path = tmp_path / "first.py"
    path.write_text(named("import numpy as np\nfrom relation_tf.layers"), encoding="utf-8")
    assert runpy.run_path(str(path))["y"].shape == (2, 7, 64)


def test_the_significance_example(tmp_path, capsys):
    path = tmp_path / "significance.py"
    path.write_text(named("from relation_tf.stats import steel"), encoding="utf-8")
    runpy.run_path(str(path))
    printed = capsys.readouterr().out
    assert "mine higher" in printed


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_notebook_example(tmp_path):
    path = tmp_path / "notebook.py"
    path.write_text(named("from relation_tf.bench"), encoding="utf-8")
    assert len(runpy.run_path(str(path))["results"].runs) == 30
    assert (tmp_path / "runs" / "first-report" / "report.html").exists()
