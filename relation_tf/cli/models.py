"""Commands that export and evaluate the models of finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relation_tf.bench.models import Format
from relation_tf.cli.application import command, echo
from relation_tf.cli.arguments import import_from_here
from relation_tf.errors import require_package
from relation_tf.interrupts import interrupts_delayed


@command(
    "relation-tf export runs/demo/runs/RTE/relation-64/seed-1 --out relation-rte",
    "relation-tf export runs/demo/runs/RTE/relation-64/seed-1 --format onnx --out relation-onnx",
)
def export(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="Folder of a run of a suite with save_models = true, or hf://..."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="New folder of the exported model.")],
    format: Annotated[Format, typer.Option(help="Format of the model.")] = "keras",
    task: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Task to export, for a model of a group of tasks. The format keras keeps all of "
            "them; its model card is about this one.",
        ),
    ] = None,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe",
            help="Load models that can run any code: saved-model:PATH, or your layer in `encoder`.",
        ),
    ] = False,
) -> None:
    """Export the model of a run, with its vocabulary and a model card.

    The model card (README.md) has the scores, the settings and how to load the model.
    """
    with interrupts_delayed():
        from relation_tf.bench import export_model

    import_from_here()
    echo(f"exported to {export_model(folder, out, format, task, safe_mode=not unsafe)}")


@command(
    "relation-tf lm-eval --model relation_tf --model_args pretrained=causal --tasks my_task.yaml",
    unknown_options=True,
)
def lm_eval(
    arguments: Annotated[
        list[str],
        typer.Argument(metavar="ARGUMENT...", help="Arguments of lm_eval: see `lm_eval run -h`."),
    ],
) -> None:
    """Run lm_eval with the model relation_tf, a causal encoder of `pretrain`.

    Arguments of --model_args: pretrained=DIR, method=NAME, seed=N, batch_size=N, plugins=MODULE.
    """
    require_package("lm-eval", "lm_eval", "harness")
    with interrupts_delayed():
        from relation_tf.training.harness import run_lm_eval

    import_from_here()
    run_lm_eval(arguments)
