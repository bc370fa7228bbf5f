"""Commands that read finished runs: status, report, comparison and submissions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relation_tf.bench.options import RunOptions
from relation_tf.cli.application import app, complain
from relation_tf.cli.arguments import (
    FillMissing,
    Folder,
    expand_home,
    split_names,
    with_options,
)
from relation_tf.errors import SuiteError
from relation_tf.files import align

if TYPE_CHECKING:
    from relation_tf.bench import Results, Submissions


@app.command()
def status(folder: Folder) -> None:
    """Show how many runs of a suite are done, for each task and method."""
    from relation_tf.bench import read_results

    results = read_results(folder)
    suite = results.suite
    done = Counter((run["task"], run["method"]) for run in results.runs)
    failed = Counter(tuple(run.split("/")[:2]) for run, _ in results.failures)
    names = [str(method.name) for method in suite.methods()]
    rows = [["", *names]]
    for task in suite.tasks:
        cells = [task]
        for name in names:
            faults = f" ({failed[task, name]} failed)" if failed[task, name] else ""
            cells.append(f"{done[task, name]}/{len(suite.seeds)}{faults}")
        rows.append(cells)
    typer.echo("\n".join(align(rows)))
    total = len(suite.runs())
    typer.echo(f"{done.total()} of {total} runs done, {failed.total()} failed")
    print_failures(results)


@app.command()
def report(folder: Folder) -> None:
    """Write the report of a suite again: report.html, report.md and the tables."""
    from relation_tf.bench import read_results

    results = read_results(folder)
    write_report(results)
    print_failures(results)


@app.command()
@with_options(RunOptions, ["plugins"])
def compare(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="Folders of suites or reports, or CSV files with task, method, seed and score.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the report.")] = Path(
        "comparison"
    ),
    labels: Annotated[str | None, typer.Option(metavar="A,B", help="Names of the sources.")] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Pool seeds of same-named methods across sources.")
    ] = False,
    lower_is_better: Annotated[
        str | None, typer.Option(metavar="A,B", help="Tasks on which the lowest score is the best.")
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Significance level.", show_default="that of the suites, or .05"
        ),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD", help="Compare all others with this method; choose it before the runs."
        ),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Statistical procedure.",
            show_default="that of the suites, or steel-dwass, with a control steel",
        ),
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the report.")] = "",
    **options: Any,
) -> None:
    """Compare scores of any origin without training: suites next to each other, or tables."""
    from relation_tf.config.plugins import load_plugins
    from relation_tf.report import compare as compare_scores
    from relation_tf.report.report import check_folder

    load_plugins(RunOptions(**options).plugins)
    folder = expand_home(out)
    check_folder(folder)
    report = compare_scores(
        *sources,
        labels=split_names(labels),
        merge=merge,
        lower_is_better=split_names(lower_is_better) or (),
        alpha=alpha,
        control=control,
        test=test,
        title=title,
    )
    typer.echo(f"\n{report}\n")
    typer.echo(f"report: {report.write(folder)}")


@app.command()
def submit(folder: Folder, fill_missing: FillMissing = False) -> None:
    """Write and check a GLUE submission for each method and seed of a suite."""
    from relation_tf.bench import read_results

    results = read_results(folder)
    if not any(results.suite.find_task(name).answered for name in results.suite.tasks):
        raise SuiteError(
            f"{folder}: no task of suite {results.suite.name} is on the leaderboard. Its tasks: "
            f"{', '.join(results.suite.tasks)}"
        )
    if not results.runs:
        raise SuiteError(f"{folder}: nothing to submit: no finished runs")
    submissions = write_zips(results, fill_missing)
    if submissions.refused:
        raise typer.Exit(1 if submissions.packed else 2)


def write_report(results: Results) -> None:
    """Write the report of a suite into its folder and print its summary."""
    from relation_tf.report import make_report
    from relation_tf.report.report import check_folder

    folder = results.folder / "report"
    check_folder(folder)
    report = make_report(results)
    typer.echo(f"\n{report}\n")
    typer.echo(f"report: {report.write(folder)}")


def write_zips(results: Results, fill_missing: bool) -> Submissions:
    """Write the submissions of a suite and print what was written and refused."""
    from relation_tf.bench import write_submissions

    submissions = write_submissions(results, fill_missing=fill_missing)
    if submissions.refused and not submissions.packed:
        complain("; ".join(str(submissions).splitlines()))
    if submissions.packed:
        typer.echo(str(submissions))
        typer.echo(f"zips: {results.folder / 'submissions'}")
        if results.suite.source == "miniglue":
            typer.echo("They answer embedded test sets; the leaderboard cannot score them.")
    return submissions


def print_failures(results: Results) -> None:
    """Print the first run that is not in the report, and the number of others."""
    if results.failures:
        (name, error), *others = results.failures
        more = f"; and {len(others)} more" if others else ""
        typer.echo(f"not reported: {name}: {error}{more}")
