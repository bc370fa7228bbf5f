"""The short answer of a report: sentences on its runs and tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from relation_tf.report.answer import (
    capital,
    progress,
    ranked_over_tasks,
    short_answer,
    tested_among,
    too_few,
)

if TYPE_CHECKING:
    from relation_tf.report.context import ReportContext


def answer(context: ReportContext, *, brief: bool = False) -> list[str]:
    """Return sentences on all methods, then those on the tests of each family.

    Args:
        context: The data of the report.
        brief: If True, leave out sentences on single tasks that a test over tasks summarizes.
    """
    said = [*(progress(context.runs) if context.results is not None else ())]
    for section in context.sections.values():
        said += [] if section.by_family else section.answer(context)
    for family, part in context.parts.items():
        own = _of_family(part, brief and part.several is not None and bool(part.comparisons))
        said += [f"{capital(family)}: {each}" if family else each for each in own]
    return said


def _of_family(context: ReportContext, brief: bool) -> Iterator[str]:
    scores, tests = context.scores, context.comparisons
    for section in context.sections.values():
        yield from section.answer(context) if section.by_family else ()
    if context.results is not None:
        yield from tested_among(scores, tests, context.num_declared)
    yield from ranked_over_tasks(context.several, scores) if tests else ()
    if brief:
        yield from too_few(scores, tests)
    else:
        yield from short_answer(scores, tests, sequential=context.looks is not None)
