"""Sections with learning curves and costs of scores and decoded tokens."""

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
    """Validation loss and metric by epoch."""

    heading = "Learning curves"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the picture."""
        if context.results is None:
            return []
        note = "Each line is a seed; its mark is the epoch of the kept weights."
        picture = learning_curves(context.results, context.look)
        return figure_with_note(picture, note, context.look)


@register_section("time")
class Costs(Section):
    """Score against time and parameters; time and memory against length."""

    heading = "Score and cost"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the figures."""
        results = context.results
        if results is None or results.suite.timed or context.how.empty:
            return []
        time, parameters = _scores_against(context, results)
        if time is None or parameters is None:
            return []
        suite, how = results.suite, context.how
        deviation = " ± standard deviation" if context.scores.seeds > 1 else ""
        note = (
            f"Mean score{deviation} against the median time of a training epoch (compute: "
            f"{suite.compute}, {plural(suite.threads, 'thread')} per operation) and against the "
            "number of parameters without the embedding. Ringed: no other method is better and "
            "cheaper. Times depend on the processor named below and its load."
        )
        lengths = how.assign(
            milliseconds_per_batch=1000 * how["seconds_batch"], memory_mib=how["peak_memory_mib"]
        )
        by_length = "Time per batch and memory of a run against the mean text length of the task."
        return [
            Figure(time, context.look),
            Figure(parameters),
            Paragraph(note, "note"),
            *figure_with_note(cost_against_length(lengths, context.look), by_length),
        ]


@register_section("lengths")
class TokenCosts(Section):
    """Time and memory of a decoded token against the text length."""

    heading = "Cost per token"

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
            "Time per step (one token of each row in the batch; median over seeds) and memory for "
            "all earlier tokens, against the text length. Attention reserves memory for all tokens "
            "at the start and reads all of it at each step."
        )
        return figure_with_note(cost_against_length(stepped, context.look), note, context.look)


def _scores_against(context: ReportContext, results: Results) -> Iterator[Picture | None]:
    """Iterate over the figures of score against time and against parameters."""
    scores = context.scores
    samples, lower = {}, set[str]()
    for task in results.suite.tasks:
        # MNLI is trained once and scored on two sets; a group's score is the mean of its tasks.
        firsts = [next(iter(each.scored)) for each in results.suite.find_task(task).each()]
        lower |= {task} if firsts[0] in scores.lower_is_better else set()
        table = scores.table[scores.table["task"].isin(firsts)]
        means = table.groupby(["method", "seed"], sort=False)["score"].mean()
        means *= scores.factor(firsts[0])
        samples[task] = {name: [*means[name]] for name in scores.methods if name in means.index}
    for name, column, label in (
        ("time", "seconds_epoch", "seconds per epoch"),
        ("parameters", "without_embedding", "parameters without embedding"),
    ):
        costs = {
            str(task): dict(zip(rows["method"], rows[column], strict=True))
            for task, rows in context.how.groupby("task", sort=False)
        }
        unit = "points" if {*scores.fractions} == {*scores.tasks} else "score"
        yield score_against(
            name, costs, samples, label, context.look, score_label=unit, lower_is_better=lower
        )
