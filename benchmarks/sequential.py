"""`python -m benchmarks.sequential`: error, power and runs of sequential seeds, by simulation.

The fixed design has one look, at the largest number of seeds, with the same statistic.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from relation_tf.files import align
from relation_tf.stats import SequentialResult, look_schedule, sequential_test

CASES: Sequence[tuple[str, Sequence[float], dict[str, Any]]] = (
    ("2 equal", (0, 0), {}),
    ("4 equal", (0, 0, 0, 0), {}),
    ("4 equal, 71 rows (ties)", (0, 0, 0, 0), {"rows": 71}),
    ("4 equal, 5 rows (ties)", (0, 0, 0, 0), {"rows": 5}),
    ("4 equal, 8 tasks", (0, 0, 0, 0), {"num_tasks": 8}),
    ("2 and 2 equal", (0, 0, 2, 2), {}),
    ("2, 1.2 SD", (0, 1.2), {}),
    ("2, 1.5 SD", (0, 1.5), {}),
    ("1 of 4 by 1.5 SD", (0, 0, 0, 1.5), {}),
    ("1 of 4 by 2 SD", (0, 0, 0, 2), {}),
    ("3 against a control, 1.5 SD", (0, 1.5, 1.5, 1.5), {"control": 0}),
    ("1 of 4 by .7 SD, 8 tasks", (0, 0, 0, 0.7), {"num_tasks": 8}),
)


@dataclass(frozen=True)
class Simulated:
    """Shares over the repetitions of a simulation.

    Attributes:
        error: Share with one or more false verdicts.
        power: Share of the different pairs that are found.
        fixed_error: As `error`, of the fixed design.
        fixed_power: As `power`, of the fixed design.
        saved: Share of the fixed design's runs that are not needed.
    """

    error: float
    power: float
    fixed_error: float
    fixed_power: float
    saved: float


def simulate(
    shifts: Sequence[float],
    *,
    max_seeds: int = 15,
    num_tasks: int = 1,
    rows: int | None = None,
    control: int | None = None,
    repetitions: int = 2000,
    seed: int = 0,
) -> Simulated:
    """Simulate comparisons of methods with normal scores of SD 1.

    Args:
        shifts: Mean of each method.
        max_seeds: Seeds of the fixed design and of the last look.
        num_tasks: Number of tasks.
        rows: If given, scores are numbers of correct rows of this many, with accuracy
            `Phi(shift)`, so they have ties.
        control: Number of the method that the others are compared with.
        repetitions: Number of simulated comparisons.
        seed: Seed of the scores.
    """
    generator = np.random.default_rng(seed)
    looks = look_schedule(max_seeds)
    found: list[tuple[bool, float, bool, float]] = []
    runs = 0
    for _ in range(repetitions):
        scores = _scores(generator, shifts, (num_tasks, max_seeds), rows)
        samples = {task: dict(enumerate(own)) for task, own in enumerate(scores)}
        result = sequential_test(samples, looks, control=control)
        fixed = sequential_test(samples, [max_seeds], control=control)
        found.append((*_judge(result, shifts), *_judge(fixed, shifts)))
        runs += num_tasks * _seeds(result, len(shifts))
    error, power, fixed_error, fixed_power = np.mean(found, axis=0).tolist()
    whole = repetitions * num_tasks * len(shifts) * max_seeds
    return Simulated(error, power, fixed_error, fixed_power, 1 - runs / whole)


def main(
    repetitions: Annotated[int, typer.Option(help="Simulated comparisons per row.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of the scores.")] = 0,
) -> None:
    """Print a table of all cases, with looks after 3, 5, ... 15 seeds."""
    lines = [["methods", "error", "power", "fixed: error", "power", "runs saved"]]
    for name, shifts, options in CASES:
        each = simulate(shifts, repetitions=repetitions, seed=seed, **options)
        differ = len({*shifts}) > 1
        power, fixed = (
            f"{value:.3f}" if differ else "" for value in (each.power, each.fixed_power)
        )
        saved = f"{100 * each.saved:.0f} %"
        lines.append([name, f"{each.error:.3f}", power, f"{each.fixed_error:.3f}", fixed, saved])
    typer.echo("\n".join(align(lines)))


def _scores(
    generator: np.random.Generator,
    shifts: Sequence[float],
    shape: tuple[int, int],
    rows: int | None,
) -> NDArray[np.float64]:
    """Return scores, shape `(tasks, methods, seeds)`."""
    tasks, seeds = shape
    means = np.asarray(shifts, dtype=float)[:, None]
    if rows is None:
        return generator.normal(means, size=(tasks, len(shifts), seeds))
    from scipy.stats import norm

    return generator.binomial(rows, norm.cdf(means), (tasks, len(shifts), seeds)).astype(float)


def _judge(result: SequentialResult, shifts: Sequence[float]) -> tuple[bool, float]:
    """Return True if a verdict is false, and the share of different pairs that are found."""
    false, found = False, []
    for a, b, better in zip(*(result.pairs[key] for key in ("a", "b", "better")), strict=True):
        best = None if shifts[a] == shifts[b] else a if shifts[a] > shifts[b] else b
        false |= better is not None and better != best
        if best is not None:
            found.append(better == best)
    return false, float(np.mean(found)) if found else 0.0


def _seeds(result: SequentialResult, num_methods: int) -> int:
    """Return the number of seeds of all methods."""
    used = [0] * num_methods
    pairs = result.pairs
    for name, seeds in itertools.chain(
        zip(pairs["a"], pairs["seeds"], strict=True), zip(pairs["b"], pairs["seeds"], strict=True)
    ):
        used[name] = max(used[name], seeds)
    return sum(used)


if __name__ == "__main__":
    typer.run(main)
