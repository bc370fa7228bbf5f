"""Process of a tracker of another package: `python -m relation_tf.bench.trackers NAME OUT`.

Reads events from stdin, one JSON list per line: the name of a method of `Tool` and its arguments.
Writes a line to stdout for each error; other output is written to stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tomllib
from pathlib import Path

from relation_tf.bench.trackers.tool import Tool


def main(name: str, out: Path) -> None:
    """Track the events of stdin until it ends."""
    errors = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the packages print to stdout, too

    def complain(error: Exception) -> None:
        print(f"{type(error).__name__}:", *str(error).split(), file=errors, flush=True)

    try:
        tool = _make(name, out)
    except Exception as error:
        complain(error)
        return
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        try:
            getattr(tool, method)(*arguments)
        except Exception as error:
            complain(error)
    try:
        tool.close()
    except Exception as error:
        complain(error)


def _make(name: str, out: Path) -> Tool:
    folder = out / "tracking" / name
    folder.mkdir(parents=True, exist_ok=True)
    suite = tomllib.loads((out / "suite.toml").read_text("utf-8"))["name"]
    tool: Tool = importlib.import_module(f"relation_tf.bench.trackers.{name}").make(folder, suite)
    return tool


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
