"""`python -m benchmarks.simultaneous`: error and coverage of the rank tests, by simulation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import typer
from numpy.typing import NDArray

from relation_tf.files import align
from relation_tf.stats import steel, steel_dwass

Scores: TypeAlias = NDArray[np.float64]
Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, int]], Scores]

PERMUTATIONS = 20_000  # samples with ties need their own ones


def _normal(generator: np.random.Generator, shape: tuple[int, int]) -> Scores:
    return generator.normal(size=shape)


def _log_normal(generator: np.random.Generator, shape: tuple[int, int]) -> Scores:
    return np.exp(generator.normal(size=shape))


def _of_rows(generator: np.random.Generator, shape: tuple[int, int]) -> Scores:
    return generator.binomial(71, 0.7, shape).astype(float)


def _rounded(generator: np.random.Generator, shape: tuple[int, int]) -> Scores:
    return generator.normal(size=shape).round()


def _collapsing(generator: np.random.Generator, shape: tuple[int, int]) -> Scores:
    return np.where(generator.random(shape) < 0.2, -10.0, generator.normal(size=shape))


def _one_wide(generator: np.random.Generator, shape: tuple[int, int]) -> Scores:
    return generator.normal(size=shape) * np.where(np.arange(shape[0]) == 0, 10, 1)[:, None]


CASES: Sequence[tuple[str, Draw, int, int, dict[str, Any]]] = (
    ("normal", _normal, 4, 5, {}),
    ("normal, shifted by 0, 1, 2, 3 SD", _normal, 4, 5, {"step": 1.0}),
    ("normal, against a control", _normal, 4, 5, {"control": 0}),
    ("normal", _normal, 2, 10, {}),
    ("log-normal", _log_normal, 4, 5, {}),
    ("71 rows (ties)", _of_rows, 4, 5, {}),
    ("rounded to whole SD (ties)", _rounded, 4, 5, {}),
    ("one run in five collapses", _collapsing, 4, 5, {}),
    ("one SD ten times the others", _one_wide, 4, 5, {}),
)


class Simulated(NamedTuple):
    """Shares over the repetitions of a simulation.

    Attributes:
        error: Share with one or more significant pairs of equal methods.
        missed: Share with one or more intervals that do not contain the true shift.
        contradictions: Share with an interval that excludes 0 for a pair that is not significant.
    """

    error: float
    missed: float
    contradictions: float


def simulate(
    draw: Draw,
    num_methods: int,
    num_seeds: int,
    *,
    step: float = 0.0,
    control: int | None = None,
    repetitions: int = 500,
    seed: int = 0,
) -> Simulated:
    """Simulate tests of methods whose scores differ by shifts only.

    Args:
        draw: Function of a generator and a shape that returns scores before shifting.
        num_methods: Number of methods.
        num_seeds: Number of scores per method.
        step: Shift of each method from the one before.
        control: Number of the method that the others are compared with; None for all pairs.
        repetitions: Number of simulated tests.
        seed: Seed of the scores.
    """
    generator, found = np.random.default_rng(seed), []
    test = steel_dwass if control is None else functools.partial(steel, control=control)
    for _ in range(repetitions):
        scores = draw(generator, (num_methods, num_seeds)) + step * np.arange(num_methods)[:, None]
        result = test(dict(enumerate(scores)), permutations=PERMUTATIONS)
        pairs, intervals = result.pairs(), result.confidence_interval()
        true = step * (pairs["b"] - pairs["a"]).to_numpy(dtype=float)
        low, high = intervals["low"].to_numpy(), intervals["high"].to_numpy()
        significant = pairs["significant"].to_numpy()
        found.append(
            (
                (significant & (true == 0)).any(),
                ((low > true) | (high < true)).any(),
                (((low > 0) | (high < 0)) & ~significant).any(),
            )
        )
    return Simulated(*np.mean(found, axis=0).tolist())


def main(
    repetitions: Annotated[int, typer.Option(help="Simulated tests per row.")] = 500,
) -> None:
    """Print a table of all cases."""
    lines = [["scores", "methods x seeds", "error", "missed", "contradictions"]]
    for name, draw, num_methods, num_seeds, options in CASES:
        each = simulate(draw, num_methods, num_seeds, repetitions=repetitions, **options)
        shares = [f"{share:.3f}" for share in each]
        lines.append([name, f"{num_methods} x {num_seeds}", *shares])
    typer.echo("\n".join(align(lines)))


if __name__ == "__main__":
    typer.run(main)
