"""Variants of the token mixers under test, and inputs for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from relation_tf.layers import (
    GMLP,
    HGRN2,
    MLSTM,
    AFTLocal,
    AFTSimple,
    Attention,
    DeltaNet,
    Fastformer,
    FourierMixing,
    GatedDeltaNet,
    GatedLinearAttention,
    HyperMixer,
    LinearAttention,
    LocalAttention,
    Mamba2,
    MinGRU,
    MinLSTM,
    PointwiseMLP,
    Relation,
    Retention,
    SummaryMixing,
)
from relation_tf.layers.recurrent_mixer import RecurrentMixer
from tests.layers import naive

UNITS = 3
MIXERS = (
    Attention,
    LinearAttention,
    Relation,
    PointwiseMLP,
    SummaryMixing,
    AFTSimple,
    AFTLocal,
    Fastformer,
    HyperMixer,
    FourierMixing,
    GMLP,
    LocalAttention,
    Retention,
    Mamba2,
    MLSTM,
    DeltaNet,
    GatedDeltaNet,
    GatedLinearAttention,
    HGRN2,
    MinGRU,
    MinLSTM,
)


@dataclass(frozen=True, eq=False)
class Case:
    """Variant of a layer, with its equation."""

    layer: type
    equation: naive.Equation
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        values = (f"{name}={value}" for name, value in self.arguments.items())
        return "-".join([self.layer.__name__, *values])

    @property
    def causal(self) -> bool:
        """True if a query does not see later tokens."""
        return self.arguments.get("causal", False)

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Names of the algorithms that compute this variant."""
        return tuple(a for a in self.layer.algorithms if not (self.causal and a == "folded"))

    @property
    def dropout(self) -> float:
        """Dropout rate; 0 if the variant does not support dropout."""
        return 0.0 if self.causal and self.layer is LinearAttention else 0.5

    @property
    def recurrent(self) -> bool:
        """True if the layer reads tokens in their order, and backwards without `causal`."""
        return issubclass(self.layer, RecurrentMixer)

    @property
    def tolerance(self) -> float:
        """Relative tolerance of outputs; dividing by a small norm increases rounding errors."""
        return 5e-5 if self.recurrent else 1e-5

    @property
    def one_width(self) -> bool:
        """True if query and value must have the same width."""
        released = self.arguments.get("normalization") == "released_code"
        return self.layer is Fastformer or released or self.arguments.get("tied", False)

    @property
    def positional(self) -> bool:
        """True if outputs depend on distances between tokens."""
        return self.layer in (AFTLocal, FourierMixing, GMLP, LocalAttention) or self.recurrent

    def make(self, **arguments: Any) -> Any:
        return self.layer(UNITS, **{**self.arguments, **arguments})

    def mix(self, w: Any, *inputs_and_masks: np.ndarray) -> np.ndarray:
        options = {"causal": self.causal, "positional": self.positional}
        return naive.mix(self.equation, w, *inputs_and_masks, **options)


_linear = naive.linear_attention
_relation = partial(naive.relation, phi=naive.relu)
_small = {"state_size": 2, "expansion": 1}

CASES = (
    Case(Attention, naive.attention),
    Case(Attention, naive.attention, {"use_bias": True, "output_projection": True}),
    Case(
        Attention,
        partial(naive.attention, num_heads=3),
        {"num_heads": 3, "causal": True, "use_bias": True},
    ),
    Case(LinearAttention, _linear),
    Case(LinearAttention, _linear, {"use_bias": True, "output_projection": True}),
    Case(LinearAttention, partial(_linear, normalization="sum"), {"normalization": "sum"}),
    Case(
        LinearAttention,
        partial(_linear, normalization="sum"),
        {"normalization": "sum", "use_bias": True},
    ),
    Case(
        LinearAttention,
        partial(_linear, normalization="released_code"),
        {"normalization": "released_code"},
    ),
    Case(
        LinearAttention,
        partial(_linear, normalization="released_code"),
        {"normalization": "released_code", "use_bias": True, "output_projection": True},
    ),
    *(
        Case(
            LinearAttention,
            partial(_linear, normalization=normalization, feature_map=feature_map, num_heads=heads),
            {
                "normalization": normalization,
                "feature_map": feature_map,
                "num_heads": heads,
                **arguments,
            },
        )
        for normalization, feature_map, heads, arguments in (
            ("sum", "softmax", 1, {}),
            ("rms", "identity", 1, {"causal": True, "use_bias": True}),
            ("sum", "hedgehog", 3, {"use_bias": True}),
        )
    ),
    Case(Relation, _relation),
    Case(Relation, _relation, {"use_bias": True, "output_projection": True}),
    Case(Relation, partial(naive.relation, phi=np.tanh), {"activation": "tanh", "use_bias": True}),
    Case(Relation, _relation, {"num_heads": 3, "causal": True, "use_bias": True}),
    Case(PointwiseMLP, naive.pointwise_mlp),
    Case(PointwiseMLP, naive.pointwise_mlp, {"use_bias": False, "output_projection": True}),
    Case(PointwiseMLP, naive.gated_mlp, {"gated": True}),
    Case(Attention, naive.attention, {"causal": True}),
    Case(LinearAttention, _linear, {"causal": True}),
    Case(
        LinearAttention,
        partial(_linear, normalization="sum"),
        {"causal": True, "normalization": "sum", "use_bias": True, "output_projection": True},
    ),
    Case(
        LinearAttention,
        partial(_linear, normalization="released_code"),
        {"causal": True, "normalization": "released_code", "use_bias": True},
    ),
    Case(Relation, _relation, {"causal": True}),
    Case(Relation, _relation, {"causal": True, "use_bias": True, "output_projection": True}),
    Case(SummaryMixing, naive.summary_mixing),
    Case(SummaryMixing, naive.summary_mixing, {"causal": True}),
    Case(AFTSimple, naive.aft_simple),
    Case(AFTSimple, naive.aft_simple, {"causal": True}),
    Case(AFTLocal, partial(naive.aft_local, window=3), {"window": 3}),
    Case(AFTLocal, partial(naive.aft_local, window=3), {"window": 3, "causal": True}),
    Case(Fastformer, naive.fastformer),
    Case(Fastformer, naive.fastformer, {"use_bias": True}),
    Case(HyperMixer, naive.hyper_mixer),
    Case(HyperMixer, naive.hyper_mixer, {"tied": True, "use_bias": True}),
    Case(FourierMixing, naive.fourier_mixing),
    Case(FourierMixing, naive.fourier_mixing, {"use_bias": True}),
    Case(GMLP, naive.gmlp, {"expansion": 1}),
    Case(GMLP, naive.gmlp, {"max_length": 4, "expansion": 1, "use_bias": True}),
    Case(GMLP, naive.gmlp, {"max_length": 4, "expansion": 1, "causal": True}),
    Case(LocalAttention, naive.local_attention),
    Case(
        LocalAttention,
        partial(naive.local_attention, window=2, global_tokens=2),
        {"window": 2, "global_tokens": 2, "use_bias": True},
    ),
    Case(
        LocalAttention,
        partial(naive.local_attention, window=2, global_tokens=1),
        {"window": 2, "global_tokens": 1, "causal": True, "use_bias": True},
    ),
    Case(Retention, naive.retention),
    Case(Retention, naive.retention, {"causal": True, "use_bias": True}),
    Case(Mamba2, naive.mamba2, _small),
    Case(Mamba2, naive.mamba2, {**_small, "causal": True, "use_bias": True}),
    Case(MLSTM, naive.mlstm),
    Case(MLSTM, naive.mlstm, {"causal": True, "use_bias": False}),
    Case(DeltaNet, naive.delta_net, {"filter_width": 2}),
    Case(DeltaNet, naive.delta_net, {"causal": True, "use_bias": True}),
    Case(GatedDeltaNet, naive.delta_net),
    Case(GatedDeltaNet, naive.delta_net, {"causal": True, "expansion": 1, "use_bias": True}),
    Case(GatedLinearAttention, naive.gated_linear_attention),
    Case(
        GatedLinearAttention,
        naive.gated_linear_attention,
        {"key_dim": 2, "gate_rank": 2, "causal": True, "use_bias": True},
    ),
    Case(HGRN2, naive.hgrn2),
    Case(
        HGRN2,
        partial(naive.hgrn2, lower_bound=0.5),
        {"lower_bound": 0.5, "causal": True, "use_bias": False},
    ),
    Case(MinGRU, naive.min_gru),
    Case(MinGRU, naive.min_gru, {"causal": True, "use_bias": False}),
    Case(MinLSTM, naive.min_gru),
    Case(MinLSTM, naive.min_gru, {"causal": True, "use_bias": False}),
)
CAUSAL = tuple(case for case in CASES if case.causal)
# The last variant of each mixer. Without biases its outputs are zero at all tokens where the masks
# differ.
VARIANTS = {
    case.layer: case for case in CASES if case.arguments.get("use_bias", True) and not case.causal
}
# One variant of each mechanism, for tests independent of biases and output projection. By default
# attention uses chunks only for long sequences.
PLAIN = (
    *(case for case in CASES if "use_bias" not in case.arguments),
    Case(Attention, naive.attention, {"algorithm": "chunked"}),
)
# One layer for each class that takes the masks: the mixers inherit `__call__` and `call`.
EACH_BASE = tuple({case.layer.mix_masked: case for case in PLAIN}.values())


def one_fast(cases: Iterable[Case]) -> list[Any]:
    """Return the cases as parameters, slow except the last one of each class in `EACH_BASE`."""
    cases = [*cases]
    fast = {case.layer.mix_masked: number for number, case in enumerate(cases)}.values()
    return [
        pytest.param(case, marks=() if number in fast else pytest.mark.slow, id=str(case))
        for number, case in enumerate(cases)
    ]


def tokens(seed: int, *shape: int) -> np.ndarray:
    """Return random float32 tokens."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def poisoned(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return `x` with NaN and infinities at masked tokens."""
    poison = np.resize(np.array([np.nan, np.inf, -np.inf], x.dtype), x.shape)
    return np.where(mask[..., None], x, poison)


def some(seed: int, batch: int, length: int) -> np.ndarray:
    """Return a random mask with gaps; it keeps last tokens and masks the whole last sequence."""
    mask = np.random.default_rng(seed).random((batch, length)) < 0.6
    mask[:, -1] = True
    mask[-1] = False
    return mask


def weights_of(layer: Any) -> dict[str, np.ndarray]:
    """Return the weights by name, in float64."""
    arrays = layer.get_weights()
    return {v.name: w.astype("float64") for v, w in zip(layer.weights, arrays, strict=True)}


def randomize(layer: Any, seed: int = 0) -> None:
    """Assign random values to all weights, including biases."""
    rng = np.random.default_rng(seed)
    layer.set_weights([rng.normal(size=w.shape).astype("float32") for w in layer.get_weights()])
