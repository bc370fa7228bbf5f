"""The data of a report: scores, tests, verdicts and runs, computed on first use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.config.published import Published, load_published
from relation_tf.registry import SECTIONS
from relation_tf.report import provenance
from relation_tf.report import runs as how_runs_went
from relation_tf.report.answer import progress
from relation_tf.report.blocks import Block, Cell, Figure, Heading, Section, within
from relation_tf.report.cells import mean_cells
from relation_tf.report.comparison import Comparison
from relation_tf.report.comparisons import (
    SCORE,
    all_metrics,
    all_pvalues,
    letters_of,
    summarize,
    with_splits,
)
from relation_tf.report.failed import failed_runs
from relation_tf.report.families import of_family
from relation_tf.report.learning_times import LearningTimes, learning_times
from relation_tf.report.limits import limited
from relation_tf.report.pictures.drawing import Picture, Style, styles
from relation_tf.report.predicted_rows import ReadRows, read_rows
from relation_tf.report.published import check_claims
from relation_tf.report.reliability import (
    collapse_warnings,
    collapsed_runs,
    incomplete_warnings,
    spread_warnings,
    trained_networks,
)
from relation_tf.report.scores import Scores
from relation_tf.report.standings import standings
from relation_tf.report.text import Statement, in_markup, state
from relation_tf.stats import PairwiseResult, PublishedTable
from relation_tf.steps import advance
from relation_tf.tasks.metrics import find_metric
from relation_tf.words import capital

MOST_DRAWN = 40  # methods; of more, figures with a row for each show the best
_LAST = "made"  # the last section


@dataclass(frozen=True)
class ReportData:
    """Data of a report.

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
        timed_costs: Costs of the methods in timed suites, from `read_costs`.
        test_changed: If True, an option of a comparison has replaced the declared test, its level,
            control or families.
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
    timed_costs: pd.DataFrame = field(default_factory=pd.DataFrame)
    test_changed: bool = False

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        """The comparison of each family by its name; only one, without name, if there is none."""
        every = self.scores.families
        if not every:
            return {"": Comparison(self, "", self.scores, self.results, self.runs, self.collapsed)}
        found = {}
        for family in every:
            results = None if self.results is None else self.results.only(family.methods)
            runs, lost = (
                own[own["method"].isin(family.methods)] if len(own) else own
                for own in (self.runs, self.collapsed)
            )
            scores = self.scores.only(family)
            found[family.name] = Comparison(self, family.name, scores, results, runs, lost)
        return found

    # ---- What was measured ----

    @cached_property
    def runs(self) -> pd.DataFrame:
        """All runs of the suites, done, failed or not done, and those of reports."""
        tables = [table for table in (self.other_runs, self.suite_runs) if len(table)]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    @cached_property
    def suite_runs(self) -> pd.DataFrame:
        """The runs of the suites only; empty without a suite."""
        return pd.DataFrame() if self.results is None else how_runs_went.all_runs(self.results)

    @cached_property
    def run_costs(self) -> pd.DataFrame:
        """Costs of the suites' finished runs by task and method."""
        return how_runs_went.how_run(self.suite_runs)

    @cached_property
    def predictions(self) -> ReadRows:
        """Predictions of the runs on the scored sets."""
        return ReadRows([], {}) if self.results is None else read_rows(self.results)

    @cached_property
    def collapsed(self) -> pd.DataFrame:
        """Runs that learned nothing: task, method, seed and reason."""
        return collapsed_runs(self.predictions.sets, self.metrics)

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
    def learning_times(self) -> LearningTimes | None:
        """Times to the target, for suites with a target."""
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

    # ---- What follows ----

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means and standard deviations."""
        letters = {task: own for task, own in self._letters.items() if own is not None}
        return summarize(self.scores, letters, self.metrics[self.metrics["metric"] != SCORE])

    @cached_property
    def _letters(self) -> dict[str, dict[str, str] | None]:
        """Letters of the methods of each task, see `letters_of`."""
        tests: dict[str, list[PairwiseResult]] = {}
        for part in self.comparisons.values():
            # The test of an average groups seeds of tasks, which are independent.
            better = self.scores.averages if part.over_tasks else ()
            for task, result in part.tests.items():
                tests.setdefault(task, []).extend([] if task in better else [result])
        return {task: letters_of(own) for task, own in tests.items()}

    @property
    def too_many_groups(self) -> list[str]:
        """Tasks with significant differences, but more groups of methods than letters."""
        return [task for task, own in self._letters.items() if own is None]

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
        return self._statements(lambda part: [part.headline] if part.headline else [])

    @property
    def caveats(self) -> list[Statement]:
        """What limits the headlines."""
        return self._statements(lambda part: part.caveats)

    @property
    def answer(self) -> list[Statement]:
        """The short answer: progress of the runs, and the answer of each comparison."""
        return [*self._progress(), *self._statements(lambda part: part.answer)]

    @property
    def brief_answer(self) -> list[Statement]:
        """The short answer, on single tasks only without a test over tasks."""
        return [*self._progress(), *self._statements(lambda part: part.brief_answer)]

    def _progress(self) -> list[Statement]:
        return [] if self.results is None else [*progress(self.suite_runs)]

    def _statements(self, of: Callable[[Comparison], Sequence[Statement]]) -> list[Statement]:
        parts = self.comparisons.items()
        return [named(family, each) for family, part in parts for each in of(part)]

    @cached_property
    def warnings(self) -> list[Statement]:
        """Warnings about differences between runs or scores, and about failures."""
        own = [] if self.results is None else provenance.warnings(self.results)
        notes = [
            *provenance.unlike_machines(self.manifests),
            *provenance.unlike_pretraining(self.pretraining),
        ]
        return [
            *(state("note", text=text) for text in self.doubts),
            *self._incomplete(),
            *(state("note", text=text) for text in own),
            *how_runs_went.load_warnings(self.runs),
            *collapse_warnings(self.collapsed, self.scores),
            *self._statements(
                lambda part: [
                    *spread_warnings(part.tests, self.scores.controls),
                    *(() if part.verdicts is None else part.verdicts.doubts),
                ]
            ),
            *(state("note", text=text) for text in notes),
        ]

    def _incomplete(self) -> list[Statement]:
        """Return a warning if methods lack whole tasks, unless runs are pending."""
        pending = self.results is not None and self.suite_runs["status"].eq("not done").any()
        if self.scores.timed or pending:
            return []
        source = "SOURCE..." if self.results is None else str(self.results.folder)
        return incomplete_warnings(self.scores, self.comparisons.values(), source)

    @property
    def generated_data(self) -> str:
        """A sentence on tasks of generated text; empty if there are none."""
        return "" if self.results is None else how_runs_went.generated_data(self.results.suite)

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
        found = {}
        for number, (name, section) in enumerate(self.sections.items()):
            advance("sections of the report", number, len(self.sections))
            own = self.by_family(section.blocks) if section.by_family else section.blocks(self)
            found[name] = limited(own)
        return {name: own for name, own in found.items() if own}

    def by_family(self, show: Callable[[Comparison], Sequence[Block]]) -> list[Block]:
        """Return the blocks of each comparison, below the name of its family."""
        found: list[Block] = []
        for family, part in self.comparisons.items():
            own = show(part)
            if own and family:
                own = [Heading(in_markup(capital(family))), *of_family(own, family)]
            found += own
        return found

    @cached_property
    def pictures(self) -> list[Picture]:
        """Figures of all sections."""
        return [
            block.picture
            for own in self.blocks.values()
            for block in within(own)
            if isinstance(block, Figure)
        ]

    @cached_property
    def pvalues(self) -> pd.DataFrame:
        """All pairs of all tasks, with the family first if there are several."""
        return self.joined(lambda part: {"": part.pvalues}).get("", all_pvalues({}))

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables by the names of their files."""
        tables = {
            "scores": with_splits(self.metrics, self.scores, self.results),
            "table": self.summary,
            "pvalues": self.pvalues,
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
                own = table.copy()
                if family:
                    own.insert(0, "family", family)
                joined.setdefault(name, []).append(own)
        return {
            name: own[0] if len(own) == 1 else pd.concat(own, ignore_index=True)
            for name, own in joined.items()
        }


def named(family: str, statement: Statement) -> Statement:
    """Return a statement on a family."""
    return replace(statement, family=family)


def _over_tasks(part: Comparison) -> dict[str, pd.DataFrame]:
    several = part.over_tasks
    if several is None:
        return {}
    ranks, tables = several.ranks, {"over_tasks": several.pairs}
    return tables if ranks is None else tables | {"ranks": ranks.rename_axis("task").reset_index()}
