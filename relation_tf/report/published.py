"""Compare results with published figures, and check the claims of a published table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import product

import pandas as pd

from relation_tf.bench.results import GLUE_AVERAGE, MEAN_OF_TASKS
from relation_tf.config.published import Published, PublishedFigure
from relation_tf.config.suite import Suite
from relation_tf.registry import SOURCES
from relation_tf.report.comparisons import rows_of
from relation_tf.stats import PublishedTable, read_published

SECONDS, PER_EPOCH = "seconds", "seconds per epoch"
MILLISECONDS = "milliseconds per batch"
TIMES = (SECONDS, PER_EPOCH, MILLISECONDS)
_OTHER_SPLIT = "the paper reports {} sets, this suite dev sets"
_TIMES_DIFFER = "times depend on the hardware and the program"


def three_digits(value: float) -> int:
    """Return the decimals that show three digits of a value.

    Example:
        >>> three_digits(44100.0), three_digits(15.3), three_digits(0.0065)
        (0, 1, 5)
    """
    return max(0, 2 - math.floor(math.log10(abs(value)))) if value and math.isfinite(value) else 0


def decimals(value: float) -> int:
    """Return the decimals of a value.

    Example:
        >>> decimals(1600.0), decimals(13.8), decimals(0.0065)
        (0, 1, 4)
    """
    return max(0, -int(Decimal(f"{value:.10g}").as_tuple().exponent))


def printed_decimals(value: float, metric: str) -> int:
    """Return the decimals of a published figure, whose last zeros its file may lack.

    Scores have at least one decimal, times at least three digits.

    Example:
        >>> printed_decimals(77.0, "accuracy"), printed_decimals(0.72, "seconds")
        (1, 3)
    """
    return max(decimals(value), three_digits(value) if metric in TIMES else 1)


def own_name(suite: Suite, figure: PublishedFigure) -> str:
    """Return our method of a figure; else the paper's name.

    This is the method with the figure's name, or the only one with this mechanism and width.
    """
    fitting = [m for m in suite.methods() if figure.units in (None, m.units)]
    named = [str(m.name) for m in fitting if m.name in (figure.method, figure.name)]
    own = named or [str(m.name) for m in fitting if m.mechanism == figure.method]
    return own[0] if len(own) == 1 else figure.name


def compare_published(
    published: Published,
    suite: Suite,
    ours: pd.DataFrame,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> pd.DataFrame:
    """Return published figures next to our results, in points or units of time.

    The mean over tasks is compared only if the suite has all of the paper's tasks.

    Args:
        published: The figures.
        suite: The suite of our results.
        ours: Columns `task`, `method`, `metric`, `n`, `mean`, `sd`, in the published units, and
            possibly `split`. Of several splits, the published one is compared.
        notes: Differences between our data and the published data, by task.

    Returns:
        Columns `task`, `metric`, `method`, `published`, `published_sd`, `split` (of our results;
        empty if unknown), `mean`, `sd`, `n`, `difference` (ours minus published), `within_2_sd`
        (True if at most two published SDs, with our mean rounded like the published one; None if
        unknown) and `reason`: the declared differences that may explain it.
    """
    last = ours.assign(split=ours.get("split", ""))
    last = last.sort_values("split", key=lambda own: own == published.split, kind="stable")
    known = {(row.task, row.method, row.metric): row for row in rows_of(last)}
    tasks = {figure.task for figure in published.figure} - {MEAN_OF_TASKS}
    whole = tasks <= {name for task in suite.learned() for name in task.scored}
    differing, about = reasons(published, suite), _by_scored_task(suite, notes or {})
    rows = []
    for figure in published.figure:
        name = own_name(suite, figure)
        own = known.get((figure.task, name, figure.metric))
        if figure.task == MEAN_OF_TASKS and not whole:
            own = None
        mean, sd, n = (math.nan, math.nan, 0) if own is None else (own.mean, own.sd, own.n)
        difference = mean - figure.value
        within = None
        if figure.sd is not None and not math.isnan(mean):
            # An SD of times can be smaller than the rounding of its mean.
            rounded = round(mean, printed_decimals(figure.value, figure.metric))
            rounding = 1e-9 * abs(figure.value)  # of the subtraction
            within = bool(abs(rounded - figure.value) <= 2 * figure.sd + rounding)
        split = "" if own is None else own.split
        causes = [_TIMES_DIFFER] if figure.metric in TIMES else [*differing.get(figure.task, ())]
        if split == published.split and _OTHER_SPLIT.format(split) in causes:
            causes.remove(_OTHER_SPLIT.format(split))
        causes += about.get(figure.task, ())
        if 0 < n < len(suite.seeds):
            causes.append(f"{n} of {len(suite.seeds)} seeds")
        reason = "; ".join(causes) if own is not None else ""
        compared = (split, mean, sd, n, difference, within, reason)
        rows.append((figure.task, figure.metric, name, figure.value, figure.sd, *compared))
    names = ["task", "metric", "method", "published", "published_sd", "split", "mean", "sd", "n"]
    found = pd.DataFrame(rows, columns=[*names, "difference", "within_2_sd", "reason"])
    return found.astype({"published_sd": float})


def mean_times(means: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the mean times of a suite whose stopping rule has a target.

    Args:
        means: The table of `relation_tf.report.sections.learning_time.time_means`.
        measure: `"seconds"` or `"seconds per epoch"`.

    Returns:
        Columns `task`, `method`, `n`, `mean` and `sd`. Seconds only of methods that always reached
        the target: a mean over only the successful seeds would favor the method.
    """
    column = SECONDS if measure == SECONDS else "seconds_epoch"
    own = means[["task", "method", "n"]].assign(mean=means[column], sd=means[f"{column}_sd"])
    return own[means["reached"] == means["n"]] if measure == SECONDS else own


def reasons(published: Published, suite: Suite) -> dict[str, list[str]]:
    """Return the reasons why our scores may differ, by task and average: other vectors and splits.

    Args:
        published: The figures.
        suite: The suite of our results.
    """
    general: list[str] = []
    embeddings = {suite.settings_of(method)["embeddings"] for method in suite.methods()}
    ours = [suite.embedding_dim if each == "glove" else None for each in sorted(embeddings)]
    if ours != [published.vectors]:
        own = " or ".join(map(_vectors, ours))
        general.append(f"the paper uses {_vectors(published.vectors)}, this suite {own}")
    averages = (GLUE_AVERAGE, MEAN_OF_TASKS)
    diagnostics = [name for task in suite.learned() for name in task.diagnostics]
    splits = {
        name: split
        for task in suite.learned()
        for name, split in task.scored.items()
        if name not in diagnostics
    }
    unlike = {name for name, split in splits.items() if not split.startswith(published.split)}
    if SOURCES[suite.source].artificial:
        general.append("this suite uses built-in data")
        unlike = set()
    elif unlike:
        unlike.update(averages)
    sentence = _OTHER_SPLIT.format(published.split)
    return {
        name: [*general, *([sentence] if name in unlike else ())]
        for name in (*splits, *diagnostics, *averages)
    }


def _by_scored_task(suite: Suite, notes: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Return the notes of each task also for the names of its scores, such as MNLI-m."""
    scored = {
        name: notes.get(trained, ())
        for trained in suite.tasks
        for task in suite.find_task(trained).each()
        for name in task.scorable
    }
    return {**notes, **scored}


def _vectors(width: int | None) -> str:
    return "random embeddings" if width is None else f"word vectors of width {width}"


def check_claims(published: Published) -> PublishedTable | None:
    """Check which of a paper's claims follow from its means and SDs; None if it has no claims.

    The methods of one width form a family and the level is .05, as in the papers.

    Args:
        published: The figures and claims.

    Returns:
        The table of `read_published`; its tasks are such as `"IMDb, seconds, 64 units"`.

    Example:
        >>> from relation_tf.config.published import load_published
        >>> found = check_claims(load_published("relation-table1"))
        >>> found.claims()["significance"].value_counts().to_dict()
        {'certain': 18, 'undetermined': 6}
    """
    if published.seeds is None or not published.claim:
        return None
    with_sd = [figure for figure in published.figure if figure.sd is not None]
    metrics: dict[str, dict[str, None]] = {}
    for figure in with_sd:
        metrics.setdefault(figure.task, {})[figure.metric] = None

    def label(task: str, metric: str, units: int | None) -> str:
        parts = [task, metric if len(metrics[task]) > 1 else "", f"{units} units" if units else ""]
        return ", ".join(part for part in parts if part)

    def claims() -> Iterator[tuple[str, str, str]]:
        for claim in published.claim:
            widths: list[int | None] = [*claim.units] or [None]
            for units, task in product(widths, claim.tasks):
                for metric in claim.metrics or metrics[task]:
                    for better, than in product(claim.better, claim.than):
                        yield label(task, metric, units), better, than

    table = pd.DataFrame(
        [
            (label(each.task, each.metric, each.units), each.method, each.value, each.sd)
            for each in with_sd
        ],
        columns=["task", "method", "mean", "sd"],
    )
    claimed = [*claims()]
    table = table[table["task"].isin({task for task, *_ in claimed})]
    # With the decimals of the value; a lost trailing zero makes the verdicts more cautious.
    shown = table.assign(
        **{name: table[name].map(lambda x: f"{x:.10g}") for name in ("mean", "sd")}
    )
    return read_published(shown, published.seeds, claims=claimed)
