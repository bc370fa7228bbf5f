"""Comparison of scores from any sources: suites, reports, CSV files and data frames."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import pandas as pd

from relation_tf import __version__
from relation_tf.bench.results import Results
from relation_tf.config.plugins import load_plugins
from relation_tf.errors import OptionError, SuiteError, join_names, quote
from relation_tf.report import provenance
from relation_tf.report.data import ReportData
from relation_tf.report.joining import (
    doubts,
    failing_layers,
    join,
    join_results,
    tasks_named,
    unused_tests,
)
from relation_tf.report.options import (
    Chosen,
    drop_lost_control,
    only_complete,
    with_families,
    with_margin,
    with_test,
    without_incomplete,
)
from relation_tf.report.report import Report
from relation_tf.report.runs import has_scores, scored_names
from relation_tf.report.score_tables import KEY, TableOptions
from relation_tf.report.scores import Scores
from relation_tf.report.sources import LoadedScores, ScoreSource, read_source
from relation_tf.report.trade_offs import read_costs
from relation_tf.words import count, listed

_REPEATED = {"costs": "--costs", "margins": "--margin", "plugins": "--plugin"}
"""Options that are typed once for each value."""


def compare(
    *sources: ScoreSource,
    labels: Sequence[str] | None = None,
    merge: bool = False,
    columns: Mapping[str, str] | None = None,
    lower_is_better: Iterable[str] = (),
    higher_is_better: Iterable[str] = (),
    drop_failed: bool = False,
    failed_as: float | None = None,
    split: str | None = None,
    complete_methods: bool = False,
    alpha: float | None = None,
    control: Chosen | None = None,
    test: str | None = None,
    test_over_tasks: str | None = None,
    reference: Chosen | None = None,
    margin: float | None = None,
    margins: Mapping[str, float] | None = None,
    families: str | Sequence[Sequence[str]] | None = None,
    costs: Sequence[Results | str | Path] = (),
    plugins: Sequence[str] = (),
    title: str = "",
    question: str = "",
    out: str | Path | None = None,
) -> Report:
    """Compare scores of suites, reports, CSV files and data frames.

    If several sources have a method of the same name, its label is appended to the name, as in
    `relation-64 (before)`; with `merge`, the seeds of same-named methods are pooled.

    Args:
        sources: Each a suite's folder or its `Results`; a folder with a report's `scores.csv`; or a
            CSV file or `pandas.DataFrame` with the columns `task`, `method`, `seed` and `score` (or
            `value`), or `task`, `seed` and one column per method. A seed with several rows, one per
            `metric`, has their mean as score.
        labels: Names of the sources, by default of their folders or files.
        merge: If True, pool the seeds of same-named methods across sources.
        columns: Names of columns in tables, by our names, such as `{"task": "dataset"}`.
        lower_is_better: Tasks or metrics where lower scores are better. Otherwise the registered
            metric, the metric that a table names, or the task's name give the direction.
        higher_is_better: Tasks or metrics where higher scores are better.
        drop_failed: If True, leave out failed runs of tables: scores that are empty or not finite
            (by default, rank tests rank them worst). A method with failed runs is never better or
            no worse than a reference.
        failed_as: Score of these runs, in the unit of the table; no better than the worst score of
            a task.
        split: Split of the scores, such as `"test"`: of tables with a column `split`, which must
            otherwise have one split for each task, and of suites whose runs scored test sets with
            public labels. By default suites give the scores of their reports (GLUE: dev sets).
        complete_methods: If True, leave out methods without scores on some of the tasks.
        alpha: Level of the tests, between 0 and 0.5; by default the level of the suites if all
            declare the same test, else .05.
        control: Method to compare all others with; choose it before the runs. With families, one
            method of each. By default the control of the suites, else all pairs are compared.
        test: Statistical procedure, a name in `relation_tf.registry.PROCEDURES`; by default the
            procedure of the suites, else Steel-Dwass, or Steel's test with a control.
        test_over_tasks: Procedure over all tasks together; by default that of the suites, else
            stratified Steel-Dwass, or stratified Steel with a control.
        reference: Method to judge the others against: better, no worse, worse or inconclusive. With
            families, one method of each. By default the reference of the suites, else the control.
        margin: Largest acceptable score decrease from the reference, in the unit of the tables
            (points for suites), above 0; choose it before the runs. By default the margins of the
            suites; without a margin no method can be no worse, only better.
        margins: Margins of single tasks; the others have `margin`.
        families: Lists of methods that are compared only with each other; or `"units"`,
            `"mechanism"`, `"size"` or an option of the methods of suites, for one family per value.
            Control and reference of suites are then also mechanisms, found in each family. By
            default the families of the suites.
        costs: Timed suites (folders or `Results`) with methods of the same names, such as
            `mechanism-speed`; the report then shows the scores against their speed and memory.
        plugins: Modules that register custom tests or report sections.
        title: Title of the report, by default the labels.
        question: Research question of the comparison.
        out: Folder of the report in the command that the report shows. Only `Report.write` writes.

    Raises:
        SuiteError, DataError: If a source cannot be read or compared with the others.

    Example:
        >>> import pandas as pd
        >>> rows = [("MR", method, seed, level + seed / 1000)
        ...         for method, level in (("CNN", 0.78), ("GRU", 0.79)) for seed in range(5)]
        >>> table = pd.DataFrame(rows, columns=["task", "method", "seed", "score"])
        >>> print(compare(table, title="Two methods"))
                        CNN              GRU
        MR  0.7820 ± 0.0016  0.7920 ± 0.0016
        <BLANKLINE>
        Higher is better on MR (assumed).
        - GRU is better than CNN on MR (p < .05).
    """
    if not sources:
        raise SuiteError("compare: at least one source of scores is required")
    if alpha is not None and not 0 < alpha < 0.5:
        raise OptionError("alpha", f"must be a number between 0 and 0.5. Received: {alpha!r}")
    # A string is one name, not a sequence of letters.
    plugins = [plugins] if isinstance(plugins, str) else [*plugins]
    load_plugins(plugins)
    labels = [labels] if isinstance(labels, str) else labels
    lower, higher = (
        [names] if isinstance(names, str) else [*names]
        for names in (lower_is_better, higher_is_better)
    )
    command = _command(
        sources, out=out, labels=labels, merge=merge, columns=columns, lower_is_better=lower,
        higher_is_better=higher, drop_failed=drop_failed, failed_as=failed_as,
        split=split, complete_methods=complete_methods, alpha=alpha, control=control, test=test,
        test_over_tasks=test_over_tasks, reference=reference, margin=margin, margins=margins,
        families=families, costs=[*costs], plugins=plugins, title=title,
    )  # fmt: skip
    options = TableOptions(columns or {}, drop_failed, failed_as, split)
    read = _read(sources, labels, options)
    _check_used(options, read, merge)
    lower, higher = tasks_named(lower, read), tasks_named(higher, read)
    scores, read = join(
        read, merge=merge, lower_is_better=lower, higher_is_better=higher, alpha=alpha
    )
    _check_failed_as(failed_as, read, scores)
    suites = [source.results.suite for source in read if source.results is not None]
    methods = [method for suite in suites for method in suite.methods()]
    scores = with_families(scores, methods, families, control, reference)
    if any(source.scores.families for source in read):
        scores = drop_lost_control(scores)
    scores = with_test(scores, methods, control, test, test_over_tasks)
    scores = with_margin(scores, methods, reference, margin, margins)
    joined, everything = join_results(read, scores), scores
    if complete_methods:
        scores = only_complete(scores)
        joined = None if joined is None else joined.only(scores.methods)
    pretraining = [source.pretraining for source in read if source.pretraining]
    data = ReportData(
        scores,
        joined,
        title or listed([source.label for source in read]),
        question,
        doubts=[
            *failing_layers(read),
            *unused_tests(read, scores),
            *doubts(read, scores),
            *(without_incomplete(everything, scores) if complete_methods else ()),
        ],
        origin=_origin(read, pretraining, command),
        manifests=[manifest for source in read for manifest in source.manifests],
        pretraining=pretraining,
        other_runs=_other_runs(read, {*everything.methods} - {*scores.methods}, scores),
        timed_costs=read_costs(costs, scores.methods),
        test_changed=any(option is not None for option in (alpha, control, test, families)),
    )
    return Report(data, [path for source in read for path in source.paths])


def _other_runs(
    read: Sequence[LoadedScores], left_out: Collection[str], scores: Scores
) -> pd.DataFrame:
    """Return the runs of reports and tables, without failed ones that another source repeats."""
    runs = pd.concat([source.runs for source in read], ignore_index=True)
    if runs.empty:
        return runs
    known = has_scores(scores.table, scored_names(None))
    kept = [
        method not in left_out and not (status == "failed" and known(task, method, seed))
        for task, method, seed, status in runs[[*KEY, "status"]].itertuples(index=False, name=None)
    ]
    return runs[kept]


def _with_splits(source: LoadedScores) -> str:
    """Return the origin of scores, with their splits if it is no suite with all its scores."""
    known = sorted({*source.scores.splits.values()} - {""}) if source.results is None else []
    return f"{source.origin}, {join_names(known, ' and ')} sets" if known else source.origin


def _check_used(options: TableOptions, read: Sequence[LoadedScores], merge: bool) -> None:
    """Check that an option for tables or for several sources has an effect."""
    given = {
        "columns": bool(options.columns),
        "drop_failed": options.drop_failed,
        "failed_as": options.failed_as is not None,
    }
    for name, is_given in given.items():
        if is_given and all(source.scores.reference_declared for source in read):
            raise OptionError(name, "applies to tables of scores, but all sources are suites")
    if merge and len(read) == 1:
        raise OptionError("merge", "needs two or more sources. Received: one")


def _check_failed_as(value: float | None, read: Sequence[LoadedScores], scores: Scores) -> None:
    """Check that failed runs do not get a score that is better than that of another run."""
    for task in {task: None for source in read for task in sorted(source.replaced)}:
        own = scores.table.loc[scores.table["task"] == task, "score"]
        lower = task in scores.lower_is_better
        worst = own.max() if lower else own.min()
        if value is not None and (value < worst if lower else value > worst):
            raise OptionError(
                "failed_as",
                f"must be no better than the worst score on {quote(task)}: "
                f"{'at least' if lower else 'at most'} {worst:g}. Received: {value:g}",
            )


def _read(
    sources: Sequence[ScoreSource], labels: Sequence[str] | None, options: TableOptions
) -> list[LoadedScores]:
    if labels is not None and len(labels) != len(sources):
        received = f"{count(len(labels), 'name')} for {count(len(sources), 'source')}"
        raise OptionError("labels", f"must be one name per source. Received: {received}")
    named: Sequence[str | None] = labels or [None] * len(sources)
    return [
        read_source(source, label, number, options)
        for number, (source, label) in enumerate(zip(sources, named, strict=True), start=1)
    ]


def _origin(
    read: Sequence[LoadedScores], pretraining: Sequence[Mapping[str, Any]], command: str
) -> dict[str, list[str]]:
    """Return the sources and the command, without empty entries."""
    origin = {
        "sources": [_with_splits(source) for source in read],
        "pre-training": [provenance.in_a_line(each) for each in pretraining],
        "compare command": [command] if command else [],
        "compare version": [f"relation_tf {__version__}"],
    }
    return {key: values for key, values in origin.items() if values}


def _command(sources: Sequence[ScoreSource], **options: Any) -> str:
    """Return the shell command of a comparison; empty if there is no such command."""
    words = ["relation-tf", "compare", *map(_path, sources)]
    for name, value in options.items():
        words += _words(name, value)
    return "" if None in words else shlex.join(map(str, words))


def _words(name: str, value: Any) -> list[str | None]:
    """Return an option as typed, with None for a value that cannot be typed."""
    if name == "margins":
        value = [f"{task}={_number(own)}" for task, own in (value or {}).items()]
    if name in _REPEATED:
        return [word for own in value for word in (_REPEATED[name], _path(own))]
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [flag] if value else []
    if isinstance(value, Real):
        return [flag, _number(value)]
    typed = _path(value)
    if typed is None:
        typed = _names([] if value is None else value)
    return [] if typed == "" else [flag, typed]


def _path(source: Any) -> str | None:
    return str(source) if isinstance(source, str | os.PathLike) else None


def _number(value: Any) -> str:
    return repr(float(value)).removesuffix(".0")


def _names(value: Any) -> str | None:
    """Return names, or lists of names, as typed; None if a name has a separator."""
    pairs = isinstance(value, Mapping)
    own = [f"{key}={name}" for key, name in value.items()] if pairs else [*value]
    nested = own and isinstance(own[0], list | tuple)
    lists = [[*map(str, names)] for names in (own if nested else [own])]
    if any({",", ";"} & {*name} for names in lists for name in names):
        return None
    return ";".join(",".join(names) for names in lists)
