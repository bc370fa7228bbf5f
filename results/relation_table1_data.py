"""Compare our runs with the Relation paper's Table 1, as tables.

Scores are in points. The tables of runs have columns `task`, `metric`, `mechanism`, `units`,
`seed`, `value` and `split`; those of factors.csv also `factor`, those of samples.csv `rows`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import linregress, t

from relation_tf.config.suite import Published, load_published
from relation_tf.errors import join_names
from relation_tf.stats import non_inferiority, steel_dwass
from relation_tf.stats.samples import error_of_sum
from relation_tf.words import GLUE_AVERAGE

FOLDER = Path(__file__).resolve().parent / "relation"
UNITS, SEEDS = (64, 128, 256), range(1, 6)
TESTED = ("SST-2", "MRPC", "STS-B", "RTE", "AX")  # tasks whose test labels are public
CHANGED = ("CoLA", "SST-2", "MRPC", "STS-B", "RTE", "WNLI")  # tasks of the factors
ROWS = {"MNLI-m": (19_875, 392_702), "QNLI": (11_803, 104_743)}  # training rows: ours, all
RIVALS = ("attention", "linear-attention")
TWO_CLASSES = "matthews-two-classes"
ROUNDING = 0.05  # of a published mean
MARGIN = 1.0  # of the suite
DUPLICATES, PAIRS = 377, 1000  # of the dev set of QQP
SHARES = (0.18, 0.19, 0.2)
SETTING = ["task", "metric", "mechanism"]
CELL = [*SETTING, "units"]
LIMITS = ["difference", "low", "high"]


@dataclass(frozen=True)
class Data:
    """Our runs, the runs with changed settings and with fewer rows, and the others' scores."""

    runs: pd.DataFrame
    factors: pd.DataFrame
    smaller: pd.DataFrame
    submissions: pd.DataFrame
    published: Published

    @property
    def paper(self) -> pd.DataFrame:
        """Published scores by task: `CELL`, `paper` and `paper_sd`."""
        return read_paper(self.published)


def read_paper(published: Published) -> pd.DataFrame:
    """Return the published scores by task: `CELL`, `paper` and `paper_sd`."""
    figures = pd.DataFrame([figure.model_dump() for figure in published.figure])
    names = {"method": "mechanism", "value": "paper", "sd": "paper_sd"}
    return figures.rename(columns=names).sort_values(
        CELL, key=lambda own: own.map({name: i for i, name in enumerate(own.unique())})
    )


def read_data() -> Data:
    """Read all files.

    Raises:
        ValueError: If a file or a score is missing.
    """
    published = load_published("relation-table1")
    place = read_paper(published)[CELL]
    place["metric"] = place["metric"].mask(place["task"] == "AX", TWO_CLASSES)
    runs, factors, smaller = map(_read_runs, ("scores.csv", "factors.csv", "samples.csv"))
    factors, smaller = factors[factors["task"].isin(CHANGED)], smaller[smaller["task"].isin(ROWS)]
    on_test = place["task"].isin(TESTED) & (place["task"] != "AX")
    check_complete(runs, place[on_test | place["units"].isin(complete_units(runs))], "scores.csv")
    place = place[place["units"] == 64]
    known = pd.Series(factors["factor"].unique(), name="factor")
    changed = place[place["task"].isin(CHANGED)].merge(known, "cross")
    check_complete(factors, changed, "factors.csv")
    sizes = smaller[["task", "rows"]].drop_duplicates()
    check_complete(smaller, place.merge(sizes, on="task"), "samples.csv")
    names = {"method": "mechanism", "score": "submission"}
    submissions = _read_file("submissions.csv").rename(columns=names)
    return Data(runs, factors, smaller, submissions, published)


def complete_units(runs: pd.DataFrame) -> list[int]:
    """Return the sizes with runs on all tasks: 64, and those with a GLUE average."""
    return sorted({64, *runs.loc[runs["task"] == GLUE_AVERAGE, "units"]})


def _read_file(name: str) -> pd.DataFrame:
    if not (FOLDER / name).is_file():
        raise ValueError(f"results/{FOLDER.name}/{name} is missing")
    return pd.read_csv(FOLDER / name)


def _read_runs(name: str) -> pd.DataFrame:
    """Return the scores of a file on the published split: test where labels exist, else dev."""
    runs = _read_file(name).dropna(subset="value")
    parts = runs.pop("method").str.rsplit("-", n=1)
    values = {"mechanism": parts.str[0], "units": parts.str[1].astype(int)}
    runs = runs.assign(**values, value=100 * runs["value"])
    return runs[(runs["split"] == "test") == runs["task"].isin(TESTED)]


def check_complete(runs: pd.DataFrame, wanted: pd.DataFrame, name: str) -> None:
    """Check that each row of `wanted` has one score per seed.

    Raises:
        ValueError: If a score is missing or repeated.
    """
    every = pd.MultiIndex.from_frame(wanted.merge(pd.Series(SEEDS, name="seed"), "cross"))
    there = pd.MultiIndex.from_frame(runs[[*every.names]])
    missing = [" ".join(map(str, own)) for own in every.difference(there, sort=False)]
    if missing:
        columns = ", ".join(map(str, every.names))
        raise ValueError(f"{name}: missing scores ({columns}): {join_names(missing)}")
    if there.has_duplicates:
        first = " ".join(map(str, there[there.duplicated()][0]))
        raise ValueError(f"{name}: each run must have one score, but {first} has several")


def summarize(runs: pd.DataFrame, by: Sequence[str] = CELL) -> pd.DataFrame:
    """Return `mean` and `sd` over the seeds."""
    return runs.groupby([*by])["value"].agg(mean="mean", sd="std").reset_index()


def z_scores(difference: pd.Series, deviation: pd.Series, allowed: float = ROUNDING) -> pd.Series:
    """Return differences in deviations, after a reduction by the allowed rounding.

    If the deviation is 0, a difference that rounding explains is 0 and any other is infinite.
    """
    rest = (difference.abs() - allowed).clip(lower=0)
    rest = rest.mask(rest < 1e-9, 0.0)
    return (rest / deviation).mask(rest == 0, 0.0) * np.sign(difference)


def is_within(z: pd.Series) -> pd.Series:
    """Return True where |z| is at most 2, apart from errors of floating point."""
    return z.abs() <= 2 + 1e-9


def cells(runs: pd.DataFrame, paper: pd.DataFrame, submissions: pd.DataFrame) -> pd.DataFrame:
    """Return the test scores of both tables and of the submissions, `z` and `within`."""
    own = summarize(runs[runs["split"] == "test"])
    found = paper.merge(own, on=CELL).merge(submissions, on=CELL)
    z = z_scores(found["mean"] - found["paper"], np.hypot(found["sd"], found["paper_sd"]))
    return found.assign(z=z, within=is_within(z))


def submissions_within(found: pd.DataFrame, allowed: float) -> int:
    """Return the number of submissions within two of the paper's SDs of its mean."""
    z = z_scores(found["submission"] - found["paper"], found["paper_sd"], allowed)
    return int(is_within(z).sum())


def dev_cells(runs: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """Return our dev scores and the paper's test scores of the tasks without test labels."""
    own = summarize(runs[(runs["split"] == "dev") & (runs["task"] != GLUE_AVERAGE)])
    return paper.merge(own, on=CELL)


def averages(runs: pd.DataFrame, paper: pd.DataFrame, submissions: pd.DataFrame) -> pd.DataFrame:
    """Return the GLUE average and AX of each method, ours and the paper's.

    AX has two classes in our runs and in the submissions, three in the paper.
    """
    place = ["task", "mechanism", "units"]
    both = paper[paper["task"].isin([GLUE_AVERAGE, "AX"])]
    two_classes = submissions.loc[submissions["metric"] == TWO_CLASSES, [*place, "submission"]]
    return both.merge(summarize(runs, place), on=place).merge(two_classes, "left", on=place)


def claims(runs: pd.DataFrame, published: Published) -> pd.DataFrame:
    """Test all pairs of mechanisms of one size with Steel-Dwass, next to the paper's claims.

    Returns:
        Columns `task`, `units`, `a`, `b`, `claimed` (the better mechanism, if any), `ours` (the
        significantly better one, if any), `pvalue` and `verdict`.
    """
    better = {
        (task, units, frozenset(pair)): pair[0]
        for claim in published.claim
        for task, units in product(claim.tasks, claim.units)
        for pair in product(claim.better, claim.than)
    }
    rows = []
    for task, units in product((GLUE_AVERAGE, "AX"), complete_units(runs)):
        own = runs[(runs["task"] == task) & (runs["units"] == units)]
        for pair in steel_dwass(_samples(own)).pairs().itertuples():
            claimed = better.get((task, units, frozenset((pair.a, pair.b))))
            verdict = _verdict(claimed, pair.better)
            rows.append((task, units, pair.a, pair.b, claimed, pair.better, pair.pvalue, verdict))
    names = ["task", "units", "a", "b", "claimed", "ours", "pvalue", "verdict"]
    return pd.DataFrame(rows, columns=names)


def _samples(runs: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the values of each mechanism."""
    return {str(name): own["value"].to_numpy() for name, own in runs.groupby("mechanism")}


def _verdict(claimed: str | None, ours: str | None) -> str:
    if ours is None:
        return "not significant"
    if claimed is None:
        return f"{ours} higher"
    return "same direction" if ours == claimed else "opposite direction"


def rivals(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the differences of Relation from its two rivals on the GLUE average, with verdicts."""
    rows = []
    for units, rival in product(complete_units(runs), RIVALS):
        samples = _samples(runs[(runs["task"] == GLUE_AVERAGE) & (runs["units"] == units)])
        pair = {name: samples[name] for name in (rival, "relation")}
        found = non_inferiority(pair, rival, MARGIN, num_methods=1 + len(RIVALS)).table
        rows.append((units, rival, *found.loc["relation", [*LIMITS, "verdict"]]))
    return pd.DataFrame(rows, columns=["units", "rival", *LIMITS, "verdict"])


def interval(
    after: Sequence[np.ndarray], before: Sequence[np.ndarray], level: float
) -> tuple[float, float, float]:
    """Return the mean over tasks of differences of means, with Welch's interval.

    The interval is infinite if no sample varies.
    """
    difference = np.mean([b.mean() - a.mean() for a, b in zip(before, after, strict=True)])
    error, freedom = error_of_sum([*after, *before])
    half = t.isf(level / 2, freedom) * error / len(after) if error else math.inf
    return difference, difference - half, difference + half


def growth(runs: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """Return the growth of the GLUE average from 64 to 256 units of each mechanism.

    The intervals hold jointly. Empty without runs of 256 units.
    """
    average = runs[runs["task"] == GLUE_AVERAGE]
    small, large = (_samples(average[average["units"] == units]) for units in (64, 256))
    published = paper[paper["task"] == GLUE_AVERAGE].set_index(["mechanism", "units"])["paper"]
    rows = [
        (name, *interval([large[name]], [small[name]], 0.05 / len(small)), own[256] - own[64])
        for name, own in published.unstack(sort=False).iterrows()
        if name in large
    ]
    return pd.DataFrame(rows, columns=["mechanism", *LIMITS, "paper"])


def effects(runs: pd.DataFrame, factors: pd.DataFrame) -> pd.DataFrame:
    """Return the effect of each factor on each cell with 64 units: changed minus unchanged.

    The intervals of a factor hold jointly (Bonferroni over tasks, metrics and mechanisms).
    """
    unchanged = dict([*runs[runs["units"] == 64].groupby(SETTING)["value"]])
    rows = []
    for factor, changed in factors.groupby("factor", sort=False):
        groups = changed.groupby(SETTING, sort=False)["value"]
        for key, own in groups:
            found = interval([own.to_numpy()], [unchanged[key].to_numpy()], 0.05 / len(groups))
            rows.append((factor, *key, *found))
    return pd.DataFrame(rows, columns=["factor", *SETTING, *LIMITS])


def pooled_effects(runs: pd.DataFrame, factors: pd.DataFrame) -> pd.DataFrame:
    """Return the mean effect of each factor over its tasks, for each mechanism.

    A task's metrics are averaged first. The intervals of a factor hold jointly over mechanisms.
    """
    place, tasks = ["mechanism", "task", "seed"], factors["task"].unique()
    unchanged = runs[(runs["units"] == 64) & runs["task"].isin(tasks)]
    before = unchanged.groupby(place)["value"].mean()
    rows = []
    for factor, changed in factors.groupby("factor", sort=False):
        after, mechanisms = changed.groupby(place)["value"].mean(), changed["mechanism"].unique()
        for name in mechanisms:
            new, old = ([own[name, task].to_numpy() for task in tasks] for own in (after, before))
            rows.append((factor, name, *interval(new, old, 0.05 / len(mechanisms))))
    return pd.DataFrame(rows, columns=["factor", "mechanism", *LIMITS])


def explained(found: pd.DataFrame, effect: pd.DataFrame) -> pd.DataFrame:
    """Return the cells that are not within range, with the factors that explain the difference.

    A factor explains a cell if its interval, measured with 64 units, excludes 0 and its effect
    would reduce the difference from the paper.
    """
    sure = effect[(effect["low"] > 0) | (effect["high"] < 0)]
    outside = found[~found["within"]]
    reasons = []
    for cell in outside.itertuples():
        own = sure[(sure[SETTING] == [cell.task, cell.metric, cell.mechanism]).all(axis=1)]
        difference = cell.mean - cell.paper
        closer = own[(difference + own["difference"]).abs() < abs(difference)]
        measured = "" if cell.units == 64 else " (with 64 units)"
        reasons.append(", ".join(closer["factor"]) + measured if len(closer) else "unexplained")
    return outside.assign(explanation=pd.Series(reasons, outside.index, dtype=object))


def samples(runs: pd.DataFrame, smaller: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """Return the growth of dev scores with training rows, extrapolated to all rows.

    Returns:
        `slope` per doubling with its 95 % interval `slope_low`, `slope_high`; `doublings` to all
        rows; the extrapolated score `predicted` with the 95 % prediction interval `low`, `high` of
        a mean over the seeds; and the paper's test scores.
    """
    full = runs[(runs["units"] == 64) & runs["task"].isin(smaller["task"])]
    full = full.assign(rows=full["task"].map({task: ours for task, (ours, _) in ROWS.items()}))
    rows = []
    for (task, mechanism), own in pd.concat([smaller, full]).groupby(["task", "mechanism"]):
        x, y = np.log2(own["rows"].to_numpy(float)), own["value"].to_numpy()
        line, (ours, goal) = linregress(x, y), np.log2(ROWS[task])
        freedom = len(x) - 2
        factor, predicted = t.isf(0.025, freedom), line.intercept + line.slope * goal
        variance = ((y - line.intercept - line.slope * x) ** 2).sum() / freedom
        leverage = 1 / len(x) + (goal - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
        half = factor * math.sqrt(variance * (1 / len(SEEDS) + leverage))
        slope = line.slope + factor * line.stderr * np.array([0, -1, 1])
        ends = predicted - half, predicted + half
        rows.append((task, mechanism, *slope, goal - ours, predicted, *ends))
    slopes = ["slope", "slope_low", "slope_high"]
    names = ["task", "mechanism", *slopes, "doublings", "predicted", "low", "high"]
    found = pd.DataFrame(rows, columns=names)
    return paper[paper["units"] == 64].merge(found, on=["task", "mechanism"])


def duplicates(runs: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """Return the dev scores of QQP, also for other shares of duplicates, next to the paper."""
    place = ["mechanism", "units", "seed"]
    own = runs[runs["task"] == "QQP"].pivot(index=place, columns="metric", values="value") / 100
    wrong = PAIRS * (1 - own["accuracy"])
    true = (own["f1"] * wrong / (2 - 2 * own["f1"])).fillna(DUPLICATES).round()
    false = (wrong - (DUPLICATES - true)).round()
    recall, alarms = true / DUPLICATES, false / (PAIRS - DUPLICATES)
    rows = []
    for share in (DUPLICATES / PAIRS, *SHARES):
        accuracy = share * recall + (1 - share) * (1 - alarms)
        f1 = 2 * share * recall / (share + share * recall + (1 - share) * alarms)
        for metric, values in (("accuracy", accuracy), ("f1", f1)):
            shown = (100 * values).rename("value").reset_index()
            rows.append(shown.assign(task="QQP", metric=metric, share=share))
    return paper.merge(summarize(pd.concat(rows), [*CELL, "share"]), on=CELL)
