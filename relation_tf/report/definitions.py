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
    yield "Its interval gives the verdict. Better: the whole interval is above 0."
    if scores.margin:
        margin = margin_in_words(scores.margin, scores)
        own = own_margins(scores, verdicts)
        yield (
            f"No worse: the whole interval is above −{margin} (the margin{own}), "
            "even if all of it is below 0."
        )
        yield (
            f"Worse: the whole interval is below 0, and it reaches −{margin} or lower. Worse "
            f"(beyond the margin): the whole interval is below −{margin}."
        )
    else:
        yield "Worse: the whole interval is below 0."
    yield "Inconclusive: every other case, such as methods with failed runs."
    yield _level_and_coverage(scores.alpha, max(1, len(verdicts.methods)))
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
    number, tasks = max(1, len(verdicts.methods)), len(verdicts.averaged)
    corrected = f", Bonferroni correction for {number} methods" if number > 1 else ""
    interval = (
        f"{_coverage(scores.alpha, number)} Welch interval (one-sided tests at "
        f"{_level(scores.alpha)}{corrected})"
    )
    what = f"from the {interval} of each difference"
    if differences:
        mean = f", mean of {tasks} tasks" if tasks > 1 else ""
        what = f"difference{scores.in_unit}{mean} (positive: better) with its {interval}"
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


def _level_and_coverage(alpha: float, number: int) -> str:
    """Describe the level of the verdicts and the coverage of their intervals."""
    level, coverage = _level(alpha), _coverage(alpha, number)
    if number == 1:
        return f"The test is one-sided at {level}, so its Welch interval has {coverage} coverage."
    return (
        f"Bonferroni correction for {number} methods: each is tested one-sided at {level} / "
        f"{number} = {_level(alpha / number)}, so its Welch interval has {coverage} coverage."
    )


def _level(alpha: float) -> str:
    return f"{alpha:.3g}".removeprefix("0")


def _coverage(alpha: float, number: int) -> str:
    return f"{100 * (1 - 2 * alpha / number):.1f} %"
