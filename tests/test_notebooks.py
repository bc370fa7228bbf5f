"""Tests of the notebooks: stored outputs, and execution."""

from __future__ import annotations

import json
import re
import time
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from relation_tf.tasks import miniglue

ROOT = Path(__file__).resolve().parents[1]
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Setting for real data, and the notebooks that have it.
DATA = re.compile(r"^DATA = None\b", re.MULTILINE)
ON_FILES = [path for path in PATHS if "DATA = None" in path.read_text(encoding="utf-8")]
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


def test_they_are_numbered():
    assert [path.name[:2] for path in PATHS] == [f"{number:02}" for number in range(1, 8)]


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


@pytest.mark.parametrize(
    ("output", "wrong"),
    [
        ({"output_type": "stream", "name": "stdout", "text": ["kept in /home/me/runs\n"]}, True),
        ({"output_type": "stream", "name": "stderr", "text": ["Warning\n"]}, True),
        ({"output_type": "error", "ename": "ValueError"}, True),
        ({"output_type": "display_data", "data": {"text/html": ["<a href='/home/me/x'>"]}}, True),
        ({"output_type": "display_data", "data": {"image/png": "a /home/me/x"}}, False),
        ({"output_type": "stream", "name": "stdout", "text": ["runs/demo, 3/4 runs\n"]}, False),
    ],
)
def test_faults_are_seen(output, wrong):
    assert bool(faults([{"outputs": [output]}])) is wrong


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_code_runs_from_any_folder(path):
    """No cell reads a file of the repository, and the first one imports what the reader needs."""
    code = ["".join(cell["source"]) for cell in code_cells(read(path))]
    assert [source for source in code if "../" in source] == []
    assert "LOG_LEVEL" not in code[0]
    assert "stderr" not in code[0]


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


def execute(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str = ""
) -> list[dict]:
    """Run a notebook outside of the repository, on `data` if given; return its code cells."""
    reason = "pip install '.[notebooks]' brings what runs them"
    nbformat = pytest.importorskip("nbformat", reason=reason)
    nbclient = pytest.importorskip("nbclient", reason=reason)
    pytest.importorskip("ipykernel", reason=reason)
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "notebooks"
    folder.mkdir()
    notebook = nbformat.read(path, as_version=4)
    if data:
        (asks,) = (cell for cell in notebook.cells if DATA.search(cell.source))
        asks.source = DATA.sub(f"DATA = {data!r}", asks.source)
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


@pytest.fixture(scope="module")
def glue(tmp_path_factory):
    """Return a folder with `glue_data` in the official layout, with full test sets."""
    folder = tmp_path_factory.mktemp("glue")
    miniglue.write(folder / "glue_data", train_rows=400, dev_rows=60)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("path", ON_FILES, ids=lambda path: path.stem)
def test_runs_whole_on_files(path, glue, tmp_path, monkeypatch):
    (tmp_path / "data").symlink_to(glue)
    assert faults(execute(path, tmp_path, monkeypatch, "../data")) == []


RUN = """
from relation_tf.bench import run_suite
results = run_suite("demo", "runs", tasks=["RTE"], methods=["relation-64"], seeds=[1, 2, 3])
"""


def output_of(client, code):
    """Return the output and the status of a cell."""
    texts = []
    reply = client.execute_interactive(
        code, output_hook=lambda message: texts.append(str(message["content"])), timeout=600
    )
    return "".join(texts), reply["content"]["status"]


@pytest.mark.slow
def test_interrupted_cell_keeps_finished_runs(tmp_path, monkeypatch):
    manager_of = pytest.importorskip("jupyter_client.manager", reason="of the extra notebooks")
    pytest.importorskip("ipykernel", reason="of the extra notebooks")
    monkeypatch.setenv("RELATION_TF_CACHE", str(tmp_path / "cache"))
    manager, client = manager_of.start_new_kernel(cwd=str(tmp_path))
    try:
        asked = client.execute(RUN)
        done = tmp_path / "runs" / "runs" / "RTE" / "relation-64" / "seed-1" / "result.json"
        end = time.monotonic() + 600
        while not done.exists():
            assert time.monotonic() < end
            time.sleep(0.1)
        manager.interrupt_kernel()
        # A kernel that was slow to start answers more than once that it is there.
        replies = iter(lambda: client.get_shell_msg(timeout=600), None)
        reply = next(reply for reply in replies if reply["parent_header"]["msg_id"] == asked)
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        before = done.stat().st_mtime_ns
        status = "aborted"
        while status == "aborted":  # a kernel refuses cells for a moment after an error
            printed, status = output_of(client, RUN + "print('results:', len(results.runs))")
        assert status == "ok"
        assert "of 3 runs are done already" in printed
        assert "results: 3" in printed
        assert done.stat().st_mtime_ns == before
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
