"""Compare the committed results with the papers' tables: `python results/reproduced.py`.

Reads table.csv, times.csv and suite.toml of each study that repeats a published table. Writes the
summary into README.md between its markers, and every compared figure into published.csv of the
study's folder.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pandas as pd

from relation_tf.config import load_suite
from relation_tf.config.published import load_published
from relation_tf.report.learning_times import time_means
from relation_tf.report.published import PER_EPOCH, SECONDS, TIMES, compare_published, mean_times
from relation_tf.tasks.metrics import find_metric

RESULTS = Path(__file__).resolve().parent
BEGIN, END = "<!-- begin: python results/reproduced.py -->", "<!-- end -->"


@dataclass(frozen=True)
class Study:
    """A committed result that repeats a published table.

    Attributes:
        name: Name in the table.
        folder: Folder of the results.
        page: Folder of the page that describes it.
        notes: Known differences from the paper, by task; those of all tasks under an empty name.
        of_methods: Known differences of single methods from the paper.
    """

    name: str
    folder: str
    page: str
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    of_methods: Mapping[str, Sequence[str]] = field(default_factory=dict)


_GLUE = {
    "": ["words of dev and test are not in the vocabulary", "batches of texts of similar length"],
    "MNLI": ["MNLI is a sample of 19,875 training rows", "one network for both parts of MNLI"],
    "QNLI": ["QNLI is a sample of 9,999 training rows"],
    "QQP": ["QQP is a sample of 8,999 training rows"],
}
_READOUT = "only the output of the first token is computed"
_CHOSEN = "rank, vocabulary and test split are our choices"
_PATIENCE = "patience 5 instead of 10"
_CUT = "texts are cut at 200 tokens"
_NARROW = "100 units instead of 300"
_OWN_VECTORS = ["vectors of width 100 trained on reviews", _PATIENCE, _CUT, _NARROW]
_SUBSET = ["GloVe vectors for only 20 to 25 % of the words", _PATIENCE, _NARROW]
_TOGETHER = ["GloVe vectors for only 12.5 % of the words", _PATIENCE, _NARROW,
             "4 of 16 domains trained together"]  # fmt: skip
STUDIES = (
    Study("Relation, Table 1, smoothed", "glue-small-smoothed", "glue-small-smoothed", _GLUE,
          {"baseline-64": ["gated as in the authors' program, not chained as in the paper"]}),
    Study("Relation, Table 1, early stopping", "glue-small-best", "glue-small-smoothed", _GLUE),
    Study("Relation, Table 1, 128 and 256 units", "glue-sizes", "glue-sizes", {}),
    Study("Relation, Table 1, 128 units, large tasks", "glue-large-128", "glue-sizes", _GLUE),
    Study("Relation, Table 1, 256 units, large tasks", "glue-large-256", "glue-sizes", _GLUE),
    Study("Relation, Table 1, 64 units, QQP", "glue-qqp-64", "glue-sizes", _GLUE),
    Study("Relation, Table 1, word vectors", "glue-small-vectors", "glue-small-vectors",
          {"": ["word vectors trained on 18.5 million tokens, not GloVe 6B"]}),
    Study("Relation, Table 2, validation", "relation-table2-validation",
          "relation-table2-validation", {"": [_READOUT, "the validation accuracy stops training"]}),
    Study("Relation, Table 2, running", "relation-table2-running", "relation-table2-validation",
          {"": [_READOUT]}),
    Study("Contextualizer, Table 2", "contextualizer-table2", "contextualizer-table2",
          {"": [_CHOSEN]},
          {f"transformer-{size}": ["learns little in 10 epochs"] for size in ("1M", "1.5M", "2M")}),
    Study("Contextualizer, Table 3", "contextualizer-table3", "contextualizer-table3",
          {"": [_CHOSEN]}),
    Study("Contextualizer, Table 3, without b", "contextualizer-table3-without-biases",
          "contextualizer-table3", {"": [_CHOSEN, "without the bias b"]}),
    Study("Contextualizer, Table 4", "contextualizer-table4", "contextualizer-table4",
          {"": [_CHOSEN]}),
    Study("FCSR, Table 3", "fcsr-table3", "fcsr-table3",
          {"": ["vectors of width 100 trained on reviews, news and tweets",
                _PATIENCE, _NARROW],
           "AG-News": ["AG News is a sample of 8,798 training rows"],
           "Yelp-full": ["Yelp Full is a sample of 900 training rows"]}),
    Study("FCSR, Table 4", "fcsr-table4", "fcsr-table4",
          {"": _OWN_VECTORS}),
    Study("FCSR, Table 4, GloVe vectors", "fcsr-table4-glove", "fcsr-table4-glove",
          {"": _SUBSET}, {"s-lstm": ["five steps instead of nine"]}),
    Study("FCSR, Table 4, word vectors", "fcsr-vectors", "fcsr-vectors",
          {"": _OWN_VECTORS}),
    Study("FCSR, Table 4, word vectors of width 300", "fcsr-vectors-300", "fcsr-vectors",
          {"": ["vectors trained on reviews", _PATIENCE, _CUT]},
          {"cnn": ["300 filters of each width (elsewhere 100)"]}),
    Study("FCSR, Table 4, tuned settings", "fcsr-settings", "fcsr-settings",
          {"": [*_SUBSET, _CUT, "tuned on validation data"]}),
    Study("FCSR, Table 4, tuned settings and word vectors", "fcsr-settings-vectors",
          "fcsr-settings",
          {"": [*_OWN_VECTORS, "tuned on validation data"]}),
    Study("FCSR, Table 5", "fcsr-table5", "fcsr-table5", {"": _TOGETHER}),
    Study("FCSR, Table 5, learning rate .002", "fcsr-table5-slower", "fcsr-table5",
          {"": [*_TOGETHER, "a lower learning rate"]}),
    Study("FCSR, Figure 3", "fcsr-figure3", "fcsr-figure3", {}),
    Study("FCSR, Figure 4", "fcsr-figure4", "fcsr-figure4",
          {"": ["GloVe vectors for only 11 % of the words", "patience 5 instead of 40"]}),
    Study("FCSR, Figure 5", "fcsr-figure5", "fcsr-figure5",
          {"": ["random embeddings of width 60 instead of GloVe 300", _PATIENCE]}),
    Study("FCSR, Figure 7", "fcsr-figure7", "fcsr-figure7",
          {"": ["the paper does not name the dataset of this figure"]}),
)  # fmt: skip


def compared(study: Study) -> pd.DataFrame:
    """Return the published figures that a study repeats with all its seeds, next to ours."""
    folder = RESULTS / study.folder
    suite = load_suite(folder / "suite.toml")
    if suite.published is None:
        raise ValueError(f"{folder / 'suite.toml'}: 'published' must name the paper's table")
    table = pd.read_csv(folder / "table.csv")
    points = table["metric"].map(lambda name: find_metric(name).points)
    ours = [table.assign(mean=points * table["mean"], sd=points * table["sd"])]
    if (folder / "times.csv").is_file():
        means = time_means(pd.read_csv(folder / "times.csv"))
        ours += [mean_times(means, name).assign(metric=name) for name in (SECONDS, PER_EPOCH)]
    elif (folder / "runs.csv").is_file():
        of_runs = pd.read_csv(folder / "runs.csv").groupby(["task", "method"])["seconds_epoch"]
        means = of_runs.agg(n="count", mean="mean", sd="std").reset_index()
        ours.append(means.assign(metric=PER_EPOCH))
    notes = {task: [*study.notes.get("", ()), *study.notes.get(task, ())] for task in suite.tasks}
    published = load_published(suite.published)
    found = compare_published(published, suite, pd.concat(ours, ignore_index=True), notes)
    found["reason"] = [
        "; ".join([*_split(reason), *study.of_methods.get(method, ())])
        if not method.startswith("cnn")  # has 100 filters of each width also in the paper's suites
        else "; ".join(
            [
                *(cause for cause in _split(reason) if cause != _NARROW),
                *study.of_methods.get(method, ()),
            ]
        )
        for reason, method in zip(found["reason"], found["method"], strict=True)
    ]
    whole = found["n"] == len(suite.seeds)
    return found[whole & _is_finite(found)].reset_index(drop=True)


def _is_finite(found: pd.DataFrame) -> Any:
    return found["difference"].map(math.isfinite)


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
        shown = f"[{study.name}]({study.page}/README.md)"
        for figures in names:
            label, shown_count = figures, 0
            for method, own in found[found["figures"] == figures].groupby("method", sort=False):
                if figures == "scores" and len(own) != shown_count:
                    shown_count = len(own)
                    label = f"{shown_count} scores" if shown_count > 1 else "score"
                causes = dict.fromkeys(cause for each in own["reason"] for cause in _split(each))
                keys = [reasons.setdefault(cause, _letter(len(reasons))) for cause in causes]
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


def _letter(place: int) -> str:
    """Return a, b, ... z, aa, bb, ..."""
    return ascii_lowercase[place % 26] * (1 + place // 26)


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


def details(study: Study) -> str:
    """Return every compared figure of a study as CSV."""
    found = compared(study).drop(columns="split")  # table.csv has one split for each task
    digits = ["published", "published_sd", "mean", "sd", "difference"]
    return found.assign(**{name: found[name].round(6) for name in digits}).to_csv(
        index=False, lineterminator="\n"
    )


def insert(page: str, table: str, begin: str = BEGIN) -> str:
    """Return a page with a new table between its markers."""
    pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(END)}", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"the page must have one table between {begin!r} and {END!r}")
    return pattern.sub(lambda _: f"{begin}\n\n{table}\n\n{END}", page)


def main() -> None:
    """Write README.md and published.csv of each study."""
    readme = RESULTS / "README.md"
    readme.write_text(insert(readme.read_text("utf-8"), summarize()), encoding="utf-8")
    for study in STUDIES:
        (RESULTS / study.folder / "published.csv").write_text(details(study), encoding="utf-8")


if __name__ == "__main__":
    main()
