"""`python -m benchmarks.gpu FILE`: time, memory and error of every mechanism on a GPU.

`KERAS_BACKEND` selects JAX or PyTorch; TensorFlow is not needed.
"""

from __future__ import annotations

import contextlib
import csv
import multiprocessing
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import keras
import numpy as np
import typer
from keras import ops

from benchmarks.measured import tokens
from benchmarks.steps import JaxStep, Step, forward_step, train_step
from benchmarks.timing import in_turn, spread
from relation_tf.config import load_suite
from relation_tf.networks.mechanisms import (
    factory_of,
    find_mechanism,
    in_blocks,
    make_layer,
    options_of,
)
from relation_tf.networks.precision import dtype_policy

_TOKENS, _WIDTH, _HEADS = 32_768, 512, 8
_SHORT = 2_048  # length for errors
# Products of float32 matrices, and the dtype of the layer.
_PRECISIONS = {
    "float32": ("highest", "float32"),
    "TF32": ("tensorfloat32", "float32"),
    "bfloat16": ("tensorfloat32", "mixed_bfloat16"),
}
_LENGTHS = {
    "bfloat16": (128, 512, 2_048, 8_192, 32_768),
    "TF32": (2_048,),
    "float32": (128, 2_048, 32_768),
}
_COLUMNS = [("torch", n) for n in _LENGTHS["bfloat16"]] + [("jax", n) for n in (128, 2_048, 32_768)]
_PEER = "Keras MultiHeadAttention"
_Key = tuple[str, str, int, str]  # backend, mechanism, length, precision


@dataclass(frozen=True)
class Case:
    """Mechanism, texts of one length, and precision."""

    mechanism: str
    length: int
    precision: str


@dataclass(frozen=True)
class Result:
    """Measurement of a forward and backward pass over 32,768 tokens.

    Attributes:
        seconds: Median; `low` and `high` are quartiles.
        bytes: Memory for results in between, without the weights and tokens.
        error: Error of the output relative to float32: norm of the difference over the norm.
        failed: Reason if there is no measurement.
    """

    backend: str
    device: str
    mechanism: str
    length: int
    precision: str
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    bytes: int | None = None
    error: float | None = None
    failed: str = ""


def main(
    file: Annotated[Path, typer.Argument(help="CSV file; measured cases are left out.")],
    only: Annotated[str, typer.Option(help="Mechanisms, separated by commas.")] = "",
    lengths: Annotated[str, typer.Option(help="Lengths, separated by commas.")] = "",
    jobs: Annotated[int, typer.Option(help="Processes, each with some mechanisms.")] = 1,
    seconds: Annotated[float, typer.Option(help="Time limit of compilation.")] = 3600,
    show: Annotated[bool, typer.Option("--show", help="Print the table of FILE and exit.")] = False,
) -> None:
    """Measure on the first GPU: width 512, 8 heads where a mechanism has heads.

    All processes compile first (JAX), then they measure in turn.
    """
    if show:
        typer.echo(table(file))
        return
    names = only.split(",") if only else [*_mechanisms(), _PEER]
    done = {case for case, _ in _rows(file)}
    cases = [
        case
        for precision, all_lengths in _LENGTHS.items()
        for name in names
        for case in (Case(name, length, precision) for length in all_lengths)
        if (keras.backend.backend(), *astuple(case)) not in done
        and (not lengths or str(case.length) in lengths.split(","))
    ]
    spawn = multiprocessing.get_context("spawn")
    compiled, turn = spawn.Barrier(jobs), spawn.Lock()
    processes = [
        spawn.Process(
            target=_work,
            args=(file, [c for c in cases if c.mechanism in names[job::jobs]], seconds),
            kwargs={"compiled": compiled, "turn": turn},
        )
        for job in range(jobs)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    raise typer.Exit(int(any(process.exitcode for process in processes)))


def table(file: Path) -> str:
    """Return a Markdown table of the milliseconds in bfloat16, and of the errors on PyTorch."""
    rows = dict(_rows(file))
    lines = [
        "| mechanism | " + " | ".join(f"{backend}, {n:,}" for backend, n in _COLUMNS)
        + " | error, TF32 | error, bfloat16 |",
        "| --- " + "| ---: " * (len(_COLUMNS) + 2) + "|",
    ]  # fmt: skip
    for name in dict.fromkeys(mechanism for _, mechanism, _, _ in rows):
        times = [_milliseconds(rows.get((b, name, n, "bfloat16"))) for b, n in _COLUMNS]
        errors = [_percent(rows.get(("torch", name, _SHORT, p))) for p in ("TF32", "bfloat16")]
        lines.append(f"| {' | '.join([name, *times, *errors])} |")
    return "\n".join(lines)


def _milliseconds(row: Mapping[str, str] | None) -> str:
    return f"{1000 * float(row['seconds']):.1f}" if row and row["seconds"] else ""


def _percent(row: Mapping[str, str] | None) -> str:
    return f"{100 * float(row['error']):.2f} %" if row and row["error"] else ""


def _work(file: Path, cases: list[Case], seconds: float, compiled: Any, turn: Any) -> None:
    """Compile the passes of some cases; when all processes have done so, measure them."""
    try:
        device, steps = _device(), _steps(cases, seconds)
    except BaseException:
        compiled.abort()  # the others stop, too
        raise
    compiled.wait()
    for case, (error, step) in steps.items():
        with turn:
            measured = _measure(case, step, error)
            result = Result(keras.backend.backend(), device, *astuple(case), **measured)
            _append(file, result)
            typer.echo(result)


def _steps(cases: list[Case], seconds: float) -> dict[Case, tuple[float | None, Step | str]]:
    """Return the error of each case, if measured, and its pass or the reason for none."""
    steps: dict[Case, tuple[float | None, Step | str]] = {}
    began = time.monotonic()
    for case in cases:
        if time.monotonic() - began > seconds:
            typer.echo(f"not compiled in {seconds:.0f} s: {case}")
            continue
        layer = _layer(case)
        try:
            error = _error(case, layer) if case.length == _SHORT else None
            steps[case] = error, _step(case, layer)
        except Exception as reason:  # other cases may fit into the memory
            steps[case] = None, _line(reason)
    return steps


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _mechanisms() -> list[str]:
    return [method.mechanism for method in load_suite("mechanism-speed").method]


def _device() -> str:
    if keras.backend.backend() == "jax":
        import jax

        if (device := jax.devices()[0]).platform == "gpu":
            return device.device_kind
    if keras.backend.backend() == "torch":
        import torch

        if torch.cuda.is_available():
            return torch.cuda.get_device_name()
    raise SystemExit("JAX or PyTorch must have a GPU. Set KERAS_BACKEND to one of them.")


def _layer(case: Case) -> Any:
    """Return a layer with the same weights for all cases of a mechanism."""
    keras.utils.set_random_seed(0)
    with dtype_policy(_PRECISIONS[case.precision][1]):
        if case.mechanism == _PEER:
            layer = keras.layers.MultiHeadAttention(_HEADS, _WIDTH // _HEADS, use_bias=False)
            layer.build((None, None, _WIDTH), (None, None, _WIDTH))
            return layer
        entry = find_mechanism(case.mechanism)
        heads = {"num_heads": _HEADS} if "num_heads" in options_of(factory_of(entry)) else {}
        layer = make_layer(entry, _WIDTH, 0.0, in_blocks(entry, heads, equations=True))
        layer.build((None, None, _WIDTH))
        return layer


def _step(case: Case, layer: Any) -> Step:
    with _products(case.precision):
        return train_step(_call(case, layer), [_tokens(case.length)], layer.trainable_variables)


def _measure(case: Case, step: Step | str, error: float | None) -> dict[str, Any]:
    if isinstance(step, str):
        return {"failed": step}
    try:
        with _products(case.precision):
            taken = spread(in_turn({"step": step}, seconds=2.0)["step"])
            memory = _bytes(step)
    except Exception as reason:
        return {"failed": _line(reason)}
    return {
        "seconds": taken.median, "low": taken.low, "high": taken.high,
        "bytes": memory, "error": error,
    }  # fmt: skip


def _error(case: Case, layer: Any) -> float:
    reference = Case(case.mechanism, case.length, "float32")
    exact, own = _output(reference, _layer(reference)), _output(case, layer)
    return float(np.linalg.norm(own - exact) / np.linalg.norm(exact))


def _output(case: Case, layer: Any) -> np.ndarray:
    with _products(case.precision):
        output = forward_step(_call(case, layer), [_tokens(case.length)])()
    return ops.convert_to_numpy(ops.cast(output, "float32")).astype("float64")


def _call(case: Case, layer: Any) -> Any:
    return (lambda x: layer(x, x)) if case.mechanism == _PEER else layer


@cache
def _tokens(length: int) -> Any:
    return ops.convert_to_tensor(tokens(_TOKENS // length, length, _WIDTH))


@contextlib.contextmanager
def _products(precision: str) -> Iterator[None]:
    """Compute products of float32 matrices in float32 or TF32."""
    products, _ = _PRECISIONS[precision]
    if keras.backend.backend() == "jax":
        import jax

        with jax.default_matmul_precision(products):
            yield
        return
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if products == "highest" else "high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _bytes(step: Step) -> int:
    if isinstance(step, JaxStep):
        return step.temporary_bytes
    import torch

    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    return torch.cuda.max_memory_allocated() - before


def _rows(file: Path) -> Iterator[tuple[_Key, dict[str, str]]]:
    if file.exists():
        with file.open(newline="", encoding="utf-8") as text:
            for row in csv.DictReader(text):
                yield (row["backend"], row["mechanism"], int(row["length"]), row["precision"]), row


def _append(file: Path, result: Result) -> None:
    new = not file.exists()
    with file.open("a", newline="", encoding="utf-8") as text:
        writer = csv.DictWriter(text, [field.name for field in fields(Result)])
        if new:
            writer.writeheader()
        writer.writerow(asdict(result))


if __name__ == "__main__":
    typer.run(main)
