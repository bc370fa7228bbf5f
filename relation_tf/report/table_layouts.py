"""Layouts of tables of scores: which column is the task, the method, the seed and the score.

A table can be long (a row for each score) or wide (a column for each method, task or seed), an
export of Weights & Biases or MLflow, and name its columns as people do. A table that can be read in
two ways is refused with an option for each.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
import shlex
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, get_args

import numpy as np
import pandas as pd

from relation_tf.errors import DataError, did_you_mean, join_names, quote
from relation_tf.registry import TASKS
from relation_tf.stats.directions import STATED, read_name
from relation_tf.stats.samples import ITEMS, SYNONYMS, Replicate, words_of
from relation_tf.words import count

ROW = "#"
"""Name for the number of the row, in place of a column."""

COLUMNS = "columns"
"""Name for the names of the columns of numbers, in place of a column of tasks."""

_TRACKER = re.compile(r"^(config|params|param|summary|metrics|metric|tags)[./]")
_TRACKED = ({"state", "name"}, {"state", "created"}, {"run id"})
_STATES = ("state", "status")
_MEASURED, _SET = (
    re.compile(r"(summary|metrics|metric)[./]"),
    re.compile(r"(config|params?|tags)[./]"),
)
_COUNT = (
    r"((n|num|no\.?|number of|#) ?)?(samples|instances|examples|rows|features|attributes|classes|"
    r"tokens|params|parameters|epochs?|steps?|documents|words|sentences)|n|year|dim|# ?\w+|"
    r"(.* )?(size|length|len|vocab(ulary)?)"
)
_SETTING = (
    rf"{_COUNT}|(.* )?(steps?|epochs?|size|params|parameters|phase)|lr|learning rate|weight decay|"
    r"dropout|momentum|warmup|temperature|depth|width"
)
_FREE = (  # can differ between seeds
    r"(.* )?(runtime|timestamp|duration|created|note|comment|user|host|date|state|id|name|hash)|"
    r"((start|end|fit|score|train|training|wall|elapsed) )?time( (s|ms|sec|seconds))?"
)
_OF_SEED = re.compile(r"(?:(?:random )?seed|run|trial|fold|rep|repeat|repetition|s)? ?#?(\d+)")
_FOLD = re.compile("fold|split")
_OF_SPLIT = re.compile(r"split(\d+)_test_(.+)")
_AVERAGE = (
    r"((macro|micro|overall|total|(super)?glue) )?(mean|average|avg\.?|median|std\.?)"
    r"( (rank|score|of \d+ tasks))?|overall|(overall|total|(super)?glue) score"
)
_PERHAPS_AVERAGE = r"all|score|total|(super)?glue|(.* )?(mean|average|avg\.?|overall)\b.*"
_SPREAD = (
    r"(.* )?(std\.?|stdev|stderr)( .*)?|sd|sem|var|variance|iqr|ci|min|max|best|sum|total|"
    r"(.* )?count|((mean|average|avg\.?) )?rank|\d+ ?%"
)
_OF_MEANS = re.compile(r"\b(std|stdev|stderr|sd|sem)\b")
_SUMMARY = rf"{_AVERAGE}|{_SPREAD}|wins|w/[td]/l"
_OF_OTHERS = r"mean|average|avg\.?|median|std\.?|sd|sem|var|variance|min|max|best|sum|total"
_KINDS = ("score", "mean", "setting", "spread")  # of columns with numbers; the first is read
_UNNAMED = re.compile(r"(unnamed: \d+|index|level 0)?")
_FAILED = re.compile(
    r"[-–—?x]?|n[/.]?a\.?|nan|null|none|missing|failed|failure|fail|error|err|crashed|killed|oom|"
    r"out of memory|oot|time ?out|timed out|dnf|[+-]?inf(inity)?"
)
_MOST_NAMED = 12  # columns in a line
_LONGEST = 100_000  # characters of a dict
_BARE = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|-?\b(?:nan|inf)\b""")
_TRUTHS = {"true": "1", "false": "0", "yes": "1", "no": "0"}
_TRUE_LABELS = r"((true|gold|y) )?(labels?|targets?|class)|y true|gold|ground truth"
_DIVERGED = re.compile(r"diverged|div\.?")
_DEVIATION = re.compile(r"[+−-]?[\d.]+ ?%?( ?(_\{)?(±|\+/-|\+-|\\pm) ?|_\{| \()[\d.]+ ?%?[)}]?")
# Such as 84.6/83.4, but no date, version or time.
_SCORES = re.compile(r"(?!\d+([-./:])\d+\1\d|\d+:\d)(<[^<>]*>|[\W_])*\d(<[^<>]*>|[\d\W_])*")
_LATEX = re.compile(r"\\[a-z]+ ?\{([^{}]*)\}")


class Layout(NamedTuple):
    """How a table was read; `str` is one line.

    Attributes:
        tasks: Number of tasks.
        methods: Number of methods.
        scores: Smallest and largest number of scores of a method on a task.
        replicate: What a score is of; items with one score each are the tasks.
        columns: The columns that were read.
        wide: What the other columns of a wide table are, such as `"methods"`.
        without: Columns and rows that were left out.
        others: The other columns of a wide table.
    """

    tasks: int
    methods: int
    scores: tuple[int, int]
    replicate: Replicate
    columns: tuple[str, ...]
    wide: str = ""
    without: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        low, high = self.scores
        sizes = [count(self.tasks, "task"), count(self.methods, "method")]
        if self.replicate == "item" and high == 1 < self.tasks:
            sizes[0] = f"{self.tasks} items with other scores than 0 and 1"
        sizes += [count(high, self.replicate)] if low == high > 1 else []
        shape = [" x ".join(sizes)]
        shape += ["one score each"] if high == 1 else []
        shape += [f"{low} to {high} {self.replicate}s"] if low < high else []
        word = "columns" if len(self.columns) > 1 else "column"
        columns = [f"{word} {', '.join(self.columns)}"] if self.columns else []
        others = f"{self.wide} in columns ({_few(self.others, _MOST_NAMED)})"
        columns += [others] if self.wide else []
        columns += [f"without {join_names([*map(repr, self.without)])}"] if self.without else []
        stems = {re.sub(r"[ .(](s|seed|run) ?\d+\)?$", "", _words(x)) for x in self.others}
        hint = "columns look like methods and seeds; if so, use a row for each score"
        columns += [hint] * (1 < len(stems) < len(self.others))
        if high == 1 and any(_OF_MEANS.search(_words(name)) for name in self.without):
            columns += ["for means with SDs use `relation_tf.stats.read_published`"]
        return "; ".join(filter(None, [", ".join(shape), ", ".join(columns)]))


@dataclass(frozen=True)
class LongTable:
    """Scores with one row each.

    Attributes:
        rows: Columns `task`, `method`, `seed` and `score`, and, if known, `metric`, `split` and
            `diverged`; the index has the place of each row.
        layout: How the table was read.
        replicate: `"seed"`; `"fold"` if the seeds are folds of a cross-validation, which share
            training rows, or `"item"` if they are items with scores of 0 or 1. The user can say
            that they are independent: `--columns seed=fold`.
        unused: Columns that differ between rows and have no meaning, other than metrics.
        test_share: Share of the test rows of a fold of a repeated cross-validation, if it is known.
        means: If True, the table has deviations: its scores are means.
    """

    rows: pd.DataFrame
    layout: Layout
    replicate: Replicate = "seed"
    unused: Sequence[str] = ()
    test_share: float | None = None
    means: bool = False


@dataclass
class _Table:
    """A table whose columns are being understood."""

    cells: pd.DataFrame
    where: str
    named: dict[str, str] = field(default_factory=dict)
    tracked: bool = False
    scores: Sequence[str] = ()
    left: Sequence[str] = ()
    test_share: float | None = None
    are_tasks: bool = False
    has_metric: bool = False

    @property
    def columns(self) -> list[str]:
        """All columns."""
        return [*map(str, self.cells)]

    @property
    def others(self) -> list[str]:
        """The columns without a meaning."""
        return [name for name in self.columns if name not in self.named.values()]

    def kind(self, name: str) -> str:
        """Return the kind of a column with numbers, see `_KINDS`, by its name."""
        is_truth = self._is_truth(name) and not _is_metric(name)
        if is_truth and all(map(self._is_truth, self.others)):
            return "score"
        has_settings = self.tracked or "method" in self.named or self.has_metric
        setting = rf"{_SETTING}|{_FREE}" if has_settings else _COUNT
        bare = re.sub(r"(?<=.) \(.*\)", "", name)
        is_setting = _fits(name, setting) or _fits(bare, _COUNT) or _words(name) in ITEMS
        if is_truth or is_setting or (self.tracked and _SET.match(name)):
            return "setting"
        if _is_summary(name, _SPREAD, self.cells[name]):
            return "spread"
        return "mean" if _fits(name, _AVERAGE) else "score"

    def _is_truth(self, name: str) -> bool:
        return all(str(cell).lower() in _TRUTHS for cell in self.cells[name])

    def numeric(self) -> list[str]:
        """The other columns with scores, or else means; `left` are those with other numbers."""
        names = [name for name in self.others if is_numeric(self.cells[name])]
        if self.tracked:
            names = [*filter(_MEASURED.match, names)] or names
        self.has_metric = bool(self.text()) and any(map(_is_metric, names))
        kinds = {name: self.kind(name) for name in names}
        if "task" in self.named and "method" not in self.named and not self.text():
            methods = [name for name in names if kinds[name] == "score"]
            kinds |= {name: "score" for name in names if self._differs(name, methods)}
            settings = [name for name in methods if _fits(name, _SETTING)]
            for name in settings:  # unless it is a method, such as LR, with scores like the others
                own = self.cells[name].map(parsed).astype(float)
                rest = self.cells[[*{*methods} - {*settings}]].map(parsed).astype(float).stack()
                if own.max() < rest.min() / 2 or own.min() > 2 * rest.max():
                    kinds[name] = "setting"
        scores = [name for name in names if kinds[name] == "score"]
        kinds |= dict.fromkeys(_averages(self.cells[scores]), "mean")
        best = min(kinds.values(), key=_KINDS.index, default="")
        self.left = [name for name in names if kinds[name] != best]
        return [name for name in names if kinds[name] == best]

    def _differs(self, name: str, others: Sequence[str]) -> bool:
        """Return True for the name of a summary whose values are not those of other columns."""
        words = _words(name)
        if not _fits(name, _OF_OTHERS):
            stem = re.sub(r" ?\b(std\.?|stdev|stderr)", "", words)
            return stem != words and not any(_words(x).startswith(stem) for x in others)
        own, cells = (self.cells[x].map(parsed).astype(float) for x in (name, [*others]))
        digits = max(len(str(x).strip(" %").partition(".")[2]) for x in self.cells[name])
        names = ("mean", "median", "min", "max", "sum", "std", "var", "sem")
        summaries = [cells.agg(how, axis=1) for how in names]
        summaries += [cells.std(axis=1, ddof=0), cells.var(axis=1, ddof=0)]
        return not any(np.allclose(own, x, 0, 0.51 * 10.0**-digits, True) for x in summaries)

    def text(self) -> list[str]:
        """The other columns with text."""
        return [name for name in self.others if not is_numeric(self.cells[name])]

    def is_run(self, name: str) -> bool:
        """Return True for 0 or 1 to at least 2, once for each method on a task."""
        keys = [self.cells[x].to_numpy() for x in (*self.named.values(), *self.text())]
        numbers = self.cells[name].map(parsed)
        groups, n = numbers.groupby(keys or [np.zeros(len(numbers))]), numbers.nunique()
        is_count = n > 2 and {*numbers} in ({*range(n)}, {*range(1, n + 1)})
        return is_count and bool((groups.agg(["size", "nunique"]) == n).all(axis=None))


def understand(
    table: pd.DataFrame, where: str, columns: Mapping[str, str], metric: str | None = None
) -> LongTable:
    """Return the scores of a table in any layout, one per row.

    Args:
        table: The table; its index has the place of each row, for messages. Numbers can be text.
        where: Name of the table, for messages.
        columns: The table's names of our columns; `#` is the number of the row.
        metric: The metric to read, of a table with several.

    Raises:
        DataError: If a column is missing, or the table can be read in more than one way; the
            message names the options.

    Example:
        >>> rows = [("iris", 0.9, 0.7), ("wine", 0.8, 0.9)]
        >>> table = pd.DataFrame(rows, columns=["dataset", "svm", "knn"])
        >>> read = understand(table, "a.csv", {})
        >>> print(read.layout)
        2 tasks x 2 methods, one score each; column dataset, methods in columns (svm, knn)
        >>> read.rows["score"].tolist()
        [0.9, 0.8, 0.7, 0.9]
    """
    found = _Table(_of_search(_with_keys(_plain(table, where, columns.values()))), where)
    given: Replicate | None = next((key for key in get_args(Replicate) if key in columns), None)
    columns = {"seed" if key == given else key: name for key, name in columns.items()}
    if columns.get("task") == COLUMNS not in found.columns:
        found.are_tasks = bool(columns.pop("task"))
    _name(found, columns)
    _read_states(found)
    if metric is not None and "metric" not in found.named:
        found.named["score"] = _column(found, metric, "--metric")
    long, wide = _long(found)
    if "metric" in long and metric is not None:
        known = [*dict.fromkeys(map(str, long["metric"]))]
        long = long[long["metric"].astype(str) == metric]
        if long.empty:
            raise DataError(
                f"{where}: --metric must be {join_names(known, ' or ')}. Received: {metric!r}."
                f"{did_you_mean(metric, known)}"
            )
    is_wide = wide in ("methods", "tasks")
    tasks = {str(name): rows["score"] for name, rows in long.groupby("task", sort=False)}
    summary = _SUMMARY if is_wide else _AVERAGE
    left = [name for name, cells in tasks.items() if _is_summary(name, summary, cells)]
    others = {name: pd.Series([*cells]) for name, cells in tasks.items() if name not in left}
    left += _averages(pd.DataFrame(others))
    left = left if len(left) < len(tasks) else []
    long = long[~long["task"].astype(str).isin(left)]
    left += [name for name in found.left if is_wide or found.kind(name) != "setting"]
    names = _words(found.named.get("seed", wide))
    replicate: Replicate = "item" if names in ITEMS else "seed"
    replicate = given or ("fold" if _FOLD.search(names) else replicate)
    if replicate == "item" and not _is_binary(long["score"]):
        long, replicate = _with_items(long, found), "seed"
    long = _with_seeds(long, found, is_given=given is not None)
    unused = [x for x in found.others if found.cells[x].nunique() > 1 and not _is_metric(x)]
    sizes = long.groupby(["task", "method"], dropna=False)["seed"].nunique()
    are_items = "task" not in columns and _words(found.named.get("task", "")) in ITEMS
    layout = Layout(
        long["task"].nunique(),
        long["method"].nunique(),
        (int(sizes.min()), int(sizes.max())),
        "item" if are_items else replicate,
        tuple(name for name in found.named.values() if name not in (ROW, "")),
        wide,
        tuple(left),
        tuple(name for name in found.scores if name not in left),
    )
    means = any(_OF_MEANS.search(_words(name)) for name in found.left)
    return LongTable(long, layout, replicate, unused, found.test_share, means)


def _plain(table: pd.DataFrame, where: str, used: Collection[str]) -> pd.DataFrame:
    """Return the table with its names as text, without the numbers of rows that pandas writes."""
    table = table.set_axis([str(name).strip() for name in table.columns], axis=1)
    for name, times in table.columns.value_counts().items():
        if times > 1:
            raise DataError(f"{where} has column {name!r} {times} times; it must have it once")
    for name in [x for x in table.columns if _UNNAMED.fullmatch(_words(x)) and x not in used]:
        if all(x is not None and x % 1 == 0 for x in map(parsed, table[name])):
            table = table.drop(columns=name)
    table = table.rename(columns={"": "index"})
    if table.empty:
        raise DataError(f"{where} has no rows; it must have one row per score")
    return table


def _with_keys(table: pd.DataFrame) -> pd.DataFrame:
    """Return a column for each key of the dicts in exports of W&B's API, and lists as text."""
    for name in [x for x in ("config", "summary") if x in table]:
        cells = table[name].map(str)
        cells = cells.map(lambda cell: _BARE.sub(lambda found: found[1] or "None", cell))
        try:
            rows = [ast.literal_eval(cell[:_LONGEST]) for cell in cells]
            keys = pd.json_normalize(rows).set_axis(table.index)
        except (ValueError, SyntaxError, TypeError, AttributeError, MemoryError, RecursionError):
            continue  # no dicts
        table = table.drop(columns=name).join(keys.add_prefix(f"{name}."))
    lists = [x for x in table if not all(isinstance(cell, Hashable) for cell in table[x])]
    return table.assign(**{str(name): table[name].map(str) for name in lists})


def _of_search(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per fold and metric, if the table is `cv_results_` of scikit-learn."""
    names = [*map(str, table)]
    splits = {name: found for name in names if (found := _OF_SPLIT.fullmatch(name))}
    if not splits:
        return table
    kept = [name for name in names if not re.match(r"(split\d+|mean|std|rank|param)_", name)]
    rows = table.melt(kept, [*splits], "fold", "score", ignore_index=False)
    metrics = rows["fold"].map(lambda name: splits[name][2])
    rows["fold"] = rows["fold"].map(lambda name: splits[name][1])
    return rows if (metrics == "score").all() else rows.assign(metric=metrics)


def _name(table: _Table, columns: Mapping[str, str]) -> None:
    """Give columns a meaning: by the user's names, then by ours and their synonyms."""
    for key, name in columns.items():
        if name == ROW:
            table.cells.insert(0, ROW, [*map(str, range(1, len(table.cells) + 1))])
        table.named[key] = _column(table, name, f"--columns {key}={name}")
    replaced = [key for key, name in table.named.items() if key in table.cells and key != name]
    table.cells = table.cells.drop(columns=[x for x in replaced if x not in table.named.values()])
    for key, words in SYNONYMS.items():
        ends = ("", " name", " id") if key in ("task", "method") else ("",)
        known = [f"{word}{end}" for word in words for end in ends]
        fitting = [name for name in table.others if _words(name) in known]
        # A numbered split is a fold; `params` of scikit-learn are dicts.
        kept = {"split": key == "seed", "params": False}
        numeric = {name: is_numeric(table.cells[name]) for name in fitting}
        fitting = [x for x in fitting if kept.get(_words(x), numeric[x]) == numeric[x]]
        if key not in table.named and fitting:
            table.named[key] = min(
                fitting, key=lambda x: (table.cells[x].nunique() < 2, known.index(_words(x)))
            )
            if key == "seed" and len(fitting) > 1:
                _join_folds(table, fitting)
    # Text, ids and our own names are what they say; other numbers under a synonym are scores.
    for key in ("task", "method"):
        if key not in columns and _words(table.named.get(key, key)) != key:
            cells = table.cells[table.named[key]]
            values = {*map(parsed, cells if is_numeric(cells) else ["text"])}
            others = table.numeric()
            truths = [x for x in others if {*map(parsed, table.cells[x])} <= {0, 1}]
            if "score" in table.named or (others and all(map(_is_metric, others))):
                continue
            if (truths and values <= {0, 1}) or not all(x is None or x % 1 == 0 for x in values):
                del table.named[key]
    unknown = [x for x in table.numeric() if table.kind(x) == "score" and not _is_metric(x)]
    if unknown and "score" not in columns and "task" not in table.named:
        table.named.pop("score", None)


def _join_folds(table: _Table, names: Sequence[str]) -> None:
    """Join the columns of folds and their repetitions; items of several seeds are refused."""
    seeds = [name for name in names if _words(name) not in ITEMS]
    for item, seed in itertools.product([x for x in names if x not in seeds], seeds):
        pairs = table.cells[[item, seed]].drop_duplicates()
        if all(pairs[name].duplicated().any() for name in pairs):
            raise DataError(
                f"{table.where} has columns {seed!r} and {item!r}: keep one of {seed!r} for a test "
                f"of items, or average the items of each {seed!r} for a test of seeds"
            )
    repeats = [name for name in seeds if not _FOLD.search(_words(name))]
    if repeats and len(seeds) > len(repeats):
        joined, name = table.cells[seeds].astype(str).agg(" / ".join, axis=1), ", ".join(seeds)
        share = len(table.cells[repeats].drop_duplicates()) / joined.nunique()
        table.test_share = share if share < 1 else None
        table.named["seed"] = name
        table.cells = table.cells.drop(columns=seeds).assign(**{name: joined})


def _column(table: _Table, wanted: str, option: str) -> str:
    """Return the column of this name, or the only one that has it without its prefix and case."""
    names = table.columns
    alike = [name for name in names if _words(name) == _words(wanted)]
    if wanted in names or len(alike) == 1:
        return wanted if wanted in names else alike[0]
    raise DataError(
        f"{table.where}: {option}: there is no column {quote(wanted)}."
        f"{did_you_mean(wanted, names)} The columns are {join_names([*map(repr, names)])}"
    )


def _read_states(table: _Table) -> None:
    """Mark the failed runs of an export of a tracker."""
    words = {_words(name): name for name in table.columns}
    table.tracked = any(signs <= {*words} for signs in _TRACKED)
    if not table.tracked:
        table.tracked = any(map(_MEASURED.match, table.columns))
        return
    for name in (words[state] for state in _STATES if state in words):
        lost = table.cells[name].map(lambda cell: bool(_FAILED.fullmatch(str(cell).lower())))
        numbers = [x for x in table.columns if x != name and is_numeric(table.cells[x])]
        table.cells = table.cells.drop(columns=name)
        for column in numbers:
            if read_name(_bare(column))[1] or column == table.named.get("score"):
                table.cells[column] = table.cells[column].astype(object).mask(lost)


def _long(table: _Table) -> tuple[pd.DataFrame, str]:
    """Return one row per score, and what the columns hold in a wide table."""
    numbers = table.numeric()
    if "score" in table.named:
        _complete(table)
        return _renamed(table), ""
    if not numbers:
        for name, cell in ((x, str(cell)) for x in table.text() for cell in table.cells[x]):
            if re.fullmatch(r"[+−-]?\d*[.,]?\d+ ?[^\W\d]+(/\w+)?", cell):
                _refuse(table, f"cells of column {name!r} must be numbers, found {cell!r}")
        _refuse(table, "there is no column of scores")
    unknown = [x for x in numbers if not _is_metric(x)]
    for name in filter(table.is_run, unknown if "seed" not in table.named else []):
        _refuse_run(table, name)
    text = table.text()
    for name in text if unknown and ("method" in table.named or len(text) > 1) else []:
        _check_no_scores(table, name)
    seeds = [name for name in numbers if _OF_SEED.fullmatch(_words(name))]
    if "method" not in table.named and not table.text():
        seeds = []
    others = [_words(name).partition(" ")[0] for name in numbers if name not in seeds]
    if len(seeds) > 1 and all(_fits(x, _SUMMARY) for x in others) and "seed" not in table.named:
        _complete(table)
        plain = [int(name) for name in seeds if name.isdecimal()]
        if plain and plain not in ([*range(len(plain))], [*range(1, 1 + len(plain))]):
            raise DataError(
                f"{table.where}: are the columns {_few(seeds)} seeds or tasks? Rename them, such "
                f"as 'seed {seeds[0]}' if they are seeds, or 'task: {seeds[0]}' if they are tasks"
            )
        folds = any("fold" in _words(name) for name in seeds)
        return _melted(table, seeds, "seed")[0], "folds" if folds else "seeds"
    metrics = [*filter(_is_metric, numbers)]
    if table.are_tasks:
        table.named.pop("task", None)
        _complete(table)
        return _melted(table, numbers, "task")
    if "method" in table.named or table.tracked:
        if "task" in table.named or table.tracked or len(numbers) in (1, len(metrics)):
            return _of_metric(table, metrics or numbers), ""
        if metrics and not _have_spread(table, numbers):
            tasks = [name for name in numbers if name not in metrics]
            raise DataError(
                f"{table.where}: is {metrics[0]!r} the score or a task, as {_few(tasks)}? Use "
                f"--metric {shlex.quote(_bare(metrics[0]))} if it is the score, or --columns "
                f"task={COLUMNS} if all are tasks"
            )
        return _melted(table, numbers, "task")
    if "task" in table.named:
        if len(numbers) > 1:
            return _melted(table, numbers, "method")
        _complete(table)
        return _of_metric(table, numbers), ""
    if not table.text():
        if len(numbers) == 1:
            _refuse(table, "there is no column of methods; add one", "method=NAME")
        if "seed" not in table.named:
            is_binary = _is_binary(table.cells[[*numbers]].to_numpy().ravel())
            _refuse_rows(table, is_binary, f"the columns ({_few(numbers)}) are methods")
        return _melted(table, numbers, "method")
    return _by_values(table, numbers)


def _check_no_scores(table: _Table, name: str) -> None:
    """Refuse a column of text with scores, such as `84.6/83.4`, which would be left out."""
    others = [cell for cell in map(str, table.cells[name]) if parsed(cell) is None]
    if not _fits(name, _FREE) and all(map(_SCORES.fullmatch, others)):
        raise DataError(
            f"{table.where}: cells of column {name!r} must be numbers, found {others[0]!r}. Write "
            "one score in a cell, without marks; if the column has no scores, remove it"
        )


def _refuse_run(table: _Table, name: str) -> NoReturn:
    """Refuse a column that numbers the rows of each method; it can have seeds or epochs."""
    named = [f"{key}={x}" for key, x in table.named.items() if key in ("task", "method")]
    free = [] if named else table.text()[:2]
    orders = itertools.permutations(("method", "task"), len(free))
    uses = [",".join([*named, *map("{}={}".format, x, free), f"seed={name}"]) for x in orders]
    use = f"{' or '.join(uses)} (or fold or item), or seed={ROW} if it is a score"
    _refuse(table, f"{name!r} numbers the rows of each method, as seeds do", use)


def _by_values(table: _Table, numbers: Sequence[str]) -> tuple[pd.DataFrame, str]:
    """Read a table whose column of text has an unknown name, by its values or the columns'."""
    names = table.text()
    if len(names) > 1:
        first, second = names[:2]
        use = f"method={first},task={second} or method={second},task={first}"
        _refuse(table, "it is not clear which column is the method", use)
    (text,) = names
    if len(numbers) == 1:
        table.named["method"] = text
        return _of_metric(table, numbers), ""
    known = {name.lower() for entry in TASKS.values() for name in entry.task.scored}
    rows = bool({str(cell).lower() for cell in table.cells[text]} & known)
    heads = {name.lower() for name in numbers} & known
    if not heads and _UNNAMED.fullmatch(text.lower()):
        # By convention, rows are datasets; scores usually differ more between datasets.
        cells = table.cells[[*numbers]].map(parsed).astype(float)
        rows |= bool(cells.mean(axis=1).std() >= cells.mean().std())
    if rows or _have_spread(table, numbers):
        table.named["task"] = text
        return _melted(table, numbers, "method")
    if heads:
        table.named["method"] = text
        return _long(table)
    raise DataError(
        f"{table.where}: are the rows of {text!r} ({_few(table.cells[text])}) tasks or methods? "
        f"Use --columns {shlex.quote(f'task={text}')} if they are tasks and the columns "
        f"({_few(numbers)}) methods, --columns {shlex.quote(f'method={text}')} if they are methods "
        "and the columns tasks"
    )


def _have_spread(table: _Table, names: Sequence[str]) -> bool:
    """Return True for cells such as `85.3 ± 0.4`, which are refused with any reading."""
    return any(map(has_spread, table.cells[[*names]].to_numpy().ravel()))


def _refuse_rows(table: _Table, is_binary: bool, methods: str) -> NoReturn:
    """Refuse rows without names; those of items or folds are pairs."""
    kinds = ["item", "seed"] if is_binary else ["task", "fold", "seed"]
    raise DataError(
        f"{table.where}: are the rows {join_names([f'{kind}s' for kind in kinds], ' or ')}? Use "
        f"--columns {join_names([f'{x}={ROW} if they are {x}s' for x in kinds], ' or ')}; "
        f"{methods}"
    )


def _complete(table: _Table) -> None:
    """Find the method among columns of text and settings, if only one reading is possible."""
    if "method" in table.named:
        return
    names = [x for x in table.others if _SET.match(x) or not is_numeric(table.cells[x])]
    if not names:
        _refuse(table, "there is no column of methods; add one", "method=NAME")
    rows = len(table.cells)
    kept = [x for x in names if _words(x).endswith("name") or not _fits(x, _FREE)]
    fitting = [x for x in kept if 1 < table.cells[x].nunique() < rows]
    # With tasks, no two methods would share one; names of tracked runs have seeds.
    if not fitting and "task" not in table.named and not table.tracked:
        fitting = kept
    if len(fitting) != 1:
        options = " or ".join(f"method={name}" for name in (fitting or kept or names)[:3])
        _refuse(table, "it is not clear which column is the method", options)
    table.named["method"] = fitting[0]


def _of_metric(table: _Table, candidates: Sequence[str]) -> pd.DataFrame:
    """Return the rows with the only metric as score."""
    if len(candidates) > 1 and not all(_have_spread(table, [name]) for name in candidates):
        options = " or ".join(f"--metric {shlex.quote(_bare(x))}" for x in candidates[:4])
        options += f", or use --columns task={COLUMNS} if each is a task"
        names = _few(map(_bare, candidates))
        raise DataError(f"{table.where} has several metrics ({names}); choose one: {options}")
    table.named["score"] = candidates[0]
    _complete(table)
    return _renamed(table)


def _renamed(table: _Table) -> pd.DataFrame:
    """Return the named columns under our names; without tasks, all scores are of one."""
    rows = pd.DataFrame({key: table.cells[name] for key, name in table.named.items()})
    score = _bare(table.named["score"])
    if "task" not in rows:
        rows.insert(0, "task", score)
    if "metric" not in rows and _words(score) not in SYNONYMS["score"]:
        rows["metric"] = score
    return rows


def _melted(table: _Table, columns: Sequence[str], key: str) -> tuple[pd.DataFrame, str]:
    """Return one row per cell of the columns, which are tasks, methods or seeds; see `_long`."""
    table.scores = columns
    for name in (x for x in columns if key == "method" and _fits(x, _TRUE_LABELS)):
        raise DataError(
            f"{table.where}: is {name!r} the true label? Remove it, and write the score of each "
            "prediction, such as 1 if it is right and 0 if not"
        )
    kept = {name: own for own, name in table.named.items()}
    rows = table.cells[[*kept, *columns]].rename(columns=kept)
    if key == "seed":
        names = {name: _OF_SEED.fullmatch(_words(name))[1] for name in columns}  # type: ignore[index]
        rows = rows.rename(columns=names)
        columns = [*names.values()]
    ids = [name for name in rows if name not in columns]
    long = rows.melt(ids, [*columns], key, "score", ignore_index=False)
    if "task" not in long:
        long["task"] = "score"
    first, *others = ([*re.findall(r"[^\W_]+", name)] for name in columns)
    metric = " ".join(word for word in first if all(word in words for words in others))
    if key != "method" or "metric" in long or read_name(metric)[0] is None:
        return long, f"{key}s"
    if _words(metric) in ("loss", "losses") and not any(f"({metric})" in x for x in columns):
        raise DataError(
            f"{table.where}: does {metric!r} in all columns ({_few(columns)}) mean that scores are "
            f"losses? Rename them, such as 'A ({metric})' if it does, or 'A' if it does not"
        )
    return long.assign(metric=metric), f"{key}s"


def _with_items(rows: pd.DataFrame, table: _Table) -> pd.DataFrame:
    """Make tasks of the items of one task, if their scores are not only 0 and 1.

    A task has no test of such items; ids that methods do not share are those of runs.
    """
    name = table.named["seed"]
    if rows.groupby("seed")["method"].nunique().max() < 2:
        return rows
    if rows["task"].nunique() > 1:
        why = f"the tasks have items ({name!r}) with other scores than 0 and 1"
        use = f"task={name} if each item is a task, or seed={name} if all are independent runs"
        _refuse(table, f"{why}; keep one task", use)
    table.named["task"] = table.named.pop("seed")
    return rows.drop(columns="task").rename(columns={"seed": "task"})


def _with_seeds(rows: pd.DataFrame, table: _Table, *, is_given: bool) -> pd.DataFrame:
    """Number the rows of each method on a task, if no column has the seeds.

    Rows that differ in a setting are refused. Costs, metrics and remarks can differ between seeds,
    and so can values that occur once, such as ids.
    """
    if "seed" in rows and table.named.get("seed") != ROW:
        return rows
    keys = [name for name in ("task", "method", "metric", "split") if name in rows]
    named = [*dict.fromkeys(table.named[key] for key in keys if key in table.named)]
    cells = table.cells.drop(columns=[*table.scores]).astype(str)
    differ = cells.groupby(named or [""] * len(cells)).nunique().gt(1).any()
    is_binary = _is_binary(rows["score"])
    for name in (x for x in table.others if differ.get(x) and not _MEASURED.match(x)):
        free = cells[name].is_unique or read_name(_bare(name))[0] is not None or _fits(name, _FREE)
        is_setting = _fits(name, _SETTING)
        if name[:1] != "_" and (is_setting or not free) and not is_given:
            why = f"rows of the same task and method differ in {name!r} ({_few(cells[name])})"
            pairs = f"{'item' if is_binary else 'fold'}={name} if methods share them, or "
            use = f"{'' if is_setting else pairs}seed={ROW} if all rows are independent runs"
            _refuse(table, f"{why}; keep one of them", use)
    numbers = rows.groupby(keys, sort=False, dropna=False).cumcount() + 1
    if is_binary and numbers.max() > 1 and not is_given:
        _refuse_rows(table, is_binary, "no column has their names")
    return rows.assign(seed=numbers.astype(str))


def _refuse(table: _Table, why: str, example: str = "") -> NoReturn:
    names = join_names([*map(repr, table.columns)])
    use = example or "task=NAME,method=NAME,score=NAME"
    raise DataError(f"{table.where}: {why}. Use --columns {use}. The columns are {names}")


def _fits(name: str, pattern: str) -> bool:
    return bool(re.fullmatch(pattern, _words(name)))


def _is_summary(name: str, pattern: str, cells: Iterable[Any]) -> bool:
    """Return True for the name of a summary; `count` is a task if its scores are fractions."""
    is_task = _words(name) == "count" and any((parsed(cell) or 0) % 1 > 0 for cell in cells)
    return _fits(name, pattern) and not is_task


def _averages(cells: pd.DataFrame) -> list[str]:
    """Return the columns that may be averages by their name and are by their values."""
    numbers, found = cells.map(parsed).astype(float), list[str]()
    for name in [x for x in map(str, cells) if _fits(x, _PERHAPS_AVERAGE)]:
        means = numbers.drop(columns=[*found, name]).agg(["mean", "count"], axis=1)
        digits = max(len(str(x).strip(" %").partition(".")[2]) for x in cells[name])
        is_mean = np.allclose(numbers[name], means["mean"], 0, 1.01 * 10.0**-digits, True)
        found += [name] * bool(is_mean and (means["count"] > 1).all())
    return found


def _is_binary(cells: Iterable[Any]) -> bool:
    """Return True for scores of items, which are 0 or 1 or failed."""
    return all(x in (0, 1) or x != x for x in map(parsed, cells))


def _is_metric(name: str) -> bool:
    """Return True for the name of a metric, but not of a task with its metric: `CoLA (acc)`."""
    name = re.sub(r"(?<=.) \(.*\)", "", STATED.sub("", _bare(name)).strip())
    return read_name(name)[0] is not None or _words(name).endswith(tuple(SYNONYMS["score"]))


def _few(names: Iterable[Any], most: int = 3) -> str:
    """Return the first names."""
    shown = [*dict.fromkeys(map(str, names))]
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")


def _bare(name: str) -> str:
    """Return the name of a column without the prefix of a tracker."""
    return _TRACKER.sub("", name)


def _words(name: str) -> str:
    """Return a name in lower case with single spaces, without the prefix of a tracker."""
    return words_of(_bare(name.strip()))


def is_numeric(column: pd.Series) -> bool:
    """Return True for a column of numbers and failed runs, most of which are numbers.

    Scores with deviations and a few cells of other text are errors that are found later.
    """
    numbers = [0.0 if has_spread(cell) else parsed(cell) for cell in column.tolist()]
    known = sum(number is not None and not math.isnan(number) for number in numbers)
    return known > 0 and known >= numbers.count(None)


def parsed(cell: Any) -> float | None:
    r"""Return a number, NaN for a failed run, None for other text.

    Empty cells, `-`, `N/A`, `failed`, `OOM`, `timeout`, infinities and the like are failed runs. A
    percent sign and marks (`**85.3**`, `85.3†`, `\textbf{85.3}`) are left out; `yes` is 1.

    Example:
        >>> parsed("85.3 %"), parsed("OOM"), parsed("mlp")
        (85.3, nan, None)
    """
    if cell is None or cell is pd.NA:
        return math.nan
    text = unmarked(cell).replace("−", "-")
    text = _TRUTHS.get(text.lower(), text)
    if _FAILED.fullmatch(text.lower()) or _DIVERGED.fullmatch(text.lower()):
        return math.nan
    text = text.removesuffix("%").rstrip()
    if "_" in text:  # Python reads 8_0.5 as 80.5
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else math.nan


def is_diverged(cell: Any) -> bool:
    """Return True for the cell of a run that is said to have diverged."""
    return bool(_DIVERGED.fullmatch(str(cell).strip().lower()))


def has_spread(cell: Any) -> bool:
    """Return True for a mean with its standard deviation, such as `85.3 ± 0.4`."""
    return bool(_DEVIATION.fullmatch(unmarked(cell)))


def unmarked(cell: Any) -> str:
    """Return the text of a cell without marks of Markdown and LaTeX."""
    text = str(cell).strip().strip("*†‡")
    if "\\" in text or "$" in text:
        text = _LATEX.sub(r"\1", _LATEX.sub(r"\1", text.replace("$", "").replace("\\%", "%")))
    return text.strip()
