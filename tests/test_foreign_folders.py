"""No command but `run`, `plan` and `predict` runs code from a folder that other people made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from relation_tf import cli, registry
from relation_tf.bench import read_results
from relation_tf.bench.run_folder import RunFolder
from relation_tf.config import load_suite
from relation_tf.config.stand_ins import declared, missing_parts
from relation_tf.errors import SuiteError
from relation_tf.files import write_json
from relation_tf.registry import METRICS, TASKS, Metric, register_metric
from relation_tf.report import compare, make_report
from relation_tf.tasks.task import Dataset, Task
from tests.bench.finished_runs import write_finished
from tests.cli.test_completion import request as request_of_shell

ROOT = Path(__file__).resolve().parents[1]
CODE = "from pathlib import Path\nPath({!r}).write_text(__name__)\n"
OF_PLUGIN = """
plugins = ["foreign"]
test = "foreign-test"
test_over_tasks = "foreign-test-over-tasks"
stopping = "foreign-rule"
optimizer = "foreign-optimizer"
source = "foreign-source"
"""
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
def _as_before(isolated, monkeypatch):
    """Forget the stand-ins, the working folder and the search path after a test."""
    for own in vars(registry).values():
        if isinstance(own, registry.Registry):
            isolated(own)
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
        write_finished(folder, config, lambda task, method, seed: 0.5 + seed / 100)
        (folder / "weights.npz").touch()
    file = runs.path / "suite.toml"
    text = file.read_text("utf-8")
    replaced = ("plugins", "test", "source", "stopping =", "optimizer =")
    kept = [line for line in text.splitlines() if not line.startswith(replaced)]
    text = "\n".join([OF_PLUGIN, *kept, ""])
    text = text.replace(
        'mechanism = "relation"', 'mechanism = "foreign-mixer"\nname = "relation-8"'
    )
    text = text.replace(
        'mechanism = "baseline"', 'mechanism = "foreign:Layer"\nname = "baseline-8"'
    )
    file.write_text(text, "utf-8")
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
    printed = "".join(capsys.readouterr())
    assert not foreign.exists()
    if "--costs" not in line:  # costs come from timed suites only
        assert "--plugin foreign" in " ".join(printed.split())
    if line.split()[0] in ("report", "compare") and "--costs" not in line:
        assert "CoLA" in printed
        assert "replaced by Steel-Dwass" in Path(
            "new" if "new" in line else "report", "report.md"
        ).read_text("utf-8").replace("\\", "")


@pytest.mark.parametrize("line", TABS)
def test_tab_runs_no_code_of_the_folder(foreign, line, capsys, monkeypatch):
    for name, value in request_of_shell(line).items():
        monkeypatch.setenv(name, value)
    run()
    assert capsys.readouterr().err == ""
    assert not foreign.exists()


def test_submit_predicts_without_the_modules_of_others(foreign, small_glue, capsys):
    file = Path("suite.toml")
    text = file.read_text("utf-8").replace('source = "foreign-source"', 'source = "files"')
    file.write_text(text, "utf-8")
    for config in Path().glob("runs/*/*/*/config.json"):
        values = json.loads(config.read_text("utf-8"))
        write_json(config, {**values, "mechanism": "foreign:Layer", "data_digests": None})
    run("submit", ".", "--data", str(small_glue))
    assert "needs foreign." in capsys.readouterr().out
    assert not foreign.exists()


def test_modules_of_the_folder_do_not_replace_packages(foreign):
    answer = subprocess.run(
        [sys.executable, "-P", "-m", "relation_tf.cli", "status", "."],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (answer.returncode, answer.stderr) == (0, "")
    assert not foreign.exists()


@pytest.mark.parametrize("line", ["status . --plugin foreign", "report . --plugin foreign",
                                  "submit . --plugin foreign", "plan suite.toml",
                                  "suites suite.toml --plugin foreign"])  # fmt: skip
def test_a_named_plugin_is_imported(foreign, line):
    run(*line.split())
    assert foreign.read_text() == "foreign"


def test_what_a_run_declared_is_read_without_its_plugin(tmp_path, monkeypatch):
    """The direction, unit and label of a metric are those that the plugin registered."""
    task = Task("tones", ("text",), "tone", ("calm", "loud"), ("faults",), None, {"tones": "test"})
    register_metric("faults", "faults made", higher_is_better=False, high=None, points=1.0)(max)
    TASKS.add("tones", Dataset(task, (), ""), "foreign")
    values = 'name = "it"\nseeds = 3\ntasks = ["tones"]\nplugins = ["foreign"]\n' + "".join(
        f'[[method]]\nmechanism = "{name}"\n' for name in ("relation", "baseline")
    )
    (tmp_path / "suite.toml").write_text(values)
    (tmp_path / "foreign.py").write_text("")
    suite = load_suite(tmp_path / "suite.toml")
    assert missing_parts(suite) == []
    for config in suite.runs():
        folder = RunFolder(tmp_path).start(config)
        better = config.method == "relation-64"
        write_finished(folder, config, lambda task, method, seed: 7 + seed - 4 * better)  # noqa: B023
        manifest = json.loads((folder / "manifest.json").read_text())
        write_json(folder / "manifest.json", {**manifest, "declared": declared(task)})
    del sys.modules["foreign"]
    TASKS.remove("tones")
    METRICS.remove("faults")
    results = read_results(tmp_path)
    assert len(results.runs) == 6
    assert results.suite.find_task("tones") == task
    assert METRICS["faults"] == Metric(None, "faults made", high=None, higher_is_better=False,
                                       points=1.0)  # fmt: skip
    for report in (make_report(results), compare(tmp_path)):
        scores = report.data.scores
        assert scores.lower_is_better == {"tones"}
        assert scores.factor("tones") == 1
        (missing,) = (each for each in report.warnings if "--plugin foreign" in each)
        assert "assumed" not in missing
    # The plugin itself replaces the stand-ins.
    register_metric("faults", "other")(max)
    assert METRICS["faults"].label == "other"


def test_a_metric_that_no_run_declared_is_assumed_and_named(tmp_path):
    text = (
        'name = "it"\ntasks = ["tones"]\nplugins = ["foreign"]\nmonitor = "val_faults"\n'
        '[[method]]\nmechanism = "relation"\n'
    )
    (tmp_path / "suite.toml").write_text(text)
    suite = RunFolder(tmp_path).suite()
    assert suite.find_task("tones").metrics == ("faults",)
    (missing,) = missing_parts(suite)
    assert "metric faults (assumed" in missing
    (config, *_) = suite.runs()
    write_finished(RunFolder(tmp_path).start(config), config, lambda *_: 7.0)
    stated = make_report(read_results(tmp_path)).data.scores.stated_directions
    assert "tones (assumed)" in stated


def test_names_of_a_foreign_suite_stay_inside_its_folder(tmp_path):
    text = (
        'name = "it"\ntasks = ["../tones"]\nplugins = ["foreign"]\n[[method]]\nmechanism = "fcsr"'
    )
    (tmp_path / "suite.toml").write_text(text)
    with pytest.raises(SuiteError, match=r"unknown task '\.\./tones'"):
        RunFolder(tmp_path).suite()
