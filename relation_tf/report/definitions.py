"""Definitions of the verdicts: in full for a page, short for the caption of a table."""

from __future__ import annotations

from collections.abc import Iterator

from relation_tf.report.scores import Scores
from relation_tf.report.verdicts import Verdicts, margin_in_words, own_margins


def definitions(scores: Scores, verdicts: Verdicts) -> Iterator[str]:
    """Yield the meaning of the verdicts, the margin, the level and its correction.

    Args:
        scores: The scores.
        verdicts: The verdicts.
    """
    tasks = len(verdicts.averaged)
    mean = f", mean of {tasks} tasks" if tasks > 1 else ""
    yield (
        f"Difference: {_subtraction(scores, verdicts)}{scores.in_unit}{mean}, positive if the "
        "method is better."
    )
    yield f"Its interval, {_interval(scores.alpha, len(verdicts.methods))}, decides the verdict."
    yield "Better: the whole interval is above 0."
    if scores.margin:
        margin = margin_in_words(scores.margin, scores)
        own = own_margins(scores, verdicts)
        yield (
            f"No worse: the whole interval is above −{margin} (the margin{own}). If it is also "
            "below 0, the method is behind the reference, but within the margin."
        )
        yield (
            f"Worse: the whole interval is below 0, and it reaches −{margin} or lower. Worse "
            f"(beyond the margin): the whole interval is below −{margin}."
        )
    else:
        yield "Worse: the whole interval is below 0."
    yield "Inconclusive: every other case, such as methods with failed runs."
    if len(verdicts.tasks) > 1 and not scores.alike:
        differ = "probably differ" if scores.unit_remark else "or directions differ"
        yield f"There is no mean over tasks, because their units {differ}."


def caption(
    scores: Scores, verdicts: Verdicts, *, differences: bool = True, costs: bool = False
) -> str:
    """Return the rest of a caption: what is shown, the test with its level, and the definitions.

    Args:
        scores: The scores.
        verdicts: The verdicts.
        differences: If True, the table shows differences.
        costs: If True, the table shows time and memory.
    """
    tasks = len(verdicts.averaged)
    interval = _interval(scores.alpha, len(verdicts.methods))
    what = f"from each difference with its interval ({interval})"
    if differences:
        mean = f", mean of {tasks} tasks" if tasks > 1 else ""
        what = f"difference{scores.in_unit}{mean} (positive: better) with its interval ({interval})"
    no_worse = beyond = ""
    if scores.margin:
        margin = f"−{margin_in_words(scores.margin, scores)}"
        no_worse = f"no worse: above {margin} (the margin{own_margins(scores, verdicts)}); "
        beyond = f" but not above {margin}"
    relative = f" Time per epoch and memory: {verdicts.reference} = 1." if costs else ""
    return (
        f": {what}. Better: interval above 0; {no_worse}worse: below 0{beyond}; inconclusive: "
        f"every other case.{relative}"
    )


def _subtraction(scores: Scores, verdicts: Verdicts) -> str:
    """Return which score is subtracted from which; where lower is better, the method's is."""
    lower = {task in scores.lower_is_better for task in verdicts.tasks}
    if lower == {True}:
        return f"{verdicts.reference} minus method"
    opposite = ", with the opposite sign where lower is better" if True in lower else ""
    return f"method minus {verdicts.reference}{opposite}"


def _interval(alpha: float, methods: int) -> str:
    """Describe the intervals and their coverage."""
    together = f"two-sided {100 * (1 - alpha):g} % by Welch"
    if methods < 2:
        return together
    each = f"{100 * (1 - alpha / methods):.1f} %"
    return f"{together} for all {methods} methods together (Bonferroni: {each} each)"
