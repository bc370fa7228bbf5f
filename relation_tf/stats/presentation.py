"""Presentation of results as text and, in a notebook, as HTML."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import pandas as pd

from relation_tf.stats.pairwise import index_pairs

_FORMATS: dict[str, Callable[[Any], str]] = {
    "statistic": "{:+.3f}".format,
    "pvalue": "{:.4g}".format,
    "effect_size": "{:+.2f}".format,
    "rank_a": "{:.2f}".format,
    "rank_b": "{:.2f}".format,
}


class Shown(ABC):
    """Base class of results that print as a title, a table, remarks and notes."""

    @abstractmethod
    def _title(self) -> str: ...

    @abstractmethod
    def _shown(self) -> pd.DataFrame:
        """Return the table that is printed."""

    def _remarks(self) -> Iterator[str]:
        return iter(())

    def _lines(self) -> list[str]:
        return [*self._remarks(), *(f"Note: {note}" for note in getattr(self, "notes", ()))]

    def __str__(self) -> str:
        table = self._shown().to_string(index=False, formatters=_FORMATS)
        return "\n".join([self._title(), table, *self._lines()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = self._shown().to_html(index=False, formatters=_FORMATS, border=0)
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in self._lines())
        return f"<div><p><b>{html.escape(self._title())}</b></p>{table}{lines}</div>"


def labels(names: Sequence[Hashable] | pd.Index[Any]) -> pd.Index[Any]:
    """Return names as an index in which a tuple is one label."""
    return pd.Index(names, tupleize_cols=False)


def pair_names(
    names: Sequence[Hashable], against_first: bool = False
) -> list[tuple[Hashable, Hashable]]:
    """Return all pairs of names, or only those with the first name."""
    return [(names[i], names[j]) for i, j in index_pairs(len(names), against_first)]


def name_pairs(
    names: Sequence[Hashable], against_first: bool = False, **columns: Any
) -> pd.DataFrame:
    """Return columns `a` and `b` of all pairs, or only of those with the first name.

    Args:
        names: The names.
        against_first: If True, only pairs with the first name.
        **columns: More columns; adding them to a table later is many times slower.
    """
    pairs = pair_names(names, against_first)
    return pd.DataFrame({"a": [a for a, _ in pairs], "b": [b for _, b in pairs], **columns})
