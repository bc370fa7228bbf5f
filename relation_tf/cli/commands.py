"""The commands. Their dependencies are imported late, so that `--help` is fast."""

from __future__ import annotations

import gc
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glue_submit.command_line import Json, echo_json
from relation_tf.bench.options import ALL, OF_PLANS, RunOptions
from relation_tf.cli.application import (
    Folder,
    LayerName,
    LayerOptions,
    SuiteName,
    SuiteOptions,
    app,
    command,
    complain,
    complete_suite,
    complete_task,
    echo,
    import_from_here,
    parse_columns,
    parse_margins,
    parse_seeds,
    parse_selection,
    parse_settings,
    run_app,
    split_families,
    split_names,
    with_options,
)
from relation_tf.errors import SuiteError, UnknownNameError
from relation_tf.files import expand_home
from relation_tf.registry import SOURCES
from relation_tf.report.options import ComparisonOptions
from relation_tf.system import interrupts_delayed
from relation_tf.terminal import progress_shown
from relation_tf.training.pretraining_settings import PretrainingSettings

if TYPE_CHECKING:
    from relation_tf.bench import Results, Submissions
    from relation_tf.report import Report

__all__ = ["app", "run_app"]

_OF_RUNS = ("out", "tasks", "methods", "seeds", "settings")
_OF_DIAGNOSES = (
    "jobs", "allow_failing_checks", "deterministic", "plugins"
)  # fmt: skip
Pdf = Annotated[
    bool, typer.Option("--pdf", help="Also make report.pdf; needs pdflatex or tectonic.")
]
_QUICK = "Train less: 10 of 20 tasks, two of five seeds, and only attention next to the layer."


@command(
    "relation-tf run demo --jobs 2",
    "relation-tf run glue-small --data glue_data --tasks CoLA,RTE --seeds 1,2",
    "relation-tf run my_suite.toml --set epochs=20 --methods relation-64,attention-64",
)
@with_options(RunOptions, *[name for name in ALL if name != "quiet"])
@with_options(SuiteOptions)
def run(suite: SuiteName, **options: Any) -> None:
    """Train the pending runs of a suite, then write its report and GLUE submissions.

    Safe to interrupt: run the same command again to resume.
    """
    with interrupts_delayed():
        from relation_tf.bench import run_suite
        from relation_tf.config.suite import load_suite

    options = parse_selection(options)
    fill_missing = options.pop("fill_missing")
    import_from_here(suite)
    if fill_missing:
        from relation_tf.bench.submissions import check_leaderboard

        check_leaderboard(load_suite(suite, options["settings"], options["plugins"]))
    results = run_suite(suite, **options)
    if results.runs:
        write_report(results)
        _submit_if_complete(results, fill_missing)
    _exit_after_failures(results, **{key: options[key] for key in ("tasks", "methods", "seeds")})


@command("relation-tf plan demo", "relation-tf plan glue-small --data glue_data --jobs 4")
@with_options(RunOptions, *[name for name in OF_PLANS if name != "quiet"])
@with_options(SuiteOptions, *_OF_RUNS, out="Folder of finished runs to read, if any.")
def plan(suite: SuiteName, **options: Any) -> None:
    """Estimate the hours and smallest possible p-values of a suite.

    Times a few training steps of some methods and tasks on this machine. Starts no run.
    """
    with interrupts_delayed():
        from relation_tf.bench import plan_suite

    import_from_here(suite)
    echo(plan_suite(suite, **parse_selection(options)))


@command(
    "relation-tf diagnose my_layer:MeanGate --jobs 2",
    "relation-tf diagnose my_layer:MeanGate --quick",
    "relation-tf diagnose relation --tasks majority,needle-16,recall-small --seeds 1,2,3",
)
@with_options(RunOptions, *_OF_DIAGNOSES)
@with_options(
    SuiteOptions,
    *("out", "tasks", "seeds", "settings"),
    out="Folder of the runs; SUITE is diagnose-NAME.",
)
def diagnose(
    layer: LayerName,
    layer_options: LayerOptions = None,
    quick: Annotated[bool, typer.Option("--quick", help=_QUICK)] = False,
    **options: Any,
) -> None:
    """Describe what a layer can do, compared with attention, linear attention and a baseline.

    Trains them on 20 generated tasks and measures what the layer passes between tokens. Safe to
    interrupt: run the same command again to resume.
    """
    with interrupts_delayed():
        from relation_tf.bench import diagnose as run_diagnosis
        from relation_tf.report.sections.capabilities import LEVELS, describe
        from relation_tf.report.sources import FAILS_CHECKS

    arguments = parse_settings(layer_options, "--option")
    options = parse_selection(options)
    import_from_here()
    results = run_diagnosis(layer, layer_options=arguments, quick=quick, **options)
    if results.runs:
        method = results.suite.methods()[0]
        name = str(method.name)
        data = write_report(results).data
        marked = f"{name} {FAILS_CHECKS}" if name in results.failing_layers else name
        verdicts = data.comparisons[""].verdicts
        words = describe(data.scores, verdicts, marked) or "no run is finished."
        echo(f"\n{name} after training: {words}")
        echo(LEVELS)
    _exit_after_failures(results, tasks=options["tasks"], seeds=options["seeds"])


@command(
    "relation-tf pretrain text.txt --out pretrained",
    "relation-tf pretrain part1.txt part2.txt.gz --objective causal --held-out dev.txt",
)
@with_options(
    RunOptions,
    *("plugins", "allow_failing_checks"),
    allow_failing_checks="Train custom layers that fail `check-layer`.",
)
@with_options(PretrainingSettings)
def pretrain(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="UTF-8 text files to train on, plain or .gz."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the runs.")] = Path(
        "pretrained"
    ),
    mechanisms: Annotated[
        str,
        typer.Option(
            metavar="NAME[,NAME...]",
            help="Token-mixing mechanisms of the encoders.",
        ),
    ] = "relation,linear-attention,attention",
    seeds: Annotated[str, typer.Option(metavar="N[,N...]", help="Seeds for each mechanism.")] = "1",
    held_out: Annotated[
        str,
        typer.Option(
            metavar="FILE|SHARE",
            help="Validation text, or share of the training text to hold out (its last part).",
        ),
    ] = "0.05",
    **options: Any,
) -> None:
    """Pre-train encoders on plain text, as starting weights for suites.

    Safe to interrupt: run the same command again to resume.
    """
    with interrupts_delayed():
        from relation_tf.bench.pretraining import pretrain as pretrain_encoders

    import_from_here()
    plugins = options.pop("plugins") or ()
    allow_failing_checks = options.pop("allow_failing_checks")
    result = pretrain_encoders(
        files,
        out,
        split_names(mechanisms) or [],
        parse_seeds(seeds) or [],
        PretrainingSettings(**options),
        held_out=_share(held_out),
        plugins=plugins,
        allow_failing_checks=allow_failing_checks,
    )
    if result.runs:
        echo(f"\nscores: {result.folder / 'scores.csv'}")
    if result.failures:
        raise typer.Exit(1)


def _share(held_out: str) -> float | Path:
    """Return a number as a share, any other text as a path."""
    try:
        return float(held_out)
    except ValueError:
        return Path(held_out)


def _submit_if_complete(results: Results, fill_missing: bool) -> None:
    """Write submissions if the suite has predictions for all GLUE tasks."""
    from glue_submit import TASKS
    from relation_tf.errors import join_names

    answered = {name for task in results.suite.learned() for name in task.answered}
    missing = [name for name in TASKS if name not in answered]
    if len(missing) > len(TASKS) / 2 and not fill_missing:
        return  # a suite for other purposes than the leaderboard
    done = Counter(run["task"] for run in results.runs)
    requested = Counter(config.task for config in results.requested)
    unfinished = [name for name in results.suite.tasks if done[name] < requested[name]]
    if fill_missing or not (missing or unfinished):
        write_zips(results, fill_missing)
        return
    lacking = (
        f"{join_names(missing)} not in the suite"
        if missing
        else (f"not all runs of {join_names(unfinished)} are done")
    )
    echo(
        f"no submissions: {lacking}. `relation-tf submit {results.folder}` packs the complete "
        "seeds; --fill-missing fills missing tasks with the majority class"
    )


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
def report(folder: Folder, pdf: Pdf = False, **options: Any) -> None:
    """Write the report of a suite again: report.html, report.md, tables and figures."""
    results = _read(folder, options["plugins"])
    write_report(results, options["costs"] or (), pdf)
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
            help="Folder of a suite or report, or a table of scores: CSV, TSV, Excel, Parquet or "
            "JSON, with a row for each score or a column for each method, dataset or seed.",
        ),
    ],
    pdf: Pdf = False,
    **options: Any,
) -> None:
    """Compare finished suites, reports or tables of scores, without training.

    Writes report.html, report.md, report.tex (paragraph, tables and figures for a paper, with
    references.bib) and tables as CSV.
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
        comparison = compare_scores(*sources, **options)
        written = comparison.write(folder)
    _print_report(comparison, written, pdf)
    if comparison.data.results is not None:  # warnings name failed runs of tables
        print_failures(comparison.data.failures)


@command("relation-tf submit runs/glue", "relation-tf submit runs/glue-small --fill-missing")
@with_options(RunOptions, "plugins")
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

    If failed or damaged runs are left out, the exit code is 1.
    """
    submissions = write_zips(_read(folder, options["plugins"]), options["fill_missing"])
    if submissions.refused and not submissions.packed:
        raise typer.Exit(2)
    if submissions.refused or (submissions.left_out and not allow_missing):
        raise typer.Exit(1)


def _read(folder: Path, plugins: Sequence[str] | None = None) -> Results:
    """Import the named plugins, and no others, and read the runs of a folder."""
    from relation_tf.bench import read_results
    from relation_tf.config.user_code import load_plugins

    load_plugins(plugins or ())
    return read_results(folder)


def write_report(results: Results, costs: Sequence[str] = (), pdf: bool = False) -> Report:
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
    _print_report(report, written, pdf)
    return report


def _collect_rarely() -> None:
    """Search less often for garbage: almost all objects of a large report are in use to its end."""
    gc.set_threshold(100_000, 20, 20)


def _print_report(report: Report, written: Path, pdf: bool) -> None:
    echo(f"\n{report}\n")
    echo(f"report: {written}")
    echo("Open it in a browser. Next to it: report.tex (LaTeX), report.md, tables as CSV.")
    if pdf:  # last, because LaTeX can fail
        from relation_tf.report.typesetting import write_pdf

        write_pdf(written.parent)


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


def _exit_after_failures(results: Results, **selection: Any) -> None:
    """Print the failures; exit with code 1 if a requested run failed."""
    from relation_tf.config.suite import select

    print_failures(results.failures)
    if {name for name, _ in results.failures} & {*map(str, select(results.suite, **selection))}:
        raise typer.Exit(1)


def print_failures(failures: Sequence[tuple[str, str]]) -> None:
    """Print the first failed run with its error, and the number of other failed runs."""
    if failures:
        (name, error), *others = failures
        more = f"; and {len(others)} more" if others else ""
        echo(f"not reported: {name}: {error}{more}")


@command("relation-tf suites", "relation-tf suites my_suite.toml", "relation-tf suites --json")
@with_options(RunOptions, "plugins")
def suites(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SUITE...]",
            help="Suites to list: names or files. Default: those of the package.",
            autocompletion=complete_suite,
        ),
    ] = None,
    as_json: Json = False,
    **options: Any,
) -> None:
    """List suites, and mark those with too few seeds to show a significant difference."""
    from relation_tf.bench.planning import suite_facts
    from relation_tf.config import list_suites, load_suite

    names, plugins = names or list_suites(), options["plugins"] or ()
    loaded = ((name, load_suite(name, {}, plugins, import_plugins=False)) for name in names)
    if as_json:
        listed = ({"suite": name, **suite_facts(suite)} for name, suite in loaded)
        echo_json(lambda: {"suites": [*listed]})
        return
    width = max(map(len, names))
    for name, suite in loaded:
        facts = suite_facts(suite)
        note = "" if facts["note"] is None else f". {facts['note']}"
        echo(f"{name:{width}} {facts['runs']:4} runs  {facts['title']}{note}")


@command(
    "relation-tf tasks --data glue_data",
    "relation-tf tasks CoLA RTE --data glue_data",
    "relation-tf tasks --suite my_suite.toml",
)
@with_options(RunOptions, "data", "tfds_folder", "plugins")
def tasks(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...]", help="Tasks to show examples of.", autocompletion=complete_task
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="SUITE",
            help="List the tasks of this suite, encoded with its settings.",
            autocompletion=complete_suite,
        ),
    ] = None,
    as_json: Json = False,
    **options: Any,
) -> None:
    """List all tasks and the folders of their data, or show encoded examples of some tasks.

    A task is encoded only once; later commands read it from the cache.
    """
    from relation_tf.config import load_suite
    from relation_tf.config.user_code import load_plugins
    from relation_tf.registry import TASKS
    from relation_tf.tasks import listing

    run_options = RunOptions(**options)
    reading: dict[str, Any] = {}
    with redirect_stdout(sys.stderr if as_json else sys.stdout):  # plugins may print
        load_plugins(run_options.plugins if suite is None else ())
        entries: dict[str, Any] = {name: name for name in TASKS}
        if suite is not None:
            from relation_tf.bench.runner import check_folders

            loaded = load_suite(suite, {}, run_options.plugins, import_plugins=False)
            check_folders(loaded, run_options.data, run_options.tfds_folder)
            entries = {name: loaded.entry(name) for name in loaded.tasks}
            for config in loaded.runs():  # as the first method reads it
                reading.setdefault(config.task, config.reading())
            for name in names or ():
                if name not in entries:
                    raise UnknownNameError(f"task of suite {loaded.name}", name, entries)
    folders = run_options.data, run_options.tfds_folder
    if as_json:
        chosen = {name: entries.get(name, name) for name in names or entries}
        facts = listing.facts(chosen.values(), *folders, reading, skip_missing=not names)
        echo_json(lambda: {"tasks": [*facts]})
    elif names:
        for name in names:
            described = listing.describe(entries.get(name, name), *folders, reading.get(name, {}))
            echo(described)
    else:
        for line in listing.lines(entries.values(), *folders, reading):
            echo(line)


@command(
    "relation-tf check-layer my_module:MyLayer",
    "relation-tf check-layer multi-head-attention --units 16 --option num_heads=4",
)
@with_options(RunOptions, "plugins")
def check_layer(
    layer: LayerName,
    units: Annotated[int, typer.Option(metavar="N", min=1, help="Width of the output.")] = 8,
    width: Annotated[int, typer.Option(metavar="N", min=1, help="Width of the input.")] = 6,
    layer_options: LayerOptions = None,
    **options: Any,
) -> None:
    """Check a custom layer before training: shapes, padding, gradients, saving and more.

    The exit code is 1 if a suite cannot use the layer. Warnings do not change the exit code.
    """
    from relation_tf.config.user_code import load_plugins
    from relation_tf.terminal import loading_quietly

    arguments = parse_settings(layer_options, "--option")
    import_from_here()
    load_plugins(RunOptions(**options).plugins)
    # Before Keras, because it names a missing backend.
    from relation_tf.networks import check_layer

    with loading_quietly():
        import keras

        keras.ops.zeros(1)  # the first use of a device
    try:
        report = check_layer(layer, units, width, arguments)
    except ValueError as error:  # an unknown name; the report contains errors of the layer
        raise SuiteError(str(error)) from None
    echo(report)
    if not report.passed:
        raise typer.Exit(1)
