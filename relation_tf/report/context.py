"""Data for the sections of a report: scores, tests and runs, computed on first use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.families import Family
from relation_tf.config.published import Published, load_published
from relation_tf.registry import SECTIONS, Procedure
from relation_tf.report import provenance
from relation_tf.report import runs as how_runs_went
from relation_tf.report.answer import short_answer
from relation_tf.report.blocks import Block, Cell, Figure, Heading, Section, within
from relation_tf.report.caveats import caveats
from relation_tf.report.cells import mean_cells
from relation_tf.report.comparisons import (
    SCORE,
    all_metrics,
    all_pvalues,
    compare_methods,
    letters_of,
    procedure_label,
    summarize,
    wins,
    with_splits,
)
from relation_tf.report.failed import failed_by_task, failed_runs, with_diverged
from relation_tf.report.families import family_prefix, of_family
from relation_tf.report.limits import limited
from relation_tf.report.over_tasks import OverTasks, over_tasks
from relation_tf.report.pictures.drawing import Picture, Style, styles
from relation_tf.report.predicted_rows import ReadRows, read_rows
from relation_tf.report.published import check_claims
from relation_tf.report.reliability import (
    DAGGER,
    collapse_warnings,
    collapsed_runs,
    incomplete_warnings,
    mostly_failed,
    mostly_lost,
    spread_warnings,
    trained_networks,
)
from relation_tf.report.scores import Scores
from relation_tf.report.standings import leading, none_learned, outcome_of, standings
from relation_tf.report.tuned import tuning_caveats
from relation_tf.report.verdicts import Verdicts, headline, judge
from relation_tf.stats import PairwiseResult, PublishedTable
from relation_tf.steps import advance
from relation_tf.tasks.metrics import find_metric
from relation_tf.words import capital, format_level

if TYPE_CHECKING:
    from relation_tf.report.sections.learning_time import LearningTimes
    from relation_tf.report.sections.predictions import Predicted

_MOST_PAIRS = 100  # if there are more, only pvalues.csv lists them
MOST_DRAWN = 40  # methods; of more, figures with a row for each show the best
_LAST = "made"  # the last section


@dataclass(frozen=True)
class ReportContext:
    """Data of a report, read by its sections.

    Attributes:
        scores: The scores to compare.
        results: The runs that gave the scores, if known.
        title: Title of the report.
        question: Research question of the comparison.
        doubts: Warnings about the sources of the scores.
        origin: Facts about the sources.
        manifests: Manifests of scores without `results`.
        pretraining: Settings of pre-trained encoders.
        other_runs: Runs of reports that gave scores, from their `runs.csv`.
        of_timed: Costs of the methods in timed suites, from `read_costs`.
        test_changed: If True, an option of a comparison has replaced the declared test, its level,
            control or families.
        whole: In the context of one family, that of all methods.
    """

    scores: Scores
    results: Results | None = None
    title: str = ""
    question: str = ""
    doubts: Sequence[str] = ()
    origin: Mapping[str, Sequence[str]] = field(default_factory=dict)
    manifests: Sequence[Mapping[str, Any]] = ()
    pretraining: Sequence[Mapping[str, Any]] = ()
    other_runs: pd.DataFrame = field(default_factory=pd.DataFrame)
    of_timed: pd.DataFrame = field(default_factory=pd.DataFrame)
    test_changed: bool = False
    whole: ReportContext | None = None

    @cached_property
    def parts(self) -> dict[str, ReportContext]:
        """Context of each family by its name; only this context, without name, if there is none."""
        return {each.name: self._only(each) for each in self.scores.families} or {"": self}

    def _only(self, family: Family) -> ReportContext:
        runs = self.other_runs
        return replace(
            self,
            scores=self.scores.only(family),
            results=None if self.results is None else self.results.only(family.methods),
            other_runs=runs[runs["method"].isin(family.methods)] if len(runs) else runs,
            whole=self,
        )

    @cached_property
    def sections(self) -> dict[str, Section]:
        """All sections by name, in order."""
        order = [name for name in SECTIONS if not SECTIONS.is_of_user(name)]
        for name in SECTIONS:
            after = SECTIONS[name].after
            if name not in order:
                known = after in order and after != _LAST
                order.insert(order.index(after) + 1 if known else order.index(_LAST), name)
        return {name: SECTIONS[name]() for name in order}

    @cached_property
    def blocks(self) -> dict[str, Sequence[Block]]:
        """Blocks of each section, without empty sections."""
        blocks = {}
        for number, (name, section) in enumerate(self.sections.items()):
            advance("sections of the report", number, len(self.sections))
            blocks[name] = limited(self._blocks(section))
        return {name: own for name, own in blocks.items() if own}

    def _blocks(self, section: Section) -> Sequence[Block]:
        if not section.by_family or not self.scores.families:
            return section.blocks(self)
        blocks: list[Block] = []
        for family, part in self.parts.items():
            if own := section.blocks(part):
                blocks += [Heading(capital(family)), *of_family(own, family)]
        return blocks

    @cached_property
    def pictures(self) -> list[Picture]:
        """Figures of all sections."""
        return [
            block.picture
            for blocks in self.blocks.values()
            for block in within(blocks)
            if isinstance(block, Figure)
        ]

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables by the names of their files."""
        tables = {
            "scores": with_splits(self._all_scores, self.scores, self.results),
            "table": self.summary,
            "pvalues": self.pvalues,
            **self.joined(ReportContext._over_tasks),
            **({"runs": self._known_runs} if len(self._known_runs) else {}),
            **({} if self.collapsed.empty else {"collapsed": self.collapsed}),
        }
        for section in self.sections.values():
            by_family = section.by_family
            tables |= self.joined(section.tables) if by_family else section.tables(self)
        return tables

    def _over_tasks(self) -> dict[str, pd.DataFrame]:
        if self.several is None:
            return {}
        ranks, tables = self.several.ranks, {"over_tasks": self.several.pairs}
        return (
            tables if ranks is None else tables | {"ranks": ranks.rename_axis("task").reset_index()}
        )

    def joined(
        self, tables: Callable[[ReportContext], Mapping[str, pd.DataFrame]]
    ) -> dict[str, pd.DataFrame]:
        """Return the tables of all families, joined, with a first column `family`.

        Args:
            tables: Function of a family's context that returns tables by name.
        """
        if not self.scores.families:
            return {**tables(self)}
        joined: dict[str, list[pd.DataFrame]] = {}
        for family, part in self.parts.items():
            for name, table in tables(part).items():
                own = table.copy()
                own.insert(0, "family", family)
                joined.setdefault(name, []).append(own)
        return {name: pd.concat(own, ignore_index=True) for name, own in joined.items()}

    @cached_property
    def answer(self) -> list[str]:
        """Sentences of the short answer."""
        return short_answer(self)

    @cached_property
    def brief_answer(self) -> list[str]:
        """Sentences of the short answer; those on single tasks only without a test over tasks."""
        return short_answer(self, brief=True)

    @property
    def num_declared(self) -> int:
        """Number of methods of the suites, with or without runs, and of other sources."""
        suite = [] if self.results is None else self.results.suite.methods()
        return len({*self.scores.methods, *(str(method.name) for method in suite)})

    @cached_property
    def verdicts(self) -> Verdicts | None:
        """Verdicts against the reference; None with families."""
        if self.scores.families:
            return None
        return judge(self.scores, failed_by_task(self.failed))

    @cached_property
    def failed(self) -> pd.DataFrame:
        """Failed runs by scored task, see `failed_runs`."""
        suite = None if self.results is None else self.results.suite
        return failed_runs(self._known_runs, suite, self.scores)

    @cached_property
    def headline(self) -> str:
        """The verdicts, or the best method and the tests, in one sentence for each family."""
        if self.scores.families:
            said = {family: part.headline for family, part in self.parts.items()}
            return " ".join(f"{family_prefix(name)}{own}" for name, own in said.items() if own)
        lost = mostly_lost(self.scores, self.collapsed, self.failed)
        if (none := none_learned(self.scores, lost)) or self.verdicts is None:
            return none or leading(self.scores, self.several, self.comparisons, lost)
        return headline(self.verdicts, self.scores, self.costs, self.failed)

    @cached_property
    def caveats(self) -> list[str]:
        """Sentences that limit the headline, for each family."""
        if self.scores.families:
            own = {family: part.caveats for family, part in self.parts.items()}
            return [f"{family_prefix(family)}{each}" for family in own for each in own[family]]
        tests = outcome_of(self.scores, self.several, self.comparisons)
        said = caveats(self.verdicts, tests, self.scores, self.collapsed, self._known_runs)
        lost = mostly_failed(self.scores, self.failed)
        said += [] if lost in self.headline else [lost]
        return [*said, *tuning_caveats(self.results, self.scores)]

    @cached_property
    def costs(self) -> pd.DataFrame:
        """Costs of each method over the tasks that all methods with runs have."""
        return how_runs_went.summarize_costs(self._known_runs, self.scores.methods)

    @cached_property
    def _known_runs(self) -> pd.DataFrame:
        tables = [self.other_runs, *([] if self.results is None else [self.runs])]
        tables = [table for table in tables if len(table)]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    @cached_property
    def warnings(self) -> list[str]:
        """Warnings about differences between runs or scores, and about failures."""
        runs = [] if self.results is None else provenance.warnings(self.results)
        return [
            *self.doubts,
            *self._incomplete(),
            *runs,
            *how_runs_went.load_warnings(self._known_runs),
            *collapse_warnings(self.collapsed, self.scores),
            *self._warnings_by_family(),
            *provenance.unlike_machines(self.manifests),
            *provenance.unlike_pretraining(self.pretraining),
        ]

    def _incomplete(self) -> list[str]:
        """Return a warning if methods lack whole tasks, unless runs are pending."""
        if self.scores.timed:
            return []
        if self.results is not None and self.runs["status"].eq("not done").any():
            return []
        source = "SOURCE..." if self.results is None else str(self.results.folder)
        return incomplete_warnings(self._tested(self.scores.procedure_over_tasks), source)

    def _warnings_by_family(self) -> Iterator[str]:
        for family, part in self.parts.items():
            doubts = () if part.verdicts is None else part.verdicts.doubts
            for warning in (*spread_warnings(part.comparisons, self.scores.controls), *doubts):
                yield f"{family_prefix(family)}{warning}"

    @cached_property
    def failures(self) -> list[tuple[str, str]]:
        """Names and errors of runs that failed."""
        return [] if self.results is None else self.results.failures

    @cached_property
    def made(self) -> dict[str, Sequence[str]]:
        """Sources, dates, commands, versions and hardware of the scores."""
        runs = [] if self.results is None else self.results.runs
        manifests = [*(run["manifest"] for run in runs), *self.manifests]
        return {**self.origin, **provenance.made(manifests)}

    @cached_property
    def comparisons(self) -> dict[str, PairwiseResult]:
        """Test of each task; empty with families."""
        if self.scores.families:
            return {}
        return compare_methods(self._tested(self.scores.procedure))

    @property
    def tested(self) -> bool:
        """If True, at least one task has a test."""
        return any(part.comparisons for part in self.parts.values())

    @cached_property
    def several(self) -> OverTasks | None:
        """Test over tasks; None for timed suites: text lengths are not a sample of tasks."""
        if self.scores.families or self.scores.timed:
            return None
        return over_tasks(self._tested(self.scores.procedure_over_tasks))

    def _tested(self, test: Procedure) -> Scores:
        return with_diverged(self.scores, self.failed, test)

    @cached_property
    def wins(self) -> list[Any]:
        """Pairs of methods with their numbers of wins, ties and losses over tasks."""
        won = None if self.scores.timed else wins(self.scores, self.comparisons)
        return [] if won is None else won.to_dict("records")

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means and standard deviations."""
        letters = {task: own for task, own in self._letters.items() if own is not None}
        metrics = self._all_scores[self._all_scores["metric"] != SCORE]
        return summarize(self.scores, letters, metrics)

    @cached_property
    def _letters(self) -> dict[str, dict[str, str] | None]:
        """Letters of the methods of each task, see `letters_of`."""
        tests: dict[str, list[PairwiseResult]] = {}
        for part in self.parts.values():
            # The test of an average groups seeds of tasks, which are independent.
            better = self.scores.averages if part.several else ()
            for task, result in part.comparisons.items():
                tests.setdefault(task, []).extend([] if task in better else [result])
        return {task: letters_of(own) for task, own in tests.items()}

    @property
    def too_many_groups(self) -> list[str]:
        """Tasks with significant differences, but more groups of methods than letters."""
        return [task for task, own in self._letters.items() if own is None]

    @cached_property
    def pvalues(self) -> pd.DataFrame:
        """All pairs of all tasks, with the family first if there are several.

        Differences are as pages show them.
        """

        def tests(part: ReportContext) -> dict[str, pd.DataFrame]:
            return {"": all_pvalues(part.comparisons, part.scores.factor)}

        return self.joined(tests)[""]

    @cached_property
    def num_pairs(self) -> int:
        """Number of pairs of methods with a test on at least one task."""
        return len(self.pvalues[["a", "b"]].drop_duplicates())

    @cached_property
    def drawn(self) -> dict[str, Style]:
        """Style of the methods in figures with a row for each: all, or the best ones of many."""
        if len(self.styles) <= MOST_DRAWN:
            return self.styles
        best = {*self.mean_ranks.index[:MOST_DRAWN]} or {*self.scores.methods[:MOST_DRAWN]}
        return {name: style for name, style in self.styles.items() if name in best}

    @cached_property
    def mean_ranks(self) -> pd.Series[float]:
        """Mean rank of each method over the tasks that all have, the best first."""
        return standings(self.scores)["rank"].sort_values(kind="stable")

    @property
    def pairs_listed(self) -> bool:
        """If False, there are too many pairs to list on a page."""
        return self.num_pairs <= _MOST_PAIRS

    @property
    def level(self) -> str:
        """Level of the tests, such as "p < .05"."""
        return format_level(self.scores.alpha)

    @property
    def test(self) -> str:
        """Name of the test."""
        return procedure_label(self.scores.procedure, self.scores.control)

    @cached_property
    def styles(self) -> dict[str, Style]:
        """Style of each method in figures, the same in all families."""
        return styles(self.scores.methods) if self.whole is None else self.whole.styles

    @property
    def generated_data(self) -> str:
        """A sentence on tasks of generated text; empty if there are none."""
        return "" if self.results is None else how_runs_went.generated_data(self.results.suite)

    @cached_property
    def columns(self) -> dict[str, str]:
        """Columns of scores with the names of their metrics; empty names for averages."""
        tasks = [] if self.results is None else self.results.suite.learned()
        metrics = {name: task.metrics_of(name) for task in tasks for name in task.scorable}
        return {
            name: " / ".join(find_metric(metric).label for metric in metrics.get(name, ()))
            for name in self.scores.tasks
        }

    @cached_property
    def cells(self) -> dict[tuple[str, str], Cell]:
        """Means by method and column, without methods that have no finished run."""
        return mean_cells(self)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """All runs: done, failed or not done."""
        assert self.results is not None
        return how_runs_went.all_runs(self.results)

    @cached_property
    def how(self) -> pd.DataFrame:
        """Costs of the finished runs."""
        return how_runs_went.how_run(self.runs)

    @cached_property
    def learning_times(self) -> LearningTimes | None:
        """Times to the target, for suites with a target."""
        from relation_tf.report.sections.learning_time import learning_times

        return None if self.results is None else learning_times(self.results)

    @cached_property
    def published(self) -> Published | None:
        """Published figures of the suite's tasks."""
        path = None if self.results is None else self.results.suite.published
        return load_published(path) if path else None

    @cached_property
    def published_claims(self) -> PublishedTable | None:
        """Claims of the published table, checked from its means and SDs."""
        return None if self.published is None else check_claims(self.published)

    @cached_property
    def predicted(self) -> Predicted | None:
        """Evaluation of the predictions."""
        from relation_tf.report.sections import predictions

        return (
            None
            if self.results is None
            else predictions.predicted(self.predicted_rows, self.styles)
        )

    @cached_property
    def predicted_rows(self) -> ReadRows:
        """Predictions of the runs on the scored sets."""
        return ReadRows([], {}) if self.results is None else read_rows(self.results)

    @cached_property
    def collapsed(self) -> pd.DataFrame:
        """Runs that learned nothing: task, method, seed and reason."""
        if self.whole is not None:  # the reason can depend on methods of other families
            return (runs := self.whole.collapsed)[runs["method"].isin(self.scores.methods)]
        return collapsed_runs(self.predicted_rows.sets, self._all_scores)

    @cached_property
    def collapsed_of(self) -> Mapping[str, int]:
        """Number of networks of each method that learned nothing."""
        return Counter(trained_networks(self.collapsed, self.scores)["method"])

    @property
    def dagger(self) -> str:
        """Explanation of † in tables for papers; empty without collapsed runs."""
        return "" if self.collapsed.empty else DAGGER

    @cached_property
    def row_tables(self) -> dict[str, pd.DataFrame]:
        """Standard errors from seeds and evaluation rows, and tests of pairs by rows."""
        from relation_tf.report.sections import variance

        return variance.row_tables(self.predicted_rows.sets)

    @cached_property
    def _all_scores(self) -> pd.DataFrame:
        """Metrics and averages of all seeds: task, method, seed, metric, value."""
        return all_metrics(self.scores, self.results)
