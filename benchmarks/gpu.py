"""`python -m benchmarks.gpu FILE`: speed and error of mechanisms in bfloat16 on a GPU.

`KERAS_BACKEND` selects JAX or PyTorch; TensorFlow is not needed. The mechanisms are those of the
suite `mechanism-speed`. On PyTorch, causal layers are also measured with a fused kernel instead of
their own operations: PyTorch's for attention, for others that of the package `fla-core`.
"""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, fields
from functools import cache, partial, wraps
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import keras
import numpy as np
import typer
from keras import ops

from benchmarks.against_attention import CAUSAL, mechanism_layer
from benchmarks.measured import tokens
from benchmarks.steps import forward_step, train_step
from benchmarks.timing import in_turn
from relation_tf.config import load_suite
from relation_tf.errors import UnknownNameError

_TOKENS, _WIDTH, _HEADS = 32_768, 512, 8
_LENGTHS = (2_048, 8_192, 32_768)
_SHORT = _LENGTHS[0]  # length for errors
_SECONDS = 0.5  # of a case, after the warm-up; at least five steps
_TRIED = 4  # configurations of a kernel
_OUT_OF_MEMORY = ("out of memory", "RESOURCE_EXHAUSTED")

# The operations of a causal layer that a fused kernel replaces.
_REPLACED = {
    "attention": "attention._fused_attention",
    "linear-attention": "linear_attention.causal_linear_attention",
    "retention": "recurrent_mixer.chunked_recurrence",
    "mamba2": "recurrent_mixer.chunked_recurrence",
    "delta-net": "delta_net.delta_rule",
    "gated-delta-net": "delta_net.delta_rule",
    "gated-linear-attention": "recurrent_mixer.chunked_recurrence",
    "hgrn2": "recurrent_mixer.chunked_recurrence",
    "min-gru": "min_gru.elementwise_recurrence",
    "min-lstm": "min_gru.elementwise_recurrence",
}
# "layer" sees all tokens; "kernel" is a causal layer with a fused kernel; "alone" is the kernel
# without a layer, over all tokens.
_FORMS = {
    "torch": {
        "layer": None,
        "causal": CAUSAL,
        "alone": ("attention",),
        "kernel": tuple(_REPLACED),
    },
    "jax": {"layer": None, "fused": ("attention",), "causal": CAUSAL},
}
_Key = tuple[str, str, str, int]  # backend, mechanism, form, length


@dataclass(frozen=True)
class Case:
    """Mechanism, its form, and length of each sequence."""

    mechanism: str
    form: str
    length: int

    @property
    def causal(self) -> bool:
        return self.form in ("causal", "kernel")


@dataclass(frozen=True)
class Result:
    """Measurement of a forward and backward pass over 32,768 tokens.

    Attributes:
        seconds: Median of the steps; `least` and `most` are their minimum and maximum.
        error: Norm of the difference from the float32 output, relative to its norm.
        failed: Reason if there is no measurement.
    """

    backend: str
    device: str
    mechanism: str
    form: str
    length: int
    seconds: float | None = None
    least: float | None = None
    most: float | None = None
    error: float | None = None
    failed: str = ""


def main(
    file: Annotated[Path, typer.Argument(help="CSV file; measured cases are left out.")],
    only: Annotated[str, typer.Option(help="Mechanisms, separated by commas.")] = "",
    form: Annotated[str, typer.Option(help="Form of the mechanisms, such as causal.")] = "",
    show: Annotated[
        bool, typer.Option("--show", help="Print the tables of FILE and exit.")
    ] = False,
) -> None:
    """Measure on the first GPU: width 512, 8 heads where a mechanism has heads.

    Safe to interrupt: run the same command again to resume.
    """
    if show:
        if not file.exists():
            raise typer.BadParameter(f"{file} does not exist.")
        typer.echo("\n\n".join(tables(file)))
        return
    backend, device = keras.backend.backend(), _device()
    done = {key for key, row in _rows(file) if row["seconds"]}
    for case in _cases(backend, only):
        if form in ("", case.form) and (backend, *astuple(case)) not in done:
            result = Result(backend, device, *astuple(case), **_measure(case))
            _append(file, result)
            typer.echo(result)


def tables(file: Path) -> list[str]:
    """Return Markdown tables of million tokens a second: of all mechanisms, and of causal ones."""
    rows = dict(_rows(file))
    every = [("torch", "layer"), ("jax", "layer")]
    causal = [("torch", "causal"), ("torch", "kernel"), ("jax", "causal")]
    return [_table(rows, every, "layer"), _table(rows, causal, "kernel")]


def _table(rows: Mapping[_Key, Mapping[str, str]], sides: list[Any], of_error: str) -> str:
    columns = [(*side, length) for side in sides for length in _LENGTHS]
    titles = [f"{backend} {form}, {length:,}" for backend, form, length in columns]
    lines = [
        f"| mechanism | {' | '.join(titles)} | error |",
        "| --- " + "| ---: " * (len(columns) + 1) + "|",
    ]
    for name in dict.fromkeys(m for _, m, form, _ in rows if form == sides[0][1]):
        speeds = [_speed(rows.get((backend, name, form, n))) for backend, form, n in columns]
        error = _percent(rows.get(("torch", name, of_error, _SHORT)))
        lines.append(f"| {' | '.join([name, *speeds, error])} |")
    return "\n".join(lines)


def _speed(row: Mapping[str, str] | None) -> str:
    """Return the median, and in brackets minimum and maximum."""
    if row is None:
        return ""
    if row["failed"]:
        return row["failed"][:20]
    median, least, most = (
        f"{_TOKENS / float(row[key]) / 1e6:.3g}" for key in ("seconds", "most", "least")
    )
    return f"{median} ({least}-{most})"


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


def _cases(backend: str, only: str) -> list[Case]:
    known = [method.mechanism for method in load_suite("mechanism-speed").method]
    names = only.split(",") if only else known
    for name in names:
        if name not in known:
            raise typer.BadParameter(str(UnknownNameError("mechanism", name, known)))
    return [
        Case(name, form, length)
        for form, with_form in _FORMS[backend].items()
        for name in names
        if with_form is None or name in with_form
        for length in _LENGTHS
    ]


def _measure(case: Case) -> dict[str, Any]:
    try:
        exact = _exact(case.mechanism, case.causal) if _has_error(case) else None
        with _matmul_precision("tensorfloat32"), _kernel_of(case):
            layer = _layer(case, "mixed_bfloat16")
            function, inputs = layer, [_tokens(case.length)]
            if case.form == "alone":
                width = _WIDTH // _HEADS
                heads = tokens(_TOKENS // case.length * _HEADS, case.length, width)
                function, inputs = _kernel(case), [ops.cast(heads, "bfloat16") for _ in range(3)]
            step = train_step(function, inputs, layer.trainable_variables)
            taken = in_turn({"step": step}, seconds=_SECONDS)["step"]
            error = None if exact is None else _error(layer, exact)
    except Exception as reason:  # of any library; other cases may work
        text = " ".join(f"{type(reason).__name__}: {reason}".split())[:200]
        memory = any(words in str(reason) for words in _OUT_OF_MEMORY)
        return {"failed": "out of memory" if memory else text}
    return {
        "seconds": float(np.median(taken)),
        "least": min(taken),
        "most": max(taken),
        "error": error,
    }


def _layer(case: Case, policy: str) -> Any:
    """Return a layer with the same weights for all cases of a mechanism."""
    options = {"causal": True} if case.causal else {}
    options |= {"algorithm": "fused"} if case.form == "fused" else {}
    return mechanism_layer(case.mechanism, _WIDTH, _HEADS, policy, **options)


def _kernel_of(case: Case) -> Any:
    """Return a context in which a layer uses the kernel of a case, if it has one."""
    if case.form != "kernel":
        return contextlib.nullcontext()

    def call(*tensors: Any, **more: Any) -> Any:
        return _kernel(case)(*_prepared(tensors)).to(tensors[0].dtype)

    return patch(f"relation_tf.layers.{_REPLACED[case.mechanism]}", call)


def _prepared(tensors: Any) -> list[Any]:
    """Return queries, keys and values in bfloat16, with equal heads, and log decays in float32."""
    import torch

    real = [x for x in tensors if isinstance(x, torch.Tensor)]
    last = len(real) - (len(real) in (2, 4))
    halves = [x.to(torch.bfloat16) for x in real[:last]]
    halves = [x.expand(*halves[-1].shape[:-1], x.shape[-1]).contiguous() for x in halves]
    return [*halves, *(x.contiguous() for x in real[last:])]


def _kernel(case: Case) -> Callable[..., Any]:
    """Return a kernel as a function of the tensors of `_prepared`."""
    import torch
    from torch.nn import functional

    if case.mechanism == "attention":
        # (batch * heads, tokens, features)
        attend = partial(functional.scaled_dot_product_attention, is_causal=case.causal, scale=1.0)
        return lambda *x: attend(*(y.unflatten(0, (-1, _HEADS)) for y in x)).flatten(0, 1)
    fla = _fla()

    def ones(x: Any) -> Any:
        return torch.ones_like(x[..., 0])

    kernels: dict[str, Callable[..., Any]] = {
        "linear-attention": lambda q, k, v: fla.linear_attn.chunk_linear_attn(
            *(x[:, :, None] for x in (q, k, v)), scale=1.0, normalize=False
        )[0][:, :, 0],
        "retention": lambda q, k, v, g: fla.retention.chunk_retention(q, k, v, scale=1.0)[0],
        "mamba2": lambda q, k, v, g: fla.simple_gla.chunk_simple_gla(q, k, v, g, scale=1.0)[0],
        "delta-net": lambda q, k, v, g: fla.delta_rule.chunk_delta_rule(
            q, k, v, ones(q), scale=1.0
        )[0],
        "gated-delta-net": lambda q, k, v, g: fla.gated_delta_rule.chunk_gated_delta_rule(
            q, k, v, g, ones(q), scale=1.0
        )[0],
        "gated-linear-attention": lambda q, k, v, g: fla.gla.chunk_gla(q, k, v, g, scale=1.0)[0],
        "min-gru": lambda v, g: fla.hgrn.chunk_hgrn(v[:, :, 0], g[:, :, 0])[0][:, :, None],
    }
    kernels |= {"hgrn2": kernels["gated-linear-attention"], "min-lstm": kernels["min-gru"]}
    return kernels[case.mechanism]


@cache
def _fla() -> Any:
    """Import the kernels; Triton tries at most `_TRIED` configurations of each."""
    import triton

    tune = triton.autotune

    @wraps(tune)
    def tune_some(configs: Any, *arguments: Any, **more: Any) -> Any:
        return tune(configs[:: -(-len(configs) // _TRIED)], *arguments, **more)

    with patch("triton.autotune", tune_some):
        import fla.ops
    # On Hopper GPUs, Triton 3.4 to 3.7.0 computes wrong gradients of kernels with a decay for each
    # token, and FLA refuses them. Here only their time matters.
    fla.ops.common.chunk_o.TRITON_ABOVE_3_7_1 = True
    return fla.ops


@cache
def _tokens(length: int) -> Any:
    return ops.convert_to_tensor(tokens(_TOKENS // length, length, _WIDTH))


def _has_error(case: Case) -> bool:
    """Return True for the outputs of layers on PyTorch at one length."""
    on_torch = keras.backend.backend() == "torch"
    return on_torch and case.length == _SHORT and case.form != "alone"


@cache
def _exact(mechanism: str, causal: bool) -> np.ndarray:
    case = Case(mechanism, "causal" if causal else "layer", _SHORT)
    with _matmul_precision("highest"):
        return _output(_layer(case, "float32"))


def _error(layer: Any, exact: np.ndarray) -> float:
    return float(np.linalg.norm(_output(layer) - exact) / np.linalg.norm(exact))


def _output(layer: Any) -> np.ndarray:
    output = forward_step(layer, [_tokens(_SHORT)])()
    return ops.convert_to_numpy(ops.cast(output, "float32")).astype("float64")


@contextlib.contextmanager
def _matmul_precision(products: str) -> Iterator[None]:
    """Set the precision of float32 matrix products, by JAX's names."""
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
                yield (row["backend"], row["mechanism"], row["form"], int(row["length"])), row


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
