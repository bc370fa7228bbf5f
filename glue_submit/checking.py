"""Check a submission, whoever wrote it, and name every fault in it."""

from __future__ import annotations

import io
import os
import stat
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from glue_submit.errors import UNREADABLE, SubmissionError
from glue_submit.tables import INDEX
from glue_submit.tasks import TASKS, Task, received, row_table

HEADER = "index\tprediction"

# A row of the largest honest file takes about 25 bytes; more than this is never unpacked.
_BYTES_PER_ROW = 64
_SPARE_BYTES = 1 << 20

# Of the archive's directory, which zipfile reads whole before anything can be asked of it; that of
# eleven files takes about 600 bytes.
_DIRECTORY_BYTES = 1 << 20

_LINES_SHOWN = 5
_ENTRIES_SHOWN = 25
_NAME_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, or for a warning odd, in an archive.

    Attributes:
        file: The file in the archive; `None` for the archive itself.
        line: The line in that file, from 1; `None` for the file as a whole.
        message: What was expected and what came.
    """

    file: str | None
    line: int | None
    message: str

    def __str__(self) -> str:
        """Read as one line: file, line, message."""
        place = [self.file] if self.file else []
        place += [f"line {self.line}"] if self.line else []
        return f"{', '.join(place)}: {self.message}" if place else self.message


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `check` found; `str()` gives a line for each finding, then the verdict.

    Attributes:
        path: The archive.
        faults: Why the leaderboard would refuse it or might misread it.
        warnings: What it takes all the same.
    """

    path: Path
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the archive has no fault."""
        return not self.faults

    def __str__(self) -> str:
        """Read as lines for people."""
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
    """A file of which no more than `largest` bytes are read at once."""

    largest = _DIRECTORY_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self.largest:
            raise zipfile.BadZipFile(f"a directory of {size:,} bytes, more than {self.largest:,}")
        return super().read(size)


class _Findings:
    """Faults grouped by kind: the first few of a kind in full, the others counted."""

    def __init__(self, file: str | None, shown: int) -> None:
        self._file = file
        self._shown = shown
        self._named: dict[str, list[Fault]] = {}
        self._counts: Counter[str] = Counter()

    def add(
        self, kind: str, message: str, line: int | None = None, file: str | None = None
    ) -> None:
        self._counts[kind] += 1
        named = self._named.setdefault(kind, [])
        if len(named) < self._shown:
            named.append(Fault(file or self._file, line, message))

    def __iter__(self) -> Iterator[Fault]:
        for kind, named in self._named.items():
            yield from named
            if (more := self._counts[kind] - len(named)) > 0:
                yield Fault(self._file, None, f"... and {more:,} more: {kind}")


def check(path: str | os.PathLike[str], *, rows: Mapping[str, int] | None = None) -> CheckReport:
    r"""Check whether the leaderboard would take a zip, and name every fault in it.

    Nothing is unpacked to disk, and no more of a file is unpacked to memory than an honest one of
    its rows could hold. Of many faults of one kind in one file the first few are named and the
    others counted.

    Args:
        path: The zip file.
        rows: Row counts that stand in for the official ones, by task name.

    Returns:
        The report. A file that is not a zip is a fault too.

    Raises:
        SubmissionError: There is no such file, or it may not be read.

    Example:
        >>> import tempfile, zipfile
        >>> from glue_submit import check
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with zipfile.ZipFile(f"{folder}/s.zip", "w") as archive:
        ...         archive.writestr("CoLA.tsv", "index\tprediction\n0\tyes\n")
        ...     report = check(f"{folder}/s.zip", rows={"CoLA": 1})
        >>> report.ok, str(report.faults[-1])
        (False, "CoLA.tsv, line 2: expected one of 0, 1. Received: 'yes'")
    """
    path, counts = Path(path), row_table(rows)
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "no such file"
        raise SubmissionError(f"{path}: expected a zip file. Received: {kind}")
    try:
        stream = _File(io.FileIO(path))
    except OSError as error:
        raise SubmissionError(
            f"{path}: expected a readable file. Received: {error.strerror}"
        ) from error
    with stream:
        try:
            archive = zipfile.ZipFile(stream)
        except UNREADABLE as error:
            fault = Fault(None, None, f"expected a zip archive. Received: {_reason(error)}")
            return CheckReport(path, (fault,))
        with archive:
            stream.largest = sys.maxsize  # what is read from here on has bounds of its own
            return _check_archive(path, archive, counts)


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _NAME_SHOWN else f"{text[: _NAME_SHOWN - 3]}..."


def _check_archive(path: Path, archive: zipfile.ZipFile, counts: Mapping[str, int]) -> CheckReport:
    faults, warnings = list(_entry_faults(archive)), []
    entries = {entry.orig_filename: entry for entry in archive.infolist()}
    for task in TASKS.values():
        if task.file not in entries:
            continue
        rows = counts[task.name]
        try:
            content = _read_entry(archive, entries[task.file], _SPARE_BYTES + _BYTES_PER_ROW * rows)
        except SubmissionError as error:
            faults.append(Fault(task.file, None, str(error)))
            continue
        found, odd = _check_file(content, task, rows)
        faults += found
        warnings += odd
    return CheckReport(path, tuple(faults), tuple(warnings))


def _entry_faults(archive: zipfile.ZipFile) -> _Findings:
    findings = _Findings(None, _ENTRIES_SHOWN)
    files = {task.file for task in TASKS.values()}
    spelling = {file.lower(): file for file in files}
    # The name as it is stored: zipfile's `filename` is cut at a NUL.
    names = Counter(entry.orig_filename for entry in archive.infolist())
    for task in TASKS.values():
        if task.file not in names:
            findings.add("missing files", "missing from the archive", file=task.file)
    for name, times in names.items():
        base = name.replace("\\", "/").rpartition("/")[2]
        shown = name if len(name) <= _NAME_SHOWN else f"{name[: _NAME_SHOWN - 3]}..."
        shown = shown if name and name.isprintable() else ascii(shown)
        if name in files:
            if times > 1:
                findings.add(
                    "repeated files", f"expected once in the archive. Received: {times}", file=shown
                )
        elif base in files:
            findings.add("nested files", f"nested; expected {base} outside any folder", file=shown)
        elif not base:
            findings.add("folders", "a folder; expected files only", file=shown)
        elif base.lower() in spelling:
            findings.add(
                "extra files", f"extra file; expected it as {spelling[base.lower()]}", file=shown
            )
        else:
            findings.add("extra files", "extra file, not one of the eleven", file=shown)
    return findings


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limit: int) -> bytes:
    if entry.flag_bits & 0x1:
        raise SubmissionError("expected no password. Received: an encrypted file")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise SubmissionError("expected a plain file. Received: a link")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise SubmissionError(
            f"expected the method store (0) or deflate (8). Received: method {entry.compress_type}"
        )
    if entry.file_size > limit:
        raise SubmissionError(f"expected at most {limit:,} bytes. Received: {entry.file_size:,}")
    try:
        with archive.open(entry) as stream:
            # With a bound, for the size that the entry declares may be a lie.
            return stream.read(limit + 1)
    except UNREADABLE as error:
        raise SubmissionError(f"expected a readable file. Received: {_reason(error)}") from error


def _check_file(content: bytes, task: Task, rows: int) -> tuple[list[Fault], list[Fault]]:
    findings = _Findings(task.file, _LINES_SHOWN)
    warnings = []
    if content.startswith(b"\xef\xbb\xbf"):
        # Read as plain UTF-8 the mark belongs to the first column's name, which is then not found.
        findings.add(
            "byte order mark", "expected the header first. Received: a byte order mark", line=1
        )
        content = content[3:]
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        findings.add("encoding", f"expected UTF-8. Received: {error.reason}", line=line)
        text = content.decode("utf-8", "backslashreplace")
    if ends := text.count("\r\n"):
        warnings.append(Fault(task.file, None, f"expected LF line ends. Received: {ends:,} CRLF"))
        text = text.replace("\r\n", "\n")
    # Of lines beyond the last that there may be a few are enough to name.
    text, shown = text.removesuffix("\n"), rows + 1 + _ENTRIES_SHOWN
    lines = text.split("\n", shown)[:shown]
    body = lines[1:]
    if lines[0] != HEADER:
        findings.add("header", f"expected the header {HEADER!r}. {received(lines[0])}", line=1)
        if INDEX.fullmatch(lines[0].partition("\t")[0]):
            body = lines  # no header at all: the first line is a row
    if not _rows_are_right(body, task, rows):
        header = len(lines) - len(body)
        if (count := text.count("\n") + 1 - header) != rows:
            findings.add("row count", f"expected {rows} rows. Received: {count}")
        _find_row_faults(findings, body, header + 1, task, rows)
    return list(findings), warnings


def _rows_are_right(body: Sequence[str], task: Task, rows: int) -> bool:
    if len(body) != rows:
        return False
    cells = [row.partition("\t") for row in body]
    return [index for index, _, _ in cells] == list(map(str, range(rows))) and not any(
        _refusal(task, prediction) for prediction in {prediction for _, _, prediction in cells}
    )


def _refusal(task: Task, prediction: str) -> str | None:
    try:
        task.spell(prediction)
    except SubmissionError as error:
        return str(error)
    return None


def _find_row_faults(
    findings: _Findings, body: Sequence[str], first_line: int, task: Task, rows: int
) -> None:
    refusal = cache(lambda prediction: _refusal(task, prediction))
    line_of: dict[int, int] = {}
    previous = -1
    for line, row in enumerate(body, first_line):
        index, *predictions = row.split("\t")
        if len(predictions) != 1:
            findings.add(
                "rows without two columns", f"expected index and prediction. {received(row)}", line
            )
        elif message := refusal(predictions[0]):
            findings.add("refused predictions", message, line)
        position = int(index) if INDEX.fullmatch(index) else rows
        if position >= rows:
            findings.add(
                "no such index", f"expected an index from 0 to {rows - 1}. {received(index)}", line
            )
        elif position in line_of:
            findings.add(
                "repeated index",
                f"expected each index once. Received: {index} again, first on line "
                f"{line_of[position]}",
                line,
            )
        else:
            if position < previous:
                findings.add(
                    "rows out of order",
                    f"expected an index above {previous}. Received: {index}",
                    line,
                )
            line_of[position] = line
            previous = position
    missing = (position for position in range(rows) if position not in line_of)
    # Neighbours differ by one in value and in order alike, so each gap has one difference.
    for _, run in groupby(enumerate(missing), lambda pair: pair[1] - pair[0]):
        gap = [position for _, position in run]
        through = f" to {gap[-1]}" if len(gap) > 1 else ""
        findings.add("missing index", f"expected index {gap[0]}{through}. Received: no such row")
