"""Section with the verdicts of sequential seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from relation_tf.bench.looks import LOOKS, FamilyLooks, Looks, Pair
from relation_tf.registry import register_section
from relation_tf.report.answer import in_words
from relation_tf.report.blocks import (
    Block,
    Cell,
    Column,
    Paragraph,
    Row,
    Section,
    Table,
    number,
)
from relation_tf.report.context import ReportContext
from relation_tf.report.families import family_prefix
from relation_tf.report.pictures.drawing import signed
from relation_tf.stats.comparisons import NOT_SIGNIFICANT
from relation_tf.stats.presentation import count
from relation_tf.stats.sequential import FUTILITY, UNDECIDED

_NUMBERS = ("Seeds", "Z", "Boundary")


@register_section("sequential")
class Sequential(Section):
    """Verdicts of a suite whose seeds were added until every pair was decided."""

    heading = "Sequential verdicts"
    notebook = True

    def blocks(self, context: ReportContext) -> Sequence[Block]:
        """Return the plan, the verdicts and the looks."""
        looks = context.looks
        if looks is None:
            return []
        return [
            Paragraph(_plan(looks)),
            *(block for name, state in _families(looks) for block in _tables(name, state)),
            Paragraph(_how(looks), "note"),
        ]

    def answer(self, context: ReportContext) -> Sequence[str]:
        """Return the verdicts in sentences."""
        return [] if context.looks is None else _sentences(context.looks)

    def tables(self, context: ReportContext) -> Mapping[str, pd.DataFrame]:
        """Return the pairs and the looks."""
        looks = context.looks
        if looks is None:
            return {}
        states = _families(looks)
        return {
            "sequential-pairs": pd.DataFrame(
                [{"family": name} | own.model_dump() for name, each in states for own in each.pairs]
            ),
            "sequential-looks": pd.DataFrame(
                [{"family": name} | own.model_dump() for name, each in states for own in each.looks]
            ),
        }


def _families(looks: Looks) -> list[tuple[str, FamilyLooks]]:
    return [(own.name, state) for own, state in zip(looks.plan.families, looks.states, strict=True)]


def _sentences(looks: Looks) -> list[str]:
    said = []
    for name, state in _families(looks):
        said += [f"{family_prefix(name)}{sentence}" for sentence in _verdicts(looks, state)]
    return said


def _verdicts(looks: Looks, state: FamilyLooks) -> list[str]:
    tasks = looks.plan.tasks
    where = tasks[0] if len(tasks) == 1 else f"the {len(tasks)} tasks together"
    found = {NOT_SIGNIFICANT: "No significant difference", UNDECIDED: "Undecided"}
    named: dict[str, list[str]] = {kind: [] for kind in found}
    better = []
    for pair in state.pairs:
        if pair.better is None:
            named[pair.verdict].append(f"{pair.a} and {pair.b} ({count(pair.seeds, 'seed')})")
        else:
            worse = pair.a if pair.better == pair.b else pair.b
            better.append(f"{pair.better} is better than {worse} ({count(pair.seeds, 'seed')})")
    if not state.looks:
        return ["No verdict yet: the first look is not complete."]
    level = f"family-wise error {looks.plan.alpha:g} over all pairs and looks"
    sentences = [f"On {where}, {in_words(better)}; {level}."] if better else []
    sentences += [
        f"{found[kind]} on {where}: {', '.join(own)}." for kind, own in named.items() if own
    ]
    return sentences


def _plan(looks: Looks) -> str:
    plan = looks.plan
    kinds = [
        ("all pairs of methods" if own.control is None else f"all methods with {own.control}")
        + (f" ({own.name})" if own.name else "")
        for own in plan.families
    ]
    pairs, within = in_words(kinds), "of a family " if len(kinds) > 1 else ""
    return (
        f"Seeds were added until every pair was decided. Fixed before the first run ({LOOKS}): "
        f"looks after {in_words([*map(str, plan.looks)])} seeds, {pairs}, family-wise error "
        f"{plan.alpha:g} over all pairs {within}and looks. These verdicts replace tests with a "
        "fixed number of seeds: such p-values, intervals and verdicts against a reference are not "
        "valid if the scores determine the number of seeds, so this page has none."
    )


def _how(looks: Looks) -> str:
    num_tasks = len(looks.plan.tasks)
    over = (
        f", summed over the {num_tasks} tasks with equal weights; scores are permuted within tasks"
        if num_tasks > 1
        else ""
    )
    return (
        f"Z: standardized Wilcoxon-Mann-Whitney statistic{over}, positive where the second method "
        "is better. A pair is significant if |Z| exceeds the boundary. The boundary falls as pairs "
        "become significant. A pair stops without a significant difference if, given its trend, "
        f"it would become significant with a probability below {FUTILITY:g}. Seeds: at the pair's "
        "last look. Error spent: probability of a false verdict up to this look if all methods "
        "are equal. For a pair that is decided early, the difference of the means is biased away "
        "from zero."
    )


def _tables(name: str, state: FamilyLooks) -> list[Block]:
    """Return the pairs and the looks of a family."""
    if not state.looks:
        return []
    of = f", {name}" if name else ""
    columns = [Column("First"), Column("Second"), *(Column(name, "number") for name in _NUMBERS)]
    rows = [Row(_cells(pair), [pair.a, pair.b]) for pair in state.pairs]
    return [
        Table(f"Table: sequential verdicts{of}", [*columns, Column("Verdict")], rows),
        _looks(f"Table: looks{of}", state),
    ]


def _cells(pair: Pair) -> list[str | Cell]:
    statistic = "–" if pair.statistic is None else signed(pair.statistic)
    significant = pair.better is not None
    return [
        pair.a,
        pair.b,
        str(pair.seeds),
        Cell(statistic, significant=significant),
        "–" if pair.boundary is None else number(pair.boundary, 2),
        Cell(pair.verdict, significant=significant),
    ]


def _looks(title: str, state: FamilyLooks) -> Table:
    names = ("Seeds", "Boundary", "Error spent", "Pairs decided")
    rows = [
        Row(
            [
                str(look.seeds),
                number(look.boundary, 2),
                f"{look.alpha_spent:.4f}",
                str(look.decided),
            ]
        )
        for look in state.looks
    ]
    return Table(title, [Column(name, "number") for name in names], rows)
