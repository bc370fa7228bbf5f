"""`python -m benchmarks.spent RUNS`: time of the finished runs of a suite, by kind of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from relation_tf.bench import Results, read_results
from relation_tf.errors import SuiteError


def main(
    folder: Annotated[Path, typer.Argument(metavar="RUNS", help="Folder of a suite.")],
    jobs: Annotated[int, typer.Option(help="Number of processes of the run.")] = 1,
) -> None:
    """Print a table of the time between the start of the first run and the end of the last run.

    The suite must have run without interruption. The time before the first run and after the last
    run is not included: start of the command, report, submissions.
    """
    try:
        results = read_results(folder)
    except SuiteError as error:
        raise typer.BadParameter(str(error)) from error
    if any(run["manifest"]["xla"] for run in results.runs):
        raise typer.BadParameter(
            f"{folder}: runs must not use XLA, because their seeds compile shared networks several "
            "times. Received: some runs with XLA"
        )
    if not results.runs:
        raise typer.BadParameter(f"{folder}: must contain finished runs. Received: none")
    typer.echo(table(spent(results, jobs), len(results.runs), minutes(results)))


def minutes(results: Results) -> float:
    """Return the wall time from the start of the first run to the end of the last run."""
    manifests = [run["manifest"] for run in results.runs]
    started = min(datetime.fromisoformat(manifest["started"]) for manifest in manifests)
    finished = max(datetime.fromisoformat(manifest["finished"]) for manifest in manifests)
    return (finished - started).total_seconds() / 60


def spent(results: Results, jobs: int = 1) -> dict[str, float]:
    """Return the seconds of each kind of work, summed over the processes."""
    runs: Sequence[Mapping[str, Any]] = results.runs
    seconds = [run["seconds"] for run in runs]
    # The seeds of a cell share one compiled network; each run records its compilation time.
    cells = {(run["task"], run["method"], run["seconds"]["compilation"]) for run in runs}
    kinds = {
        "training steps": sum(own["training"] - own.get("input", 0) for own in seconds),
        # Timed suites have no batches.
        "batches": sum(own.get("input", 0) for own in seconds),
        "validation": sum(own["evaluation"] for own in seconds),
        "final predictions": sum(
            own["total"] - own["training"] - own["evaluation"] for own in seconds
        ),
        "building and tracing, once per cell": sum(compilation for *_, compilation in cells),
    }
    # Manifests have whole seconds, so the rest can be negative.
    rest = max(0.0, minutes(results) * 60 * jobs - sum(kinds.values()))
    return kinds | {"other: start of processes, data, files, idle": rest}


def table(kinds: Mapping[str, float], runs: int, minutes: float) -> str:
    """Return a Markdown table with shares."""
    whole = sum(kinds.values())
    lines = [f"| {runs} runs in {minutes:.1f} min | s | share |", "| --- | --- | --- |"]
    lines += [
        f"| {kind} | {seconds:.1f} | {100 * seconds / whole:.0f} % |"
        for kind, seconds in kinds.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
