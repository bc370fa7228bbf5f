"""Tests of the notebooks: stored outputs, and execution."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Where a machine keeps things; an address on the web has another slash before it.
_PLACE = re.compile(r"(?<![\w./<])/(?:home|root|tmp|usr|var|opt|mnt|srv|work|private|Users)/\S*")

pytestmark = pytest.mark.tensorflow


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(notebook: dict) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def text_of(output: dict) -> str:
    """Return the text of an output, without image data."""
    data = {kind: value for kind, value in output.get("data", {}).items() if "image/" not in kind}
    parts = [output.get("text", []), *data.values()]
    return "\n".join("".join(part) for part in parts)


def faults(cells: list[dict]) -> list[str]:
    """Return errors, warnings, and local paths in outputs."""
    found = []
    for cell in cells:
        for output in cell["outputs"]:
            if output["output_type"] == "error" or output.get("name") == "stderr":
                found.append(json.dumps(output)[:500])
            found += _PLACE.findall(text_of(output))
    return found


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_kept_as_it_ran(path):
    notebook, cells = read(path), code_cells(read(path))
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert faults(cells) == []
    shown = [
        kind for cell in cells for output in cell["outputs"] for kind in output.get("data", {})
    ]
    assert {"image/png", "text/html"} & {*shown}
    assert notebook["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert path.stat().st_size < 400_000


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_links_lead_somewhere(path):
    cells = [cell for cell in read(path)["cells"] if cell["cell_type"] == "markdown"]
    text = "".join("".join(cell["source"]) for cell in cells)
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)\)", text)
    assert [link for link in links if not (path.parent / link).is_file()] == []


def test_scores_of_the_third_notebook_are_committed_results():
    sources = ["".join(cell["source"]) for cell in code_cells(read(PATHS[2]))]
    (table,) = (source.split('"""')[1] for source in sources if "SCORES =" in source)
    shown = pd.read_csv(StringIO(table), sep=r"\s+").set_index(["task", "method"])
    rows = pd.read_csv(ROOT / "results" / "glue-small-smoothed" / "scores.csv")
    rows = rows[~rows["task"].str.contains("mean")]
    rows["task"] = rows["task"].str.replace(r"MNLI-mm?", "MNLI", regex=True)
    rows["method"] = rows["method"].str.removesuffix("-64")
    wide = rows.pivot_table("value", ["task", "method"], "seed", aggfunc="mean")
    assert (shown.index == wide.index).all()
    assert abs(shown.to_numpy() - wide.to_numpy()).max() < 1e-6


def execute(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """Run a notebook outside of the repository; return its code cells."""
    reason = "pip install '.[notebooks]' brings what runs them"
    nbformat = pytest.importorskip("nbformat", reason=reason)
    nbclient = pytest.importorskip("nbclient", reason=reason)
    pytest.importorskip("ipykernel", reason=reason)
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "notebooks"
    folder.mkdir()
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    # Read as it is kept: a place that this run has printed would be one of this machine.
    nbformat.write(notebook, folder / path.name)
    return code_cells(read(folder / path.name))


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_runs_whole(path, tmp_path, monkeypatch):
    ran, kept = execute(path, tmp_path, monkeypatch), code_cells(read(path))
    assert faults(ran) == []
    assert [bool(cell["outputs"]) for cell in ran] == [bool(cell["outputs"]) for cell in kept]
