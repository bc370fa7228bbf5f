"""One comparison of methods: all methods of a report, or one family."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from relation_tf.bench.results import Results
from relation_tf.report import runs as how_runs_went
from relation_tf.report.answer import answer, brief
from relation_tf.report.caveats import caveats
from relation_tf.report.comparisons import all_pvalues, compare_methods, procedure_label, wins
from relation_tf.report.failed import failed_by_task, with_diverged
from relation_tf.report.learning_times import LearningTimes, learning_times
from relation_tf.report.over_tasks import OverTasks, over_tasks
from relation_tf.report.predicted_rows import row_tables
from relation_tf.report.reliability import mostly_lost
from relation_tf.report.scores import Scores
from relation_tf.report.standings import Outcome, leading, none_learned, outcome_of, standings
from relation_tf.report.text import Statement
from relation_tf.report.tuned import tuning_caveats
from relation_tf.report.verdicts import Verdicts, headline, judge
from relation_tf.stats import PairwiseResult
from relation_tf.words import format_level

if TYPE_CHECKING:
    from relation_tf.report.data import ReportData

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
        return compare_methods(with_diverged(self.scores, self.failed, self.scores.procedure))

    @cached_property
    def over_tasks(self) -> OverTasks | None:
        """Test over tasks; None for timed suites: text lengths are not a sample of tasks."""
        if self.scores.timed:
            return None
        procedure = self.scores.procedure_over_tasks
        return over_tasks(with_diverged(self.scores, self.failed, procedure))

    @cached_property
    def outcome(self) -> Outcome | None:
        """The test over tasks, or of the only task."""
        return outcome_of(self.scores, self.over_tasks, self.tests)

    @cached_property
    def pvalues(self) -> pd.DataFrame:
        """All pairs of all tasks; differences are as pages show them."""
        return all_pvalues(self.tests, self.scores.factor)

    @cached_property
    def wins(self) -> pd.DataFrame | None:
        """Number of wins, ties and losses over tasks of each pair; None for a single task."""
        return None if self.scores.timed else wins(self.scores, self.tests)

    @cached_property
    def standings(self) -> pd.DataFrame:
        """Mean and rank of each method over the tasks that all have."""
        return standings(self.scores)

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
        return how_runs_went.summarize_costs(self.runs, self.scores.methods)

    @cached_property
    def timed_costs(self) -> pd.DataFrame:
        """Costs of these methods in timed suites, by text length."""
        costs = self.report.timed_costs
        return costs if costs.empty else costs[costs["method"].isin(self.scores.methods)]

    @cached_property
    def rows(self) -> dict[str, pd.DataFrame]:
        """Standard errors from seeds and evaluation rows, and tests of pairs by rows."""
        names = {*self.scores.methods}
        return row_tables([own.only(names) for own in self.report.predictions.sets])

    @cached_property
    def headline(self) -> Statement | None:
        """The verdicts, or the best method and the tests; None without a comparison."""
        lost = mostly_lost(self.scores, self.collapsed, self.failed)
        if none := none_learned(self.scores, lost):
            return none
        if self.verdicts is None:
            return leading(self.scores, self.standings, self.outcome, self.tests, lost)
        return headline(self.verdicts, self.scores, self.costs, self.failed)

    @cached_property
    def caveats(self) -> list[Statement]:
        """What limits the headline."""
        found = caveats(
            self.verdicts, self.outcome, self.scores, self.collapsed, self.failed, self.runs
        )
        shown = self.headline and self.headline.values.get("reason") == "failed"
        return [
            *(each for each in found if not (shown and each.kind == "mostly_failed")),
            *tuning_caveats(self.results, self.scores),
        ]

    @cached_property
    def answer(self) -> list[Statement]:
        """The short answer: what the tests found, and what they cannot show."""
        return [*answer(self)]

    @property
    def brief_answer(self) -> list[Statement]:
        """The short answer, without single tasks if a test over tasks summarizes them."""
        return brief(self.answer, self)

    @cached_property
    def learning_times(self) -> LearningTimes | None:
        """Times to the target, for suites with a target."""
        return None if self.results is None else learning_times(self.results)

    @property
    def declared(self) -> int:
        """Number of methods of the suites, with or without runs, and of other sources."""
        suite = [] if self.results is None else self.results.suite.methods()
        return len({*self.scores.methods, *(str(method.name) for method in suite)})

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
