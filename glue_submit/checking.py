"""Check a submission and list every fault in it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from glue_submit.files import UNREADABLE, refuse_device
from glue_submit.tables import INDEX
from glue_submit.tasks import TASKS, SubmissionError, Task, row_table, short

HEADER = "index\tprediction"

# A row of a valid file has at most about 25 bytes; larger files are not unpacked.
_BYTES_PER_ROW = 64
_SPARE_BYTES = 1 << 20

# Limit of the directory, which `zipfile` reads first; that of eleven files has about 600 bytes.
_DIRECTORY_BYTES = 1 << 20

_LINES_SHOWN = 5
_ENTRIES_SHOWN = 25
_NAME_SHOWN = 80
_MISSING = "missing from the archive"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault or warning about an archive.

    Attributes:
        file: The file in the archive; `None` for the archive itself.
        line: The line in the file, from 1; `None` for the whole file.
        message: Expected and received values.
    """

    file: str | None
    line: int | None
    message: str

    def __str__(self) -> str:
        """Return one line: file, line, message."""
        place = [self.file] if self.file else []
        place += [f"line {self.line}"] if self.line else []
        return f"{', '.join(place)}: {self.message}" if place else self.message


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Result of `check`; `str()` gives one line per finding, then the verdict.

    Attributes:
        path: The archive.
        faults: Reasons why the leaderboard would refuse or misread the archive.
        warnings: Findings that the leaderboard accepts, such as a file of equal predictions.
    """

    path: Path
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()

    @property
    def ok(self) -> bool:
        """If True, the archive has no faults."""
        return not self.faults

    def __str__(self) -> str:
        """Return the report as text."""
        lines = [f"fault: {fault}" for fault in self.faults]
        lines += [f"warning: {warning}" for warning in self.warnings]
        verdict = "accepted" if self.ok else "refused"
        counts = [
            f"{len(found)} {noun}{'s' if len(found) > 1 else ''}"
            for noun, found in (("fault", self.faults), ("warning", self.warnings))
            if found
        ]
        summary = f" ({', '.join(counts)})" if counts else ""
        return "\n".join([*lines, f"{self.path}: {verdict}{summary}"])


class _File(io.BufferedReader):
    """File that refuses to read more than `most` bytes at once."""

    most = _DIRECTORY_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self.most:
            raise zipfile.BadZipFile(f"a directory of {size:,} bytes, more than {self.most:,}")
        return super().read(size)


_Finding = tuple[str, Fault]
"""The kind of a fault, and the fault."""


def _first_of_each_kind(
    findings: Iterable[_Finding], file: str | None, shown: int
) -> Iterator[Fault]:
    """Yield the first faults of each kind, and the number of others."""
    named: dict[str, list[Fault]] = {}
    counts: Counter[str] = Counter()
    for kind, fault in findings:
        counts[kind] += 1
        if counts[kind] <= shown:
            named.setdefault(kind, []).append(fault)
    for kind, faults in named.items():
        yield from faults
        if (more := counts[kind] - shown) > 0:
            yield Fault(file, None, f"... and {more:,} more: {kind}")


def check(path: str | os.PathLike[str], *, rows: Mapping[str, int] | None = None) -> CheckReport:
    r"""Check that the leaderboard would accept a zip, and list every fault in it.

    Nothing is unpacked to disk, and files are read into memory only up to the maximum size of a
    valid file. Of many faults of the same kind in a file, the first are listed and the others
    counted.

    Args:
        path: The zip file.
        rows: Row counts to use instead of the official ones, by task name.

    Returns:
        The report. A file that is not a zip is a fault.

    Raises:
        SubmissionError: If the file does not exist or cannot be read.

    Example:
        >>> import tempfile, zipfile
        >>> from glue_submit import check
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with zipfile.ZipFile(f"{folder}/s.zip", "w") as archive:
        ...         archive.writestr("CoLA.tsv", "index\tprediction\n0\tyes\n")
        ...     report = check(f"{folder}/s.zip", rows={"CoLA": 1})
        >>> report.ok, str(report.faults[-1])
        (False, "CoLA.tsv, line 2: expected 0 or 1, found 'yes'")
    """
    path, counts = Path(path), row_table(rows)
    warnings = []
    try:
        with _opened(path) as archive:
            # `filename` would be cut at a NUL.
            entries = {entry.orig_filename: entry for entry in archive.infolist()}
            names = Counter(entry.orig_filename for entry in archive.infolist())
            faults = [*_first_of_each_kind(_entry_faults(names), None, _ENTRIES_SHOWN)]
            for task in TASKS.values():
                if task.file not in entries:
                    continue
                rows_of_task = counts[task.name]
                try:
                    content = _read_entry(archive, entries[task.file], rows_of_task)
                except SubmissionError as error:
                    faults.append(Fault(task.file, None, str(error)))
                    continue
                if ends := content.count(b"\r\n"):
                    message = f"expected LF line ends, found {ends:,} CRLF"
                    warnings.append(Fault(task.file, None, message))
                findings = _file_faults(content, task, rows_of_task)
                found = [*_first_of_each_kind(findings, task.file, _LINES_SHOWN)]
                faults += found
                if not found and (constant := constant_column(_predictions(content))):
                    warnings.append(Fault(task.file, None, constant))
    except zipfile.BadZipFile as error:
        faults = [Fault(None, None, str(error))]
    return CheckReport(path, tuple(faults), tuple(warnings))


def read_submission(path: Path) -> dict[str, list[str]]:
    """Read the predictions of a zip by task; files can be missing.

    Raises:
        SubmissionError: If it is no zip, or a file has a fault.
    """
    tasks = {task.file: task for task in TASKS.values()}
    for fault in check(path).faults:
        if fault.file in tasks and fault.message != _MISSING:
            raise SubmissionError(f"{path}: {fault}. See `glue-submit check {path}`")
    try:
        with _opened(path) as archive:
            entries = {entry.orig_filename: entry for entry in archive.infolist()}
            return {
                task.name: _predictions(_read_entry(archive, entries[file], task.test_rows))
                for file, task in tasks.items()
                if file in entries
            }
    except zipfile.BadZipFile as error:
        raise SubmissionError(f"{path}: {error}") from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    if path.is_dir():
        raise SubmissionError(f"{path}: must be a zip file, not a folder")
    try:
        refuse_device(path)
        stream = _File(io.FileIO(path))
    except OSError as error:
        raise SubmissionError(f"{path}: cannot be read: {error.strerror}") from error
    with stream:
        try:
            archive = zipfile.ZipFile(stream)
        except UNREADABLE as error:
            reason = f"cannot be read as a zip archive: {_reason(error)}"
            raise zipfile.BadZipFile(reason) from error
        stream.most = sys.maxsize  # files have other limits
        yield archive


def _reason(error: BaseException) -> str:
    return _shorten(" ".join(str(error).split()) or type(error).__name__)


def constant_column(predictions: Sequence[str]) -> str | None:
    """Return a warning if all predictions are equal, else None.

    Example:
        >>> from glue_submit.checking import constant_column
        >>> constant_column(["1", "1"]), constant_column(["1", "0"])
        ('all 2 predictions are 1', None)
    """
    if len(predictions) < 2 or len({*predictions}) > 1:
        return None
    return f"all {len(predictions):,} predictions are {predictions[0]}"


def file_of(predictions: Sequence[str]) -> bytes:
    r"""Return the content of the file with some predictions.

    Example:
        >>> from glue_submit.checking import file_of
        >>> file_of(["1", "0"])
        b'index\tprediction\n0\t1\n1\t0\n'
    """
    rows = (f"{index}\t{prediction}\n" for index, prediction in enumerate(predictions))
    return "".join([f"{HEADER}\n", *rows]).encode()


def _predictions(content: bytes) -> list[str]:
    """Return the predictions of a file without faults."""
    return [line.partition("\t")[2] for line in content.decode().splitlines()[1:]]


def _entry_faults(names: Mapping[str, int]) -> Iterator[_Finding]:
    """Yield faults of the file names; `names` has the number of entries of each name."""
    files = {task.file for task in TASKS.values()}
    for task in TASKS.values():
        if task.file not in names:
            yield "missing files", Fault(task.file, None, _MISSING)
    for name, times in names.items():
        if name not in files:
            shown = _shorten(name) if name and name.isprintable() else ascii(_shorten(name))
            message = "not one of the eleven files at the top level"
            if name.rpartition("/")[2] in files:
                message = "in a folder: zip the files, not their folder"
            yield "extra files", Fault(shown, None, message)
        elif times > 1:
            message = f"expected once in the archive, found {times} times"
            yield "repeated files", Fault(name, None, message)


def _shorten(text: str) -> str:
    return text if len(text) <= _NAME_SHOWN else f"{text[: _NAME_SHOWN - 3]}..."


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, rows: int) -> bytes:
    limit = _SPARE_BYTES + _BYTES_PER_ROW * rows
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise SubmissionError(
            f"expected the method store (0) or deflate (8), found method {entry.compress_type}"
        )
    if entry.file_size > limit:
        raise SubmissionError(f"expected at most {limit:,} bytes, found {entry.file_size:,}")
    try:
        with archive.open(entry) as stream:
            # With a limit, because the declared size may be wrong.
            return stream.read(limit + 1)
    except UNREADABLE as error:
        raise SubmissionError(f"cannot be read: {_reason(error)}") from error


def _file_faults(content: bytes, task: Task, rows: int) -> Iterator[_Finding]:
    """Yield the faults of a file."""

    def found(kind: str, message: str, line: int | None = None) -> _Finding:
        return kind, Fault(task.file, line, message)

    if content.startswith(b"\xef\xbb\xbf"):
        # The mark would become a part of the first column's name.
        yield found("byte order mark", "expected the header first, found a byte order mark", line=1)
        content = content[3:]
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        yield found("encoding", f"expected UTF-8, found {error.reason}", line)
        text = content.decode("utf-8", "backslashreplace")
    # Only the first surplus lines are checked.
    shown = rows + 1 + _ENTRIES_SHOWN
    text = text.replace("\r\n", "\n").removesuffix("\n")
    header, *lines = text.split("\n", shown)[:shown]
    if header != HEADER:
        yield found("header", f"expected the header {HEADER!r}, found {short(header)}", line=1)
    if (count := text.count("\n")) != rows:
        yield found("row count", f"expected {rows} rows, found {count}")

    @cache
    def refusal(prediction: str) -> str | None:
        try:
            task.spell(prediction)
        except SubmissionError as error:
            return str(error)
        return None

    predictions = [line.partition("\t")[2] for line in lines]
    in_order = len(lines) == rows and content == file_of(predictions)
    if in_order and not any(map(refusal, {*predictions})):
        return  # early, because QQP has 390,965 rows
    seen: set[int] = set()
    previous = -1
    for number, row in enumerate(lines, 2):
        index, *others = row.split("\t")
        if len(others) != 1:
            message = f"expected index and prediction, found {short(row)}"
            yield found("rows without two columns", message, number)
        elif refused := refusal(others[0]):
            yield found("refused predictions", refused, number)
        position = int(index) if INDEX.fullmatch(index) else rows
        if position >= rows:
            message = f"expected an index from 0 to {rows - 1}, found {short(index)}"
            yield found("no such index", message, number)
        elif position in seen:
            message = f"expected each index once, found {index} again"
            yield found("repeated index", message, number)
        else:
            if position < previous:
                message = f"expected an index above {previous}, found {index}"
                yield found("rows out of order", message, number)
            seen.add(position)
            previous = position
    for position in range(rows):
        if position not in seen:
            yield found("missing index", f"expected index {position}, found no such row")
