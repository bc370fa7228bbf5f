"""Tests of the package without the modules that Windows lacks."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from relation_tf.bench import read_results
from relation_tf.bench.run_folder import RunFolder
from relation_tf.report import make_report
from tests.bench.finished_runs import write_finished
from tests.programs import ROOT, python

SOURCES = sorted([*(ROOT / "relation_tf").rglob("*.py"), *(ROOT / "glue_submit").rglob("*.py")])
MODULES = {
    "crypt", "curses", "fcntl", "grp", "nis", "posix", "pty", "pwd", "readline", "resource",
    "syslog", "termios", "tty",
}  # fmt: skip
NAMES = {
    *(f"os.{name}" for name in (
        "chown", "fork", "forkpty", "getgid", "getloadavg", "getpgid", "getuid", "killpg",
        "mkfifo", "nice", "sched_getaffinity", "setpgid", "setsid", "sysconf", "uname", "wait",
    )),
    *(f"signal.{name}" for name in (
        "SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGSTOP", "SIGUSR1", "SIGUSR2",
        "SIG_BLOCK", "SIG_SETMASK", "SIG_UNBLOCK", "alarm", "pause", "pthread_sigmask",
        "setitimer", "sigwait",
    )),
}  # fmt: skip
# Hides the modules from relation_tf and glue_submit; Python and other packages need them on Linux.
HIDE = f"""
import builtins, signal
whole, hidden = builtins.__import__, {MODULES!r}
def without(name, globals=None, *rest, **more):
    importer = str((globals or {{}}).get("__name__")).partition(".")[0]
    if name in hidden and importer in ("relation_tf", "glue_submit"):
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    return whole(name, globals, *rest, **more)
builtins.__import__ = without
"""
WITHOUT_KERAS = """
import sys
from relation_tf.cli import main
from relation_tf.system import peak_memory
assert peak_memory() is None
for command in ("compare scores.csv --out compared", "report runs"):
    sys.argv = ["relation-tf", *command.split()]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
assert "keras" not in sys.modules
"""


def run(program: str, folder: Path) -> None:
    answer = python(HIDE + program, folder)
    assert answer.returncode == 0, answer.stderr


def test_two_modules_use_what_windows_lacks():
    users = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            used = set()
            if isinstance(node, ast.Import):
                used = {each.name.partition(".")[0] for each in node.names} & MODULES
            elif isinstance(node, ast.ImportFrom):
                names = {f"{node.module}.{each.name}" for each in node.names}
                used = ({str(node.module)} & MODULES) | (names & NAMES)
            elif isinstance(node, ast.Attribute):
                used = {ast.unparse(node)} & NAMES
            if used:
                users.add(path.relative_to(ROOT).as_posix())
    assert users == {"relation_tf/system.py", "glue_submit/files.py"}


def test_compare_and_report_without_them(scored_folder):
    run(WITHOUT_KERAS, scored_folder)
    assert (scored_folder / "compared" / "report.html").is_file()
    assert (scored_folder / "runs" / "report" / "report.html").is_file()


def test_reports_of_runs_with_unknown_memory(suite, tmp_path):
    """Such runs come from Windows."""
    folder = RunFolder(tmp_path)
    chosen = suite(tasks=["CoLA", "MNLI"], reference="relation-8", margin=1.0)
    folder.open(chosen)
    for config in chosen.runs():
        path = folder.start(config)
        write_finished(path, config)
        result = json.loads((path / "result.json").read_text("utf-8"))
        unknown = {"peak_memory_mib": None, "base_memory_mib": None}
        (path / "result.json").write_text(json.dumps(result | unknown), encoding="utf-8")
    report = make_report(read_results(tmp_path))
    report.write(tmp_path / "report")
    page = (tmp_path / "report" / "report.md").read_text("utf-8")
    assert not re.search(r"\bnan\b", f"{report}{page}", re.IGNORECASE)
