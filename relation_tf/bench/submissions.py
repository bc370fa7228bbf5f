"""GLUE submissions of a suite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from glue_submit import TASKS, Packed, SubmissionError, pack
from relation_tf.bench.results import Results
from relation_tf.bench.run_folder import DIGEST, digest_of, prediction_file, writing
from relation_tf.config.suite import Suite
from relation_tf.errors import SuiteError, join_names
from relation_tf.files import write_json
from relation_tf.tasks.datasets import leaderboard_file
from relation_tf.terminal import advance


@dataclass(frozen=True)
class Submissions:
    """Submissions of each method and seed.

    Attributes:
        packed: Zips that were written and checked.
        refused: Paths of the zips that were not written, and the reasons.
        left_out: Failed and damaged runs on tasks of the leaderboard, and the reasons.
    """

    packed: tuple[Packed, ...]
    refused: tuple[tuple[Path, str], ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.packed:
            yield f"submissions: {len(self.packed)} written and checked"
        zips = defaultdict[str, list[str]](list)
        warnings = defaultdict[str, list[str]](list)
        for packed in self.packed:
            for task in packed.filled:
                value = "mean score" if TASKS[task].labels is None else "majority class"
                line = f"{task}: filled with the {value} of the training set"
                zips[line].append(_name(packed.path))
            warnings[packed.path.parent.name] += packed.warnings
        for path, reason in self.refused:
            zips[f"not written: {reason}"].append(_name(path))
        yield from (f"{line}: {join_names(names)}" for line, names in zips.items())
        for method, (first, *others) in ((k, v) for k, v in warnings.items() if v):
            more = f" (and {len(others)} more)" * bool(others)
            yield f"warning: {method}: {first}{more}"
        yield from (f"left out: {run}: {reason}" for run, reason in self.left_out)


def check_leaderboard(suite: Suite) -> None:
    """Check that a suite has a task of the GLUE leaderboard.

    Raises:
        SuiteError: If it has none.
    """
    if not any(suite.find_task(name).answered for name in suite.tasks):
        raise SuiteError(
            f"suite {suite.name} has no task of the GLUE leaderboard. Its tasks: "
            f"{', '.join(suite.tasks)}"
        )


def write_submissions(results: Results, *, fill_missing: bool = False) -> Submissions:
    """Write and check a zip for each method and seed: `OUT/submissions/<method>/seed-<s>.zip`.

    Next to each zip, `seed-<s>.json` has its SHA-256 and those of the predictions.

    Args:
        results: The results of a suite on GLUE tasks.
        fill_missing: If True, fill tasks without predictions with the majority class of the
            training set; each `Packed` lists the filled tasks.

    Returns:
        The written submissions, and the refused ones: with missing tasks or invalid predictions.

    Raises:
        SuiteError: If no run on a task of the leaderboard is finished, or the suite has no such
            task.
    """
    check_leaderboard(results.suite)
    predictions: dict[tuple[str, int], dict[str, Path]] = defaultdict(dict)
    faults: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for run in results.runs:
        key = run["method"], run["seed"]
        for name, split in results.suite.find_task(run["task"]).answered.items():
            files = predictions[key]  # also if it stays empty
            path = Path(run["folder"]) / "predictions" / prediction_file(name, split)
            rows = run["manifest"]["data"]["rows"].get(split)
            if not path.exists():
                faults[key][name] = f"{leaderboard_file(name)} was missing"
                continue
            files[name] = path
            if rows is not None and rows != TASKS[name].test_rows:
                faults[key][name] = (
                    f"{leaderboard_file(name)} had {rows:,} rows, not {TASKS[name].test_rows:,}"
                )
    if not predictions:
        raise SuiteError(
            f"{results.folder}: nothing to submit: there are no finished runs on tasks of the GLUE "
            "leaderboard" + "".join(f"; {run}: {why}" for run, why in results.failures[:1])
        )
    packed, refused = [], []
    for number, (key, files) in enumerate(predictions.items()):
        advance("zips", number, len(predictions))
        method, seed = key
        path = results.folder / "submissions" / method / f"seed-{seed}.zip"
        wrong = {
            name: fault for name, fault in faults[key].items() if name in files or not fill_missing
        }
        older = ". The file of an earlier command is unchanged" if path.exists() else ""
        if wrong:
            others = [name for name in TASKS if name not in files and name not in wrong]
            reason = _reason(wrong, () if fill_missing else others)
            refused.append((path, f"{reason}{older}"))
            continue
        try:
            packed.append(pack(files, path, fill_missing=fill_missing))
            _record(packed[-1], files, results.folder)
        except SubmissionError as error:
            refused.append((path, f"{error}{older}"))
    left_out = (
        (run, reason)
        for run, reason in results.failures
        if results.suite.find_task(run.partition("/")[0]).answered
    )
    return Submissions(tuple(packed), tuple(refused), tuple(left_out))


def _record(packed: Packed, files: Mapping[str, Path], folder: Path) -> None:
    """Write the SHA-256 of a zip, and of the predictions that it was made from, next to it."""
    made_from = {
        name: {"predictions": path.relative_to(folder).as_posix(), DIGEST: digest_of(path)}
        for name, path in files.items()
    }
    record = {DIGEST: digest_of(packed.path), "made_from": made_from, "filled": [*packed.filled]}
    with writing(folder):
        write_json(packed.path.with_suffix(".json"), record)


def _reason(faults: Mapping[str, str], others: Sequence[str]) -> str:
    """Return why there is no submission, and what to do."""
    files = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
    files += f"; without a finished run: {', '.join(others)}" if others else ""
    return (
        f"{files}. Complete the files and run the suite again with another --out, or fill tasks "
        "without a file with --fill-missing"
    )


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"
