"""`python -m benchmarks.soak`: memory of one process after many small runs.

A graph or a network that is not freed after its run shows as growing memory.
"""

from __future__ import annotations

import csv
import itertools
import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.memory import resident_memory
from relation_tf.bench import run_suite

METHODS = ("attention-64", "linear-attention-64", "relation-64", "baseline-64")
TASKS = ("WNLI", "STS-B", "CoLA")


def main(
    minutes: Annotated[float, typer.Option(help="Duration.")] = 60.0,
    out: Annotated[Path, typer.Option(help="Output table: runs, minutes, MiB.")] = Path(
        "benchmarks/results/soak.csv"
    ),
) -> None:
    """Run cells of two seeds in sequence, and record the memory after each."""
    began = time.monotonic()
    rows: list[tuple[int, float, float]] = []
    while (spent := (time.monotonic() - began) / 60) < minutes or not rows:
        rows.append((len(rows) * 2, spent, resident_memory() / 2**20))
        _run_cell(len(rows) - 1)
    rows.append((len(rows) * 2, spent, resident_memory() / 2**20))
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("runs", "minutes", "mib"))
        writer.writerows((runs, f"{spent:.2f}", f"{mib:.1f}") for runs, spent, mib in rows)
    typer.echo(said(rows))


def _run_cell(number: int) -> None:
    """Run two seeds of a method on a task; every cell is compiled again, as in a suite."""
    cells = list(itertools.product(TASKS, METHODS))
    task, method = cells[number % len(cells)]
    with tempfile.TemporaryDirectory() as folder:
        run_suite(
            "demo",
            folder,
            tasks=task,
            methods=method,
            seeds=[1, 2],
            settings={"epochs": 3},
            quiet=True,
        )


def said(rows: list[tuple[int, float, float]]) -> str:
    """Describe the memory use and its growth in the second half.

    Args:
        rows: Number of runs, minutes, MiB.
    """
    runs, spent, mib = np.array(rows, dtype=float).T
    half = slice(len(rows) // 2, None)
    slope = np.polyfit(runs[half], mib[half], 1)[0] if len(rows) > 3 else float("nan")
    return (
        f"{runs[-1]:.0f} runs in {spent[-1]:.0f} min: {mib[half][0]:.0f} MiB halfway, "
        f"{mib[-1]:.0f} MiB at the end, {100 * slope:+.2f} MiB per 100 runs in the second half"
    )


if __name__ == "__main__":
    typer.run(main)
