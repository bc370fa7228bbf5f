"""Commands on finished runs: `status`, `report`, `compare`, `predict` and `submit`."""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glue_submit.command_line import Json, echo_json
from relation_tf.bench.options import RunOptions
from relation_tf.cli.application import command, complain, echo
from relation_tf.cli.arguments import (
    Folder,
    SuiteOptions,
    import_from_here,
    parse_columns,
    parse_margins,
    split_families,
    split_names,
    with_options,
)
from relation_tf.files import expand_home
from relation_tf.interrupts import interrupts_delayed
from relation_tf.registry import SOURCES
from relation_tf.report.options import ComparisonOptions
from relation_tf.steps import progress_shown

if TYPE_CHECKING:
    from relation_tf.bench import Results, Submissions
    from relation_tf.report import Report


@command("relation-tf status runs/demo", "relation-tf status runs/demo --json")
@with_options(RunOptions, "plugins")
def status(folder: Folder, as_json: Json = False, **options: Any) -> None:
    """Show the number of finished runs of a suite, per task and method."""
    from relation_tf.bench import SuiteStatus

    if as_json:
        echo_json(lambda: SuiteStatus.of(_read(folder, options["plugins"])).to_dict())
        return
    results = _read(folder, options["plugins"])
    echo(SuiteStatus.of(results))
    print_failures(results.failures)


@command(
    "relation-tf report runs/demo",
    "relation-tf report runs/modern --costs runs/mechanism-speed",
)
@with_options(RunOptions, "plugins")
@with_options(ComparisonOptions, "costs")
def report(folder: Folder, **options: Any) -> None:
    """Write the report of a suite again: report.html, report.md, tables and figures."""
    results = _read(folder, options["plugins"])
    write_report(results, options["costs"] or ())
    print_failures(results.failures)


@command(
    "relation-tf compare scores.csv --out comparison",
    "relation-tf compare runs/first runs/second --labels first,second",
    "relation-tf compare runs/glue-small --reference attention-64 --margin 1",
)
@with_options(RunOptions, "plugins")
@with_options(ComparisonOptions)
def compare(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="Folder of a suite or report, or CSV file (columns task, method, seed, score; or "
            "task, seed and one column per method).",
        ),
    ],
    **options: Any,
) -> None:
    """Compare finished suites, reports or CSV files of scores, without training.

    Writes report.html, report.md, LaTeX tables (report.tex) and tables as CSV.
    """
    from relation_tf.report import compare as compare_scores
    from relation_tf.report.report import check_folder

    options["plugins"] = RunOptions(plugins=options["plugins"]).plugins
    options["command"] = shlex.join(["relation-tf", *sys.argv[1:]])
    folder = expand_home(options["out"] or Path("comparison"))
    check_folder(folder)
    for name in ("labels", "lower_is_better", "higher_is_better"):
        options[name] = split_names(options[name])
    options["families"] = split_families(options["families"])
    options["columns"] = parse_columns(options["columns"])
    options["margin"], options["margins"] = parse_margins(options["margin"])
    options = {name: value for name, value in options.items() if value is not None}
    _collect_rarely()
    with progress_shown():
        made = compare_scores(*sources, **options)
        written = made.write(folder)
    _print_report(made, written)
    if made.data.results is not None:  # warnings name failed runs of tables
        print_failures(made.data.failures)


@command("relation-tf predict runs/glue-small --data glue_data")
@with_options(RunOptions, "data", "tfds_folder")
def predict(folder: Folder, **options: Any) -> None:
    """Predict labels of test sets that were missing or incomplete during training.

    Uses the saved weights. `relation-tf run` saves them if a test set is missing or incomplete, or
    with --set save_models=true.
    """
    from relation_tf.bench import predict_missing

    import_from_here()  # custom layers
    with progress_shown():
        made = predict_missing(folder, **options)
    if made.lacking and not made.added:
        raise typer.Exit(complain("; ".join(str(made).splitlines())))
    typer.echo(str(made))


@command(
    "relation-tf submit runs/glue-small --fill-missing",
    "relation-tf submit runs/glue --data glue_data",
)
@with_options(RunOptions, "data", "tfds_folder", "plugins")
@with_options(SuiteOptions, "fill_missing")
def submit(
    folder: Folder,
    allow_missing: Annotated[
        bool,
        typer.Option(
            "--allow-missing",
            help="Exit with 0 also if failed or damaged runs are left out. A zip that lacks their "
            "tasks also needs --fill-missing.",
        ),
    ] = False,
    **options: Any,
) -> None:
    """Write and check one GLUE submission per method and seed of a suite.

    With --data, first predict test sets that were missing or incomplete during training. If failed
    or damaged runs are left out, the exit code is 1.
    """
    from relation_tf.bench import predict_missing
    from relation_tf.bench.submissions import check_submittable

    fill_missing, plugins = options.pop("fill_missing"), options.pop("plugins") or ()
    results = _read(folder, plugins)
    check_submittable(results)
    if any(options.values()):
        with progress_shown():
            made = predict_missing(folder, **options)
        typer.echo(str(made))
        results = _read(folder, plugins)
    submissions = write_zips(results, fill_missing)
    if submissions.refused and not submissions.packed:
        raise typer.Exit(2)
    if submissions.refused or (submissions.left_out and not allow_missing):
        raise typer.Exit(1)


def _read(folder: Path, plugins: Sequence[str] | None = None) -> Results:
    """Import the named plugins, and no others, and read the runs of a folder."""
    from relation_tf.bench import read_results
    from relation_tf.config.plugins import load_plugins

    load_plugins(plugins or ())
    return read_results(folder)


def write_report(results: Results, costs: Sequence[str] = ()) -> Report:
    """Write the report of a suite into its folder, print its summary and return it."""
    with interrupts_delayed():
        from relation_tf.report import make_report
        from relation_tf.report.report import check_folder

    folder = results.folder / "report"
    check_folder(folder)
    _collect_rarely()
    with interrupts_delayed(), progress_shown():
        report = make_report(results, costs)
    with interrupts_delayed(), progress_shown():  # the delay of Ctrl-C starts with the first file
        written = report.write(folder)  # before printing, which can fail, such as in a closed pipe
    _print_report(report, written)
    return report


def _collect_rarely() -> None:
    """Search less often for garbage: almost all objects of a large report are in use to its end."""
    gc.set_threshold(100_000, 20, 20)


def _print_report(report: Report, written: Path) -> None:
    echo(f"\n{report}\n")
    echo(f"report: {written}")
    echo("Open it in a browser. Next to it: report.tex (LaTeX tables), report.md, tables as CSV.")


def write_zips(results: Results, fill_missing: bool) -> Submissions:
    """Write the submissions of a suite and list the written and the refused ones."""
    from relation_tf.bench import write_submissions

    with progress_shown():
        submissions = write_submissions(results, fill_missing=fill_missing)
    if submissions.refused and not submissions.packed:
        complain("; ".join(str(submissions).splitlines()))
    if submissions.packed:
        echo(submissions)
        if SOURCES[results.suite.source].artificial:
            echo("These are predictions for built-in data: the leaderboard cannot score them.")
        first = min(submissions.packed, key=lambda packed: len(packed.warnings)).path
        echo(f"To check a zip again: glue-submit check {shlex.quote(str(first))}")
    return submissions


def print_failures(failures: Sequence[tuple[str, str]]) -> None:
    """Print the first failed run with its error, and the number of other failed runs."""
    if failures:
        (name, error), *others = failures
        more = f"; and {len(others)} more" if others else ""
        echo(f"not reported: {name}: {error}{more}")
