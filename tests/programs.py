"""Python programs in separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parents[1]

Answer: TypeAlias = subprocess.CompletedProcess[str]


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
