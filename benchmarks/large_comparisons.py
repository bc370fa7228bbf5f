"""`python -m benchmarks.large_comparisons`: seconds of `relation-tf compare` with many scores.

Scores are normal, with a small difference between neighboring methods. Each comparison runs in a
process of its own and writes the whole report.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from relation_tf.files import align

DESIGNS = [(300, 1, 5), (3, 2_000, 5), (4, 1, 1_000), (20, 20, 10), (4, 8, 5)]


def scores(num_methods: int, num_tasks: int, num_seeds: int) -> pd.DataFrame:
    """Return a table of scores with columns `task`, `method`, `seed` and `score`."""
    shape = (num_tasks, num_methods, num_seeds)
    values = np.random.default_rng(0).normal(size=shape)
    values += np.linspace(0, 2, num_methods)[:, None]
    tasks, methods, seeds = (places.ravel() for places in np.indices(shape))
    return pd.DataFrame(
        {
            "task": [f"task-{i}" for i in tasks],
            "method": [f"method-{i}" for i in methods],
            "seed": seeds + 1,
            "score": 70 + values.ravel().round(4),
        }
    )


def seconds(design: tuple[int, int, int]) -> float:
    """Return the seconds of a comparison, from the start of its process to its end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scores.csv")
        scores(*design).to_csv(path, index=False)
        command = [sys.executable, "-m", "relation_tf.cli", "compare", str(path)]
        start = time.perf_counter()
        subprocess.run(
            [*command, "--out", str(Path(folder, "report"))],
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - start


def main(
    repeats: Annotated[int, typer.Option(help="Repeats of each comparison.")] = 3,
) -> None:
    """Print the median seconds of comparisons with many methods, tasks or seeds."""
    rows = [["methods", "tasks", "seeds", "seconds"]]
    for design in DESIGNS:
        median = np.median([seconds(design) for _ in range(repeats)])
        rows.append([*(f"{number:,}" for number in design), f"{median:.1f}"])
    typer.echo("\n".join(align(rows)))


if __name__ == "__main__":
    typer.run(main)
