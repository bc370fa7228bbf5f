"""`taskset -c 0 python -m benchmarks.against_attention`: time of each layer over attention's.

A step is a forward and backward pass in float32. All layers take turns in one process.
`KERAS_BACKEND` selects TensorFlow, JAX or PyTorch; `taskset` gives each of them one core.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import keras
import numpy as np
import typer

from benchmarks.measured import tokens
from benchmarks.steps import Step, train_step
from benchmarks.timing import in_turn
from relation_tf.config import load_suite
from relation_tf.networks.mechanisms import (
    factory_of,
    find_mechanism,
    in_blocks,
    make_layer,
    options_of,
)
from relation_tf.networks.precision import dtype_policy

CAUSAL = (
    *("attention", "relation", "linear-attention", "retention", "mamba2", "mlstm", "delta-net"),
    *("gated-delta-net", "gated-linear-attention", "hgrn2", "min-gru", "min-lstm"),
)
_HEADS = 2


def main(
    batch: Annotated[int, typer.Option(help="Number of texts.")] = 8,
    length: Annotated[int, typer.Option(help="Number of tokens of a text.")] = 512,
    width: Annotated[int, typer.Option(help="Width of input and output.")] = 128,
    xla: Annotated[bool, typer.Option("--xla", help="Compile with XLA (TensorFlow).")] = False,
) -> None:
    """Print a Markdown table: milliseconds, ratio to attention, and seconds of the first step."""
    inputs = [tokens(batch, length, width)]
    steps: dict[str, Step] = {}
    first: dict[str, float] = {}
    for name in (method.mechanism for method in load_suite("mechanism-speed").method):
        for causal in (False, True) if name in CAUSAL else (False,):
            layer = mechanism_layer(name, width, _HEADS, **({"causal": True} if causal else {}))
            key, start = name + ", causal" * causal, time.perf_counter()
            steps[key] = train_step(layer, inputs, layer.trainable_variables, xla=xla)
            steps[key]()
            first[key] = time.perf_counter() - start
    seconds = in_turn(steps, seconds=120)
    attention = np.median(seconds["attention"])
    print("| layer | ms | ratio to attention | first step, s |\n| --- | ---: | ---: | ---: |")
    for key, own in seconds.items():
        low, median, high = 1e3 * min(own), 1e3 * np.median(own), 1e3 * max(own)
        print(f"| {key} | {median:.3g} ({low:.3g} to {high:.3g})", end=" ")
        print(f"| {np.median(own) / attention:.2f} | {first[key]:.1f} |")


def mechanism_layer(
    mechanism: str, width: int, num_heads: int, policy: str = "float32", **options: Any
) -> Any:
    """Return a built layer, with heads if the mechanism has some; its weights are fixed."""
    keras.utils.set_random_seed(0)
    with dtype_policy(policy):
        entry = find_mechanism(mechanism)
        heads = {"num_heads": num_heads} if "num_heads" in options_of(factory_of(entry)) else {}
        layer = make_layer(entry, width, 0.0, in_blocks(entry, heads | options, equations=True))
        layer.build((None, None, width))
        return layer


if __name__ == "__main__":
    typer.run(main)
