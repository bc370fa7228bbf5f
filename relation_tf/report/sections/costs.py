"""Learning curves, and what a score or a decoded token costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from relation_tf.bench.results import Results
from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Figure, Paragraph, Section, figure_with_note, plural
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.drawing import Picture
from relation_tf.report.pictures.runs import learning_curves
from relation_tf.report.pictures.trade_offs import cost_against_length, score_against


@register_section("learning")
class LearningCurves(Section):
    """Validation cost and metric by epoch."""

    heading = "Learning curves"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the picture."""
        if context.results is None:
            return []
        note = "A line is a seed; the mark is the epoch whose weights are kept."
        picture = learning_curves(context.results, context.look)
        return figure_with_note(picture, note, context.look)


@register_section("time")
class Costs(Section):
    """Score against time and parameters; time and memory against length."""

    heading = "What a score costs"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the pictures."""
        results = context.results
        if results is None or results.suite.timed or context.how.empty:
            return []
        time, parameters = _scores_against(context, results)
        if time is None or parameters is None:
            return []
        suite, how = results.suite, context.how
        deviation = " ± standard deviation" if context.scores.seeds > 1 else ""
        note = (
            f"Mean score{deviation} against the median time of an epoch of training (compute: "
            f"{suite.compute}, {plural(suite.threads, 'thread')} an operation) and against the "
            "parameters without the embedding. No other method is both better and cheaper than "
            "one that is ringed. Times hold for the processor named below and whatever else ran "
            "on it."
        )
        lengths = how.assign(
            milliseconds_per_batch=1000 * how["seconds_batch"], memory_mib=how["peak_memory_mib"]
        )
        by_length = (
            "Time of a batch and the memory of a run against the mean length of a task's texts."
        )
        return [
            Figure(time, context.look),
            Figure(parameters),
            Paragraph(note, "note"),
            *figure_with_note(cost_against_length(lengths, context.look), by_length),
        ]


@register_section("lengths")
class TokenCosts(Section):
    """Time and memory of a decoded token against the length of the text."""

    heading = "What a token costs"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the picture."""
        results = context.results
        if results is None or not results.suite.timed or context.how.empty:
            return []
        how = context.how
        stepped = how.assign(
            milliseconds_per_step=1000 * how["seconds_batch"], state_kib=1024 * how["state_mib"]
        )
        note = (
            "Time of a step, a token of each row of a batch, the median over seeds, and what is "
            "held of all tokens before it, against the length of the text. Attention has room for "
            "all tokens from the first, and reads it all at each step."
        )
        return figure_with_note(cost_against_length(stepped, context.look), note, context.look)


def _scores_against(context: ReportContext, results: Results) -> Iterator[Picture | None]:
    """Iterate over the pictures of score against time, and against parameters."""
    scores = context.scores
    samples, lower = {}, set[str]()
    for task in results.suite.tasks:
        # MNLI is scored on two sets, and trained once; of a group it is the mean of its tasks.
        firsts = [next(iter(each.scored)) for each in results.suite.find_task(task).each()]
        lower |= {task} if firsts[0] in scores.lower_is_better else set()
        table = scores.table[scores.table["task"].isin(firsts)]
        means = table.groupby(["method", "seed"], sort=False)["score"].mean()
        means *= scores.factor(firsts[0])
        samples[task] = {name: [*means[name]] for name in scores.methods if name in means.index}
    for name, column, label in (
        ("time", "seconds_epoch", "seconds an epoch"),
        ("parameters", "without_embedding", "parameters, no embedding"),
    ):
        costs = {
            str(task): dict(zip(rows["method"], rows[column], strict=True))
            for task, rows in context.how.groupby("task", sort=False)
        }
        unit = "points" if {*scores.fractions} == {*scores.tasks} else "score"
        yield score_against(
            name, costs, samples, label, context.look, score_label=unit, lower_is_better=lower
        )
