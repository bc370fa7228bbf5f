"""Tests of the package without the modules that Windows lacks."""

from __future__ import annotations

import ast
import json
import re

from relation_tf.bench import read_results
from relation_tf.bench.run_folder import RunFolder
from relation_tf.report import make_report
from tests.bench.finished_runs import write_finished
from tests.programs import ROOT, sources

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
AS_ON_WINDOWS = f"""
import builtins, signal
whole, lacking = builtins.__import__, {MODULES!r}
def without(name, globals=None, *rest, **more):
    importer = str((globals or {{}}).get("__name__")).partition(".")[0]
    if name in lacking and importer in ("relation_tf", "glue_submit"):
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    return whole(name, globals, *rest, **more)
builtins.__import__ = without
from relation_tf.system import peak_memory
assert peak_memory() is None
"""


def test_two_modules_use_what_windows_lacks():
    users = set()
    for path, parsed in sources().items():
        for node in ast.walk(parsed):
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
