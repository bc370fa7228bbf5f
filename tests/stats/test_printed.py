"""Tests of figures and tables as papers print them."""

from __future__ import annotations

from decimal import Decimal

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.stats import printed_table, read_published
from relation_tf.stats.printed import read_cell, read_number

FIGURES = st.decimals(-(10**7), 10**7, allow_nan=False, allow_infinity=False, places=None).map(
    lambda value: value.quantize(Decimal("0.0001"))
)
SEPARATORS = st.sampled_from(["", ",", "\u2009", "\u202f", "'", "{,}", r"\,"])
MINUSES = st.sampled_from(["-", "−", "–"])
UNITS = st.sampled_from(["", "%", r"\%", " s", " ms"])
WRAPPERS = st.sampled_from(
    ["{}", "${}$", r"\textbf{{{}}}", r"$\mathbf{{{}}}$", "**{}**", r"{{\small {}}}", "{}*", " {} "]
)
CELLS = st.sampled_from(
    ["{} ± {}", "{}±{}", "{} +/- {}", "{} ({})", "{} (±{})", r"{} \pm {}", r"{}_{{\pm {}}}"]
)


@st.composite
def printed(draw, unsigned=False, separator=None):
    """Draw a figure as it is printed, and the same figure in plain digits."""
    digits = draw(st.integers(0, 4))
    value = draw(FIGURES).quantize(Decimal(1).scaleb(-digits))
    plain = f"{abs(value) if unsigned else value:f}"
    shown = f"{Decimal(plain):,.{digits}f}".replace(",", separator or draw(SEPARATORS))
    return shown.replace("-", draw(MINUSES)), plain


@settings(deadline=None)
@given(printed(), WRAPPERS, UNITS)
def test_printed_figures_are_read_back(figure, wrapper, unit):
    shown, plain = figure
    assert read_number(wrapper.format(shown + unit)) == plain


@settings(deadline=None)
@given(st.data(), SEPARATORS, CELLS, WRAPPERS, UNITS)
def test_printed_cells_are_read_back(data, separator, cell, wrapper, unit):
    mean, sd = (data.draw(printed(unsigned, separator)) for unsigned in (False, True))
    text = wrapper.format(cell.format(mean[0] + unit, sd[0] + unit))
    assert read_cell(text) == (mean[1], sd[1], unit.strip().removeprefix("\\"))


def in_latex(table):
    rows = [" & ".join(["", *table.columns]), r"\midrule"]
    rows += [" & ".join([name, *row]) + r" \\" for name, row in zip(*rows_of(table), strict=True)]
    return "\\begin{tabular}{l@{}cc}\n\\toprule\n" + "\n".join(
        [rows[0] + r" \\[2pt]", *rows[1:], r"\bottomrule", r"\end{tabular}"]
    )


def in_markdown(table):
    head = ["|".join(["", *table.columns]), "|".join(["---"] * (1 + len(table.columns)))]
    rows = ["|".join([name, *row]) for name, row in zip(*rows_of(table), strict=True)]
    return "\n".join(f"|{row}|" for row in [*head, *rows])


def with_tabs(table):
    rows = [["", *table.columns], *([n, *row] for n, row in zip(*rows_of(table), strict=True))]
    return "\n".join("\t".join(row) for row in rows)


def rows_of(table):
    return table.index, table.to_numpy()


@settings(deadline=None)
@given(st.data(), st.sampled_from([in_latex, in_markdown, with_tabs]))
def test_tables_are_read_back(data, write):
    # In Markdown, a row of dashes is the line below the head.
    names = st.text("abcXYZ-1", min_size=1, max_size=6).filter(lambda name: name.strip("-"))
    tasks, methods = (
        data.draw(st.lists(names, min_size=2, max_size=3, unique=True)) for _ in range(2)
    )
    cells = st.builds("{} ± {}".format, *(printed(sign).map(lambda f: f[0]) for sign in (0, 1)))
    rows = [[data.draw(cells) for _ in methods] for _ in tasks]
    table = pd.DataFrame(rows, index=tasks, columns=methods)
    found = printed_table(write(table))
    pd.testing.assert_frame_equal(found, table)


LATEX = r"""
      & \textbf{Relation}  & Attention        & MLP \\ \hline
SST-2 & $\mathbf{80.6} \pm 0.4$ & $76.1 \pm 0.9$ & --  \\
MNLI\_m & 55.4 (.4) % a note
        & 52.4 (.5) & 38.2 (.5) \\
"""


def test_text_gives_the_same_result_as_a_table():
    cells = {
        "Relation": ["80.6 ± 0.4", "55.4 ± 0.4"],
        "Attention": ["76.1 ± 0.9", "52.4 ± 0.5"],
        "MLP": ["", "38.2 ± 0.5"],
    }
    table = pd.DataFrame(cells, index=["SST-2", "MNLI_m"])
    expected = read_published(table, 5).pairs()
    pd.testing.assert_frame_equal(read_published(LATEX, 5).pairs(), expected)
    assert [*printed_table(LATEX).T.columns] == ["SST-2", "MNLI_m"]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (r"$5.43 \times 10^{-3} \pm 2\times10^{-4}$", ("5.43e-3", "2e-4", "")),
        (r"91.3$^{\dagger}$ $\pm$ 0.4", ("91.3", "0.4", "")),
        ("1,100 s ± 1.73", ("1100", "1.73", "s")),
        ("n/a", None),
        ("−", None),
        ("--", None),
    ],
)
def test_other_forms_of_a_cell(cell, expected):
    assert read_cell(cell) == expected


@pytest.mark.parametrize(
    "cell",
    [
        "80,6 ± 0,4",  # a decimal comma
        "1,23 ± 1",
        "0,123 ± 1",
        "80 6 ± 1",
        "80.6^{1} ± 0.4",  # a footnote
        "80_6 ± 0.4",
        "15.3 s ± 10.8 ms",
        "80.6 ± ",
        "80.6 (0.4",
        r"\multicolumn{2}{c}{80.6 $\pm$ 0.4}",
        "76.5/67.4 ± 1",
    ],
)
def test_unclear_cells_are_refused(cell):
    with pytest.raises(ValueError, match="a cell must be such as"):
        read_cell(cell)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a row of names and at least one more row"),
        ("one line", "cells separated by '&', '|' or tabs"),
        ("a & b \\\\ c & d & e \\\\", "rows must have 2 cells, .* Received: 3 in 'c & d & e'"),
        ("|a|b|b|\n|c|1|2|", r"must be unique. Received: \['b', 'b'\]"),
    ],
)
def test_errors_of_broken_tables(text, message):
    with pytest.raises(ValueError, match=message):
        printed_table(text)


def test_units_within_a_task_must_agree():
    table = pd.DataFrame({"a": ["1.5 s ± 0.1"], "b": ["900 ms ± 10"]}, index=["IMDb"])
    message = (
        "all numbers of a task must have the same unit. Received: 's' for 'a', 'ms' for 'b' on IMDb"
    )
    with pytest.raises(ValueError, match=message):
        read_published(table, 5)
    seconds = pd.DataFrame({"a": ["1,500 s ± 1"], "b": ["900 ± 10"]}, index=["IMDb"])
    assert read_published(seconds, 5).pairs()["difference"].tolist() == [-600]


@settings(deadline=None, max_examples=300)
@given(st.text("0123456789.,-−±+/()%${}_^\\ amstxpbfe&'\u2009", max_size=25))
def test_any_text_is_a_figure_or_refused(text):
    try:
        found = read_cell(text)
    except ValueError:
        return
    for figure in found[:2] if found else ():
        assert Decimal(figure).is_finite()
