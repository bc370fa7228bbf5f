"""Options of a comparison, for `compare` and the command line. Does not import pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from relation_tf.errors import OptionError, did_you_mean, join_names
from relation_tf.settings import option

Chosen: TypeAlias = str | Sequence[str]
"""A control or reference; with families, one for each, in any order."""
COLUMNS = ("task", "method", "seed", "fold", "item", "score", "metric", "split", "diverged")
"""Columns of a table that can have another name; a table has seeds, folds or items."""
LARGEST_SCORE = 1e100  # the squares of larger ones overflow
ALL = "all"
"""Name of all tasks, for the directions of scores."""
_LISTS = ("labels", "lower_is_better", "higher_is_better", "plugins")


@dataclass(frozen=True)
class ComparisonOptions:
    """Options of `compare` and `relation-tf compare`; the `metadata` of a field has its help text.

    Attributes:
        columns: Names of columns in tables, by our names, such as `{"task": "dataset"}`.
        margin: Largest acceptable score decrease from the reference, in the unit of a page.
        margins: Margins of single tasks; the others have `margin`.
        lower_is_better: Tasks or metrics with a lower-is-better score; True or `"all"` for all.
        higher_is_better: Those with a higher-is-better score despite their name; True or `"all"`.
        families: Lists of methods; control and reference are then one method of each.
        costs: Timed suites: folders or `Results`.
        plugins: Modules that register custom tests or report sections.
        question: Research question of the comparison.
        command: The command, for the provenance.

    Raises:
        OptionError: If a value is not allowed, or options exclude each other.
    """

    out: Path | None = option(None, "Folder of the report.", "DIR", shown="comparison")
    labels: Sequence[str] | None = option(
        None, "Names of the sources.", "NAME[,NAME...]", shown="names of the suites or files"
    )
    merge: bool = option(False, "Pool seeds of same-named methods across sources.")
    columns: Mapping[str, str] | None = option(
        None,
        "Meaning of columns whose names do not say it, such as task=corpus,method=variant; # is "
        "the number of the row.",
        "NAME=COLUMN[,...]",
    )
    lower_is_better: Sequence[str] = option(
        (),
        "Tasks or metrics with a lower-is-better score, or all.",
        "NAME[,NAME...]",
        shown="by the metric or name, such as loss, error, RMSE, seconds",
    )
    higher_is_better: Sequence[str] = option(
        (),
        "Tasks or metrics with a higher-is-better score despite their name, or all.",
        "NAME[,NAME...]",
    )
    metric: str | None = option(
        None, "Metric to read, of tables with several.", "NAME", shown="the only one of each table"
    )
    same_unit: bool = option(
        False,
        "All tasks have one unit, such as normalized scores: for seeds, add interquartile means, "
        "performance profiles and the probability of improvement.",
    )
    drop_failed: bool = option(
        False,
        "Leave failed runs of tables (empty scores) out of rank tests, which rank them worst.",
    )
    failed_as: float | None = option(
        None,
        "Score of failed runs of tables, no better than the worst score of their task.",
        "SCORE",
    )
    split: str | None = option(
        None,
        "Split of the scores, such as test: of tables with a column split, and of suites on GLUE "
        "whose data has labels of test sets.",
        "NAME",
        shown="the only split of each task; of suites on GLUE: dev",
    )
    alpha: float | None = option(
        None, "Significance level.", "P", shown="alpha of the suites, or .05"
    )
    control: Chosen | None = option(
        None,
        "Compare the other methods only with this one. Choose it before training. With --families, "
        "one method of each family: NAME,NAME.",
        "NAME",
    )
    test: str | None = option(
        None,
        "Test of each task. All pairs: steel-dwass, brunner-munzel, welch, corrected-t or mcnemar. "
        "With --control: steel, brunner-munzel-control, welch-control, corrected-t-control or "
        "mcnemar-control. Or a plugin's test. Default: by the table, steel-dwass for seeds, "
        "corrected-t for folds, mcnemar for items; a suite's own setting replaces it.",
        "NAME",
        shown=False,
    )
    test_over_tasks: str | None = option(
        None,
        "Test over tasks. All pairs: stratified-steel-dwass, friedman-wilcoxon, friedman-nemenyi "
        "or wilcoxon-pairs. With --control: stratified-steel or wilcoxon-holm. Or a plugin's test. "
        "Default: by the table, stratified-steel-dwass for several seeds or units, else "
        "friedman-wilcoxon (wilcoxon-pairs for two methods); a suite's own setting replaces it.",
        "NAME",
        shown=False,
    )
    test_share: float | None = option(
        None,
        "Share of the rows in the test set of a fold, for the corrected resampled t test: 0.1 for "
        "repeated 10-fold cross-validation. Required for more than 20 folds.",
        "SHARE",
        shown="one in all folds",
    )
    reference: Chosen | None = option(
        None,
        "Judge all methods against this one: better, no worse, worse or inconclusive. With "
        "--families, one method of each family: NAME,NAME.",
        "NAME",
        shown="reference or control of the suites",
    )
    margin: float | None = option(
        None,
        "Largest decrease from --reference that counts as no worse, in the unit of the "
        "report. Choose it before training. Repeat it as TASK=SCORE for a task with another unit.",
        "SCORE",
        shown="margins of the suites",
        typed=tuple[str, ...],
    )
    margins: Mapping[str, float] | None = None
    families: Sequence[Sequence[str]] | None = option(
        None,
        "Families of methods; methods are compared only within their family.",
        "NAME,NAME;NAME,NAME",
        shown="families of the suites",
    )
    costs: Sequence[Any] = option(
        (),
        "Folder of a timed suite, such as mechanism-speed. The report then shows scores against "
        "its speed and memory. Methods are matched by name. Repeatable.",
        "DIR",
        typed=tuple[str, ...],
    )
    plugins: Sequence[str] = ()
    title: str = option("", "Title of the report.", "TEXT")
    question: str = ""
    command: str = ""

    def __post_init__(self) -> None:
        for name in _LISTS:  # a string is one name, not a sequence of letters
            value = getattr(self, name)
            if isinstance(value, str | bool):
                object.__setattr__(self, name, [value] if isinstance(value, str) else [ALL] * value)
        if self.alpha is not None and not 0 < self.alpha < 0.5:
            fault = f"must be a number between 0 and 0.5. Received: {self.alpha!r}"
            raise OptionError("alpha", fault)
        if self.failed_as is not None and not abs(self.failed_as) <= LARGEST_SCORE:
            fault = f"must be a number of at most {LARGEST_SCORE:g} in size. Received: "
            raise OptionError("failed_as", f"{fault}{self.failed_as:g}")
        if isinstance(self.columns, str):
            fault = f"must be a mapping, such as {{'task': 'dataset'}}. Received: {self.columns!r}"
            raise OptionError("columns", fault)
        for name in self.columns or ():
            if name not in COLUMNS:
                raise OptionError(
                    "columns",
                    f"must be one of {join_names(COLUMNS)}, as in task=dataset. Received: "
                    f"{name!r}.{did_you_mean(name, COLUMNS)}",
                )
