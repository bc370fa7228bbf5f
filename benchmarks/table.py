"""Definitions of the rows of the table and of the curves of the figures.

This module does not import Keras: each row is measured in a separate process with its backend.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Backend = Literal["tensorflow", "jax", "torch"]


@dataclass(frozen=True)
class Row:
    """Row of the table; a row without a bound is for information.

    Attributes:
        name: Name for `--only`.
        what: Measured computation.
        against: Computation that it is compared with.
        function: `module:function` in `benchmarks.measures`.
        arguments: Arguments of the function.
        at_least: Smallest target value.
        at_most: Largest target value.
        backend: Keras backend.
        needs: Required module, in addition to the backend.
    """

    name: str
    what: str
    against: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    at_least: float = -math.inf
    at_most: float = math.inf
    backend: Backend = "tensorflow"
    needs: str | None = None

    @property
    def bound(self) -> str:
        """Target in words."""
        if math.isfinite(self.at_least):
            return f"at least {self.at_least:g}"
        return f"at most {self.at_most:g}" if math.isfinite(self.at_most) else ""


_NETWORK = "network on IMDb's lengths, 256 units, batches of 256"
_PADDED = "every token, all padded to 2,494"

RECURRENT = ("Retention", "Mamba2", "MLSTM", "DeltaNet", "GatedDeltaNet", "GatedLinearAttention",
             "HGRN2", "MinGRU", "MinLSTM")  # fmt: skip
POOLING = ("SummaryMixing", "AFTSimple", "AFTLocal", "Fastformer", "HyperMixer", "FourierMixing",
           "GMLP", "LocalAttention")  # fmt: skip

ROWS = (
    Row("relation-readout", f"Relation {_NETWORK}, readout", _PADDED, "networks:relation",
        {"compute": "readout"}, at_least=40),
    Row("attention-readout", f"Attention {_NETWORK}, readout", _PADDED, "networks:attention",
        {"compute": "readout"}, at_least=300),
    Row("relation-all", f"Relation {_NETWORK}, all tokens", _PADDED, "networks:relation",
        {"compute": "all"}, at_least=8),
    Row("relation-layer", "Relation, N=2494, 256 units, input 100", "equations 7-12 as written",
        "layers:relation", at_least=1.8),
    Row("linear-attention-layer", "LinearAttention, N=2494, 256 units, input 100",
        "equation 5 as written", "layers:linear_attention", at_least=1.25),
    Row("contextualizer-467", "Contextualizer, N=467, m=128, rank 256, K=5",
        "the equations as written", "layers:contextualizer", {"length": 467}, at_least=6),
    Row("contextualizer-2494", "Contextualizer, N=2494, m=128, rank 256, K=5",
        "the equations as written", "layers:contextualizer", {"length": 2494}, at_least=6),
    *(
        Row(f"{equations.replace('_', '-')}-layer", f"{layer}, N=2494, 64 units", against,
            "layers:narrow", {"layer": layer, "equations": equations, **arguments}, **target)
        for layer, equations, against, arguments, target in (
            ("LocalAttention", "local_attention", "all pairs, masked", {}, {"at_least": 1}),
            ("AFTLocal", "aft_local", "an N x N matrix", {}, {"at_least": 1}),
            ("SummaryMixing", "summary_mixing", "its equation", {}, {"at_least": 1}),
            ("AFTSimple", "aft_simple", "its equation", {}, {}),
            ("Fastformer", "fastformer", "its equations", {}, {}),
            ("HyperMixer", "hyper_mixer", "its equation", {}, {}),
            ("GMLP", "gmlp", "its equation", {"max_length": 2494}, {}),
        )
    ),
    Row("fourier-mixing-layer", "FourierMixing, N=2494, 256 units", "products with matrices",
        "layers:fourier_mixing", at_least=1),
    *(
        Row(f"{layer}-loop", f"{layer}, causal, N=1024, 256 units", "a loop over tokens",
            "recurrences:against_loop", {"layer": layer, "length": 1024}, at_least=1)
        for layer in RECURRENT
    ),
    Row("GatedDeltaNet-first", "GatedDeltaNet, N=1024, 256 units: seconds of the first step", "",
        "recurrences:first_call", {"layer": "GatedDeltaNet", "length": 1024}, at_most=10),
    Row("delta-rule-keras-hub", "gated delta rule, N=1024, 4 heads of width 64", "keras-hub 0.32",
        "recurrences:delta_rule_keras_hub", {"length": 1024}, at_least=6, needs="keras_hub"),
    Row("fofe", "FOFE, N=2494, width 300", "products with the N x N matrix", "layers:fofe",
        at_least=4),
    Row("fcsr", "FCSR, N=467, width 300, forward", "the machine's matrix products", "layers:fcsr",
        at_least=0.5),
    Row("attention-memory", "Attention, N=6231, 64 units: peak memory", "the N x N matrix",
        "attention:memory", at_least=8),
    Row("attention-time", "Attention, N=6231, 64 units: seconds of the N x N matrix times ...",
        "the N x N matrix", "attention:time", at_most=1.25),
    *(
        Row(f"attention-keras-{n}", f"Attention, N={n}, 64 units",
            "keras.layers.MultiHeadAttention(1 head)", "attention:against_keras", {"length": n},
            at_least=1)
        for n in (128, 512, 2494)
    ),
    *(
        Row(f"attention-torch-{n}", f"Attention on PyTorch, N={n}, 64 units",
            "scaled_dot_product_attention", "attention:against_torch", {"length": n}, at_least=1,
            backend="torch")
        for n in (128, 512, 2494)
    ),
    *(
        Row(f"{name}-{mechanism}-{compute}", f"epoch with {shown}: {mechanism}, {compute}",
            "without", "options:option",
            {"mechanism": mechanism, "compute": compute, "settings": settings})
        for name, shown, settings in (
            ("bfloat16", 'precision = "bfloat16"', {"precision": "bfloat16"}),
            ("xla", "xla = true", {"xla": True}),
        )
        for mechanism, compute in (("relation", "readout"), ("relation", "all"),
                                   ("linear-attention", "all"), ("attention", "all"))
        # Stopped: it needed more than 22 of 24 GiB.
        if (name, mechanism) != ("xla", "attention")
    ),
)  # fmt: skip

LENGTHS = tuple(128 * 2**k for k in range(9))  # to 32,768


@dataclass(frozen=True)
class Curve:
    """Curve of a figure.

    Attributes:
        subject: A mechanism, or a layer of another library.
        lengths: Numbers of tokens.
        linear: If True, the target is a time that grows at most as length to the power of 1.1; for
            a decoder, a time per token that does not depend on the length.
        backend: Keras backend.
        needs: Required module, in addition to the backend.
        figure: Name of its figure.
    """

    subject: str
    lengths: tuple[int, ...] = LENGTHS
    linear: bool = False
    backend: Backend = "tensorflow"
    needs: str | None = None
    figure: str = "scaling"


CURVES = (
    Curve("Relation", linear=True),
    Curve("LinearAttention", linear=True),
    Curve("PointwiseMLP", linear=True),
    Curve("Contextualizer", linear=True),
    Curve("FOFE", (*LENGTHS, 50_000), linear=True),
    Curve("FCSR", linear=True),
    Curve("Attention", LENGTHS[:7]),
    Curve("Attention, N x N", LENGTHS[:6]),
    Curve("Keras MultiHeadAttention", LENGTHS[:6]),
    Curve("PyTorch scaled_dot_product_attention", LENGTHS[:7], backend="torch"),
    Curve("PyTorch linear-attention-transformer", backend="torch",
          needs="linear_attention_transformer"),
    Curve("JAX dot_product_attention", LENGTHS[:6], backend="jax"),
    *(Curve(layer, linear=True, figure="scaling-pooling") for layer in POOLING),
    *(Curve(layer, linear=True, figure="scaling-recurrent") for layer in RECURRENT),
)  # fmt: skip

STEEPEST = 1.1

DECODERS = (
    Curve("Relation", linear=True),
    Curve("LinearAttention", linear=True),
    Curve("Attention"),
)

FLAT = 0.1  # largest slope of log time on log length of a flat curve, because of noise
