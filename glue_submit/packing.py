"""Write and check a submission: eleven files in one flat zip."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from glue_submit.checking import check, constant_column, file_of
from glue_submit.files import replacing
from glue_submit.tables import Predictions, in_index_order, locate
from glue_submit.tasks import TASKS, SubmissionError, row_table

# The earliest time in a zip; with a fixed time, equal predictions give equal bytes.
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Packed:
    """A submission that was written.

    Attributes:
        path: The zip file.
        filled: Names of the tasks without predictions, filled with the majority class of the
            training set.
        warnings: Probable mistakes that the leaderboard accepts, one line each.
    """

    path: Path
    filled: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a short report."""
        lines = [f"warning: {warning}" for warning in self.warnings]
        lines += [f"filled: {name} with {TASKS[name].majority}" for name in self.filled]
        return "\n".join([*lines, f"{self.path}: written and checked, {len(TASKS)} files"])


def pack(
    predictions: Predictions,
    path: str | os.PathLike[str],
    *,
    fill_missing: bool = False,
    rows: Mapping[str, int] | None = None,
) -> Packed:
    """Write predictions for the eleven test sets as one zip for the leaderboard.

    The zip is written to a temporary file, checked by `check` and then moved to `path`, so that
    `path` is never incomplete. Equal predictions give equal bytes.

    Args:
        predictions: A folder with `<Task>.tsv` or `<Task>.test.tsv`, also in its folder
            `predictions`; or a mapping from task names to such a file, or to a sequence of
            predictions in the order of the test set. Rows of a file may be in any order; other
            columns are ignored. STS-B scores must be in [0, 5].
        path: Path of the zip; its folder is created if necessary.
        fill_missing: If True, fill missing tasks with the majority class of the training set.
        rows: Row counts to use instead of the official ones, by task name.

    Returns:
        The path, the filled tasks and warnings.

    Raises:
        SubmissionError: If a task is missing or the predictions are invalid; the message names the
            file, the line, and the expected and received values. Nothing is written then.

    Example:
        >>> import tempfile
        >>> from glue_submit import check, pack
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     packed = pack({"WNLI": [0, 1] * 73}, f"{folder}/s.zip", fill_missing=True)
        ...     check(packed.path).ok, packed.filled[:2]
        (True, ('CoLA', 'SST-2'))
    """
    path, counts, sources = Path(path), row_table(rows), locate(predictions, "test")
    missing = tuple(name for name in TASKS if name not in sources)
    unknown = _unknown_files(predictions)
    if missing and not fill_missing:
        others = f" (not used: {', '.join(unknown)})" if unknown else ""
        raise SubmissionError(
            f"predictions are needed for {len(TASKS)} tasks; missing: {', '.join(missing)}"
            f"{others}. Add "
            "them, or use --fill-missing to submit the majority class of the training set "
            "(STS-B: the mean score)"
        )
    members, warnings = {}, [f"{name}: not packed, no task has this name" for name in unknown]
    for task in TASKS.values():
        count = counts[task.name]
        if task.name in missing:
            column = [task.majority] * count
        else:
            column = in_index_order(sources[task.name], task, count, task.spell)
            if constant := constant_column(column):
                warnings.append(f"{task.file}: {constant}")
        members[task.file] = file_of(column)
    _write(path, members, rows)
    return Packed(path, missing, tuple(warnings))


def _unknown_files(predictions: Predictions) -> list[str]:
    """Return the names of `*.tsv` files of a folder that do not begin with the name of a task."""
    if isinstance(predictions, Mapping):
        return []
    folders = [predictions] if isinstance(predictions, str | os.PathLike) else predictions
    files = [
        file for x in folders for y in ("", "predictions") for file in Path(x, y).glob("*.tsv")
    ]
    return sorted(file.name for file in files if file.name.split(".")[0] not in TASKS)


def _write(path: Path, members: Mapping[str, bytes], rows: Mapping[str, int] | None) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
                for name, content in members.items():
                    archive.writestr(_entry(name), content)
            draft.flush()
            report = check(draft.name, rows=rows)
            if not report.ok:
                raise SubmissionError(f"{path}: the written zip is invalid: {report.faults[0]}")
    except OSError as error:
        raise SubmissionError(f"{path}: cannot be written: {error.strerror or error}") from error


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _TIMESTAMP)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix on every machine, so that the bytes are equal
    entry.external_attr = 0o100644 << 16
    return entry
