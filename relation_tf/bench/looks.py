"""The looks of a folder with sequential seeds: their plan, and the verdicts so far.

    OUT/looks.json    the plan, written before the first run, and the verdicts of the last look

Does not import Keras.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError
from relation_tf.faults import first_fault
from relation_tf.files import read_json, write_json

if TYPE_CHECKING:
    from relation_tf.stats import SequentialResult

LOOKS = "looks.json"

MAX_SEEDS = 15
"""Default for the largest number of seeds per method."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class LookFamily(_Part):
    """Methods that are compared with each other.

    Attributes:
        name: Name of the family; empty if it has all methods.
        methods: Names of the methods.
        control: Method that the others are compared with; None for all pairs.
    """

    name: str
    methods: list[str]
    control: str | None


class LookPlan(_Part):
    """Settings that are fixed before the first run.

    Attributes:
        looks: Seeds per method at each look.
        alpha: Family-wise level over all pairs of a family and all looks.
        families: Families of methods, each with its own verdicts.
        tasks: Names of the tasks.
        seeds: Seeds in the order in which they run, as many as the last look has.
        draws: Random orders from which the boundaries are computed.
        rng: Seed of these orders.
    """

    looks: list[int]
    alpha: float
    families: list[LookFamily]
    tasks: list[str]
    seeds: list[int]
    draws: int
    rng: int = 0


class Look(_Part):
    """A look; see `SequentialResult.looks`."""

    seeds: int
    boundary: float
    alpha_spent: float
    decided: int


class Pair(_Part):
    """A pair; see `SequentialResult.pairs`. Before the first look its numbers are None."""

    a: str
    b: str
    statistic: float | None
    boundary: float | None
    seeds: int
    better: str | None
    verdict: str


class FamilyLooks(_Part):
    """State of a family.

    Attributes:
        due: Method -> seeds needed for the next look; empty if every pair is decided.
        looks: The looks so far.
        pairs: All pairs with their verdicts; empty before the first look.
    """

    due: dict[str, int]
    looks: list[Look] = []
    pairs: list[Pair] = []

    @property
    def num_decided(self) -> int:
        """Number of pairs with a verdict."""
        return sum(look.decided for look in self.looks)

    @classmethod
    def of(cls, result: SequentialResult) -> FamilyLooks:
        """Return the state after the looks of a result."""
        pairs = result.pairs.astype(object).where(result.pairs.notna(), None)
        content = {
            "due": {str(name): seeds for name, seeds in result.due.items()},
            "looks": result.looks.to_dict("records"),
            "pairs": pairs.to_dict("records"),
        }
        return cls.model_validate(content)


class Looks(_Part):
    """Plan and state of a folder with sequential seeds.

    Attributes:
        plan: Settings that are fixed before the first run.
        states: State of each family of the plan.
    """

    plan: LookPlan
    states: list[FamilyLooks]

    @classmethod
    def first(cls, plan: LookPlan) -> Looks:
        """Return the state before the first run."""
        due = (dict.fromkeys(family.methods, plan.looks[0]) for family in plan.families)
        return cls(plan=plan, states=[FamilyLooks(due=own) for own in due])

    @property
    def due(self) -> dict[str, int]:
        """Method -> seeds needed for the next look; empty if every pair is decided."""
        return {name: seeds for state in self.states for name, seeds in state.due.items()}

    @property
    def pairs(self) -> list[Pair]:
        """Pairs of all families with a look."""
        return [pair for state in self.states for pair in state.pairs]

    def requested(self, runs: Sequence[RunConfig]) -> list[RunConfig]:
        """Return the runs of all looks so far and of the next one."""
        every = [name for family in self.plan.families for name in family.methods]
        seeds = dict.fromkeys(every, self.plan.looks[0])
        for pair in self.pairs:
            for name in (pair.a, pair.b):
                seeds[name] = max(seeds[name], pair.seeds)
        seeds |= self.due
        place = {seed: number for number, seed in enumerate(self.plan.seeds)}
        return [run for run in runs if place.get(run.seed, len(place)) < seeds[run.method]]

    def write(self, folder: Path) -> None:
        """Write the file into a suite's folder."""
        write_json(folder / LOOKS, self.model_dump())

    def sentence(self) -> str:
        """Return the state in one sentence."""
        decided = sum(state.num_decided for state in self.states)
        said = decided_pairs(decided, len(self.pairs)) if self.pairs else "no look"
        if not self.due:
            return f"Sequential seeds: {said}."
        waiting = ", ".join(f"{name} {seeds}" for name, seeds in self.due.items())
        return f"Sequential seeds: {said}; the next look needs these seeds: {waiting}."


def decided_pairs(decided: int, total: int) -> str:
    """Return the number of decided pairs in words.

    Example:
        >>> decided_pairs(0, 1), decided_pairs(1, 3)
        ('the pair is not decided', '1 of 3 pairs is decided')
    """
    if total == 1:
        return f"the pair is {'decided' if decided else 'not decided'}"
    return f"{decided} of {total} pairs {'is' if decided == 1 else 'are'} decided"


def read_looks(folder: Path) -> Looks | None:
    """Read the looks of a suite's folder; None if its seeds are not sequential.

    Raises:
        SuiteError: If the file is broken.
    """
    path = folder / LOOKS
    if not path.is_file():
        return None
    try:
        return Looks.model_validate(read_json(path))
    except ValidationError as error:
        raise SuiteError(f"{path}: {first_fault(error)}") from error
