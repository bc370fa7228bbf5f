"""Commands that plan and run suites and pre-train encoders."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relation_tf.bench.options import ALL, OF_PLANS, RunOptions
from relation_tf.cli.application import command, echo
from relation_tf.cli.arguments import (
    LayerName,
    SuiteName,
    SuiteOptions,
    import_from_here,
    parse_seeds,
    parse_selection,
    parse_settings,
    split_names,
    with_options,
)
from relation_tf.cli.reports import print_failures, write_report, write_zips
from relation_tf.interrupts import interrupts_delayed
from relation_tf.training.pretraining_settings import PretrainingSettings

if TYPE_CHECKING:
    from relation_tf.bench import Results

_OF_RUNS = ("out", "tasks", "methods", "seeds", "settings")
_OF_DIAGNOSES = (
    "jobs", "run_timeout", "allow_failing_checks", "deterministic", "plugins", "track"
)  # fmt: skip
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
        from relation_tf.bench.submissions import check_leaderboard
        from relation_tf.config.loading import load_suite, select

    options = parse_selection(options)
    fill_missing = options.pop("fill_missing")
    import_from_here(suite)
    if fill_missing:
        check_leaderboard(load_suite(suite, options["settings"], options["plugins"]))
    results = run_suite(suite, **options)
    if results.runs:
        write_report(results)
        _submit_if_complete(results, fill_missing)
    print_failures(results.failures)
    chosen = select(results.suite, options["tasks"], options["methods"], options["seeds"])
    if {name for name, _ in results.failures} & {*map(str, chosen)}:
        raise typer.Exit(1)


@command(
    "relation-tf plan demo",
    "relation-tf plan glue-small --data glue_data --jobs 4",
)
@with_options(
    RunOptions,
    *[name for name in OF_PLANS if name != "quiet"],
)
@with_options(
    SuiteOptions,
    *_OF_RUNS,
    out="Folder of finished runs to read, if any.",
)
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
    layer_options: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="Option of the layer. Repeatable."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help=_QUICK)] = False,
    **options: Any,
) -> None:
    """Describe what a layer can do, compared with attention, linear attention and a baseline.

    Trains them on 20 generated tasks and measures what the layer passes between tokens. Safe to
    interrupt: run the same command again to resume.
    """
    with interrupts_delayed():
        from relation_tf.bench import diagnose as train
        from relation_tf.bench.diagnosing import limits_of_quick
        from relation_tf.config.loading import select
        from relation_tf.report.sections.capabilities import LEVELS, describe
        from relation_tf.report.sources import FAILS_CHECKS

    arguments = parse_settings(layer_options, "--option")
    options = parse_selection(options)
    import_from_here()
    results = train(layer, layer_options=arguments, quick=quick, **options)
    if results.runs:
        method = results.suite.methods()[0]
        name = str(method.name)
        data = write_report(results).data
        marked = f"{name} {FAILS_CHECKS}" if name in results.failing_layers else name
        verdicts = data.comparisons[""].verdicts
        words = describe(data.scores, verdicts, marked) or "no run is finished."
        echo(f"\n{name} after training: {words}")
        echo(LEVELS)
        if quick and (limits := limits_of_quick(results)):
            echo(limits)
    print_failures(results.failures)
    chosen = select(results.suite, options["tasks"], None, options["seeds"])
    if {name for name, _ in results.failures} & {*map(str, chosen)}:
        raise typer.Exit(1)


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
        from relation_tf.bench.pretraining import pretrain as train

    import_from_here()
    plugins = options.pop("plugins") or ()
    allow_failing_checks = options.pop("allow_failing_checks")
    result = train(
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
