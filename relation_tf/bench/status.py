"""Finished and failed runs of a suite, per task and method. Does not import Keras."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from relation_tf.bench.results import Results, parts_of
from relation_tf.files import align
from relation_tf.words import failed_in_words


@dataclass(frozen=True)
class GroupStatus:
    """Numbers of runs of a task and a method.

    Attributes:
        task: The task.
        method: The method.
        requested: Requested runs.
        done: Finished runs.
        failed: Failed runs.
        diverged: Those of them with losses or outputs that are not finite.
    """

    task: str
    method: str
    requested: int
    done: int
    failed: int
    diverged: int = 0

    def __str__(self) -> str:
        failed = failed_in_words(self.failed, self.diverged)
        return f"{self.done}/{self.requested}{failed and f' ({failed})'}"


@dataclass(frozen=True, repr=False)
class SuiteStatus:
    """Finished and failed runs of a suite; `print` shows a table.

    Attributes:
        suite: Name of the suite.
        folder: The suite's folder.
        groups: One entry per task and method, in the order of the suite.
        failures: Names and errors of the failed runs, and of finished runs with a broken file.
    """

    suite: str
    folder: str
    groups: Sequence[GroupStatus]
    failures: Sequence[tuple[str, str]] = ()

    @classmethod
    def of(cls, results: Results) -> SuiteStatus:
        """Return the status of a folder's results.

        Example:
            >>> import tempfile
            >>> from pathlib import Path
            >>> from relation_tf.bench import RunFolder, SuiteStatus, read_results
            >>> from relation_tf.config import load_suite
            >>> folder = tempfile.mkdtemp()
            >>> RunFolder(Path(folder)).open(load_suite("demo", {"tasks": ["RTE"]}))
            >>> SuiteStatus.of(read_results(folder)).count("requested")
            20
        """
        requested = Counter((config.task, config.method) for config in results.requested)
        done = Counter((run["task"], run["method"]) for run in results.runs)
        failed = Counter(parts_of(run)[:2] for run, _ in results.failures)
        diverged = Counter(parts_of(run)[:2] for run in results.diverged)
        counts = requested, done, failed, diverged
        keys = [
            (task, str(m.name)) for task in results.suite.tasks for m in results.suite.methods()
        ]
        return cls(
            results.suite.name,
            str(results.folder),
            [GroupStatus(*key, *(each[key] for each in counts)) for key in keys],
            results.failures,
        )

    def count(self, kind: str) -> int:
        """Return the number of runs of all groups, such as `"done"`, a field of `GroupStatus`."""
        return sum(getattr(group, kind) for group in self.groups)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of `relation-tf status --json`."""
        return {
            "suite": self.suite,
            "folder": self.folder,
            **{kind: self.count(kind) for kind in ("requested", "done", "failed", "diverged")},
            "groups": [asdict(group) for group in self.groups],
            "failures": [{"run": run, "error": error} for run, error in self.failures],
        }

    def __str__(self) -> str:
        methods = [*dict.fromkeys(group.method for group in self.groups)]
        rows: dict[str, list[str]] = {"": methods}
        for group in self.groups:
            rows.setdefault(group.task, []).append(str(group))
        table = align([[head, *cells] for head, cells in rows.items()])
        done = f"{self.count('done')} of {self.count('requested')} runs done"
        failed = failed_in_words(self.count("failed"), self.count("diverged")) or "0 failed"
        return "\n".join([*table, f"{done}, {failed}"])

    __repr__ = __str__
