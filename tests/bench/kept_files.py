"""Files that must be equal after each execution of a command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# Values of time and memory, and checksums of files that contain them.
_DIFFER = ("seconds", "tokens_per_second", "peak_memory_mib", "base_memory_mib", "peak_memory_of",
           "peak_device_memory_mib", "files", "sha256")  # fmt: skip


def run_files(out: Path) -> dict[str, Any]:
    """Return the content of all files of runs, without times, memory and manifests."""
    found: dict[str, Any] = {}
    for path in sorted(out.glob("**/runs/**/*")):
        name = str(path.relative_to(out))
        if path.name == "result.json":
            result = json.loads(path.read_text("utf-8"))
            found[name] = {key: value for key, value in result.items() if key not in _DIFFER}
        elif path.name == "history.csv":
            header, *rows = [line.split(",") for line in path.read_text("utf-8").splitlines()]
            kept = [i for i, key in enumerate(header) if not key.endswith(("seconds", "_second"))]
            found[name] = [[row[i] for i in kept] for row in (header, *rows)]
        elif path.is_file() and path.name != "manifest.json":
            found[name] = path.read_bytes()
    return found
