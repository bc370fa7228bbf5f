"""GLUE submissions from the runs of a suite. Free of Keras."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from glue_submit import Packed, SubmissionError, pack
from relation_tf.bench.results import Results


@dataclass(frozen=True)
class Submissions:
    """What became of each method and seed.

    Attributes:
        packed: The zips that were written and checked.
        refused: For each zip that was not, its path and why.
    """

    packed: tuple[Packed, ...]
    refused: tuple[tuple[Path, str], ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.packed:
            yield f"submissions: {len(self.packed)} written and checked"
        filled, refused = defaultdict(list), defaultdict(list)
        for packed in self.packed:
            for task in packed.filled:
                filled[task].append(_name(packed.path))
        for path, reason in self.refused:
            refused[reason].append(_name(path))
        for task, names in filled.items():
            yield f"{task} is filled with the training majority in {_some(names)}"
        for reason, names in refused.items():
            yield f"no submission of {_some(names)}: {reason}"


def write_submissions(results: Results, *, fill_missing: bool = False) -> Submissions:
    """Write, and check, a zip for each method and seed: `OUT/submissions/<method>/seed-<s>.zip`.

    Args:
        results: The results of a suite on GLUE's tasks.
        fill_missing: Fill tasks that have no predictions with the training majority; what is filled
            is listed in each `Packed`.

    Returns:
        What was packed, and what was refused: a zip that lacks a task which may not be filled, or
        whose predictions cannot be. One refusal does not stop the others.
    """
    predictions: dict[tuple[str, int], dict[str, Path]] = defaultdict(dict)
    for run in results.runs:
        for name in results.suite.find_task(run["task"]).answered:
            path = Path(run["folder"]) / "predictions" / f"{name}.test.tsv"
            if path.exists():
                predictions[run["method"], run["seed"]][name] = path
    packed, refused = [], []
    for (method, seed), files in predictions.items():
        path = results.folder / "submissions" / method / f"seed-{seed}.zip"
        try:
            packed.append(pack(files, path, fill_missing=fill_missing))
        except SubmissionError as error:
            refused.append((path, str(error)))
    return Submissions(tuple(packed), tuple(refused))


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _some(names: list[str]) -> str:
    """The names, or how many they are."""
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} zips"
