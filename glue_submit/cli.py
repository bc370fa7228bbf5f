"""The command `glue-submit`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast

import typer

from glue_submit.checking import check as check_archive
from glue_submit.errors import SubmissionError
from glue_submit.packing import pack as pack_predictions
from glue_submit.scoring import score as score_predictions

app = typer.Typer(
    name="glue-submit",
    help="Pack, check and score predictions for the GLUE leaderboard.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

# typer exports one member of its family of usage errors; the family's head is its parent.
_UsageError = cast("type[Exception]", typer.BadParameter.__base__)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of lines for people.")]


@app.command()
def pack(
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder with <Task>.tsv or predictions/<Task>.tsv for the test sets.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE.zip", help="The zip to write.")
    ] = Path("submission.zip"),
    fill_missing: Annotated[
        bool,
        typer.Option(
            "--fill-missing", help="Fill absent tasks with the majority of their training set."
        ),
    ] = False,
) -> None:
    """Write the eleven files as one zip that the leaderboard takes.

    Each <Task>.tsv has the columns index and prediction, rows in any order, further columns
    ignored. The zip is read back and checked before it takes its name.
    """
    typer.echo(pack_predictions(predictions, out, fill_missing=fill_missing))


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="The zip to check.")],
    as_json: Json = False,
) -> None:
    """Name every fault in a submission, a line each.

    Exits 0 where it is accepted, 1 for any fault (not a zip included), 2 for wrong usage or no such
    file.
    """
    report = check_archive(file)
    if as_json:
        _echo_json({**asdict(report), "path": str(report.path), "ok": report.ok})
    else:
        typer.echo(report)
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def score(
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder with <Task>.tsv or predictions/<Task>.tsv for the dev sets."
        ),
    ],
    labels: Annotated[
        Path,
        typer.Option(
            "--labels", metavar="GLUE_DATA_DIR", help="Folder with GLUE's files, <Task>/dev.tsv."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Compute each task's metrics on the dev sets, and GLUE's average.

    MNLI-m is scored on dev_matched, MNLI-mm on dev_mismatched, and AX where
    diagnostic/diagnostic-full.tsv is there. JSON holds fractions, the table percent.
    """
    scores = score_predictions(predictions, labels)
    if as_json:
        _echo_json({**asdict(scores), "average": scores.average})
    else:
        typer.echo(scores)


def _echo_json(content: object) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


def main() -> None:
    """Run the command; wrong usage or bad input is one line and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except SubmissionError as error:
        typer.echo(f"glue-submit: {error}", err=True)
        code = 2
    except _UsageError as error:
        message = " ".join(cast("typer.BadParameter", error).format_message().split())
        typer.echo(f"glue-submit: {message} (see glue-submit --help)", err=True)
        code = 2
    sys.exit(code)


if __name__ == "__main__":
    main()
