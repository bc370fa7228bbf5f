"""`python -m benchmarks.over_tasks`: level and power of tests over tasks, by simulation.

Scores are normal with an SD of 1 on each task. For power, the first method is higher by 1 SD on
every task; the share of its pairs that are significant is the power of one pair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from relation_tf.files import align
from relation_tf.stats import friedman_nemenyi, steel_dwass, stratified_steel_dwass


def mean_of_tasks(samples: dict[Any, dict[Any, Any]]) -> Any:
    """Test the means over tasks of seed 1, of seed 2, ..., as if they were the seeds of a task."""
    methods = next(iter(samples.values()))
    return steel_dwass(
        {name: np.mean([own[name] for own in samples.values()], axis=0) for name in methods}
    )


TESTS: dict[str, Callable[[Any], Any]] = {
    "stratified Steel-Dwass": stratified_steel_dwass,
    "Friedman-Nemenyi": friedman_nemenyi,
    "mean of tasks": mean_of_tasks,
}


def simulate(
    test: Callable[[Any], Any], num_methods: int, shift: float, repeats: int, seed: int = 0
) -> float:
    """Return the power of one pair, or without a shift the share of any false verdict.

    Args:
        test: Function of `{task: {method: scores}}`.
        num_methods: Number of methods.
        shift: Shift of the first method.
        repeats: Number of experiments with eight tasks and five seeds.
        seed: Seed of the scores.
    """
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(repeats):
        scores = rng.normal(size=(8, num_methods, 5))
        scores[:, 0] += shift
        samples = {task: dict(enumerate(own)) for task, own in enumerate(scores)}
        significant = test(samples).significant.to_numpy()
        found.append(significant[0, 1:].mean() if shift else significant.any())
    return float(np.mean(found))


def main(
    repeats: Annotated[int, typer.Option(help="Experiments per row.")] = 1_000,
) -> None:
    """Print level and power of each test for 4, 5 and 9 methods."""
    rows = [["methods", "test", "level", "power"]]
    for num_methods in (4, 5, 9):
        for name, test in TESTS.items():
            level, power = (simulate(test, num_methods, shift, repeats) for shift in (0.0, 1.0))
            rows.append([str(num_methods), name, f"{level:.3f}", f"{power:.3f}"])
            typer.echo("\n".join(align(rows[-1:])), err=True)
    typer.echo("\n".join(align(rows)))


if __name__ == "__main__":
    typer.run(main)
