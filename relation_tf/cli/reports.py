"""Commands on finished runs: `status`, `report`, `compare`, `predict` and `submit`."""

from __future__ import annotations

import gc
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glue_submit.command_line import Json, echo_json
from relation_tf.bench.options import RunOptions
from relation_tf.cli.application import command, complain, echo, typed
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
from relation_tf.option_fields import option
from relation_tf.registry import SOURCES
from relation_tf.steps import progress_shown

if TYPE_CHECKING:
    from relation_tf.bench import Results, Submissions
    from relation_tf.report import Report


@dataclass(frozen=True)
class ComparisonOptions:
    """Options of a comparison."""

    out: Path = option(Path("comparison"), "Folder of the report.", "DIR")
    labels: str | None = option(
        None, "Names of the sources.", "NAME[,NAME...]", shown="names of the suites or files"
    )
    merge: bool = option(False, "Pool seeds of same-named methods across sources.")
    columns: str | None = option(
        None,
        "Names of your columns, if they are not task, method, seed and score, such as "
        "task=dataset,method=model,score=test_acc.",
        "NAME=COLUMN[,...]",
    )
    lower_is_better: str | None = option(
        None,
        "Tasks or metrics with a lower-is-better score.",
        "NAME[,NAME...]",
        shown="by the metric or name, such as loss, error, RMSE, seconds",
    )
    higher_is_better: str | None = option(
        None, "Tasks or metrics with a higher-is-better score despite their name.", "NAME[,NAME...]"
    )
    drop_failed: bool = option(
        False,
        "Leave out table rows with an empty or NaN score (failed runs). Without this option, rank "
        "tests rank them worst, and means leave them out.",
    )
    failed_as: float | None = option(
        None,
        "Score for table rows with an empty or NaN score, in the unit of the table; no better than "
        "the worst score of a task.",
        "SCORE",
    )
    split: str | None = option(
        None,
        "Split of the scores, such as test: of tables with a column split, and of suites on GLUE "
        "whose data has labels of test sets.",
        "NAME",
        shown="the only split of each task; of suites on GLUE: dev",
    )
    complete_methods: bool = option(
        False, "Leave out methods that lack scores on at least one task."
    )
    alpha: float | None = option(
        None, "Significance level.", "P", shown="alpha of the suites, or .05"
    )
    control: str | None = option(
        None,
        "Compare the other methods only with this one. Choose it before training. With --families, "
        "one method of each family: NAME,NAME.",
        "NAME",
    )
    test: str | None = option(
        None,
        "Test of each task. All pairs: steel-dwass (default), brunner-munzel or welch. With "
        "--control: steel (default), brunner-munzel-control or welch-control. Or a plugin's test. "
        "A suite's own setting replaces the default.",
        "NAME",
        shown=False,
    )
    test_over_tasks: str | None = option(
        None,
        "Test over tasks. All pairs: stratified-steel-dwass (default) or friedman-nemenyi. With "
        "--control: stratified-steel (default) or wilcoxon-holm. Or a plugin's test. A suite's own "
        "setting replaces the default.",
        "NAME",
        shown=False,
    )
    reference: str | None = option(
        None,
        "Judge all methods against this one: better, no worse, worse or inconclusive. With "
        "--families, one method of each family: NAME,NAME.",
        "NAME",
        shown="reference or control of the suites",
    )
    margin: tuple[str, ...] = option(
        (),
        "Largest decrease from --reference that counts as no worse, in the unit of the "
        "report. Choose it before training. Repeat it as TASK=SCORE for a task with another unit.",
        "SCORE",
        shown="margins of the suites",
    )
    families: str | None = option(
        None,
        "Families of methods; methods are compared only within their family. For suites also a "
        "key, such as units: methods with the same value form a family.",
        "NAME,NAME;NAME,NAME",
        shown="families of the suites",
    )
    costs: tuple[str, ...] = option(
        (),
        "Folder of a timed suite, such as mechanism-speed. The report then shows scores against "
        "its speed and memory. Methods are matched by name. Repeatable.",
        "DIR",
    )
    title: str = option("", "Title of the report.", "TEXT")


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
    _print_missing(results)


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
    folder = expand_home(options["out"])
    check_folder(folder)
    options["labels"] = split_names(options["labels"])
    options["families"] = split_families(options["families"])
    for name in ("lower_is_better", "higher_is_better"):
        options[name] = split_names(options[name]) or ()
    options["costs"] = options["costs"] or ()
    options["columns"] = parse_columns(options["columns"])
    options["margin"], options["margins"] = parse_margins(options["margin"])
    _collect_rarely()
    with progress_shown():
        made = compare_scores(*sources, **options)
        _print_report(made, folder)
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
    if made.lacking and not made.added and not made.scored:
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
            made = predict_missing(folder, **options, imports=plugins)
        typer.echo(str(made))
        results = _read(folder)
    submissions = write_zips(results, fill_missing)
    _print_missing(results)
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


def _print_missing(results: Results) -> None:
    from relation_tf.config.stand_ins import missing_parts

    for sentence in missing_parts(results.suite):
        echo(sentence)


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
        _print_report(report, folder)
    return report


def _collect_rarely() -> None:
    """Search less often for garbage: almost all objects of a large report are in use to its end."""
    gc.set_threshold(100_000, 20, 20)


def _print_report(report: Report, folder: Path) -> None:
    written = report.write(folder)  # first: printing can fail, such as in a closed pipe
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
        echo(f"To check a zip again: {typed('glue-submit')} check {shlex.quote(str(first))}")
    return submissions


def print_failures(failures: Sequence[tuple[str, str]]) -> None:
    """Print the first failed run with its error, and the number of other failed runs."""
    if failures:
        (name, error), *others = failures
        more = f"; and {len(others)} more" if others else ""
        echo(f"not reported: {name}: {error}{more}")
