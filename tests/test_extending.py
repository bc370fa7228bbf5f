"""Tests of plugins: every kind of part, added by an external module, with every command."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from relation_tf import registry
from relation_tf.bench import run_suite
from relation_tf.report import make_report
from tests.programs import COMMANDS, python
from tests.test_docs import DOCS, blocks

pytestmark = pytest.mark.tensorflow

PAGE = DOCS / "extending.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder with the files of the page and data for its task."""
    folder = tmp_path_factory.mktemp("extending")
    for language in ("python", "toml"):
        for title, text in blocks(PAGE, language):
            with (folder / title).open("a", encoding="utf-8") as file:
                file.write(text)
    (folder / "archive" / "tones").mkdir(parents=True)
    tones = ("loud", "calm") * 20
    rows = "".join(f"it was so {tone} {i},{tone}\n" for i, tone in enumerate(tones))
    for split in ("train", "test"):
        file = folder / "archive" / "tones" / f"{split}.csv"
        file.write_text(f"text,tone\n{rows}", encoding="utf-8")
    return folder


def commands(folder: Path, *lines: str, code: int = 0) -> list[str]:
    """Run commands in a process; return the output of each, or the errors if one must fail."""
    answer = python(COMMANDS, folder, *lines)
    assert answer.returncode == code, answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr
    return " ".join((answer.stderr if code else answer.stdout).split()).split("END")


def test_every_kind_of_part_is_shown_in_few_lines():
    kinds = {name for name in vars(registry) if name.startswith("register_")}
    shown = [text for title, text in blocks(PAGE, "python")]
    assert {kind for kind in kinds if any(kind in text for text in shown)} == kinds
    assert [text for text in shown if len(text.strip().splitlines()) > 20] == []


@pytest.mark.slow
def test_each_command_knows_the_parts(folder):
    planned, _, after, *_ = commands(
        folder,
        "plan extended.toml",
        "run extended.toml",
        "status runs/extended",
        "report runs/extended --plugin my_parts",
        "compare runs/extended --plugin my_parts --out comparison",
    )
    assert "6 runs" in planned
    assert "6 of 6 runs" in after

    report = folder / "runs" / "extended" / "report"
    for page in ("report.html", "report.md"):
        text = (report / page).read_text(encoding="utf-8")
        assert "error rate" in text
        assert "longest run took" in text
        assert "Tukey" in text
    scores = pd.read_csv(report / "scores.csv")
    assert set(scores["metric"]) == {"error"}
    # The lowest error is the best.
    means = scores.groupby("method")["value"].mean()
    best = means.idxmin()
    if means.nunique() > 1:
        assert f"**{best}**" in text or f"| {best} | **" in text

    assert (folder / "comparison" / "report.html").is_file()


@pytest.mark.slow
def test_a_changed_plugin_is_not_mixed_with_its_older_runs(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("runs"))
    one = "run extended.toml --methods baseline-8 --seeds 1"
    commands(copy, one)
    with (copy / "my_parts.py").open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    (error,) = commands(copy, one, code=2)
    assert "another version of its plugins" in error


def test_python_knows_the_parts(folder, monkeypatch, isolated):
    for parts in vars(registry).values():
        if isinstance(parts, registry.Registry):
            isolated(parts)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    options = {"methods": ["max-pool-8"], "seeds": [1, 2], "quiet": True}
    results = run_suite("extended.toml", out="runs/cell", **options)
    assert [run["epochs"] for run in results.runs] == [2, 2]
    assert [[*run["metrics"]["tones"]] for run in results.runs] == [["error"]] * 2
    assert "The longest run took" in make_report(results).markdown()
