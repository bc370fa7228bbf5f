"""Sections with learning curves and costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Figure, Paragraph, Section, figure_with_note
from relation_tf.report.comparisons import winners_on_all
from relation_tf.report.context import ReportContext
from relation_tf.report.pictures.drawing import Picture
from relation_tf.report.pictures.runs import learning_curves
from relation_tf.report.pictures.trade_offs import DOMINATED, cost_against_length, score_against
from relation_tf.report.runs import TIMED, cost_conditions


@register_section("learning")
class LearningCurves(Section):
    """Validation loss and metric by epoch."""

    heading = "Learning curves"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the picture."""
        if context.results is None:
            return []
        note = "Each line is one seed. The mark is the epoch whose weights are evaluated."
        if context.scores.seeds > 1:
            note = (
                "Line and band: mean ± standard deviation over seeds, up to the epoch where the "
                "first seed stops. Each faint line is one seed; its mark is the epoch whose "
                "weights are evaluated."
            )
        picture = learning_curves(context.results, context.styles)
        return figure_with_note(picture, note, context.styles)


@register_section("time")
class Costs(Section):
    """Score against time and parameters; time and memory against length."""

    heading = "Score and cost"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the figures."""
        results = context.results
        if results is None or results.suite.timed or context.how.empty:
            return []
        pictures = [each for each in _scores_against(context, results) if each is not None]
        lengths = cost_against_length(_by_length(context), context.styles)
        by_length = (
            "Time per batch and memory of a run against the mean text length of the task, with the "
            "range over seeds. Lines do not join different tasks, because tasks differ in more "
            "than their length."
        )
        return [
            *(Figure(picture, {} if i else context.styles) for i, picture in enumerate(pictures)),
            *([Paragraph(_note(context), "note")] if pictures else []),
            *figure_with_note(lengths, by_length),
        ]


def _note(context: ReportContext) -> str:
    assert context.results is not None
    deviation = " ± standard deviation"
    return (
        f"Mean score{deviation if context.scores.seeds > 1 else ''} against the median time of a "
        "training epoch (horizontal line: range over seeds). If the methods differ in size, a "
        "second figure shows the score against the number of parameters without the embedding. "
        f"{DOMINATED} {cost_conditions(context.results.suite)} Times depend on the processor (see "
        "the end of the page) and its load."
    )


def _by_length(context: ReportContext) -> pd.DataFrame:
    """Return costs with the names of `cost_against_length`."""
    how = context.how
    names = {
        f"milliseconds_per_batch{end}": 1000 * how[f"seconds_batch{end}"]
        for end in ("", "_low", "_high")
    }
    return how.assign(**names)


@register_section("lengths")
class TokenCosts(Section):
    """Time and memory of timed tasks against the text length."""

    heading = "Time and memory by length"

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the picture."""
        results = context.results
        if results is None or not results.suite.timed or context.how.empty:
            return []
        # Later runs of a process reuse the memory of earlier ones, so only that of a pass is shown.
        how = context.how.drop(columns=context.how.filter(regex="^memory_mib").columns)
        how = how.rename(columns=lambda name: name.replace("pass_mib", "memory_mib"))
        own = {"state_kib": 1024 * how["state_mib"]}
        if results.suite.timed == "decoding":
            own["milliseconds_per_step"] = 1000 * how["seconds_batch"]
        else:
            own["milliseconds_per_pass"] = 1000 * how["seconds_epoch"]
        picture = cost_against_length(how.assign(**own), context.styles, joined=True)
        return figure_with_note(picture, TIMED[results.suite.timed].costs, context.styles)


def _scores_against(context: ReportContext, results: Results) -> Iterator[Picture | None]:
    """Iterate over the figures of score against time and against parameters."""
    scores = context.scores
    samples: dict[str, dict[str, list[float]]] = {}
    better: dict[str, set[tuple[str, str]]] = {}
    lower: set[str] = set()
    for task in results.suite.tasks:
        # MNLI is trained once and scored on two sets; a group's score is the mean of its tasks.
        firsts = [next(iter(each.scored)) for each in results.suite.find_task(task).each()]
        lower |= {task} if firsts[0] in scores.lower_is_better else set()
        table = scores.table[scores.table["task"].isin(firsts)]
        means = table.groupby(["method", "seed"], sort=False)["score"].mean()
        means *= scores.factor(firsts[0])
        samples[task] = {name: [*means[name]] for name in scores.methods if name in means.index}
        better[task] = winners_on_all(context.pvalues, firsts)
    done = context.runs[context.runs["status"] == "done"]
    for name, column, label in (
        ("time", "seconds_epoch", "seconds per epoch"),
        ("parameters", "without_embedding", "parameters without embedding"),
    ):
        costs: dict[str, dict[str, list[float]]] = {}
        for (of, method), own in done.groupby(["task", "method"], sort=False)[column]:
            costs.setdefault(str(of), {})[str(method)] = own.tolist()
        yield score_against(
            name, costs, samples, label, context.styles, score_label=scores.unit or "score",
            better=better, lower_is_better=lower,
        )  # fmt: skip
