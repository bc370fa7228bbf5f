"""The command `glue-submit`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from glue_submit.checking import check as check_archive
from glue_submit.command_line import Json, add_command, echo_json, make_app, run, with_period
from glue_submit.packing import pack as pack_predictions
from glue_submit.scoring import score as score_predictions
from glue_submit.tasks import SubmissionError

app = make_app("glue-submit", "Pack, check and score predictions for the GLUE leaderboard.")

_INTERRUPTED = 130  # the exit code after Ctrl-C


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(version("relation_tf"))  # the distribution that contains this package
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Pack, check and score predictions for the GLUE leaderboard."""


@add_command(
    app, "glue-submit pack predictions --out submission.zip", "glue-submit pack DIR --fill-missing"
)
def pack(
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder with TASK.tsv or TASK.test.tsv for the test sets."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Zip file to write.")
    ] = Path("submission.zip"),
    fill_missing: Annotated[
        bool,
        typer.Option(
            "--fill-missing",
            help="For tasks without predictions, submit the majority class of the training set "
            "(STS-B: the mean score).",
        ),
    ] = False,
) -> None:
    """Pack predictions for the eleven test sets as one zip for the leaderboard.

    Each TASK.tsv has the columns index and prediction. Rows may be in any order. Other columns are
    ignored. The zip is checked before it is saved.
    """
    typer.echo(pack_predictions(predictions, out, fill_missing=fill_missing))


@add_command(app, "glue-submit check submission.zip", "glue-submit check submission.zip --json")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Zip file to check.")],
    as_json: Json = False,
) -> None:
    """List all faults in a submission, one per line.

    The exit code is 0 if there are no faults, 1 if there are any, 2 for wrong usage or a missing
    file.
    """
    report = check_archive(file)
    if as_json:
        echo_json(lambda: {**asdict(report), "path": str(report.path), "ok": report.ok})
    else:
        typer.echo(report)
    raise typer.Exit(0 if report.ok else 1)


@add_command(
    app,
    "glue-submit score predictions --labels glue_data",
    "glue-submit score runs/glue-small/runs/*/relation-64/seed-1",
    "glue-submit score submission.zip --labels glue_data",
)
def score(
    predictions: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="A zip for the leaderboard, or folders with TASK.tsv, TASK.dev.tsv or "
            "TASK.test.tsv, such as runs of a suite.",
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            metavar="DIR",
            help="Folder with the GLUE files (TASK/dev.tsv; test sets: TASK/test_gold.tsv).",
            show_default="the column 'label' of the predictions",
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            metavar="NAME",
            help="dev or test.",
            show_default="test for a zip, dev for folders",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute the metrics of each task on the dev or test sets, and the GLUE average.

    On dev, MNLI-m uses dev_matched and MNLI-mm uses dev_mismatched. Labels of test sets are public
    for some tasks: TASK/test_gold.tsv (index, label or score), MRPC/msr_paraphrase_test.txt, and
    for AX diagnostic/diagnostic-full.tsv, or diagnostic/AX-b.jsonl with two classes, on which
    neutral and contradiction count as not_entailment. JSON contains fractions; the table contains
    percentages.
    """
    source = predictions[0] if len(predictions) == 1 else predictions
    scores = score_predictions(source, labels, split=split)
    if as_json:
        echo_json(lambda: {**asdict(scores), "average": scores.average})
    else:
        typer.echo(scores)


def main() -> None:
    """Run the command; exit with code 2 after an error, on one line, and 130 after Ctrl-C."""

    def describe(error: Exception) -> str | None:
        return str(error) if isinstance(error, SubmissionError) else None

    def complain(message: str) -> None:
        typer.echo(f"glue-submit: {with_period(message)}", err=True)

    code = run(app, "glue-submit", describe, complain)
    if code == _INTERRUPTED:
        typer.echo("Interrupted.", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
