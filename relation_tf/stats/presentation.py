"""How a result shows itself: as text, as HTML in a notebook, and as a table."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

_FORMATS: dict[str, Callable[[Any], str]] = {
    "statistic": "{:+.3f}".format,
    "pvalue": "{:.4g}".format,
    "effect_size": "{:+.2f}".format,
    "rank_a": "{:.2f}".format,
    "rank_b": "{:.2f}".format,
}


class Shown(ABC):
    """A result that prints as a title, a table and remarks."""

    @abstractmethod
    def to_pandas(self) -> pd.DataFrame:
        """The result as one table, a row for each thing that it speaks of."""

    @abstractmethod
    def _title(self) -> str: ...

    @abstractmethod
    def _remarks(self) -> Iterator[str]: ...

    def _shown(self) -> pd.DataFrame:
        """The part of the table that is printed."""
        return self.to_pandas()

    def __str__(self) -> str:
        table = self._shown().to_string(index=False, formatters=_FORMATS)
        return "\n".join([self._title(), table, *self._remarks()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = self._shown().to_html(index=False, formatters=_FORMATS, border=0)
        remarks = "".join(f"<p>{html.escape(remark)}</p>" for remark in self._remarks())
        return f"<div><p><b>{html.escape(self._title())}</b></p>{table}{remarks}</div>"


def count(number: int, noun: str) -> str:
    """A number with its noun, `1 seed` or `5 seeds`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
