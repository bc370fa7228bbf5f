"""Compare the committed results with the papers' tables: `python results/reproduced.py`.

Reads studies.toml, and scores.csv, times.csv and suite.toml of each study that repeats a published
table. Writes the summary into README.md between its markers, and every compared figure into
published.csv.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from relation_tf.config import load_suite
from relation_tf.config.suite import load_published
from relation_tf.report.sections.learning_time import time_means
from relation_tf.report.sections.published import PER_EPOCH, TIMES, compare_published, mean_times
from relation_tf.tasks.metrics import find_metric

RESULTS = Path(__file__).resolve().parent
BEGIN, END = "<!-- begin: python results/reproduced.py -->", "<!-- end -->"


@dataclass(frozen=True)
class Study:
    """A committed result that repeats a published table.

    Attributes:
        name: Name in the table.
        folder: Folder of the results.
        page: Folder of the page that describes it, if it is another one.
        differences: Known differences from the paper.
        tasks: Those of single tasks.
        methods: Those of single methods.
    """

    name: str
    folder: str
    page: str = ""
    differences: Sequence[str] = ()
    tasks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    methods: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def readme(self) -> str:
        """The page that describes it, below results/."""
        return f"{self.page or self.folder}/README.md"


STUDIES = [Study(**own) for own in tomllib.loads((RESULTS / "studies.toml").read_text())["study"]]


def compared(study: Study) -> pd.DataFrame:
    """Return the published figures that a study repeats with all its seeds, next to ours."""
    folder = RESULTS / study.folder
    suite = load_suite(folder / "suite.toml")
    if suite.published is None:
        raise ValueError(f"{folder / 'suite.toml'}: 'published' must name the paper's table")
    values = pd.read_csv(folder / "scores.csv").groupby(["task", "method", "metric"], sort=False)
    table = values["value"].agg(n="count", mean="mean", sd="std").reset_index()
    points = table["metric"].map(lambda name: find_metric(name).points)
    ours = [table.assign(mean=points * table["mean"], sd=points * table["sd"])]
    if (folder / "times.csv").is_file():
        means = time_means(pd.read_csv(folder / "times.csv"))
        ours += [mean_times(means, name).assign(metric=name) for name in ("seconds", PER_EPOCH)]
    elif (folder / "runs.csv").is_file():
        of_runs = pd.read_csv(folder / "runs.csv").groupby(["task", "method"])["seconds_epoch"]
        means = of_runs.agg(n="count", mean="mean", sd="std").reset_index()
        ours.append(means.assign(metric=PER_EPOCH))
    notes = {task: [*study.differences, *study.tasks.get(task, ())] for task in suite.tasks}
    published = load_published(suite.published)
    found = compare_published(published, suite, pd.concat(ours, ignore_index=True), notes)
    of_method = found["method"].map(lambda name: "; ".join(study.methods.get(name, ())))
    found["reason"] = [
        "; ".join(filter(None, causes)) for causes in zip(found["reason"], of_method, strict=True)
    ]
    whole = found["n"] == len(suite.seeds)
    return found[whole & found["difference"].map(math.isfinite)].reset_index(drop=True)


def summarize() -> str:
    """Return the table of all studies as Markdown, with totals and a legend of the reasons."""
    reasons: dict[str, str] = {}
    every: list[pd.DataFrame] = []
    head = "| study | values | method | ours | published | difference | within 2 SD |"
    lines = [f"{head} known differences |", "| --- | --- | --- | ---: | ---: | ---: | --- | --- |"]
    for study in STUDIES:
        found = compared(study)
        every.append(found)
        timed = found["metric"].isin(TIMES)
        found["figures"] = (found["task"] + ", " + found["metric"]).where(timed, "scores")
        names = sorted(dict.fromkeys(found["figures"]), key=lambda name: name != "scores")
        shown = f"[{study.name}]({study.readme})"
        for figures in names:
            label, shown_count = figures, 0
            for method, own in found[found["figures"] == figures].groupby("method", sort=False):
                if figures == "scores" and len(own) != shown_count:
                    shown_count = len(own)
                    label = f"{shown_count} scores" if shown_count > 1 else "score"
                causes = dict.fromkeys(cause for each in own["reason"] for cause in _split(each))
                keys = [reasons.setdefault(cause, str(1 + len(reasons))) for cause in causes]
                cells = [shown, label, method, _numbers(own), _within(own), ", ".join(keys)]
                lines.append(f"| {' | '.join(cells)} |")
                shown = label = ""
    legend = [f"- {key}: {cause}" for cause, key in reasons.items()]
    about = "Known differences from the papers, which may explain others (not tested one by one):"
    return "\n".join([_totals(pd.concat(every)), "", *lines, "", about, "", *legend])


def _totals(found: pd.DataFrame) -> str:
    """Return how many scores and times are within two published standard deviations."""
    known = found.dropna(subset="within_2_sd")
    timed = known["metric"].isin(TIMES)
    scores, times = ([*map(bool, own["within_2_sd"])] for own in (known[~timed], known[timed]))
    place = ["task", "method", "metric", "published", "published_sd"]
    different = [len(own.drop_duplicates(place)) for own in (known, found)]
    return (
        f"{sum(scores)} of {len(scores)} scores and {sum(times)} of {len(times)} times are within "
        "two published standard deviations. Some values are compared with several studies: these "
        f"are {different[0]} published values. {len(found) - len(known)} comparisons, of "
        f"{different[1] - different[0]} values, have no published standard deviation."
    )


def _split(reason: str) -> list[str]:
    return [cause for cause in reason.split("; ") if cause]


def _numbers(own: pd.DataFrame) -> str:
    """Return the means of our and the published figures, and their difference."""
    means = [own[name].mean() for name in ("mean", "published", "difference")]
    digits = 1
    if own["metric"].isin(TIMES).all():
        digits = max(0, 2 - math.floor(math.log10(means[1])))
    ours, published, difference = means
    signed = f"{difference:+,.{digits}f}".replace("-", "−")
    return f"{ours:,.{digits}f} | {published:,.{digits}f} | {signed}"


def _within(own: pd.DataFrame) -> str:
    known = own["within_2_sd"].dropna()
    return f"{int(known.sum())} of {len(known)}" if len(known) else "no SD"


def details() -> str:
    """Return every compared figure of all studies as CSV."""
    found = pd.concat([compared(study).assign(study=study.name) for study in STUDIES])
    digits = ["published", "published_sd", "mean", "sd", "difference"]
    columns = ["study", "task", "method", "metric", "n", *digits, "within_2_sd"]
    return found.round(dict.fromkeys(digits, 6))[columns].to_csv(index=False, lineterminator="\n")


def insert(page: str, table: str, begin: str = BEGIN) -> str:
    """Return a page with a new table between its markers."""
    pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(END)}", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"the page must have one table between {begin!r} and {END!r}")
    return pattern.sub(lambda _: f"{begin}\n\n{table}\n\n{END}", page)


def main() -> None:
    """Write README.md and published.csv."""
    readme = RESULTS / "README.md"
    readme.write_text(insert(readme.read_text("utf-8"), summarize()), encoding="utf-8")
    (RESULTS / "published.csv").write_text(details(), encoding="utf-8")


if __name__ == "__main__":
    main()
