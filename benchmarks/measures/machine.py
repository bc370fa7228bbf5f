"""Hardware, versions and highest rates of this machine."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.steps import forward_step
from benchmarks.timing import Spread, in_turn, spread

_PACKAGES = ("relation_tf", "keras", "tensorflow", "jax", "torch", "numpy")
_SIDE = 2048
_FLOATS = 2**26  # 256 MiB, larger than any cache


@dataclass(frozen=True)
class Machine:
    """Description of this machine and its highest rates."""

    description: dict[str, Any]
    operations: Spread
    bytes: Spread


def measured() -> Machine:
    """Measure the rates of matrix products and of memory of this machine."""
    return Machine(describe(), matrix_rate(), memory_rate())


def describe() -> dict[str, Any]:
    """Return processor, cores, memory and versions."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version for name in _PACKAGES if (version := _version(name))},
    }


def matrix_rate() -> Spread:
    """Measure floating-point operations per second in a product of two float32 matrices."""
    a = np.random.default_rng(0).normal(size=(_SIDE, _SIDE)).astype(np.float32)
    seconds = in_turn({"product": forward_step(lambda x: x @ x, [a])})["product"]
    return spread([2 * _SIDE**3 / s for s in seconds])


def memory_rate() -> Spread:
    """Measure bytes per second of `a + b` for large arrays: two are read and one is written."""
    from keras import ops

    a = np.ones(_FLOATS, np.float32)
    seconds = in_turn({"sum": forward_step(ops.add, [a, a])})["sum"]
    return spread([3 * a.nbytes / s for s in seconds])


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
