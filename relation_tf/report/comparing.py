"""Comparison of scores from several sources, with options that replace what suites declare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from shlex import quote as quote_words
from typing import Any

import numpy as np
import pandas as pd

from relation_tf import __version__
from relation_tf.config.families import Family, faults
from relation_tf.config.user_code import load_plugins
from relation_tf.errors import OptionError, SuiteError, UnknownNameError, did_you_mean, join_names
from relation_tf.registry import PROCEDURES
from relation_tf.report.data import ReportData
from relation_tf.report.options import Chosen, ComparisonOptions
from relation_tf.report.report import Report
from relation_tf.report.scores import KEY, Scores, has_scores, scored_names
from relation_tf.report.sections.costs import read_costs
from relation_tf.report.sections.runs import in_a_line
from relation_tf.report.sources import (
    LoadedScores,
    ScoreSource,
    failing_layers,
    join,
    read_source,
    source_warnings,
    tasks_named,
)
from relation_tf.settings import accepts
from relation_tf.words import count, listed

_CONTROL = "compares with a control, so it needs --control NAME"


def with_families(scores: Scores, given: ComparisonOptions) -> Scores:
    """Replace the families of methods.

    Args:
        scores: The scores.
        given: Options of the comparison.

    Raises:
        OptionError: If a name is unknown, a method is not in exactly one family of two or more, or
            the control or reference is not in each family.
    """
    if given.families is None:
        return scores
    names = [*scores.methods]
    families = [Family(f"family {i}", [*x]) for i, x in enumerate(given.families, start=1)]
    rule = f"contain only methods of the sources: {join_names(names)}"
    _check_known("families", chain.from_iterable(x.methods for x in families), names, rule)
    for fault in faults(families, names):
        raise OptionError("families", fault)
    scores = replace(scores, families=families)
    for key, chosen in (
        ("control", given.control or scores.control),
        ("reference", given.reference or scores.reference),
    ):
        if chosen is not None:
            scores = _with_method(scores, key, chosen)
    return scores


def drop_lost_control(scores: Scores) -> Scores:
    """Remove a control or reference that is no method or, with families, not in each of them.

    In a suite with families it can be a mechanism. If the joined scores have no families, or two
    methods of this mechanism in a family, it names no method. Tests against a control that is
    removed are removed, too.

    Args:
        scores: Joined scores of sources of which one or more have families.
    """
    for key in ("control", "reference"):
        controls = [getattr(family, key) for family in scores.families]
        lost = None in controls if controls else getattr(scores, key) not in scores.methods
        if lost:
            removed: dict[str, Any] = {key: None}
            families = [replace(family, **removed) for family in scores.families]
            scores = replace(scores, families=families, **removed)
    if scores.control is None and scores.procedure.against_control:
        scores = replace(scores, test=None)
    if scores.control is None and scores.procedure_over_tasks.against_control:
        scores = replace(scores, test_over_tasks=None)
    return scores


def with_test(scores: Scores, given: ComparisonOptions) -> Scores:
    """Replace the control and the tests.

    Args:
        scores: The scores.
        given: Options of the comparison.

    Raises:
        OptionError: If the control is not a method, or a test does not match it.
        UnknownNameError: If no test has this name.
    """
    if given.control is not None:
        scores = _with_method(scores, "control", given.control)
        scores = replace(scores, test=None, test_over_tasks=None)
    if given.test is not None:
        _check_test("test", given.test, scores, over_tasks=False)
        scores = replace(scores, test=given.test)
    if given.test_over_tasks is not None:
        _check_test("test_over_tasks", given.test_over_tasks, scores, over_tasks=True)
        scores = replace(scores, test_over_tasks=given.test_over_tasks)
    share = given.test_share
    if share is not None and not (scores.replicate == "fold" and 0 < share < 1):
        fault = f"must be between 0 and 1, for scores of folds. Received: {share:g}, for scores of "
        raise OptionError("test_share", f"{fault}{scores.replicate}s")
    return scores if share is None else replace(scores, test_share=share)


def _check_test(option: str, name: str, scores: Scores, *, over_tasks: bool) -> None:
    """Check that an option can name this test, and that it matches the control and the scores."""
    control = scores.control
    known = [
        test
        for test, procedure in PROCEDURES.items()
        if (procedure.compares == "over-tasks") == over_tasks
    ]
    if name not in known:
        raise UnknownNameError("test over tasks" if over_tasks else "test", name, known)
    if control is None and PROCEDURES[name].against_control:
        raise OptionError(option, f"{name} {_CONTROL}")
    if control is not None and not PROCEDURES[name].against_control:
        others = [test for test in known if PROCEDURES[test].against_control]
        raise OptionError(
            option,
            f"{name} compares all pairs, but there is a control, {control}. Tests with a control: "
            f"{join_names(others)}",
        )
    procedure = PROCEDURES[name]
    of_seeds = procedure.equal_spread if over_tasks else not procedure.paired
    if scores.paired and of_seeds and not PROCEDURES.is_of_user(name):
        raise OptionError(
            option,
            f"{name} needs independent seeds, but the table has {scores.replicate}s. Leave it out, "
            f"or use --columns seed=COLUMN if all {scores.replicate}s are independent",
        )


def with_margin(scores: Scores, given: ComparisonOptions) -> Scores:
    """Replace the reference and the margins.

    Args:
        scores: The scores.
        given: Options of the comparison.

    Raises:
        OptionError: If the reference is not a method, there is a margin without a reference, a
            margin is not in the unit of its task, or a task is unknown.
    """
    if given.reference is not None:
        scores = _with_method(scores, "reference", given.reference)
    margin, margins = given.margin, dict(given.margins or {})
    if margin is None and not margins:
        return scores
    if scores.judged_against is None:
        raise OptionError("margin", "needs --reference NAME or --control NAME")
    tasks = scores.single_tasks
    _check_known("margin", margins, tasks, f"name tasks of the sources: {join_names(tasks)}")
    if margin is None and {*tasks} <= {*margins}:
        margin = margins.pop(tasks[0])  # the other tasks have their own
    if margin is None:
        raise OptionError(
            "margin",
            "must have a value for the other tasks, too, such as --margin 1 --margin "
            f"{quote_words(f'{next(iter(margins))}=0.5')}",
        )
    scores = replace(scores, margin=margin, margins=margins, reference_declared=False)
    for value in (margin, *margins.values()):
        if not 0 < value < math.inf:
            raise OptionError("margin", f"must be above 0. Received: {value:g}")
    _check_sizes(scores)
    return scores


def _check_sizes(scores: Scores) -> None:
    """Check that each task's margin is below its largest score, or below 100 points."""
    sizes = scores.table["score"].abs().groupby(scores.table["task"]).max()
    largest = {
        task: 100.0 if scores.factor(task) == 100 else scores.factor(task) * float(sizes[task])
        for task in scores.single_tasks
        if task in sizes
    }
    too_large = [task for task, size in largest.items() if 0 < size <= scores.margin_of(task)]
    if not too_large:
        return
    raise OptionError(
        "margin",
        f"must be below the largest score of a task, {largest[too_large[0]]:.4g} on "
        f"{too_large[0]}. Received: {scores.margin_of(too_large[0]):g}",
    )


def _with_method(scores: Scores, key: str, chosen: Chosen) -> Scores:
    """Set the control or the reference; with families, one of each family."""
    if isinstance(chosen, str) and chosen not in scores.methods:
        chosen = [name.strip() for name in chosen.split(",")]
    # Names of a table can be numbers.
    is_list = not isinstance(chosen, str) and isinstance(chosen, Iterable)
    names = [*map(str, chosen)] if is_list else [str(chosen)]
    _check_known(key, names, scores.methods, f"be one of {listed(scores.methods, 'or')}")
    families = []
    for family in scores.families or [Family("", scores.methods)]:
        members = [name for name in names if name in family.methods]
        if len(members) != 1:
            allowed = "name one method of each family" if scores.families else "be one method"
            raise OptionError(key, f"must {allowed}. Received: {join_names(names)}")
        families.append(replace(family, **{key: members[0]}))
    changed: dict[str, Any] = {"families": families if scores.families else (), key: listed(names)}
    return replace(scores, reference_declared=False, **changed)


def _check_known(option: str, names: Iterable[str], known: Sequence[str], rule: str) -> None:
    for name in (name for name in names if name not in known):
        fault = f"must {rule}. Received: {name!r:.80}.{did_you_mean(name, known)}"
        raise OptionError(option, fault)


@accepts(ComparisonOptions)
def compare(*sources: ScoreSource, **options: Any) -> Report:
    """Compare scores of suites, reports, CSV files and data frames.

    If several sources have a method of the same name, its label is appended to the name, as in
    `relation-64 (before)`; with `merge`, the seeds of same-named methods are pooled.

    Args:
        sources: Each a suite's folder or its `Results`; a folder with a report's `scores.csv`; or a
            table of scores, a file or a `pandas.DataFrame`, long or wide, see `read_source`. An
            empty score is that of a failed run; a column `diverged` says which of these runs
            diverged.
        **options: See `relation_tf.report.options.ComparisonOptions`.

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
        Read table 1: 1 task x 2 methods x 5 seeds; columns task, method, seed, score.
        Higher is better on MR (assumed).
        - GRU is better than CNN on MR (p < .05).
    """
    if not sources:
        raise SuiteError("compare: at least one source of scores is required")
    given = ComparisonOptions(**options)
    load_plugins(given.plugins)
    if given.labels is not None and len(given.labels) != len(sources):
        received = f"{count(len(given.labels), 'name')} for {count(len(sources), 'source')}"
        raise OptionError("labels", f"must be one name per source. Received: {received}")
    labels: Sequence[str | None] = given.labels or [None] * len(sources)
    read = [
        read_source(source, label, number, given)
        for number, (source, label) in enumerate(zip(sources, labels, strict=True), start=1)
    ]
    _check_used(given, read)
    lower, higher = (
        tasks_named(names, read) for names in (given.lower_is_better, given.higher_is_better)
    )
    scores, read = join(
        read, merge=given.merge, lower_is_better=lower, higher_is_better=higher, alpha=given.alpha
    )
    scores = replace(with_families(scores, given), same_unit=given.same_unit)
    if any(source.scores.families for source in read):
        scores = drop_lost_control(scores)
    scores = with_margin(with_test(scores, given), given)
    joined = None
    if any(source.results is not None for source in read):
        from relation_tf.report.suites import join_results

        joined = join_results(read, scores)
    pretraining = [source.pretraining for source in read if source.pretraining]
    origins = []
    for source in read:
        # Splits are named if it is no suite with all its scores.
        splits = sorted({*source.scores.splits.values()} - {""}) if source.results is None else []
        on = f", {join_names(splits, ' and ')} sets" if splits else ""
        origins.append(f"{source.origin}{on}")
    origin = {
        "sources": origins,
        "read as": [f"{source.label}: {source.layout}" for source in read if source.layout],
        "pre-training": [in_a_line(settings) for settings in pretraining],
        "compare command": [given.command] if given.command else [],
        "compare version": [f"relation_tf {__version__}"],
    }
    data = ReportData(
        scores,
        joined,
        given.title or listed([source.label for source in read]),
        given.question,
        source_warnings=[*failing_layers(read), *source_warnings(read, scores)],
        origin={key: values for key, values in origin.items() if values},
        manifests=[manifest for source in read for manifest in source.manifests],
        pretraining=pretraining,
        other_runs=_other_runs(read, scores),
        timed_costs=read_costs(given.costs, scores.methods),
    )
    return Report(data, [path for source in read for path in source.paths])


def _other_runs(read: Sequence[LoadedScores], scores: Scores) -> pd.DataFrame:
    """Return the runs of reports and tables, without failed ones that another source repeats."""
    runs = pd.concat([source.runs for source in read], ignore_index=True)
    if runs.empty:
        return runs
    known = has_scores(scores.table, scored_names(None))
    repeated = np.array([known(*row) for row in runs[KEY].itertuples(index=False, name=None)])
    return runs[~(runs["status"].eq("failed") & repeated)]


def _check_used(given: ComparisonOptions, read: Sequence[LoadedScores]) -> None:
    """Check that an option for tables or for several sources has an effect."""
    for name in ("columns", "metric", "drop_failed", "failed_as"):
        is_given = getattr(given, name) not in (getattr(ComparisonOptions, name), {})
        if is_given and all(source.scores.reference_declared for source in read):
            raise OptionError(name, "applies to tables of scores, but all sources are suites")
    if given.drop_failed and given.failed_as is not None:
        raise OptionError("failed_as", "must not be set with --drop-failed")
    if given.merge and len(read) == 1:
        raise OptionError("merge", "needs two or more sources. Received: one")
