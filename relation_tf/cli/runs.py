"""Commands that plan and run suites, and pre-train encoders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relation_tf.bench.options import ALL, OF_PLANS, RunOptions
from relation_tf.cli.application import app
from relation_tf.cli.arguments import (
    SuiteName,
    SuiteOptions,
    expand_home,
    import_from_here,
    parse_seeds,
    parse_selection,
    split_names,
    with_options,
)
from relation_tf.cli.reports import print_failures, write_report, write_zips
from relation_tf.training.pretraining_settings import PretrainingSettings

if TYPE_CHECKING:
    from relation_tf.bench import Results
    from relation_tf.config import RunConfig


@app.command()
@with_options(RunOptions, *[name for name in ALL if name != "quiet"])
@with_options(SuiteOptions)
def run(suite: SuiteName, **options: Any) -> None:
    """Run the pending runs of a suite, then write its report and its GLUE submissions.

    Safe to interrupt: run the same command again to resume.
    """
    from relation_tf.bench import run_suite
    from relation_tf.config.loading import select

    options = parse_selection(options)
    fill_missing = options.pop("fill_missing")
    import_from_here(suite)
    results = run_suite(suite, **options)
    if results.runs:
        write_report(results)
        _submit_if_complete(results, fill_missing)
    if results.failures:
        print_failures(results)
    chosen = options["tasks"], options["methods"], options["seeds"]
    if chosen != (None, None, None):
        _print_progress(results, select(results.suite, *chosen))
    if results.failures:
        raise typer.Exit(1)


@app.command()
@with_options(RunOptions, *[name for name in OF_PLANS if name != "quiet"])
@with_options(SuiteOptions, "out", "tasks", "methods", "seeds", "settings")
def plan(suite: SuiteName, **options: Any) -> None:
    """Estimate what a suite takes: runs, hours, disk space, and what its seeds can show.

    Nothing is run: some steps of a few methods and tasks are timed on this machine.
    """
    from relation_tf.bench import plan_suite

    import_from_here(suite)
    typer.echo(plan_suite(suite, **parse_selection(options)))


@app.command()
@with_options(RunOptions, "plugins")
@with_options(PretrainingSettings)
def pretrain(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="UTF-8 text to train on; .gz is read too."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the runs.")] = Path(
        "pretrained"
    ),
    mechanisms: Annotated[
        str, typer.Option(metavar="A,B", help="Token-mixing mechanisms of the encoders.")
    ] = "relation,linear-attention,attention",
    seeds: Annotated[str, typer.Option(metavar="1,2", help="Seeds of each mechanism.")] = "1",
    held_out: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Validation text for perplexity, or a share of FILE..., taken from its end.",
        ),
    ] = "0.05",
    **options: Any,
) -> None:
    """Pre-train encoders on plain text, as starting weights for suites.

    Safe to interrupt: run the same command again to resume.
    """
    from relation_tf.bench.pretraining import pretrain as train

    import_from_here()
    plugins = options.pop("plugins") or ()
    made = train(
        [expand_home(file) for file in files],
        expand_home(out),
        split_names(mechanisms) or [],
        parse_seeds(seeds) or [],
        PretrainingSettings(**options),
        held_out=_share(held_out),
        plugins=plugins,
    )
    if made.runs:
        typer.echo(f"\n{made}\n\nscores: {made.folder / 'scores.csv'}")
    if made.failures:
        raise typer.Exit(1)


def _share(held_out: str) -> float | Path:
    """Return a share as a number, anything else as a file."""
    try:
        return float(held_out)
    except ValueError:
        return expand_home(Path(held_out))


def _print_progress(results: Results, chosen: Sequence[RunConfig]) -> None:
    """Print how much of the requested part of a suite is done, and how much else is not."""
    done = {(run["task"], run["method"], run["seed"]) for run in results.runs}
    keys = {config.key for config in chosen}
    others = {config.key for config in results.suite.runs()} - keys - done
    typer.echo(
        f"{len(keys & done)} of {len(keys)} requested runs are done; {len(others)} others of the "
        "suite are not"
    )


def _submit_if_complete(results: Results, fill_missing: bool) -> None:
    """Write submissions after a run if it has all that they need."""
    from relation_tf.errors import join_names
    from relation_tf.tasks import GLUE

    learned = {task.name for task in results.suite.learned()}
    missing = [name for name in GLUE if name not in learned]
    if len(missing) > len(GLUE) / 2 and not fill_missing:
        return  # not made for the leaderboard
    done = Counter(run["task"] for run in results.runs)
    requested = Counter(config.task for config in results.suite.runs())
    unfinished = [name for name in results.suite.tasks if done[name] < requested[name]]
    if missing and not fill_missing:
        typer.echo(f"no submissions: {', '.join(missing)} not in the suite (see --fill-missing)")
    elif unfinished and not fill_missing:
        typer.echo(
            f"no submissions: {join_names(unfinished)} lack predictions (--fill-missing fills them)"
        )
    else:
        write_zips(results, fill_missing)
