"""Check whether the tests of a suite can find a difference. Does not import Keras."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from relation_tf.config.families import families_of
from relation_tf.config.suite import Suite
from relation_tf.registry import PROCEDURES
from relation_tf.stats import default_over_tasks, default_procedure, what_can_be_shown
from relation_tf.tasks.datasets import counted_once
from relation_tf.words import format_level, pvalue_only


def family_sizes(suite: Suite, methods: Collection[str]) -> list[int]:
    """Return the different numbers of methods that are compared with each other.

    Args:
        suite: The suite.
        methods: The requested methods.
    """
    families = [family.methods for family in families_of(suite)] or [[*methods]]
    return sorted({len({*names} & {*methods}) for names in families} - {0})


def shown_by_design(
    suite: Suite, methods: Collection[str], num_seeds: int, num_tasks: int = 1
) -> Iterator[str]:
    """Yield what the tests of a suite can show, for each size of its families.

    Args:
        suite: The suite.
        methods: The requested methods.
        num_seeds: Number of seeds per method.
        num_tasks: Number of tasks; with several, also what the test over tasks can show.
    """
    for size in family_sizes(suite, methods):
        for test, options in _tests(suite, num_tasks).items() if size > 1 else ():
            if size < (least := PROCEDURES.find(test).least_methods):
                sentence = f"{size} methods: {test} needs at least {least}, so it is not used."
            else:
                sentence = what_can_be_shown(size, num_seeds, suite.alpha, test=test, **options)
            yield sentence if suite.families is None else f"In each family: {sentence}"


def nothing_can_be_shown(
    suite: Suite,
    methods: Collection[str] | None = None,
    num_seeds: int | None = None,
    num_tasks: int | None = None,
) -> str | None:
    """Return a sentence if no test of a suite can find a significant difference, else None.

    Verdicts against a reference or control use Welch's test, which has no smallest p.

    Args:
        suite: The suite.
        methods: The requested methods; by default all.
        num_seeds: Number of seeds per method; by default that of the suite.
        num_tasks: Number of tasks; by default that of the suite.

    Example:
        >>> from relation_tf.config import load_suite
        >>> nothing_can_be_shown(load_suite("glue-small")) is None
        True
        >>> print(nothing_can_be_shown(load_suite("glue-small", {"seeds": 1, "tasks": ["CoLA"]})))
        No difference can be significant (p < .05): the smallest possible p is 1.000.
    """
    methods = [str(method.name) for method in suite.methods()] if methods is None else methods
    num_seeds = len(suite.seeds) if num_seeds is None else num_seeds
    sizes = [size for size in family_sizes(suite, methods) if size > 1]
    judged = suite.reference is not None or suite.control is not None
    if not sizes or (judged and num_seeds > 1):
        return None
    smallest = 1.0
    for test, options in _tests(suite, num_tasks or len(counted_once(suite.tasks))).items():
        procedure = PROCEDURES.find(test)
        attainable = procedure.attainable_pvalue
        if attainable is None:
            return None
        over_tasks = options.get("num_tasks")
        number = (num_seeds,) if over_tasks is None else (over_tasks, num_seeds)
        if num_seeds > 1 or over_tasks is not None:
            enough = [size for size in sizes if size >= procedure.least_methods]
            smallest = min([smallest, *(attainable(size, *number) for size in enough)])
    if smallest < suite.alpha:
        return None
    level, least = format_level(suite.alpha), pvalue_only(smallest, suite.alpha)
    return f"No difference can be significant ({level}): the smallest possible p is {least}."


def suite_facts(suite: Suite) -> dict[str, Any]:
    """Return facts about a suite for lists of suites.

    `note` is a sentence if no test can find a significant difference, else None.

    Example:
        >>> from relation_tf.config import load_suite
        >>> facts = suite_facts(load_suite("demo"))
        >>> facts["runs"], facts["seeds"], facts["note"]
        (180, [1, 2, 3, 4, 5], None)
    """
    return {
        "title": suite.title,
        "runs": len(suite.runs()),
        "tasks": [*suite.tasks],
        "methods": [str(method.name) for method in suite.methods()],
        "seeds": [*suite.seeds],
        "note": nothing_can_be_shown(suite),
    }


def _tests(suite: Suite, num_tasks: int) -> dict[str, dict[str, int]]:
    """Return the tests of a suite, with the number of tasks of the one over tasks."""
    tests: dict[str, dict[str, int]] = {suite.test or default_procedure(suite.control): {}}
    if num_tasks > 1 and not suite.timed:
        over_tasks = suite.test_over_tasks or default_over_tasks(suite.control)
        tests[over_tasks] = {"num_tasks": num_tasks}
    return tests
