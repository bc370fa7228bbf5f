"""Comparison of scores from several sources, with options that replace what suites declare."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from shlex import quote as quote_words
from typing import TYPE_CHECKING, Any

import pandas as pd

from relation_tf import __version__
from relation_tf.config.families import Family, blocks, faults, find_member, mechanisms_of
from relation_tf.config.plugins import load_plugins
from relation_tf.errors import (
    OptionError,
    SuiteError,
    UnknownNameError,
    did_you_mean,
    join_names,
    quote,
)
from relation_tf.option_fields import accepts
from relation_tf.registry import PROCEDURES
from relation_tf.report.data import ReportData
from relation_tf.report.options import Chosen, ComparisonOptions
from relation_tf.report.report import Report
from relation_tf.report.scores import KEY, Scores, has_scores, most_seeds, scored_names
from relation_tf.report.sections.costs import read_costs
from relation_tf.report.sections.runs import in_a_line
from relation_tf.report.sources import (
    LoadedScores,
    ScoreSource,
    doubts,
    failing_layers,
    join,
    read_source,
    tasks_named,
    unused_tests,
)
from relation_tf.report.text import Statement, state
from relation_tf.words import count, listed

if TYPE_CHECKING:
    from relation_tf.config.method import Method

_CONTROL = "compares with a control, so it needs --control NAME"


def with_families(scores: Scores, methods: Sequence[Method], given: ComparisonOptions) -> Scores:
    """Replace the families of methods.

    Args:
        scores: The scores.
        methods: The methods of the suites.
        given: Options of the comparison.

    Raises:
        OptionError: If a name or key is unknown, a method is not in exactly one family of two or
            more, or the control or reference is not in each family.
    """
    families = given.families
    if families is None:
        return scores
    names = [*scores.methods]
    if isinstance(families, str):
        named = _by_key(families, names, {str(method.name): method for method in methods})
    else:
        named = blocks(families, ())
    for name in (name for block in named.values() for name in block if name not in names):
        raise OptionError(
            "families",
            f"must contain only methods of the sources: {join_names(names)}. Received: "
            f"{name!r:.80}.{did_you_mean(name, names)}",
        )
    found = [Family(name, own) for name, own in named.items()]
    for fault in faults(found, names):
        raise OptionError("families", fault)
    scores = replace(scores, families=found)
    for key, chosen in (
        ("control", given.control or scores.control),
        ("reference", given.reference or scores.reference),
    ):
        if chosen is not None:
            scores = _with_method(scores, methods, key, chosen)
    return scores


def _by_key(key: str, names: Sequence[str], known: Mapping[str, Method]) -> dict[str, list[str]]:
    lists = "must list the methods of each family"
    if len(names) >= 4:
        lists += f", such as {quote_words(_halves(names))}"
    lacking = [name for name in names if name not in known]
    if lacking:
        raise OptionError(
            "families",
            f"{lists}, because the settings of {lacking[0]} are unknown (it is not from a suite). "
            f"Received: {key!r:.80}",
        )
    own = [known[name] for name in names]
    keys = sorted({"mechanism", "units", "size"}.union(*(method.options for method in own)))
    if key in keys:
        return blocks(key, own)
    raise OptionError(
        "families",
        f"{lists}, or be one of {join_names(keys)}. Received: {key!r:.80}."
        f"{did_you_mean(key, keys)}",
    )


def _halves(names: Sequence[str]) -> str:
    """Return an example of two families of four methods or more."""
    return f"{','.join(names[:2])};{','.join(names[2:4])}"


def drop_lost_control(scores: Scores) -> Scores:
    """Remove a control or reference that is no method or, with families, not in each of them.

    In a suite with families it can be a mechanism. If the joined scores have no families, or two
    methods of this mechanism in a family, it names no method. Tests against a control that is
    removed are removed, too.

    Args:
        scores: Joined scores of sources of which one or more have families.
    """
    for key in ("control", "reference"):
        own = [getattr(family, key) for family in scores.families]
        lost = None in own if own else getattr(scores, key) not in scores.methods
        if lost:
            removed: dict[str, Any] = {key: None}
            families = [replace(family, **removed) for family in scores.families]
            scores = replace(scores, families=families, **removed)
    if scores.control is None and scores.procedure.against_control:
        scores = replace(scores, test=None)
    if scores.control is None and scores.procedure_over_tasks.against_control:
        scores = replace(scores, test_over_tasks=None)
    return scores


def with_test(scores: Scores, methods: Sequence[Method], given: ComparisonOptions) -> Scores:
    """Replace the control and the tests.

    Args:
        scores: The scores.
        methods: The methods of the suites.
        given: Options of the comparison.

    Raises:
        OptionError: If the control is not a method, or a test does not match it.
        UnknownNameError: If no test has this name.
    """
    if given.control is not None:
        scores = _with_method(scores, methods, "control", given.control)
        scores = replace(scores, test=None, test_over_tasks=None)
    if given.test is not None:
        _check_test("test", given.test, scores.control, over_tasks=False)
        scores = replace(scores, test=given.test)
    if given.test_over_tasks is not None:
        _check_test("test_over_tasks", given.test_over_tasks, scores.control, over_tasks=True)
        _check_number(given.test_over_tasks, scores)
        scores = replace(scores, test_over_tasks=given.test_over_tasks)
    return scores


def _check_test(option: str, name: str, control: str | None, *, over_tasks: bool) -> None:
    """Check that an option can name this test, and that it matches the control."""
    known = [
        each
        for each, procedure in PROCEDURES.items()
        if (procedure.compares == "over-tasks") == over_tasks
    ]
    if name not in known:
        raise UnknownNameError("test over tasks" if over_tasks else "test", name, known)
    if control is None and PROCEDURES[name].against_control:
        raise OptionError(option, f"{name} {_CONTROL}")
    if control is not None and not PROCEDURES[name].against_control:
        others = [each for each in known if PROCEDURES[each].against_control]
        raise OptionError(
            option,
            f"{name} compares all pairs, but there is a control, {control}. Tests with a control: "
            f"{join_names(others)}",
        )


def _check_number(name: str, scores: Scores) -> None:
    """Check that each family has enough methods for a test over tasks."""
    sizes = [len(family.methods) for family in scores.families] or [len(scores.methods)]
    if min(sizes) < (least := PROCEDURES[name].least_methods):
        raise OptionError(
            "test_over_tasks",
            f"{name} needs at least {least} methods{' in each family' if scores.families else ''}. "
            f"Received: {min(sizes)}",
        )


def with_margin(scores: Scores, methods: Sequence[Method], given: ComparisonOptions) -> Scores:
    """Replace the reference and the margins.

    Args:
        scores: The scores.
        methods: The methods of the suites.
        given: Options of the comparison.

    Raises:
        OptionError: If the reference is not a method, there is a margin without a reference, a
            margin is not in the unit of its task, or a task is unknown.
    """
    if given.reference is not None:
        scores = _with_method(scores, methods, "reference", given.reference)
    margin, margins = given.margin, dict(given.margins or {})
    if margin is None and not margins:
        return scores
    if scores.judged_against is None:
        raise OptionError("margin", "needs --reference NAME or --control NAME")
    tasks = scores.own_tasks
    for task in margins:
        if task not in tasks:
            raise OptionError(
                "margin",
                f"must name tasks of the sources: {join_names(tasks)}. Received: {task!r}."
                f"{did_you_mean(task, tasks)}",
            )
    if margin is None:
        raise OptionError(
            "margin",
            "must have a value for the other tasks, too, such as --margin 1 --margin "
            f"{quote_words(f'{next(iter(margins))}=0.5')}",
        )
    scores = replace(scores, margin=margin, margins=margins, reference_declared=False)
    for own in (margin, *margins.values()):
        if not 0 < own < math.inf:
            raise OptionError("margin", f"must be above 0. Received: {own:g}")
    _check_sizes(scores)
    return scores


def _check_sizes(scores: Scores) -> None:
    """Check that each task's margin is below its largest score, or below 100 points."""
    sizes = scores.table["score"].abs().groupby(scores.table["task"]).max()
    largest = {
        task: 100.0 if scores.factor(task) == 100 else scores.factor(task) * float(sizes[task])
        for task in scores.own_tasks
        if task in sizes
    }
    too_large = [task for task, size in largest.items() if 0 < size <= scores.margin_of(task)]
    if not too_large:
        return
    task = too_large[0]
    own = len(too_large) < len(largest) and task not in scores.margins
    hint = f". Give this task another margin: --margin {quote_words(f'{task}=NUMBER')}"
    raise OptionError(
        "margin",
        f"must be below the largest score of a task, {largest[task]:.4g} on {task}. Received: "
        f"{scores.margin_of(task):g}{hint if own else ''}",
    )


def only_complete(scores: Scores) -> Scores:
    """Leave out methods that lack scores on at least one task.

    Raises:
        OptionError: If fewer than two methods of a family have all tasks, or its control or
            reference lacks one.
    """
    if fault := scores.complete_fault():
        raise OptionError("complete_methods", fault)
    lacking = scores.lacking_tasks()
    methods = [name for name in scores.methods if name not in lacking]
    families = [
        replace(family, methods=[name for name in family.methods if name not in lacking])
        for family in scores.families
    ]
    table = scores.table[scores.table["method"].isin(methods)]
    return replace(scores, table=table, methods=methods, families=families, seeds=most_seeds(table))


def without_incomplete(before: Scores, scores: Scores) -> Iterator[Statement]:
    """Yield a remark that names the methods that `only_complete` has left out.

    Args:
        before: All scores.
        scores: The scores of the complete methods.
    """
    if lacking := before.lacking_tasks():
        numbers = {"others": len(scores.methods), "total": len(before.methods)}
        yield state("left_out_methods", lacking=lacking, **numbers)


def _with_method(scores: Scores, methods: Sequence[Method], key: str, chosen: Chosen) -> Scores:
    """Set the control or the reference; with families, one of each family."""
    if not isinstance(chosen, str):  # names of a table can be numbers
        chosen = [*map(str, chosen)] if isinstance(chosen, Iterable) else str(chosen)
    mechanisms = mechanisms_of(methods)
    known = [*scores.methods, *(dict.fromkeys(mechanisms.values()) if scores.families else ())]
    whole = not isinstance(chosen, str) or chosen in known
    names = [chosen] if isinstance(chosen, str) and whole else _listed(chosen)
    expected = _expected(scores.families, names, bool(mechanisms)) or f"be one of {listed(known)}"
    for name in names:
        if name not in known:
            raise OptionError(
                key, f"must {expected}. Received: {name!r:.80}.{did_you_mean(name, known)}"
            )
    if not scores.families and len(names) != 1:
        raise OptionError(key, f"must {expected}. Received: {join_names(names)}")
    families = []
    for family in scores.families:
        found = {find_member(name, family.methods, mechanisms) for name in names} - {None}
        if len(found) != 1:
            several = "several methods" if found else "no method"
            raise OptionError(
                key,
                f"must {expected}. Received: {join_names(names)}, {several} of {family.name} "
                f"({join_names([*family.methods])})",
            )
        families.append(family.judged(mechanisms, **{key: found.pop()}))
    changed: dict[str, Any] = {"families": families, key: listed(names)}
    return replace(scores, reference_declared=False, **changed)


def _listed(chosen: Chosen) -> list[str]:
    names = chosen.split(",") if isinstance(chosen, str) else chosen
    return [name.strip() for name in names if name.strip()] or [""]


def _expected(families: Sequence[Family], names: Sequence[str], mechanisms: bool) -> str:
    """Return what a control or reference of families must be, with an example."""
    if not families:
        return ""
    example = [
        next((name for name in names if name in family.methods), None)
        or next(iter(get_close_matches(names[0], family.methods, 1, 0.5)), family.methods[0])
        for family in families
    ]
    also = ", or a mechanism that each family has once" if mechanisms else ""
    return f"name one method of each family{also}, such as {quote_words(','.join(example))}"


@accepts(ComparisonOptions)
def compare(*sources: ScoreSource, **options: Any) -> Report:
    """Compare scores of suites, reports, CSV files and data frames.

    If several sources have a method of the same name, its label is appended to the name, as in
    `relation-64 (before)`; with `merge`, the seeds of same-named methods are pooled.

    Args:
        sources: Each a suite's folder or its `Results`; a folder with a report's `scores.csv`; or a
            CSV file or `pandas.DataFrame` with the columns `task`, `method`, `seed` and `score` (or
            `value`), or `task`, `seed` and one column per method. A seed with several rows, one per
            `metric`, has their mean as score. An empty score is that of a failed run; a column
            `diverged` says which of these runs diverged.
        **options: See `relation_tf.report.options.ComparisonOptions`. `out` is only the folder in
            the command that the report shows: `Report.write` writes.

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
    given = ComparisonOptions(**options)
    load_plugins(given.plugins)
    read = _read(sources, given)
    _check_used(given, read)
    lower, higher = (
        tasks_named(names, read) for names in (given.lower_is_better, given.higher_is_better)
    )
    scores, read = join(
        read, merge=given.merge, lower_is_better=lower, higher_is_better=higher, alpha=given.alpha
    )
    _check_failed_as(given.failed_as, read, scores)
    suites = [source.results.suite for source in read if source.results is not None]
    methods = [method for suite in suites for method in suite.methods()]
    scores = with_families(scores, methods, given)
    if any(source.scores.families for source in read):
        scores = drop_lost_control(scores)
    scores = with_margin(with_test(scores, methods, given), methods, given)
    joined, everything = None, scores
    if suites:
        from relation_tf.report.suites import join_results

        joined = join_results(read, scores)
    if given.complete_methods:
        scores = only_complete(scores)
        joined = None if joined is None else joined.only(scores.methods)
    pretraining = [source.pretraining for source in read if source.pretraining]
    data = ReportData(
        scores,
        joined,
        given.title or listed([source.label for source in read]),
        given.question,
        doubts=[
            *failing_layers(read),
            *unused_tests(read, scores),
            *doubts(read, scores),
            *(without_incomplete(everything, scores) if given.complete_methods else ()),
        ],
        origin=_origin(read, pretraining, given.command(sources)),
        manifests=[manifest for source in read for manifest in source.manifests],
        pretraining=pretraining,
        other_runs=_other_runs(read, {*everything.methods} - {*scores.methods}, scores),
        timed_costs=read_costs(given.costs, scores.methods),
        test_changed=given.changes_test,
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


def _check_used(given: ComparisonOptions, read: Sequence[LoadedScores]) -> None:
    """Check that an option for tables or for several sources has an effect."""
    for_tables = {
        "columns": given.columns,
        "drop_failed": given.drop_failed,
        "failed_as": given.failed_as is not None,
    }
    for name, is_given in for_tables.items():
        if is_given and all(source.scores.reference_declared for source in read):
            raise OptionError(name, "applies to tables of scores, but all sources are suites")
    if given.merge and len(read) == 1:
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


def _read(sources: Sequence[ScoreSource], given: ComparisonOptions) -> list[LoadedScores]:
    labels = given.labels
    if labels is not None and len(labels) != len(sources):
        received = f"{count(len(labels), 'name')} for {count(len(sources), 'source')}"
        raise OptionError("labels", f"must be one name per source. Received: {received}")
    named: Sequence[str | None] = labels or [None] * len(sources)
    return [
        read_source(source, label, number, given)
        for number, (source, label) in enumerate(zip(sources, named, strict=True), start=1)
    ]


def _origin(
    read: Sequence[LoadedScores], pretraining: Sequence[Mapping[str, Any]], command: str
) -> dict[str, list[str]]:
    """Return the sources and the command, without empty entries."""
    origin = {
        "sources": [_with_splits(source) for source in read],
        "pre-training": [in_a_line(each) for each in pretraining],
        "compare command": [command] if command else [],
        "compare version": [f"relation_tf {__version__}"],
    }
    return {key: values for key, values in origin.items() if values}
