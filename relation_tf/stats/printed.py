"""Parse tables and figures as papers print them: LaTeX, Markdown, or copied from a PDF."""

from __future__ import annotations

import re
from typing import NamedTuple

import pandas as pd

_EMPTY = frozenset(["", "-", "--", "---", "n/a", "N/A"])
_DASHES = str.maketrans(dict.fromkeys("−–—‐‑﹣－", "-"))
_MARKS = re.compile(r"[*†‡§¶]|\^\s*\{?\s*\\(?:dagger|ddagger|ast|star)\s*\}?|\\d?dagger")
_SYMBOLS = {
    r"\\pm(?![A-Za-z])": "±",
    r"\s*\\(?:times|cdot)\s*10\s*\^\s*\{?\s*([-+]?\d+)\s*\}?": r"e\1",
    r"\\times(?![A-Za-z])": "x",
    r"\\[,;:! ]|\\(?:thinspace|hfill|quad)(?![A-Za-z])": "\u2009",
    r"~|\\(?=$)": "\u2009",
    r"\{,\}": ",",
    r"\\([%&#_$])": r"\1",
    # The commands that change only the look of their argument.
    r"\\(?:text(?:bf|it|sc|rm|sf|tt)?|math(?:bf|it|rm|sf)|emph|underline|uline|bm|boldsymbol|num"
    r"|ensuremath|mbox|tiny|scriptsize|footnotesize|small|bfseries|itshape|bf|it"
    r"|cellcolor\{[^}]*\})(?![A-Za-z])": "",
}
_GROUP = "[,'\u2009\u202f\u00a0]"  # separators of thousands
_NUMBER = (
    rf"[-+]?\s?(?:[1-9]\d{{0,2}}(?:{_GROUP}\d{{3}})+(?!\d)(?:\.\d*)?|\d+\.?\d*|\.\d+)"
    r"(?:[eE][-+]?\d+)?"
)
_UNIT = r"(%|ms|s|min|h|points|pp)?"
_FIGURE = re.compile(rf"\s*({_NUMBER})\s*{_UNIT}\s*")
_CELL = re.compile(
    rf"\s*({_NUMBER})\s*{_UNIT}\s*"
    rf"(?:(?:±|\+/?-)\s*({_NUMBER})\s*{_UNIT}|\(\s*(?:±|\+/?-)?\s*({_NUMBER})\s*{_UNIT}\s*\))"
    rf"\s*{_UNIT}\s*"
)
_RULES = re.compile(
    r"\\(?:hline|toprule|midrule|bottomrule|(?:cline|cmidrule)(?:\([^)]*\))?\{[^}]*\}"
    r"|begin\{tabular\}(?:\[[^\]]*\])?\{(?:[^{}]|\{[^{}]*\})*\}|end\{tabular\}"
    r"|(?:centering|small|footnotesize|scriptsize)(?![A-Za-z]))"
)


class PrintedCell(NamedTuple):
    """Mean and SD of a cell as plain decimal numbers, and their unit if the cell names it."""

    mean: str
    sd: str
    unit: str = ""


def printed_table(text: str) -> pd.DataFrame:
    r"""Read a table of text: rows of LaTeX, of Markdown, or separated by tabs.

    The first row has the names of the columns, the first column the names of the rows. Rules such
    as `\midrule` and the `tabular` environment are ignored. Commands that span several cells, such
    as `\multicolumn`, are refused.

    Args:
        text: The table. In LaTeX, `&` divides cells and `\\` ends rows.

    Returns:
        The cells as text, for `read_published`. Names have no markup. If methods are in rows, use
        `printed_table(text).T`.

    Raises:
        TypeError: If `text` is not a string.
        ValueError: If rows have different numbers of cells, or names repeat.

    Example:
        >>> table = printed_table(r'''
        ...       & Relation            & Attention \\ \midrule
        ... SST-2 & \textbf{80.6} $\pm$ .4 & 73.6 $\pm$ .8 \\
        ... ''')
        >>> read_cell(table.loc["SST-2", "Relation"])
        PrintedCell(mean='80.6', sd='.4', unit='')
    """
    if not isinstance(text, str):
        raise TypeError(f"`text` must be a string. Received: {type(text).__name__}")
    rows = _split(text)
    if len(rows) < 2 or len(rows[0]) < 2:
        raise ValueError(
            "a table must have a row of names and at least one more row, with cells separated by "
            f"'&', '|' or tabs. Received: {text.strip()!r:.60}"
        )
    head, *body = rows
    for row in body:
        if len(row) != len(head):
            raise ValueError(
                f"rows must have {len(head)} cells, as the first row. "
                f"Received: {len(row)} in {' & '.join(row)!r:.80}"
            )
    index, columns = [_name(row[0]) for row in body], [*map(_name, head[1:])]
    for names in (index, columns):
        if len({*names}) < len(names):
            raise ValueError(f"names of rows and of columns must be unique. Received: {names}")
    return pd.DataFrame([row[1:] for row in body], index=index, columns=columns)


def read_cell(text: str) -> PrintedCell | None:
    r"""Read the mean and the SD of a cell; None if the cell is empty or a dash.

    Allowed are `80.6 ± 0.4`, `80.6 +/- 0.4`, `80.6 (0.4)` and LaTeX, with the minus U+2212,
    separators of thousands (`44,100`, a thin space or an apostrophe), a decimal point, `%` or a
    unit of time, and marks such as `*`. Numbers keep their decimals and are not rescaled.

    Args:
        text: The cell.

    Raises:
        ValueError: If the cell has another form.

    Example:
        >>> read_cell("44,100 ± 1,600 s")
        PrintedCell(mean='44100', sd='1600', unit='s')
        >>> read_cell(r"$\mathbf{-0.38}_{\pm 0.85}$")
        PrintedCell(mean='-0.38', sd='0.85', unit='')
    """
    plain = _plain(text)
    if plain.strip() in _EMPTY:
        return None
    found = _CELL.fullmatch(plain)
    if found:
        mean, own, sd, its, bracketed, inside, last = found.groups()
        units = {unit for unit in (own, its, inside, last) if unit}
        if len(units) < 2:
            return PrintedCell(_number(mean), _number(sd or bracketed), *units)
    raise ValueError(f"a cell must be such as '80.6 ± 0.4'. Received: {text!r}")


def read_number(text: str) -> str | None:
    """Read one figure as a plain decimal number; None if it is empty or a dash.

    Args:
        text: The figure, in the forms that `read_cell` allows.

    Raises:
        ValueError: If it is not a number.

    Example:
        >>> read_number("\u22120.380"), read_number("1,600 s")
        ('-0.380', '1600')
    """
    plain = _plain(text)
    if plain.strip() in _EMPTY:
        return None
    found = _FIGURE.fullmatch(plain)
    if not found:
        raise ValueError(f"a figure must be a number. Received: {text!r}")
    return _number(found[1])


def is_empty(text: str) -> bool:
    """Return True for an empty cell, a dash or `n/a`."""
    return _plain(text).strip() in _EMPTY


def _number(text: str) -> str:
    return re.sub(rf"{_GROUP}|\s", "", text)


def _plain(text: str) -> str:
    """Return a cell without markup, with ASCII minus signs."""
    text = _MARKS.sub("", text)
    for pattern, replacement in _SYMBOLS.items():
        text = re.sub(pattern, replacement, text)
    # An SD may be a subscript; any other one, such as a footnote, must not join the number.
    text = re.sub(r"[_^](?=\s*\{?\s*±)", "", text)
    return re.sub(r"[${}]", "", text).translate(_DASHES)


def _name(text: str) -> str:
    r"""Return a name without LaTeX or Markdown markup; `\_` stays an underscore."""
    text = re.sub(r"\*\*|[$]", "", text)
    for pattern, replacement in _SYMBOLS.items():
        text = re.sub(pattern, replacement, text)
    return re.sub(r"[{}]", "", text).replace("\u2009", " ").strip()


def _split(text: str) -> list[list[str]]:
    """Return the cells of each row; empty rows and rules are left out."""
    if re.search(r"(?<!\\)&", text):
        text = _RULES.sub("", re.sub(r"(?<!\\)%.*", "", text))
        text = re.sub(r"\s*\n\s*", " ", text)
        lines = re.split(r"\\\\(?:\[[^\]]*\])?", text)
        rows = [re.split(r"(?<!\\)&", line) for line in lines]
    elif "|" in text:
        lines = [line.strip().removeprefix("|").removesuffix("|") for line in text.splitlines()]
        rows = [line.split("|") for line in lines if not re.fullmatch(r"[\s|:-]*", line)]
    else:
        rows = [line.split("\t") for line in text.splitlines()]
    cells = [[cell.strip() for cell in row] for row in rows]
    return [row for row in cells if any(row)]
