"""`python -m benchmarks`: measure, print and write the table, and plot time and memory."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.report import decoder_name, draw, markdown, name_of
from benchmarks.table import CURVES, DECODERS, ROWS, Curve, Row
from benchmarks.worker import MeasurementError, measure

_console = Console(highlight=False, soft_wrap=True)


def main(
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("benchmarks/results"),
    only: Annotated[
        str, typer.Option(help="Names, or prefixes of names, separated by commas.")
    ] = "",
    again: Annotated[
        bool, typer.Option("--again", help="Measure rows again that this commit already has.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="List all rows and exit.")] = False,
) -> None:
    """Measure this package against direct implementations and other libraries.

    Results of this commit are kept: after an interruption, run the same command again to resume.
    """
    beginnings = tuple(name.strip() for name in only.split(",") if name.strip()) or ("",)
    chosen = [job for job in _jobs() if job.name.startswith(beginnings)]
    if not chosen:
        names = ", ".join(job.name for job in _jobs())
        raise typer.BadParameter(f"--only must be some of {names}. Received: {only}")
    if show:
        for job in chosen:
            _console.print(f"{job.name:42} {job.title}")
        return
    out.mkdir(parents=True, exist_ok=True)
    path, commit = out / "results.json", _commit()
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    began = time.monotonic()
    for number, job in enumerate(chosen, start=1):
        found = results.get(job.name, {})
        if again or found.get("commit") != commit or "measured" not in found:
            results[job.name] = {"commit": commit} | job.run()
            _write(path, results)
        left = (time.monotonic() - began) / 60 / number * (len(chosen) - number)
        _console.print(f"{number}/{len(chosen)} {job.name}, about {left:.0f} min left")
    (out / "results.md").write_text(markdown(results), encoding="utf-8")
    draw(results, out)
    _console.print((out / "results.md").read_text(encoding="utf-8"), markup=False)
    if any("failed" in results[job.name] for job in chosen):
        raise typer.Exit(1)


def _commit() -> str:
    """Return the commit of this checkout, with a digest of uncommitted changes of the code.

    Results, which this command writes, do not count.
    """
    commit = _git("rev-parse", "--short=12", "HEAD").strip() or "unknown"
    changes = _git("diff", "HEAD", "--", ".", "../relation_tf", ":!results")
    digest = hashlib.sha256(changes.encode()).hexdigest()[:8]
    return f"{commit}-dirty-{digest}" if changes else commit


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    folder = Path(__file__).parent
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout


@dataclasses.dataclass(frozen=True)
class _Job:
    name: str
    title: str
    function: str
    arguments: dict[str, Any]
    backend: str
    needs: str | None

    def run(self) -> dict[str, Any]:
        """Return the measurement, or the reason why there is none."""
        for module in (self.needs, self.backend):
            if module is not None and find_spec(module) is None:
                return {"skipped": f"{module} is not installed"}
        try:
            return {"measured": measure(self.function, self.arguments, self.backend)}
        except MeasurementError as error:
            return {"failed": str(error)}


def _jobs() -> Iterator[_Job]:
    yield _Job("machine", "the machine", "machine:measured", {}, "tensorflow", None)
    for row in ROWS:
        yield _row(row)
    for curve in CURVES:
        yield _curve(name_of(curve), curve, "scaling:grow", "a training step")
    for curve in DECODERS:
        yield _curve(decoder_name(curve), curve, "decoding:decode", "the next token")


def _row(row: Row) -> _Job:
    title = f"{row.what}, against {row.against}"
    return _Job(row.name, title, row.function, dict(row.arguments), row.backend, row.needs)


def _curve(name: str, curve: Curve, function: str, what: str) -> _Job:
    arguments = {"subject": curve.subject, "lengths": curve.lengths}
    title = f"{curve.subject}: {what}, {curve.lengths[0]} to {curve.lengths[-1]} tokens"
    return _Job(name, title, function, arguments, curve.backend, curve.needs)


def _write(path: Path, content: Any) -> None:
    """Write a file atomically."""
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    temporary.replace(path)


if __name__ == "__main__":
    typer.run(main)
