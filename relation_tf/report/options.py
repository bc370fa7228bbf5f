"""Options of a comparison that replace what its suites declare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from shlex import quote as quote_words
from typing import Any, TypeAlias

from relation_tf.config.families import Family, blocks, faults, find_member, mechanisms_of
from relation_tf.config.method import Method
from relation_tf.errors import OptionError, UnknownNameError, did_you_mean, join_names
from relation_tf.registry import PROCEDURES
from relation_tf.report.reliability import complete_fault
from relation_tf.report.scores import Scores, most_seeds
from relation_tf.words import listed

Chosen: TypeAlias = str | Sequence[str]
"""A control or reference; with families, one for each, in any order."""

_CONTROL = "compares with a control, so it needs --control NAME"


def with_families(
    scores: Scores,
    methods: Sequence[Method],
    families: str | Sequence[Sequence[str]] | None = None,
    control: Chosen | None = None,
    reference: Chosen | None = None,
) -> Scores:
    """Replace the families of methods.

    Args:
        scores: The scores.
        methods: The methods of the suites.
        families: Lists of names of methods; or a key, such as `"units"`, if suites have all
            methods.
        control: As for `with_test`; by default the declared one.
        reference: As for `with_margin`; by default the declared one.

    Raises:
        OptionError: If a name or key is unknown, a method is not in exactly one family of two or
            more, or the control or reference is not in each family.
    """
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
        ("control", control or scores.control),
        ("reference", reference or scores.reference),
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


def with_test(
    scores: Scores,
    methods: Sequence[Method],
    control: Chosen | None,
    test: str | None,
    over_tasks: str | None = None,
) -> Scores:
    """Replace the control and the tests.

    Args:
        scores: The scores.
        methods: The methods of the suites.
        control: Method to compare all others with; with families one of each family, or their
            mechanism.
        test: Name of a procedure for the seeds of a task.
        over_tasks: Name of a procedure over tasks.

    Raises:
        OptionError: If the control is not a method, or a test does not match it.
        UnknownNameError: If no test has this name.
    """
    if control is not None:
        scores = _with_method(scores, methods, "control", control)
        scores = replace(scores, test=None, test_over_tasks=None)
    if test is not None:
        _check_test("test", test, scores.control, over_tasks=False)
        scores = replace(scores, test=test)
    if over_tasks is not None:
        _check_test("test_over_tasks", over_tasks, scores.control, over_tasks=True)
        _check_number(over_tasks, scores)
        scores = replace(scores, test_over_tasks=over_tasks)
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


def with_margin(
    scores: Scores,
    methods: Sequence[Method],
    reference: Chosen | None,
    margin: float | None,
    margins: Mapping[str, float] | None = None,
) -> Scores:
    """Replace the reference and the margins.

    Args:
        scores: The scores.
        methods: The methods of the suites.
        reference: Method to judge the others against; with families one of each family, or their
            mechanism.
        margin: Largest acceptable score decrease, in the unit of a page.
        margins: Margins of single tasks.

    Raises:
        OptionError: If the reference is not a method, there is a margin without a reference, a
            margin is not in the unit of its task, or a task is unknown.
    """
    if reference is not None:
        scores = _with_method(scores, methods, "reference", reference)
    margins = dict(margins or {})
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
    for given in (margin, *margins.values()):
        if not 0 < given < math.inf:
            raise OptionError("margin", f"must be above 0. Received: {given:g}")
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
    if fault := complete_fault(scores):
        raise OptionError("complete_methods", fault)
    lacking = scores.lacking_tasks()
    methods = [name for name in scores.methods if name not in lacking]
    families = [
        replace(family, methods=[name for name in family.methods if name not in lacking])
        for family in scores.families
    ]
    table = scores.table[scores.table["method"].isin(methods)]
    return replace(scores, table=table, methods=methods, families=families, seeds=most_seeds(table))


def without_incomplete(before: Scores, scores: Scores) -> list[str]:
    """Return a remark that names the methods that `only_complete` has left out.

    Args:
        before: All scores.
        scores: The scores of the complete methods.
    """
    lacking = before.lacking_tasks()
    if not lacking:
        return []
    named = "; ".join(f"{name} (no scores on {listed(own)})" for name, own in lacking.items())
    return [
        f"Left out by --complete-methods: {named}. Tests and verdicts are corrected for the "
        f"{len(scores.methods)} other methods only, so p is smaller than with all "
        f"{len(before.methods)}."
    ]


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
