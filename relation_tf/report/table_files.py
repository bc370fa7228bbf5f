"""Files of scores as tables: CSV with any separator, Excel, Parquet, JSON and JSON Lines."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pandas as pd

from relation_tf.errors import DataError, join_names, quote, reason_of
from relation_tf.files import LARGEST

_SEPARATORS = ";,\t|"  # `A;80,5` has as many commas
_COMMA_DECIMAL = re.compile(r"[+−-]?(\d+,\d+|\d{1,3}(\.\d{3})+,\d+)([eE][+-]?\d+)? ?%?")
_POINT_DECIMAL = re.compile(r"[+−-]?\d*\.\d+([eE][+-]?\d+)? ?%?")
_THOUSANDS = re.compile(r"[+−-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)? ?%?")
_NUMBER = re.compile(r"[+−-]?(\d+|\d*[.,]\d+)")
_MOST_CELLS = 5_000_000  # of a sheet
_RULE = re.compile(r":?-+:?")
_MARKUP = re.compile(r"<(su[bp])>.*?</\1>|</?\w+ ?/?>|\[([^]]+)\]\([^)]*\)")  # of Markdown


def read_table_file(path: Path) -> pd.DataFrame:
    """Read a table of scores.

    The format follows from the end of the name: `.xlsx`, `.parquet`, `.jsonl`, `.ndjson`, `.json`
    (a list of objects), else text with separated fields. Text can be UTF-8 or UTF-16; separators
    are commas, semicolons, tabs or bars, whichever splits the lines into the most fields, or else
    spaces. Commas in numbers are decimal if they cannot separate thousands and no number has a
    decimal point.

    Returns:
        The cells, as text for text files; without blank rows. The index has the place of each row,
        such as "scores.csv:7".

    Raises:
        DataError: If the file cannot be read, is too large or has no header, or if a row has
            another number of fields; the message names the line.
    """
    if path.is_file() and path.stat().st_size > LARGEST:
        raise DataError(f"{path}: a table of scores must have at most {LARGEST / 2**20:,.0f} MiB")
    if path.suffix.lower() == ".tex":
        raise DataError(f"{path}: LaTeX cannot be read; convert the table to Markdown or CSV")
    read = _READERS.get(path.suffix.lower(), _read_text)
    try:
        table = read(path)
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {reason_of(error)}") from error
    except ImportError as error:
        raise DataError(
            f"{path}: {path.suffix} needs the extra 'tables': pip install 'relation_tf[tables]'"
        ) from error
    except Exception as error:  # readers of damaged archives raise errors of many kinds
        raise DataError(f"{path}: is not a {path.suffix} file, or damaged") from error
    if table.columns.empty:
        raise DataError(f"{path}: the file is empty; it must have a header and one row per score")
    blank = table.map(lambda cell: cell is None or cell != cell or not str(cell).strip())
    return table[~blank.all(axis=1)]


def _read_text(path: Path) -> pd.DataFrame:
    text = re.sub(r"(?m)[^\S\n\t]+$", "", _decoded(path))
    separator = _separator(text)
    if separator == "|":  # Markdown
        text = re.sub(r"(?m)^[^\S\n]*\|(.*)\|[^\S\n]*$", r"\1", text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    read = [([field.strip() for field in fields], reader.line_num) for fields in reader]
    if separator == "|":
        read = [([*map(_without_markup, fields)], n) for fields, n in read]
    read = [(x, n) for x, n in read if any(x) and not all(map(_RULE.fullmatch, x))]
    is_table = any(any(fields[1:]) for fields, _ in read)
    while is_table and len(read) > 1 and _is_title(read[0][0], read[1][0]):
        read = read[1:]
    header, first_line = read[0] if read else ([], 1)
    header[:1] = [name.removeprefix("# ") for name in header[:1]]
    if separator in " \t" and len(read) > 1 and len(read[1][0]) == len(header) + 1:
        header.insert(0, "")  # R writes no name of the rows
    for fields, line_number in read[1:]:
        if len(fields) != len(header):
            line = separator.join(fields)
            decimal = separator == "," and re.search(r"(^|,)[+-]?\d+,\d+(,|$)", line)
            hint = ". Numbers must have a decimal point if commas separate fields" * bool(decimal)
            raise DataError(
                f"{path}:{line_number}: must have {len(header)} fields, as the header. "
                f"Received: {len(fields)}, {quote(line)}{hint}"
            )
    rows, lines = [x for x, _ in read[1:]], [f"{path}:{n}" for _, n in read[1:]]
    table = pd.DataFrame(rows, lines, header, dtype=object)
    heads = [*zip(header, *rows[:2], strict=True)]
    if len(rows) > 1 and all(bool(x) == bool(y) != bool(z) for x, y, z in heads):
        # Names of `DataFrame.agg` in two lines, then those of the index.
        names = [z or f"{x} {y}".strip() for x, y, z in heads]
        table = table.iloc[2:].set_axis(names, axis=1)
    if len(rows) > 1 and table.columns.has_duplicates and not any(rows[1][1:]):
        table = _of_levels(table)
    _check_header([*table], f"{path}:{first_line}")
    return _with_points(table, separator)


def _without_markup(field: str) -> str:
    """Return a field without emphasis, links and tags of Markdown; footnotes are left out."""
    field = _MARKUP.sub(lambda found: found[2] or "", field).strip()
    return re.sub(r"^(\*+|_+)(.+)\1$", r"\2", field)


def _check_header(names: list[object], place: str) -> None:
    """Refuse numbers, one of them a fraction, as names; whole numbers can be seeds or years."""
    numbers = [name for name in map(str, names) if _NUMBER.fullmatch(name)]
    fractions = [name for name in numbers if not name.isdecimal()]
    if len(numbers) > 1 and fractions:
        raise DataError(
            f"{place}: holds numbers, so the table has no header; add one, such as method,seed "
            f"1,..., or rename columns such as {fractions[0]!r}"
        )


def _is_title(fields: list[str], following: list[str]) -> bool:
    """Return True for a line above the header: a title, a comment, or the separator for Excel."""
    is_comment = fields[0].startswith("# ") and len(fields) != len(following)
    return is_comment or (bool(fields[0]) and not any(fields[1:]))


def _of_levels(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per score of the columns of two levels that pandas writes in three lines."""
    names, index = [table.columns[0], table.iloc[0, 0]], table.iloc[1, 0]
    levels = pd.MultiIndex.from_arrays([table.columns[1:], table.iloc[0, 1:]], names=names)
    scores = table.iloc[2:, 1:].set_axis(levels, axis=1)
    long = scores.melt(ignore_index=False)
    long.insert(0, index, table.iloc[2:, 0].reindex(long.index))
    return long


def _decoded(path: Path) -> str:
    """Return the text of a file in UTF-8 or UTF-16, with or without a byte order mark."""
    data = path.read_bytes()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif b"\0" in data[:200]:
        encoding = "utf-16-le" if data[1:2] == b"\0" else "utf-16-be"
    else:
        encoding = "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path}:{line}: must be text in UTF-8 or UTF-16. Received: byte "
            f"{data[error.start]:#04x}"
        ) from error


def _separator(text: str) -> str:
    """Return the separator that splits most of the first lines into the same number of fields."""
    lines = [line for line in text.splitlines()[:50] if line.strip()]

    def fields(separator: str) -> tuple[int, int]:
        counts = Counter(
            len(row) for row in csv.reader(lines, delimiter=separator, skipinitialspace=True)
        )
        number, times = max(counts.items(), key=lambda pair: (pair[0] > 1, pair[1]), default=(1, 0))
        return times * (number > 1), number

    separator = max(_SEPARATORS, key=fields)
    return separator if fields(separator)[0] else " "


def _with_points(table: pd.DataFrame, separator: str) -> pd.DataFrame:
    """Replace decimal commas by points and remove commas of thousands."""
    cells = {cell for name in range(table.shape[1]) for cell in table.iloc[:, name]}
    decimal = {cell for cell in cells if _COMMA_DECIMAL.fullmatch(cell)}
    grouped = {cell for cell in cells if _THOUSANDS.fullmatch(cell)}
    points = {cell for cell in cells if _POINT_DECIMAL.fullmatch(cell)}
    is_clear = bool(decimal - grouped)
    in_quotes = separator == "," and is_clear and not points
    if not decimal or (separator == "," and not in_quotes) or (not is_clear and grouped - decimal):
        return table.map(lambda cell: cell.replace(",", "") if cell in grouped else cell)
    others = [x for x in points if not is_clear or _THOUSANDS.fullmatch(x.replace(".", ","))]
    if others or not (is_clear or separator == ";"):
        raise DataError(
            f"{table.index[0]}: numbers must have a decimal point or no comma, which can separate "
            f"decimals or thousands. Received: {join_names([min(decimal), *sorted(others)[:1]])}"
        )
    return table.map(
        lambda cell: cell.replace(".", "").replace(",", ".") if cell in decimal else cell
    )


def _read_excel(path: Path) -> pd.DataFrame:
    """Read the first sheet with a table; lines of text before its header are left out."""
    formulas = _formulas(path)
    table = pd.DataFrame()
    names: list[str] = []
    for name, sheet in pd.read_excel(path, sheet_name=None, header=None, dtype=object).items():
        for column, row in [] if names else formulas[name]:
            if pd.isna(sheet.get(column, pd.Series()).get(row)):
                raise DataError(
                    f"{path}:{row + 1}: a formula has no value; save the file in Excel, or enter it"
                )
        filled = sheet.notna().sum(axis=1)
        rows = sheet[(filled > 1).cummax() & (filled > 0)].dropna(axis=1, how="all")
        names += [repr(name)] * (len(rows) > 1)
        if len(rows) > 1 == len(names):
            places = [f"{path}:{number + 1}" for number in rows.index[1:]]
            merged = rows.iloc[0].ffill()
            levels = rows.iloc[2:3, 1:].isna().all(axis=1).any() and merged.value_counts().max() > 1
            header = merged if levels else rows.iloc[0].fillna("")
            table = rows[1:].set_axis(places).set_axis(header, axis=1)
            table = _of_levels(table) if levels else table
            _check_header([*table], f"{path}:{rows.index[0] + 1}")
    if len(names) > 1:
        left = join_names(names[1:])
        table.attrs["sheets"] = f"{path}: only the sheet {names[0]} was read, not {left}"
    return table


def _formulas(path: Path) -> dict[str, list[tuple[int, int]]]:
    """Return the places of the formulas in each sheet; sheets with too many cells are refused."""
    from openpyxl import load_workbook  # type: ignore[import-untyped]

    formulas = {}
    with closing(load_workbook(path, read_only=True)) as book:
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # those in the file can be wrong
            cells = [cell for row in sheet.rows for cell in row if cell.value is not None]
            size = [max((getattr(x, side) for x in cells), default=0) for side in ("row", "column")]
            if math.prod(size) > _MOST_CELLS:
                raise DataError(
                    f"{path}: sheet {sheet.title!r} has {size[0]:,} x {size[1]:,} cells; "
                    f"it must have at most {_MOST_CELLS:,}"
                )
            formulas[sheet.title] = [(x.column - 1, x.row - 1) for x in cells if x.data_type == "f"]
    return formulas


def _read_parquet(path: Path) -> pd.DataFrame:
    table = pd.read_parquet(path)
    if any(name is not None for name in table.index.names):
        table = table.reset_index(allow_duplicates=True)
    return table.set_axis([f"{path}, row {number}" for number in range(1, len(table) + 1)])


def _read_json(path: Path) -> pd.DataFrame:
    """Read a list of objects, or one object per line; nested objects have columns `a.b`."""
    text = _decoded(path)
    is_list = text.lstrip().startswith("[")
    parts = [(f"{path}:{number}", line) for number, line in enumerate(text.split("\n"), start=1)]
    rows, places = [], []
    for place, part in [(str(path), text)] if is_list else parts:
        try:
            found = json.loads(part) if part.strip() else []
        except ValueError as error:
            expected = "JSON" if is_list else "a list of objects, or one object per line and score"
            raise DataError(f"{place}: must be {expected}: {error}") from error
        found = found if isinstance(found, list) else [found]
        if not all(isinstance(row, dict) for row in found):
            raise DataError(f"{place}: must be an object for each row. Received: {quote(part)}")
        rows += found
        places += [f"{place}, row {n + 1}" if is_list else place for n in range(len(found))]
    if len(rows) == 1 and not is_list:  # such as the tables of pandas, one object per column
        raise DataError(f"{path}: must be a list of objects, or one object per line")
    return pd.json_normalize(rows).set_axis(places).astype(object)


_READERS: Mapping[str, Callable[[Path], pd.DataFrame]] = {
    ".xlsx": _read_excel,
    ".parquet": _read_parquet,
    ".json": _read_json,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
}
