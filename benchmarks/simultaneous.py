"""`python -m benchmarks.simultaneous`: error rates of tests over seeds and of verdicts.

All methods have equal means, so each significant pair, and each verdict *better* or *worse*, is an
error. A test of the table of errors starts with 2,000 simulated comparisons; where more than .05
plus two standard errors are wrong, it continues to 10,000.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from relation_tf.registry import PROCEDURES
from relation_tf.stats import non_inferiority

Scores: TypeAlias = NDArray[np.float64]  # (tasks, methods, seeds)
Samples: TypeAlias = dict[int, dict[int, Scores]]
Generator: TypeAlias = np.random.Generator

LEVEL = 0.05
SIMULATIONS = (2_000, 10_000)
PERMUTATIONS = 2_000  # of samples with ties, which need their own ones
TASKS, METHODS, SEEDS = (1, 3, 8), (2, 4, 8), (3, 5, 10)
TESTS = ("steel-dwass", "steel", "welch", "stratified-steel-dwass", "stratified-steel")


def _normal(generator: Generator, shape: tuple[int, ...], first: float = 1.0) -> Scores:
    """Return normal scores; `first` is the SD of the first method, the control."""
    scale = np.where(np.arange(shape[1]) == 0, first, 1.0)
    return generator.normal(size=shape) * scale[:, None]


DRAWS: Mapping[str, Callable[[Generator, tuple[int, ...]], Scores]] = {
    "normal": _normal,
    "t, 2 degrees": lambda generator, shape: generator.standard_t(2, shape),
    "log-normal": lambda generator, shape: np.exp(generator.normal(size=shape)),
    "ties (rounded to SD)": lambda generator, shape: generator.normal(size=shape).round(),
    "first SD x 5": lambda generator, shape: _normal(generator, shape, 5.0),
    "first SD / 5": lambda generator, shape: _normal(generator, shape, 0.2),
}


def any_verdict(samples: Samples) -> bool:
    """Return True if any method is better or worse than the first one."""
    found = non_inferiority(samples, 0, 0.0).table
    return bool(((found["low"] > 0) | (found["high"] < 0)).any())


def any_significant(name: str, samples: Samples) -> bool:
    """Return True if a registered procedure finds any difference.

    Args:
        name: Name of the procedure; one with a control has the first method as control.
        samples: Scores by task and method.
    """
    procedure = PROCEDURES.find(name)
    options: dict[str, Any] = {"alpha": LEVEL}
    if procedure.against_control:
        options["control"] = 0
    if "steel" in name and _has_ties(samples):
        options["permutations"] = PERMUTATIONS
    found = procedure.function(
        samples if procedure.compares == "over-tasks" else samples[0], **options
    )
    return bool(np.any(np.triu(found.significant, 1) if _is_square(found) else found.significant))


def _has_ties(samples: Samples) -> bool:
    return any(
        np.unique(scores).size < scores.size
        for scores in (np.concatenate([*own.values()]) for own in samples.values())
    )


def _is_square(found: Any) -> bool:
    return np.ndim(found.significant) == 2


def procedures(num_tasks: int, num_methods: int) -> Iterator[tuple[str, Callable[..., bool]]]:
    """Yield the tests over seeds of a design, and the verdicts."""
    for name in TESTS:
        same_for_two = num_methods == 2 and PROCEDURES[name].against_control
        over_tasks = PROCEDURES[name].compares == "over-tasks"
        if over_tasks == (num_tasks > 1) and not same_for_two:
            yield name, functools.partial(any_significant, name)
    yield "verdicts", any_verdict


def error(
    test: Callable[[Samples], bool],
    draw: Callable[[Generator, tuple[int, ...]], Scores],
    shape: tuple[int, int, int],
    seed: int = 0,
) -> tuple[int, float]:
    """Return the number of simulated comparisons and the share of wrong ones.

    Args:
        test: Function of scores by task and method that returns True for a wrong result.
        draw: Function of a generator and a shape that returns scores.
        shape: Numbers of tasks, methods and seeds.
        seed: Seed of the scores.
    """
    generator, wrong, number = np.random.default_rng(seed), 0, 0
    for number in SIMULATIONS:
        done = 0 if number == SIMULATIONS[0] else SIMULATIONS[0]
        for _ in range(number - done):
            scores = draw(generator, shape)
            wrong += test({task: dict(enumerate(own)) for task, own in enumerate(scores)})
        if not is_above_level(number, wrong / number):
            break
    return number, wrong / number


def is_above_level(simulations: int, share: float) -> bool:
    """Return True if a share of errors is above the level plus two standard errors."""
    return share > LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / simulations)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the largest error over numbers of methods, `!` where one is above the level."""
    rows = rows.assign(
        design=rows["tasks"].map(lambda tasks: "one task" if tasks == 1 else "3 or 8 tasks"),
        above=[*map(is_above_level, rows["simulations"], rows["error"])],
    )
    groups = rows.groupby(["design", "procedure", "scores", "seeds"], sort=False)
    cells = groups["error"].max().map("{:.3f}".format).str.removeprefix("0")
    cells += np.where(groups["above"].any(), " !", "")
    return cells.unstack("scores", sort=False).reset_index()


def main(
    out: Annotated[Path, typer.Option(help="CSV of all errors; finished rows are kept.")],
    tasks: Annotated[int | None, typer.Option(help="Only this number of tasks.")] = None,
) -> None:
    """Simulate all designs, one CSV row each, and print the largest errors."""
    columns = ["tasks", "methods", "seeds", "scores", "procedure", "simulations", "error"]
    rows = pd.read_csv(out).to_numpy().tolist() if out.exists() else []
    done = {tuple(row[:5]) for row in rows}
    for shape in itertools.product(TASKS if tasks is None else [tasks], METHODS, SEEDS):
        for (name, test), (scores, draw) in itertools.product(
            procedures(*shape[:2]), DRAWS.items()
        ):
            if (*shape, scores, name) not in done:
                rows.append([*shape, scores, name, *error(test, draw, shape)])
                pd.DataFrame(rows, columns=columns).to_csv(out, index=False, float_format="%.4f")
    typer.echo(summary(pd.DataFrame(rows, columns=columns)).to_string(index=False))


if __name__ == "__main__":
    typer.run(main)
