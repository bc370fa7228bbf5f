"""`python -m benchmarks.gpu FILE`: time and error of mechanisms on a GPU.

`KERAS_BACKEND` selects JAX or PyTorch; TensorFlow is not needed. The mechanisms are those of the
suite `mechanism-speed`.
"""

from __future__ import annotations

import contextlib
import csv
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
from benchmarks.steps import forward_step, train_step
from benchmarks.timing import in_turn, spread
from relation_tf.config import load_suite
from relation_tf.errors import UnknownNameError
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
# Precision of float32 matrix products (JAX's names), and the dtype policy of the layer.
_PRECISIONS = {
    "bfloat16": ("tensorfloat32", "mixed_bfloat16"),
    "TF32": ("tensorfloat32", "float32"),
    "float32": ("highest", "float32"),
}
_LENGTHS = {
    "bfloat16": (128, 512, 2_048, 8_192, 32_768),
    "TF32": (2_048,),
    "float32": (128, 2_048, 32_768),
}
_COLUMNS = tuple(
    (backend, length)
    for backend, lengths in (("torch", _LENGTHS["bfloat16"]), ("jax", (128, 2_048, 32_768)))
    for length in lengths
)
_PEER = "Keras MultiHeadAttention"
_OUT_OF_MEMORY = ("out of memory", "RESOURCE_EXHAUSTED")
_Key = tuple[str, str, int, str]  # backend, mechanism, length, precision


@dataclass(frozen=True)
class Case:
    """Mechanism, length of each sequence, and precision."""

    mechanism: str
    length: int
    precision: str


@dataclass(frozen=True)
class Result:
    """Measurement of a forward and backward pass over 32,768 tokens.

    Attributes:
        seconds: Median; `low` and `high` are quartiles.
        error: Norm of the difference from the float32 output, relative to its norm.
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
    error: float | None = None
    failed: str = ""


def main(
    file: Annotated[Path, typer.Argument(help="CSV file; measured cases are left out.")],
    only: Annotated[str, typer.Option(help="Mechanisms, separated by commas.")] = "",
    show: Annotated[bool, typer.Option("--show", help="Print the table of FILE and exit.")] = False,
) -> None:
    """Measure on the first GPU: width 512, 8 heads where a mechanism has heads.

    Safe to interrupt: run the same command again to resume.
    """
    if show:
        if not file.exists():
            raise typer.BadParameter(f"{file} does not exist.")
        typer.echo(table(file))
        return
    backend, device = keras.backend.backend(), _device()
    done = {key for key, row in _rows(file) if row["seconds"]}
    for case in _cases(only):
        if (backend, *astuple(case)) not in done:
            result = Result(backend, device, *astuple(case), **_measure(case))
            _append(file, result)
            typer.echo(result)


def table(file: Path) -> str:
    """Return a Markdown table of the milliseconds in bfloat16, and of the errors on PyTorch."""
    rows = dict(_rows(file))
    titles = [f"{backend}, {length:,}" for backend, length in _COLUMNS]
    lines = [
        f"| mechanism | {' | '.join(titles)} | error, TF32 | error, bfloat16 |",
        "| --- " + "| ---: " * (len(_COLUMNS) + 2) + "|",
    ]
    for name in dict.fromkeys(mechanism for _, mechanism, _, _ in rows):
        times = [_milliseconds(rows.get((b, name, n, "bfloat16"))) for b, n in _COLUMNS]
        errors = [_percent(rows.get(("torch", name, _SHORT, p))) for p in ("TF32", "bfloat16")]
        lines.append(f"| {' | '.join([name, *times, *errors])} |")
    return "\n".join(lines)


def _milliseconds(row: Mapping[str, str] | None) -> str:
    if row is None:
        return ""
    return row["failed"] or f"{1000 * float(row['seconds']):.1f}"


def _percent(row: Mapping[str, str] | None) -> str:
    return f"{100 * float(row['error']):.2g} %" if row and row["error"] else ""


def _device() -> str:
    if keras.backend.backend() == "jax":
        import jax

        if (device := jax.devices()[0]).platform == "gpu":
            return str(device.device_kind)
    if keras.backend.backend() == "torch":
        import torch

        if torch.cuda.is_available():
            return torch.cuda.get_device_name()
    raise typer.BadParameter("KERAS_BACKEND must be jax or torch, with a GPU. Found: no GPU")


def _cases(only: str) -> list[Case]:
    known = [*(method.mechanism for method in load_suite("mechanism-speed").method), _PEER]
    names = only.split(",") if only else known
    for name in names:
        if name not in known:
            raise typer.BadParameter(str(UnknownNameError("mechanism", name, known)))
    return [
        Case(name, length, precision)
        for name in names
        for precision, lengths in _LENGTHS.items()
        for length in lengths
    ]


def _measure(case: Case) -> dict[str, Any]:
    layer = _layer(case)
    try:
        with _matmul_precision(case.precision):
            step = train_step(_call(case, layer), [_tokens(case.length)], layer.trainable_variables)
            taken = spread(in_turn({"step": step}, seconds=2.0)["step"])
            error = _error(case, layer) if case.length == _SHORT else None
    except Exception as reason:
        if not any(words in str(reason) for words in _OUT_OF_MEMORY):
            raise
        return {"failed": "out of memory"}
    return {"seconds": taken.median, "low": taken.low, "high": taken.high, "error": error}


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


def _call(case: Case, layer: Any) -> Any:
    return (lambda x: layer(x, x)) if case.mechanism == _PEER else layer


@cache
def _tokens(length: int) -> Any:
    return ops.convert_to_tensor(tokens(_TOKENS // length, length, _WIDTH))


def _error(case: Case, layer: Any) -> float | None:
    if case.precision == "float32":
        return None
    exact = _exact(case.mechanism)
    return float(np.linalg.norm(_output(case, layer) - exact) / np.linalg.norm(exact))


@cache
def _exact(mechanism: str) -> np.ndarray:
    case = Case(mechanism, _SHORT, "float32")
    return _output(case, _layer(case))


def _output(case: Case, layer: Any) -> np.ndarray:
    with _matmul_precision(case.precision):
        output = forward_step(_call(case, layer), [_tokens(case.length)])()
    return ops.convert_to_numpy(ops.cast(output, "float32")).astype("float64")


@contextlib.contextmanager
def _matmul_precision(precision: str) -> Iterator[None]:
    """Set the precision of float32 matrix products."""
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
        writer.writerow(
            {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in asdict(result).items()}
        )


if __name__ == "__main__":
    typer.run(main)
