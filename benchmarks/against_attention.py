"""`taskset -c 0 python -m benchmarks.against_attention`: time of each layer over attention's.

A step is a forward and backward pass in float32. All layers take turns in one process.
`KERAS_BACKEND` selects TensorFlow, JAX or PyTorch; `taskset` gives each of them one core. The share
is that of the machine's matrix rate: operations of the step's matrix products per second, over
those of a product of two large matrices. Only TensorFlow's graphs tell the operations.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import keras
import numpy as np
import typer

from benchmarks.measured import tokens
from benchmarks.measures.machine import matrix_rate
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
    """Print a Markdown table of times, ratios, shares and seconds of the first step."""
    inputs = [tokens(batch, length, width)]
    rate = matrix_rate().median
    steps: dict[str, Step] = {}
    first: dict[str, float] = {}
    operations: dict[str, int | None] = {}
    for name in (method.mechanism for method in load_suite("mechanism-speed").method):
        for causal in (False, True) if name in CAUSAL else (False,):
            layer = mechanism_layer(name, width, _HEADS, **({"causal": True} if causal else {}))
            key, start = name + ", causal" * causal, time.perf_counter()
            steps[key] = train_step(layer, inputs, layer.trainable_variables, xla=xla)
            steps[key]()
            first[key] = time.perf_counter() - start
            operations[key] = product_operations(layer, inputs[0])
    seconds = in_turn(steps, seconds=120)
    attention = np.median(seconds["attention"])
    print(f"{rate / 1e9:.0f} billion operations a second in a product of two large matrices\n")
    print("| layer | ms | ratio to attention | share of the matrix rate | first step, s |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for key, own in seconds.items():
        low, median, high = 1e3 * min(own), 1e3 * np.median(own), 1e3 * max(own)
        print(f"| {key} | {median:.3g} ({low:.3g} to {high:.3g})", end=" ")
        count = operations[key]
        share = "" if count is None else f"{count / np.median(own) / rate:.2f}"
        print(f"| {np.median(own) / attention:.2f} | {share} | {first[key]:.1f} |")


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


def product_operations(layer: Any, x: np.ndarray) -> int | None:
    """Return the floating-point operations of the matrix products of a step.

    None if they are unknown: on another backend than TensorFlow, or if the step has a loop.
    """
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = layer(x)
        sources = [x, *(variable.value for variable in layer.trainable_variables)]
        return tape.gradient(output, sources)

    operations = step.get_concrete_function(tf.constant(x)).graph.get_operations()
    if any(operation.type.endswith("While") for operation in operations):
        return None
    return sum(_of_product(operation) for operation in operations if "MatMul" in operation.type)


def _of_product(operation: Any) -> int:
    """Return the floating-point operations of one matrix product."""
    transposed = operation.get_attr("adj_x" if "Batch" in operation.type else "transpose_a")
    terms = operation.inputs[0].shape[-2 if transposed else -1]
    return 2 * operation.outputs[0].shape.num_elements() * terms


if __name__ == "__main__":
    typer.run(main)
