"""Command that evaluates pre-trained models."""

from __future__ import annotations

from typing import Annotated

import typer

from relation_tf.cli.application import command
from relation_tf.cli.arguments import import_from_here
from relation_tf.errors import require_package
from relation_tf.interrupts import interrupts_delayed


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
