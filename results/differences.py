"""Print differences of two methods' mean scores in points, with 95 % Welch intervals.

`python results/differences.py fcsr-vectors fcsr-direct:fcsr` prints fcsr-direct minus fcsr. A
method of another study is `study/method`. With `--times`: the ratio of the times per batch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import ttest_ind

RESULTS = Path(__file__).parent


def read(study: str, task: str | None, times: bool) -> dict[str, np.ndarray]:
    """Return the scores in points, or the logarithms of times, of each method."""
    table = pd.read_csv(RESULTS / study / ("runs.csv" if times else "scores.csv"))
    table = table[table["task"] == task] if task else table
    if times:
        return {str(name): np.log(own) for name, own in table.groupby("method")["seconds_batch"]}
    return {str(name): 100 * own.to_numpy() for name, own in table.groupby("method")["value"]}


def main() -> None:
    """Print a line for each pair."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", help="folder in results/")
    parser.add_argument("pair", nargs="+", help="FIRST:SECOND")
    parser.add_argument("--task", help="one task of several")
    parser.add_argument("--times", action="store_true")
    asked = parser.parse_args()
    for pair in asked.pair:
        places = [name.rpartition("/") for name in pair.split(":")]
        one, two = (
            read(study or asked.study, asked.task, asked.times)[method]
            for study, _, method in places
        )
        found = ttest_ind(one, two, equal_var=False).confidence_interval(0.95)
        values = np.array([one.mean() - two.mean(), found.low, found.high])
        value, low, high = np.exp(values) if asked.times else values
        shown = f"{value:.2f} ({low:.2f} to {high:.2f})"
        print(pair, shown if asked.times else f"{value:+.1f} ({low:.1f} to {high:.1f})")


if __name__ == "__main__":
    main()
