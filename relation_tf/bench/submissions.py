"""GLUE submissions from the runs of a suite. Free of Keras."""

from __future__ import annotations

from pathlib import Path

from glue_submit import Packed, pack
from relation_tf.bench.results import Results


def write_submissions(results: Results, *, fill_missing: bool = False) -> list[Packed]:
    """Write, and check, a zip for each method and seed: `OUT/submissions/<method>/seed-<s>.zip`.

    Args:
        results: The results of a suite on GLUE's tasks.
        fill_missing: Fill tasks that have no predictions with the training majority; what is filled
            is listed in each result.

    Raises:
        SubmissionError: Where a task is missing and may not be filled, or a prediction cannot be.
    """
    predictions: dict[tuple[str, int], dict[str, Path]] = {}
    for run in results.runs:
        files = predictions.setdefault((run["method"], run["seed"]), {})
        for path in sorted((Path(run["folder"]) / "predictions").glob("*.test.tsv")):
            files[path.name.removesuffix(".test.tsv")] = path
    packed = []
    for (method, seed), files in predictions.items():
        path = results.folder / "submissions" / method / f"seed-{seed}.zip"
        path.parent.mkdir(parents=True, exist_ok=True)
        packed.append(pack(files, path, fill_missing=fill_missing))
    return packed
