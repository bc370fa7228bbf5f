"""Python programs in separate processes."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parents[1]

# Runs its arguments, which are commands, until one fails.
COMMANDS = """
import sys
from relation_tf.cli import main
for line in sys.argv[1:]:
    sys.argv = ["relation-tf", *line.split()]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
    print("END")
"""

Answer: TypeAlias = subprocess.CompletedProcess[str]


@functools.cache
def sources() -> dict[Path, ast.Module]:
    """Return the parsed modules of the packages by path."""
    paths = [*ROOT.glob("relation_tf/**/*.py"), *ROOT.glob("glue_submit/**/*.py")]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(paths)}


def python(program: str, folder: Path, *arguments: str, **variables: str) -> Answer:
    """Run a program in a folder, with arguments and environment variables."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
