"""Options of a comparison that replace what its suites declare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from relation_tf.config.families import Family, blocks, faults, mechanisms_of
from relation_tf.config.method import Method
from relation_tf.errors import OptionError, SuiteError, UnknownNameError, did_you_mean, join_names
from relation_tf.registry import PROCEDURES
from relation_tf.report.answer import in_words
from relation_tf.report.scores import Scores

_PAIRS = "compares all pairs, so it cannot be used with --control. Remove one of them"
_CONTROL = "compares with a control, so it needs --control NAME"


def with_families(
    scores: Scores,
    methods: Sequence[Method],
    families: str | Sequence[Sequence[str]] | None = None,
    control: str | None = None,
    reference: str | None = None,
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
        SuiteError: If a name or key is unknown, a method is not in exactly one family of two or
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
        raise SuiteError(
            f"families: must be lists of {join_names(names)}. Received: {name!r:.80}."
            f"{did_you_mean(name, names)}"
        )
    found = [Family(name, own) for name, own in named.items()]
    for fault in faults(found, names):
        raise SuiteError(f"families: {fault}")
    scores = replace(scores, families=found)
    for key, chosen in (
        ("control", control or scores.control),
        ("reference", reference or scores.reference),
    ):
        if chosen is not None:
            scores = _with_method(scores, methods, key, chosen)
    return scores


def _by_key(key: str, names: Sequence[str], known: Mapping[str, Method]) -> dict[str, list[str]]:
    keys: list[str] = []
    if {*names} <= {*known}:
        own = [known[name] for name in names]
        keys = sorted({"mechanism", "units", "size"}.union(*(method.options for method in own)))
        if key in keys:
            return blocks(key, own)
    also = f", or one of {join_names(keys)}" if keys else ""
    raise SuiteError(
        f"families: must be lists of methods, such as 'a,b;c,d'{also}. Received: {key!r:.80}."
        f"{did_you_mean(key, keys)}"
    )


def with_test(
    scores: Scores,
    methods: Sequence[Method],
    control: str | None,
    test: str | None,
    over_tasks: str | None = None,
) -> Scores:
    """Replace the control and the tests.

    Args:
        scores: The scores.
        methods: The methods of the suites.
        control: Method to compare all others with; with families also a mechanism.
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
    if PROCEDURES[name].against_control != (control is not None):
        raise OptionError(option, f"{name} {_PAIRS if control is not None else _CONTROL}")


def with_margin(
    scores: Scores, methods: Sequence[Method], reference: str | None, margin: float | None
) -> Scores:
    """Replace the reference and the margin.

    Args:
        scores: The scores.
        methods: The methods of the suites.
        reference: Method to judge the others against; with families also a mechanism.
        margin: Largest acceptable score decrease, in the unit of a page.

    Raises:
        OptionError: If the reference is not a method, there is a margin without a reference, or the
            margin is not in the unit of the tables.
    """
    if reference is not None:
        scores = _with_method(scores, methods, "reference", reference)
    if margin is None:
        return scores
    if scores.judged_against is None:
        raise OptionError("margin", "needs --reference NAME or --control NAME")
    sizes = scores.table["score"].abs().groupby(scores.table["task"]).max()
    largest = max(
        (scores.factor(str(task)) * size for task, size in sizes.items()), default=math.inf
    )
    if not 0 < margin < largest:
        rule = f"must be above 0 and below {largest:.4g}, the largest score in the tables"
        raise OptionError("margin", f"{rule}. Received: {margin:g}")
    return replace(scores, margin=margin, margins={})


def only_complete(scores: Scores) -> Scores:
    """Leave out methods without scores on some of the tasks.

    Raises:
        SuiteError: If fewer than two methods have all tasks, or the control or reference lacks one.
    """
    lacking = scores.lacking_tasks()
    for name in filter(None, (scores.control, scores.reference)):
        if name in lacking:
            raise SuiteError(
                f"complete_methods: {name} must have scores on all tasks. It has none on "
                f"{in_words(lacking[name])}"
            )
    methods = [name for name in scores.methods if name not in lacking]
    if len(methods) < 2:
        raise SuiteError(
            "complete_methods: at least two methods must have scores on all tasks. Incomplete: "
            f"{in_words([*lacking])}"
        )
    families = [
        replace(family, methods=[name for name in family.methods if name not in lacking])
        for family in scores.families
    ]
    table = scores.table[scores.table["method"].isin(methods)]
    return replace(scores, table=table, methods=methods, families=families)


def _with_method(scores: Scores, methods: Sequence[Method], key: str, name: str) -> Scores:
    mechanisms = mechanisms_of(methods)
    families = [family.judged(mechanisms, **{key: name}) for family in scores.families]
    known = [*scores.methods, *(dict.fromkeys(mechanisms.values()) if families else ())]
    lacking = [family.name for family in families if getattr(family, key) is None]
    if name not in known or lacking:
        expected = "a method of each family, or the mechanism of one in each" if families else ""
        raise OptionError(
            key,
            f"must be {expected or f'one of {in_words(known)}'}. Received: {name!r:.80}"
            f"{f', not in {lacking[0]}' if lacking else ''}.{did_you_mean(name, known)}",
        )
    changed: dict[str, Any] = {"families": families, key: name}
    return replace(scores, **changed)
