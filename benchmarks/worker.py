"""Measurement in a separate process: `python -m benchmarks.worker NAME ARGUMENTS FILE`."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class MeasurementError(Exception):
    """Error for a measurement without a result; the message is one line."""


def measure(function: str, arguments: Mapping[str, Any], backend: str) -> Any:
    """Run a function of `benchmarks.measures` in a new process and return its JSON result."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "benchmarks.worker"]
        process = subprocess.run(
            [*command, function, json.dumps(dict(arguments)), str(answer)],
            # CPU only: memory is measured per process, and PyTorch calls on a GPU are asynchronous.
            env=os.environ
            | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""},
            stderr=subprocess.PIPE,
            text=True,
        )
        if process.returncode != 0:
            lines = process.stderr.strip().splitlines() or ["no message"]
            raise MeasurementError(f"exit code {process.returncode}: {lines[-1]}")
        return json.loads(answer.read_text())


def _main() -> None:
    function, arguments, answer = sys.argv[1:]
    module, _, name = function.partition(":")
    measured = getattr(importlib.import_module(f"benchmarks.measures.{module}"), name)
    result = measured(**json.loads(arguments))
    Path(answer).write_text(json.dumps(result, default=dataclasses.asdict))


if __name__ == "__main__":
    _main()
