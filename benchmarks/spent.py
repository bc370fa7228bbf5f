"""`python -m benchmarks.spent RUNS`: where the time of a suite's finished runs went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from relation_tf.bench import Results, read_results
from relation_tf.errors import SuiteError


def main(
    folder: Annotated[Path, typer.Argument(metavar="RUNS", help="A suite's folder.")],
    jobs: Annotated[int, typer.Option(help="Processes that ran it.")] = 1,
) -> None:
    """Print a table: what the processes did from the first run's start to the last one's end.

    The suite has to have been run without interruption. What comes before its first run and after
    its last one is not seen: the start of the command, the report, submissions.
    """
    try:
        results = read_results(folder)
    except SuiteError as error:
        raise typer.BadParameter(str(error)) from error
    if any(run["manifest"]["xla"] for run in results.runs):
        raise typer.BadParameter(
            f"{folder}: expected runs without XLA. Received: some with it, whose seeds go on "
            "compiling what they share"
        )
    if not results.runs:
        raise typer.BadParameter(f"{folder}: expected finished runs. Received: none")
    typer.echo(table(spent(results, jobs), len(results.runs), minutes(results)))


def minutes(results: Results) -> float:
    """From the start of the first run to the end of the last, by the clock."""
    manifests = [run["manifest"] for run in results.runs]
    started = min(datetime.fromisoformat(manifest["started"]) for manifest in manifests)
    finished = max(datetime.fromisoformat(manifest["finished"]) for manifest in manifests)
    return (finished - started).total_seconds() / 60


def spent(results: Results, jobs: int = 1) -> dict[str, float]:
    """Seconds of each kind of work, summed over the processes."""
    runs: Sequence[Mapping[str, Any]] = results.runs
    seconds = [run["seconds"] for run in runs]
    # The seeds of a cell share one compiled network, and each says how long it took.
    cells = {(run["task"], run["method"], run["seconds"]["compilation"]) for run in runs}
    kinds = {
        "steps of training": sum(own["training"] - own.get("input", 0) for own in seconds),
        # A suite that is timed makes none.
        "batches for them": sum(own.get("input", 0) for own in seconds),
        "evaluation after each epoch": sum(own["evaluation"] for own in seconds),
        "answers at the end": sum(
            own["total"] - own["training"] - own["evaluation"] for own in seconds
        ),
        "building and tracing, once a cell": sum(compilation for *_, compilation in cells),
    }
    # Manifests tell whole seconds, so that it may seem to be less than nothing.
    rest = max(0.0, minutes(results) * 60 * jobs - sum(kinds.values()))
    return kinds | {"all else: start of other processes, data, files, idle": rest}


def table(kinds: Mapping[str, float], runs: int, minutes: float) -> str:
    """As Markdown, with shares."""
    whole = sum(kinds.values())
    lines = [f"| {runs} runs in {minutes:.1f} min | s | share |", "| --- | --- | --- |"]
    lines += [
        f"| {kind} | {seconds:.1f} | {100 * seconds / whole:.0f} % |"
        for kind, seconds in kinds.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
