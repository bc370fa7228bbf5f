"""Warnings about scores for which a test is not reliable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from relation_tf.stats import PairwiseResult
from relation_tf.stats.spread import unequal_spread

_MOST_NAMED = 6  # tasks in one warning


def spread_warnings(comparisons: Mapping[str, PairwiseResult]) -> Iterator[str]:
    """Yield a warning if the SDs of two methods differ by more than 3:1 and the test ignores it.

    Args:
        comparisons: The test of each task, from `compare`.
    """
    found = []
    for task, result in comparisons.items():
        if result.procedure.equal_spread:
            spread = unequal_spread(result.samples)
            found += [f"{task} ({spread})"] if spread else []
    if found:
        test = result.procedure
        companion = "welch" if test.compares == "all-pairs" else "welch-control"
        named = found[:_MOST_NAMED]
        if len(found) > _MOST_NAMED:
            named.append(f"{len(found) - _MOST_NAMED} more tasks")
        yield (
            f"SDs over seeds differ by more than 3:1 on {', '.join(named)}. {test.title} assumes "
            "equal spread, so its error rate can exceed the level there. Check with "
            f"test = '{companion}'."
        )
