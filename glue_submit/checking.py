"""Check a submission and list every fault in it."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from glue_submit.files import UNREADABLE, refuse_device
from glue_submit.tables import IN_UTF16, INDEX, is_utf16, meant_files
from glue_submit.tasks import TASKS, SubmissionError, Task, row_table, short

HEADER = "index\tprediction"

# A row of a valid file has at most about 25 bytes; larger files are not unpacked.
_BYTES_PER_ROW = 64
_SPARE_BYTES = 1 << 20

_LINES_SHOWN = 5
_ENTRIES_SHOWN = 25
_NAME_SHOWN = 80
_ENDS = r"(?i)[\W_]*(test|predictions?|results?)$"  # of names of files, such as CoLA_test.tsv


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


_Finding = tuple[str, Fault]
"""The kind of a fault, and the fault."""

_Entry = tuple[str, zipfile.ZipInfo]
"""The name of a file in the archive, and its entry."""


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
    try:
        with _opened(path) as archive:
            return _check_archive(path, archive, counts)
    except zipfile.BadZipFile as error:
        return CheckReport(path, (Fault(None, None, str(error)),))


def read_submission(path: Path) -> dict[str, list[str]]:
    """Read the predictions of a zip by task; files can be missing.

    Raises:
        SubmissionError: If it is no zip, or a file has a fault.
    """
    found = {}
    try:
        with _opened(path) as archive:
            entries = dict(_entries(archive)[1])
            for task in TASKS.values():
                if task.file in entries:
                    content = _read_entry(archive, entries[task.file], _limit(task.test_rows))
                    for _, fault in _file_faults(content, task, task.test_rows):
                        raise SubmissionError(f"{path}: {fault}. See `glue-submit check {path}`")
                    found[task.name] = _predictions(content)
    except zipfile.BadZipFile as error:
        raise SubmissionError(f"{path}: {error}") from error
    return found


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    if path.is_dir():
        raise SubmissionError(
            f"{path}: must be a zip file, not a folder. `glue-submit pack {path}` makes and checks "
            "a zip of its files"
        )
    try:
        refuse_device(path)
        stream = path.open("rb")
    except OSError as error:
        raise SubmissionError(f"{path}: cannot be read: {error.strerror}") from error
    with stream:
        try:
            archive = zipfile.ZipFile(stream)
        except UNREADABLE as error:
            reason = f"cannot be read as a zip archive: {_reason(error)}"
            raise zipfile.BadZipFile(reason) from error
        yield archive


def _entries(archive: zipfile.ZipFile) -> tuple[str, list[_Entry]]:
    """Return the folder of the files, empty if it is not only one, and the entries inside it."""
    # `filename` would be cut at a NUL.
    found = [(entry.orig_filename, entry) for entry in archive.infolist()]
    folders = {
        path.removesuffix(task.file)
        for path in (_with_slashes(name) for name, _ in found)
        for task in TASKS.values()
        if f"/{path}".endswith(f"/{task.file}")
    }
    folder = folders.pop() if len(folders) == 1 else ""
    return folder, [
        (name[len(folder) :] if _with_slashes(name).startswith(folder) else name, entry)
        for name, entry in found
        if not folder.startswith(_with_slashes(name)) or not name.endswith(("/", "\\"))
    ]


def _limit(rows: int) -> int:
    return _SPARE_BYTES + _BYTES_PER_ROW * rows


def _reason(error: BaseException) -> str:
    return _shorten(" ".join(str(error).split()) or type(error).__name__)


def _check_archive(path: Path, archive: zipfile.ZipFile, counts: Mapping[str, int]) -> CheckReport:
    faults, warnings = [], []
    folder, found = _entries(archive)
    if folder:
        message = f"files must be at the top level of the zip; found folder {_shorten(folder)!r}"
        faults.append(Fault(None, None, message))
    entries, names = dict(found), Counter(name for name, _ in found)
    faults += _first_of_each_kind(_entry_faults(names), None, _ENTRIES_SHOWN)
    for task in TASKS.values():
        if task.file not in entries:
            continue
        rows = counts[task.name]
        try:
            content = _read_entry(archive, entries[task.file], _limit(rows))
        except SubmissionError as error:
            faults.append(Fault(task.file, None, str(error)))
            continue
        if ends := content.count(b"\r\n"):
            message = f"expected LF line ends, found {ends:,} CRLF"
            warnings.append(Fault(task.file, None, message))
        findings = [*_file_faults(content, task, rows)]
        faults += _first_of_each_kind(findings, task.file, _LINES_SHOWN)
        if not findings and (constant := constant_column(_predictions(content))):
            warnings.append(Fault(task.file, None, constant))
    return CheckReport(path, tuple(faults), tuple(warnings))


def _with_slashes(name: str) -> str:
    return name.replace("\\", "/")


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


def _predictions(content: bytes) -> list[str]:
    """Return the predictions of a file without faults."""
    return [line.partition("\t")[2] for line in content.decode().splitlines()[1:]]


def _entry_faults(names: Mapping[str, int]) -> Iterator[_Finding]:
    """Yield faults of the file names; `names` has the number of entries of each name."""
    files = {task.file for task in TASKS.values()}
    for task in TASKS.values():
        if task.file not in names:
            yield "missing files", Fault(task.file, None, "missing from the archive")
    for name, times in names.items():
        base = _with_slashes(name).rpartition("/")[2]
        kind, message = "extra files", "extra file, not one of the eleven"
        if name in files:
            kind, message = "repeated files", f"expected once in the archive, found {times} times"
        elif base in files:
            kind, message = "nested files", f"nested; expected {base} outside any folder"
        elif not base:
            kind, message = "folders", "a folder; expected files only"
        elif meant := meant_files(re.sub(_ENDS, "", base.partition(".")[0])):
            message = f"extra file; rename it to {' or '.join(meant)}"
        if kind != "repeated files" or times > 1:
            shown = _shorten(name)
            yield kind, Fault(shown if name and name.isprintable() else ascii(shown), None, message)


def _shorten(text: str) -> str:
    return text if len(text) <= _NAME_SHOWN else f"{text[: _NAME_SHOWN - 3]}..."


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limit: int) -> bytes:
    if entry.flag_bits & 0x1:
        raise SubmissionError("expected no password, found an encrypted file")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise SubmissionError("expected a plain file, found a link")
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

    if is_utf16(content):
        yield found("encoding", IN_UTF16)
        return
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
    text = text.replace("\r\n", "\n").removesuffix("\n")
    rest = text.rstrip("\n")
    if blank := len(text) - len(rest):
        last = rest.count("\n") + 2
        yield found("blank lines", f"expected no blank line at the end, found {blank:,}", last)
    text = rest
    if fault := _fault_of_all_lines(text):
        yield found("format", fault, line=1)
        return
    # Only the first surplus lines are checked.
    shown = rows + 1 + _ENTRIES_SHOWN
    lines = text.split("\n", shown)[:shown]
    header = 1
    if lines[0] != HEADER:
        yield found("header", f"expected the header {HEADER!r}, found {short(lines[0])}", line=1)
        if INDEX.fullmatch(lines[0].partition("\t")[0]):
            header = 0  # the first line is a row
    if (count := text.count("\n") + 1 - header) != rows:
        yield found("row count", f"expected {rows} rows, found {count}")
    for kind, message, row in _row_faults(lines[header:], task, rows):
        yield found(kind, message, None if row is None else row + header + 1)


def _fault_of_all_lines(text: str) -> str | None:
    """Return the fault of a file whose lines are all wrong for the same reason."""
    first = text.partition("\n")[0]
    if text and "\t" not in text:
        return f"expected a tab between index and prediction, found none in {short(first)}"
    if "\r" in text and "\n" not in text:
        return "expected LF line ends, found CR"
    if '"' in text.partition("\t")[0] and text.count('"') > text.count("\n"):
        return f"expected no quotes around values, found {short(first)}"
    if len(columns := first.split("\t")) > 2 or columns == ["prediction", "index"]:
        return f"expected the columns index and prediction, found {short(first)}"
    return None


def _row_faults(
    body: Sequence[str], task: Task, rows: int
) -> Iterator[tuple[str, str, int | None]]:
    """Yield kind, message and number of each wrong row, and the missing indices."""

    @cache
    def refusal(prediction: str) -> str | None:
        try:
            task.spell(prediction)
        except SubmissionError as error:
            return str(error)
        return None

    seen: set[int] = set()
    previous = -1
    for number, row in enumerate(body):
        index, *predictions = row.split("\t")
        if len(predictions) != 1:
            message = f"expected index and prediction, found {short(row)}"
            yield "rows without two columns", message, number
        elif refused := refusal(predictions[0]):
            yield "refused predictions", refused, number
        position = int(index) if INDEX.fullmatch(index) else rows
        if position >= rows:
            message = f"expected an index from 0 to {rows - 1}, found {short(index)}"
            yield "no such index", message, number
        elif position in seen:
            message = f"expected each index once, found {index} again"
            yield "repeated index", message, number
        else:
            if position < previous:
                message = f"expected an index above {previous}, found {index}"
                yield "rows out of order", message, number
            seen.add(position)
            previous = position
    missing = (position for position in range(rows) if position not in seen)
    # Within a gap, value minus order is constant.
    for _, run in groupby(enumerate(missing), lambda pair: pair[1] - pair[0]):
        gap = [position for _, position in run]
        through = f" to {gap[-1]}" if len(gap) > 1 else ""
        message = f"expected index {gap[0]}{through}, found no such row"
        yield "missing index", message, None
