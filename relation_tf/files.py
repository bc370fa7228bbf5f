"""Files written whole or not at all, JSON read with one-line errors, and tables for a terminal."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any

from glue_submit.files import LARGEST as LARGEST
from glue_submit.files import read_bytes as read_bytes
from glue_submit.files import refuse_device as refuse_device
from glue_submit.files import replacing as replacing
from relation_tf.errors import SuiteError, reason_of


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as file:
        file.write(content)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def write_table(path: Path, columns: Mapping[str, Sequence[Any]], separator: str) -> None:
    """Write columns under a header, whole or not at all. Fields hold no separator."""
    rows = zip(*columns.values(), strict=True)
    fields = ((f"{x:.7g}" if isinstance(x, float) else str(x) for x in row) for row in rows)
    lines = [separator.join(columns), *map(separator.join, fields)]
    write_text(path, "\n".join(lines) + "\n")


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table for a terminal; the first column is aligned to the left.

    Example:
        >>> align([["", "a"], ["RTE", "0/3 (1 failed)"]])
        ['                  a', 'RTE  0/3 (1 failed)']
    """
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]) for row in rows]


def align_within(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the lines of a table in parts that fit a width; each part begins with column one.

    Example:
        >>> align_within([["", "one", "two"], ["RTE", "51.1", "52.9"]], 10)
        ['      one', 'RTE  51.1', '', '      two', 'RTE  52.9']
    """
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    parts: list[list[int]] = [[]]
    left = width - first
    for column, size in enumerate(others, start=1):
        if parts[-1] and size + 2 > left:
            parts.append([])
            left = width - first
        parts[-1].append(column)
        left -= size + 2
    lines: list[str] = []
    for part in parts:
        lines += ["", *align([[row[place] for place in (0, *part)] for row in rows])]
    return lines[1:]


def stays_inside(path: str) -> bool:
    r"""Return True if a path is below the folder it is joined to, on every operating system.

    Example:
        >>> stays_inside("tones/train.csv"), stays_inside("../train.csv")
        (True, False)
        >>> stays_inside(r"..\train.csv"), stays_inside("C:train.csv")
        (False, False)
    """
    read = PureWindowsPath(path)  # splits at / and at backslashes
    return not read.anchor and {"..", "~"}.isdisjoint(read.parts)


def expand_home(path: str | os.PathLike[str], where: str = "") -> Path:
    """Expand `~` in a path.

    Raises:
        SuiteError: If the user does not exist; the message starts with `where`.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        is_home = str(path).replace("\\", "/").partition("/")[0] == "~"
        reason = "the home folder is unknown" if is_home else "there is no such user"
        raise SuiteError(f"{where}{path}: {reason}.") from None


def environment_folder(name: str, default: str | Path) -> Path:
    """Return the folder of an environment variable, or the default if it is not set or empty.

    Args:
        name: The variable; its value and the default can begin with `~`.
        default: The default.

    Raises:
        SuiteError: If `~` is a user who does not exist.
    """
    return expand_home(os.environ.get(name) or default, f"{name}: ")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        SuiteError: Where the file is not there or not one.
    """
    try:
        content = json.loads(read_bytes(path))
    except (OSError, ValueError, RecursionError) as error:
        raise SuiteError(f"{path}: expected JSON: {reason_of(error)}") from error
    if not isinstance(content, dict):
        raise SuiteError(f"{path}: expected a JSON object, found {type(content).__name__}")
    return content
