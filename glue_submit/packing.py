"""Write a submission: eleven files in one flat zip, read back and checked."""

from __future__ import annotations

import os
import secrets
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from glue_submit.checking import HEADER, check
from glue_submit.errors import SubmissionError
from glue_submit.tables import Predictions, in_index_order, locate
from glue_submit.tasks import TASKS, received, row_table

# The earliest time that a zip can hold: equal predictions give equal bytes.
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Packed:
    """A submission that was written.

    Attributes:
        path: The zip file.
        filled: Names of the tasks that had no predictions and hold the training-set majority.
        warnings: What the leaderboard takes but the author may not have meant, a line each.
    """

    path: Path
    filled: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Read as a short report, a line each."""
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
    """Write predictions for the eleven test sets as one zip that the leaderboard takes.

    The zip is written beside `path` under another name, read back by `check`, and only then moved
    to `path`, so a zip at `path` is always whole. Equal predictions give equal bytes.

    Args:
        predictions: A folder with `<Task>.tsv` or `predictions/<Task>.tsv`, or a mapping from task
            names to such a file, to a data frame with the columns `index` and `prediction`, or to
            a sequence of predictions in the order of the test set. Rows of a file or frame may
            come in any order; further columns are ignored. STS-B must lie within [0, 5].
        path: Where the zip goes; its folder is made if need be.
        fill_missing: Fill a task that is absent with the majority of its official training set.
        rows: Row counts that stand in for the official ones, by task name.

    Returns:
        The path, the tasks that were filled, and warnings.

    Raises:
        SubmissionError: A task is missing, or predictions are not what the leaderboard takes; the
            message names file, line, what was expected and what came. Nothing is written then.

    Example:
        >>> import tempfile
        >>> from glue_submit import check, pack
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     packed = pack({"WNLI": [0, 1] * 73}, f"{folder}/s.zip", fill_missing=True)
        ...     check(packed.path).ok, packed.filled[:2]
        (True, ('CoLA', 'SST-2'))
    """
    path, counts, sources = Path(path), row_table(rows), locate(predictions)
    missing = tuple(name for name in TASKS if name not in sources)
    if missing and not fill_missing:
        raise SubmissionError(
            f"expected predictions for {len(TASKS)} tasks, but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing (fill_missing, or --fill-missing, "
            f"puts the training-set majority there). Received: {', '.join(sources) or 'none'}"
        )
    if not sources:
        raise SubmissionError(
            "expected predictions for at least one task, found none: a submission of fills alone "
            f"answers nothing. {received(predictions)}"
        )
    members, warnings = {}, []
    for task in TASKS.values():
        count = counts[task.name]
        if task.name in missing:
            column = [task.majority] * count
        else:
            column = in_index_order(sources[task.name], task, count, task.spell)
            if count > 1 and len(set(column)) == 1:
                warnings.append(f"{task.file}: all {count} predictions are {column[0]}")
        rows_of_task = (f"{index}\t{prediction}\n" for index, prediction in enumerate(column))
        members[task.file] = "".join([f"{HEADER}\n", *rows_of_task]).encode()
    _write(path, members, rows)
    return Packed(path, missing, tuple(warnings))


def _write(path: Path, members: Mapping[str, bytes], rows: Mapping[str, int] | None) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with zipfile.ZipFile(draft, "x", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
                for name, content in members.items():
                    archive.writestr(_entry(name), content)
            report = check(draft, rows=rows)
            if not report.ok:
                raise SubmissionError(
                    f"{path}: expected the zip to read back. Received: {report.faults[0]}"
                )
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise SubmissionError(
            f"{path}: expected a place to write. Received: {error.strerror or error}"
        ) from error


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _TIMESTAMP)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix on every machine, or the bytes would tell them apart
    entry.external_attr = 0o100644 << 16
    return entry
