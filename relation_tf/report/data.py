"""The data of a report: scores, tests, verdicts and runs, computed on first use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from relation_tf.registry import SECTIONS
from relation_tf.report.blocks import (
    Block,
    Cell,
    Figure,
    Heading,
    Section,
    limited,
    of_family,
    rows_of,
    within,
)
from relation_tf.report.drawing import Picture, Style, styles
from relation_tf.report.lost_runs import (
    collapse_warnings,
    collapsed_runs,
    failed_by_task,
    failed_runs,
    mostly_lost,
    trained_networks,
    with_failed,
)
from relation_tf.report.scores import SCORE, Scores
from relation_tf.report.sections import MODULES
from relation_tf.report.sections.aggregates import aggregates, profiles
from relation_tf.report.sections.answer import brief, findings, leading, progress, standings
from relation_tf.report.sections.learning_time import LearningTimes, learning_times
from relation_tf.report.sections.predictions import ReadRows, read_rows, row_tables
from relation_tf.report.sections.published import published_figures
from relation_tf.report.sections.runs import (
    all_runs,
    costs_of_runs,
    generated_data,
    load_warnings,
    provenance,
    summarize_costs,
    unlike_machines,
    unlike_pretraining,
    warnings_of_runs,
)
from relation_tf.report.sections.scores import (
    all_metrics,
    letters_of,
    mean_cells,
    summarize,
    with_splits,
)
from relation_tf.report.sections.tests import (
    Outcome,
    OverTasks,
    all_pvalues,
    compare_methods,
    outcome_of,
    over_tasks,
    procedure_label,
    spread_warnings,
)
from relation_tf.report.sections.tuning import tuning_caveats
from relation_tf.report.sections.verdicts import Verdicts, caveats, headline, judge, only_tested
from relation_tf.report.text import Statement, in_markup, state
from relation_tf.stats import PairwiseResult
from relation_tf.tasks.metrics import find_metric
from relation_tf.terminal import advance
from relation_tf.words import capital, format_level

if TYPE_CHECKING:
    from relation_tf.bench.results import Results
    from relation_tf.config.suite import Published

_MOST_PAIRS = 100  # if there are more, only pvalues.csv lists them


@dataclass(frozen=True)
class Comparison:
    """Methods that are compared with each other, and what follows from their scores.

    Attributes:
        report: All methods of the report.
        family: Name of the family; empty if all methods are compared.
        scores: The scores of these methods.
        results: Their runs, if known.
        runs: A row for each of these runs, and for those of reports; can be empty.
        collapsed: Their runs that learned nothing, see `collapsed_runs`.
    """

    report: ReportData
    family: str
    scores: Scores
    results: Results | None
    runs: pd.DataFrame
    collapsed: pd.DataFrame

    @cached_property
    def tests(self) -> dict[str, PairwiseResult]:
        """Test of each task."""
        return compare_methods(with_failed(self.scores, self.failed, self.scores.procedure))

    @cached_property
    def over_tasks(self) -> OverTasks | None:
        """Test over tasks; None for timed suites: text lengths are not a sample of tasks."""
        if self.scores.timed:
            return None
        procedure = self.scores.procedure_over_tasks
        return over_tasks(with_failed(self.scores, self.failed, procedure))

    @cached_property
    def outcome(self) -> Outcome | None:
        """The test over tasks, or of the only task."""
        return outcome_of(self.scores, self.over_tasks, self.tests)

    @cached_property
    def pvalues(self) -> pd.DataFrame:
        """All pairs of all tasks; differences are as pages show them."""
        return all_pvalues(self.tests, self.scores.factor)

    @cached_property
    def standings(self) -> pd.DataFrame:
        """Mean and rank of each method over the tasks that all have."""
        return standings(self.scores)

    @cached_property
    def aggregates(self) -> pd.DataFrame:
        """Estimates over tasks that are declared to have one unit; else empty.

        Their bootstrap needs independent scores: those of folds are not.
        """
        scores = self.scores
        sizes = [len(x) for methods in scores.common.values() for x in methods.values()]
        known = scores.same_unit and scores.comparable and not scores.paired
        known = known and len(scores.common) > 1 and min(sizes) > 1
        return aggregates(scores) if known else pd.DataFrame()

    @cached_property
    def profiles(self) -> pd.DataFrame:
        """Performance profiles of the methods of `aggregates`."""
        return profiles(self.scores)

    @cached_property
    def verdicts(self) -> Verdicts | None:
        """Verdicts against the reference, if there is one."""
        return judge(self.scores, failed_by_task(self.failed))

    @cached_property
    def failed(self) -> pd.DataFrame:
        """Failed runs by scored task, see `failed_runs`."""
        failed = self.report.failed
        return failed[failed["method"].isin(self.scores.methods)]

    @cached_property
    def costs(self) -> pd.DataFrame:
        """Costs of each method over the tasks that all methods with runs have."""
        return summarize_costs(self.runs, self.scores.methods)

    @cached_property
    def timed_costs(self) -> pd.DataFrame:
        """Costs of these methods in timed suites, by text length."""
        costs = self.report.timed_costs
        return costs if costs.empty else costs[costs["method"].isin(self.scores.methods)]

    @cached_property
    def rows(self) -> dict[str, pd.DataFrame]:
        """Standard errors from seeds and evaluation rows, and tests of pairs by rows."""
        names = {*self.scores.methods}
        return row_tables([rows.only(names) for rows in self.report.predictions.sets])

    @cached_property
    def headline(self) -> Statement | None:
        """The verdicts, or the best method and the tests; None without a comparison."""
        lost = mostly_lost(self.scores, self.collapsed, self.failed)
        if lost and {*self.scores.table["method"]} <= {*lost}:
            return state("none_learned", tasks=len(self.scores.main_tasks))
        if self.verdicts is None or only_tested(self):
            return leading(self, lost)
        return headline(self, self.verdicts)

    def assumed(self, option: str = "") -> list[Statement]:
        """A statement on the tasks whose direction is only assumed, if there are any."""
        directions, main = self.scores.directions, self.scores.main_tasks
        tasks = [x for x in main if x in directions and directions[x].origin == "assumed"]
        return [state("higher_assumed", tasks=tasks, of=len(main), option=option)] if tasks else []

    @property
    def headlines(self) -> list[Statement]:
        """The headline, if there is one, and `assumed`."""
        return [self.headline, *self.assumed("--lower-is-better all")] if self.headline else []

    @cached_property
    def caveats(self) -> list[Statement]:
        """What limits the headline."""
        shown = self.headline and self.headline.values.get("reason") == "failed"
        return [
            *(caveat for caveat in caveats(self) if not (shown and caveat.kind == "mostly_failed")),
            *tuning_caveats(self.results, self.scores),
        ]

    @cached_property
    def findings(self) -> list[Statement]:
        """The short answer: what the tests found, the main one first, and what they cannot show."""
        by_task = self.outcome is None
        return sorted(findings(self), key=lambda said: by_task and said.kind == "over_tasks")

    @cached_property
    def learning_times(self) -> LearningTimes | None:
        """Times to the target, for suites with a target."""
        return None if self.results is None else learning_times(self.results)

    @property
    def pairs_listed(self) -> bool:
        """If False, there are too many pairs to list on a page."""
        return len(self.pvalues[["a", "b"]].drop_duplicates()) <= _MOST_PAIRS

    @property
    def level(self) -> str:
        """Level of the tests, such as "p < .05"."""
        return format_level(self.scores.alpha)

    @property
    def test(self) -> str:
        """Name of the test."""
        return procedure_label(self.scores.procedure, self.scores.control)


MOST_DRAWN = 40  # methods; of more, figures with a row for each show the best


@dataclass(frozen=True)
class ReportData:
    """Data of a report.

    Attributes:
        scores: The scores to compare.
        results: The runs that gave the scores, if known.
        title: Title of the report.
        question: Research question of the comparison.
        source_warnings: Warnings about the sources of the scores.
        origin: Facts about the sources.
        manifests: Manifests of scores without `results`.
        pretraining: Settings of pre-trained encoders.
        other_runs: Runs of reports that gave scores, from their `runs.csv`.
        timed_costs: Costs of the methods in timed suites, from `read_costs`.
    """

    scores: Scores
    results: Results | None = None
    title: str = ""
    question: str = ""
    source_warnings: Sequence[Statement] = ()
    origin: Mapping[str, Sequence[str]] = field(default_factory=dict)
    manifests: Sequence[Mapping[str, Any]] = ()
    pretraining: Sequence[Mapping[str, Any]] = ()
    other_runs: pd.DataFrame = field(default_factory=pd.DataFrame)
    timed_costs: pd.DataFrame = field(default_factory=pd.DataFrame)

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        """The comparison of each family by its name; only one, without name, if there is none."""
        families = self.scores.families
        if not families:
            return {"": Comparison(self, "", self.scores, self.results, self.runs, self.collapsed)}
        comparisons = {}
        for family in families:
            results = None if self.results is None else self.results.only(family.methods)
            runs, lost = (
                table[table["method"].isin(family.methods)] if len(table) else table
                for table in (self.runs, self.collapsed)
            )
            scores = self.scores.only(family)
            comparisons[family.name] = Comparison(self, family.name, scores, results, runs, lost)
        return comparisons

    @property
    def lower_bounds(self) -> list[str]:
        """Methods that are shown but not compared, see `lower_bound` of a suite."""
        compared = {name for family in self.scores.families for name in family.methods}
        return [name for name in self.scores.methods if compared and name not in compared]

    # ---- What was measured ----

    @cached_property
    def runs(self) -> pd.DataFrame:
        """All runs of the suites, done, failed or not done, and those of reports."""
        tables = [table for table in (self.other_runs, self.suite_runs) if len(table)]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    @cached_property
    def suite_runs(self) -> pd.DataFrame:
        """The runs of the suites only; empty without a suite."""
        return pd.DataFrame() if self.results is None else all_runs(self.results)

    @cached_property
    def run_costs(self) -> pd.DataFrame:
        """Costs of the suites' finished runs by task and method."""
        return costs_of_runs(self.suite_runs)

    @cached_property
    def predictions(self) -> ReadRows:
        """Predictions of the runs on the scored sets."""
        return ReadRows([], {}) if self.results is None else read_rows(self.results)

    @cached_property
    def collapsed(self) -> pd.DataFrame:
        """Runs that learned nothing: task, method, seed and reason; not those of lower bounds."""
        collapsed = collapsed_runs(self.predictions.sets, self.metrics)
        return collapsed[~collapsed["method"].isin(self.lower_bounds)]

    @cached_property
    def failed(self) -> pd.DataFrame:
        """Failed runs by scored task, see `failed_runs`."""
        suite = None if self.results is None else self.results.suite
        return failed_runs(self.runs, suite, self.scores)

    @cached_property
    def collapsed_networks(self) -> Mapping[str, int]:
        """Number of networks of each method that learned nothing."""
        return Counter(trained_networks(self.collapsed, self.scores)["method"])

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """Metrics and averages of all seeds: task, method, seed, metric, value."""
        return all_metrics(self.scores, self.results)

    @cached_property
    def published(self) -> Published | None:
        """Published figures of the suite's tasks."""
        path = None if self.results is None else self.results.suite.published
        if not path:
            return None
        from relation_tf.config.suite import load_published

        return load_published(path)

    @cached_property
    def published_figures(self) -> pd.DataFrame:
        """Published figures next to our results; empty without any."""
        if self.results is None or self.published is None:
            return pd.DataFrame()
        return published_figures(self, self.results, self.published)

    # ---- What follows ----

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means and standard deviations."""
        tests: dict[str, list[PairwiseResult]] = {}
        for part in self.comparisons.values():
            # The test of an average groups seeds of tasks, which are independent.
            without_letters = self.scores.averages if part.over_tasks else ()
            for task, result in part.tests.items():
                tests.setdefault(task, []).extend([] if task in without_letters else [result])
        letters = {task: letters_of(results) for task, results in tests.items()}
        return summarize(self.scores, letters, self.metrics[self.metrics["metric"] != SCORE])

    @cached_property
    def cells(self) -> dict[tuple[str, str], Cell]:
        """Means by method and column, without methods that have no finished run."""
        return mean_cells(self)

    @cached_property
    def columns(self) -> dict[str, str]:
        """Columns of scores with the names of their metrics; empty names for averages."""
        tasks = [] if self.results is None else self.results.suite.learned()
        metrics = {name: task.metrics_of(name) for task in tasks for name in task.scorable}
        return {
            name: " / ".join(find_metric(metric).label for metric in metrics.get(name, ()))
            for name in self.scores.tasks
        }

    @property
    def headlines(self) -> list[Statement]:
        """The verdicts, or the best method and the tests, of each comparison."""
        return self._statements(lambda part: part.headlines)

    @property
    def caveats(self) -> list[Statement]:
        """What limits the headlines."""
        return self._statements(lambda part: part.caveats)

    @property
    def findings(self) -> list[Statement]:
        """The short answer: progress of the runs, and the findings of each comparison."""
        return [*self.progress, *self._statements(lambda part: part.findings)]

    @property
    def brief_findings(self) -> list[Statement]:
        """The short answer, on single tasks only without a test over tasks."""
        return [*self.progress, *self._statements(brief)]

    @property
    def progress(self) -> list[Statement]:
        """Numbers of done, failed and missing runs of an unfinished suite."""
        return [] if self.results is None else [*progress(self.suite_runs)]

    def _statements(self, of: Callable[[Comparison], Sequence[Statement]]) -> list[Statement]:
        parts = self.comparisons.items()
        return [statement.of(family) for family, part in parts for statement in of(part)]

    @cached_property
    def warnings(self) -> list[Statement]:
        """Warnings about differences between runs or scores, and about failures."""
        return [
            *self.source_warnings,
            *self._incomplete(),
            *(() if self.results is None else warnings_of_runs(self.results)),
            *load_warnings(self.runs),
            *collapse_warnings(self.collapsed, self.scores),
            *self._statements(
                lambda part: [
                    *spread_warnings(part, self.scores.controls),
                    *(() if part.verdicts is None else part.verdicts.warnings),
                ]
            ),
            *unlike_machines(self.manifests),
            *unlike_pretraining(self.pretraining),
        ]

    def _incomplete(self) -> list[Statement]:
        """Return a warning if methods lack whole tasks, unless runs are pending."""
        scores, lacking = self.scores, self.scores.lacking_tasks()
        pending = self.results is not None and self.suite_runs["status"].eq("not done").any()
        if scores.timed or pending or not lacking:
            return []
        used = {}
        for family, part in self.comparisons.items():
            if part.scores.lacking_tasks():
                used[family] = part.over_tasks.tasks if part.over_tasks else []
        return [state("incomplete_methods", lacking=lacking, used=used)]

    @property
    def generated_data(self) -> str:
        """A sentence on tasks of generated text; empty if there are none."""
        return "" if self.results is None else generated_data(self.results.suite)

    @cached_property
    def failures(self) -> list[tuple[str, str]]:
        """Names and errors of failed runs of the suites, then of reports and tables."""
        failures = [] if self.results is None else [*self.results.failures]
        lost = self.other_runs
        for row in rows_of(lost[lost["status"] == "failed"]) if len(lost) else ():
            error = getattr(row, "error", None)
            reason = error if isinstance(error, str) else "no finite score"
            failures.append((f"{row.task}/{row.method}/seed-{row.seed}", reason))
        return failures

    @cached_property
    def provenance(self) -> dict[str, Sequence[str]]:
        """Sources, dates, commands, versions and hardware of the scores."""
        runs = [] if self.results is None else self.results.runs
        manifests = [*(run["manifest"] for run in runs), *self.manifests]
        return {**self.origin, **provenance(manifests)}

    # ---- What is shown ----

    @cached_property
    def styles(self) -> dict[str, Style]:
        """Style of each method in figures."""
        return styles(self.scores.methods)

    @cached_property
    def mean_ranks(self) -> pd.Series[float]:
        """Mean rank of each method over the tasks that all have, the best first."""
        return standings(self.scores)["rank"].sort_values(kind="stable")

    @cached_property
    def drawn(self) -> dict[str, Style]:
        """Style of the methods in figures with a row for each: all, or the best ones of many."""
        if len(self.styles) <= MOST_DRAWN:
            return self.styles
        best = {*self.mean_ranks.index[:MOST_DRAWN]} or {*self.scores.methods[:MOST_DRAWN]}
        return {name: style for name, style in self.styles.items() if name in best}

    @cached_property
    def sections(self) -> dict[str, Section]:
        """All sections by name, in order."""
        order = [*MODULES]
        for name in SECTIONS:
            if name not in order:
                after = SECTIONS[name].after
                known = after in order and after != order[-1]
                order.insert(order.index(after if known else order[-2]) + 1, name)
        return {name: SECTIONS[name]() for name in order}

    @cached_property
    def blocks(self) -> dict[str, Sequence[Block]]:
        """Blocks of each section, without empty sections."""
        blocks = {}
        for number, (name, section) in enumerate(self.sections.items()):
            advance("sections of the report", number, len(self.sections))
            shown = self.by_family(section.blocks) if section.by_family else section.blocks(self)
            blocks[name] = limited(shown)
        return {name: shown for name, shown in blocks.items() if shown}

    def by_family(self, show: Callable[[Comparison], Sequence[Block]]) -> list[Block]:
        """Return the blocks of each comparison, below the name of its family."""
        result: list[Block] = []
        for family, part in self.comparisons.items():
            blocks = show(part)
            if blocks and family:
                blocks = [Heading(in_markup(capital(family))), *of_family(blocks, family)]
            result += blocks
        return result

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
            "scores": with_splits(self.metrics, self.scores, self.results),
            "table": self.summary,
            "pvalues": self.joined(lambda part: {"": part.pvalues}).get("", all_pvalues({})),
            **self.joined(_over_tasks),
            **({"runs": self.runs} if len(self.runs) else {}),
            **({} if self.collapsed.empty else {"collapsed": self.collapsed}),
        }
        for section in self.sections.values():
            by_family = section.by_family
            tables |= self.joined(section.tables) if by_family else section.tables(self)
        return tables

    def joined(
        self, tables: Callable[[Comparison], Mapping[str, pd.DataFrame]]
    ) -> dict[str, pd.DataFrame]:
        """Return the tables of all families, joined, with a first column `family`."""
        joined: dict[str, list[pd.DataFrame]] = {}
        for family, part in self.comparisons.items():
            for name, table in tables(part).items():
                table = table.copy()
                if family:
                    table.insert(0, "family", family)
                joined.setdefault(name, []).append(table)
        return {
            name: parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
            for name, parts in joined.items()
        }


def _over_tasks(part: Comparison) -> dict[str, pd.DataFrame]:
    if part.over_tasks is None:
        return {}
    ranks, tables = part.over_tasks.ranks, {"over_tasks": part.over_tasks.pairs}
    if ranks is not None:
        tables["ranks"] = ranks.rename_axis("task").reset_index()
        tables["average_ranks"] = part.standings.rename_axis("method").reset_index()
    return tables
