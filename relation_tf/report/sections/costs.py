"""Sections with learning curves and costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from relation_tf.bench.results import Results
from relation_tf.registry import register_section
from relation_tf.report.blocks import Block, Section, blocks
from relation_tf.report.comparisons import winners_on_all
from relation_tf.report.data import ReportData
from relation_tf.report.pictures.drawing import Picture
from relation_tf.report.pictures.runs import learning_curves
from relation_tf.report.pictures.trade_offs import cost_against_length, score_against
from relation_tf.report.runs import computed_tokens


@register_section("learning")
class LearningCurves(Section):
    """Validation loss and metric by epoch."""

    heading = "Learning curves"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the picture."""
        picture = None if data.results is None else learning_curves(data.results, data.styles)
        if picture is None or not picture.panels:
            return []
        return blocks("learning.jinja", picture=picture, seeds=data.scores.seeds)


@register_section("time")
class Costs(Section):
    """Score against time and parameters; time and memory against length."""

    heading = "Score and cost"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the figures."""
        results, costs = data.results, data.run_costs
        if results is None or results.suite.timed or costs.empty:
            return []
        milliseconds = {
            f"milliseconds_per_batch{end}": 1000 * costs[f"seconds_batch{end}"]
            for end in ("", "_low", "_high")
        }
        pictures = [picture for picture in _scores_against(data, results) if picture is not None]
        return blocks(
            "costs.jinja",
            pictures=pictures,
            lengths=cost_against_length(costs.assign(**milliseconds), data.styles),
            seeds=data.scores.seeds,
            computed=computed_tokens(results.suite),
            threads=results.suite.threads,
        )


@register_section("lengths")
class TokenCosts(Section):
    """Time and memory of timed tasks against the text length."""

    heading = "Time and memory by length"

    def blocks(self, data: ReportData) -> Sequence[Block]:
        """Return the picture."""
        results = data.results
        if results is None or not results.suite.timed or data.run_costs.empty:
            return []
        # Later runs of a process reuse the memory of earlier ones, so only that of a pass is shown.
        how = data.run_costs.drop(columns=data.run_costs.filter(regex="^memory_mib").columns)
        how = how.rename(columns=lambda name: name.replace("pass_mib", "memory_mib"))
        own = {"state_kib": 1024 * how["state_mib"]}
        decoding = results.suite.timed == "decoding"
        name = "milliseconds_per_step" if decoding else "milliseconds_per_pass"
        own[name] = 1000 * (how["seconds_batch"] if decoding else how["seconds_epoch"])
        picture = cost_against_length(how.assign(**own), data.styles, joined=True)
        if picture is None:
            return []
        return blocks("lengths.jinja", picture=picture, decoding=decoding)


def _scores_against(data: ReportData, results: Results) -> Iterator[Picture | None]:
    """Iterate over the figures of score against time and against parameters."""
    scores = data.scores
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
        better[task] = winners_on_all(data.pvalues, firsts)
    done = data.suite_runs[data.suite_runs["status"] == "done"]
    for name, column, label in (
        ("time", "seconds_epoch", "seconds per epoch"),
        ("parameters", "without_embedding", "parameters without embedding"),
    ):
        costs: dict[str, dict[str, list[float]]] = {}
        for (of, method), own in done.groupby(["task", "method"], sort=False)[column]:
            costs.setdefault(str(of), {})[str(method)] = own.tolist()
        yield score_against(
            name, costs, samples, label, data.styles, score_label=scores.unit or "score",
            better=better, lower_is_better=lower,
        )  # fmt: skip
