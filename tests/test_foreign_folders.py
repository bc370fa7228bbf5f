"""Commands that only read a folder run no code from it, unless a plugin is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from relation_tf import cli
from relation_tf.bench.run_folder import RunFolder
from tests.bench.finished_runs import write_finished
from tests.cli.test_completion import request as request_of_shell

ROOT = Path(__file__).resolve().parents[1]
CODE = "from pathlib import Path\nPath({!r}).write_text(__name__)\n"
COMMANDS = [
    "status .",
    "report .",
    "report . --costs .",
    "compare . --out new",
    "compare . . --labels a,b --out new",
    "submit .",
    "suites suite.toml",
]
TABS = [
    "relation-tf run suite.toml --tasks C",
    "relation-tf status ",
    "relation-tf compare . --reference r",
    "relation-tf tasks ",
]


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """Forget the plugin and the search path after a test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        if name.startswith("foreign"):
            del sys.modules[name]


@pytest.fixture
def foreign(tmp_path, monkeypatch, suite):
    """Enter a run folder with modules that write the file `marker` when they are imported."""
    made = suite(tasks=["CoLA"])
    runs = RunFolder(tmp_path / "sent")
    runs.open(made)
    for config in made.runs():
        folder = runs.start(config)
        write_finished(folder, config)
    file = runs.path / "suite.toml"
    text = file.read_text("utf-8")
    kept = [line for line in text.splitlines() if not line.startswith("plugins")]
    file.write_text("\n".join(['plugins = ["foreign"]', *kept, ""]), "utf-8")
    for name in ("foreign", "numpy", "typer", "sitecustomize", "matplotlib", "lazy_loader"):
        (runs.path / f"{name}.py").write_text(CODE.format(str(tmp_path / "marker")))
    monkeypatch.chdir(runs.path)
    return tmp_path / "marker"


def run(*arguments: str) -> None:
    sys.argv = ["relation-tf", *arguments]
    with pytest.raises(SystemExit):
        cli.main()


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_runs_no_code_of_the_folder(foreign, line, capsys):
    run(*line.split())
    assert not foreign.exists()
    error = capsys.readouterr().err
    assert "If you trust it, add --plugin foreign." in " ".join(error.split())


@pytest.mark.parametrize("line", TABS)
def test_tab_runs_no_code_of_the_folder(foreign, line, capsys, monkeypatch):
    for name, value in request_of_shell(line).items():
        monkeypatch.setenv(name, value)
    run()
    assert capsys.readouterr().err == ""
    assert not foreign.exists()


@pytest.mark.parametrize("line", ["status .", "check-layer foreign:Layer"])
def test_modules_of_the_folder_do_not_replace_packages(foreign, line):
    for name in ("keras", "tensorflow"):
        Path(f"{name}.py").write_text(CODE.format(str(foreign)))
    Path("foreign.py").write_text("")
    answer = subprocess.run(
        [sys.executable, "-P", "-m", "relation_tf.cli", *line.split()],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (answer.returncode, answer.stdout) == (2, "")
    assert not foreign.exists()


@pytest.mark.parametrize("line", ["status . --plugin foreign", "report . --plugin foreign",
                                  "submit . --plugin foreign", "plan suite.toml",
                                  "suites suite.toml --plugin foreign"])  # fmt: skip
def test_a_named_plugin_is_imported(foreign, line):
    run(*line.split())
    assert foreign.read_text() == "foreign"
