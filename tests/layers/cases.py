"""Variants of the token mixers under test, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from tests.backends import BACKEND, array, close, compiled
from tests.layers import naive

UNITS = 3
# Outputs depend on distances between tokens; recurrences read tokens in their order.
POSITIONAL = (AFTLocal, FourierMixing, GMLP, LocalAttention, RecurrentMixer)


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
        folds = not self.causal and "num_heads" not in self.arguments
        return tuple(a for a in self.layer.algorithms if folds or a != "folded")

    @property
    def dropout(self) -> float:
        """Dropout rate; 0 if the variant does not support dropout."""
        return 0.0 if self.causal and self.layer is LinearAttention else 0.5

    @property
    def tolerance(self) -> float:
        """Relative tolerance of outputs; dividing by a small norm increases rounding errors."""
        return 5e-5 if issubclass(self.layer, RecurrentMixer) else 1e-5

    @property
    def one_width(self) -> bool:
        """True if query and value must have the same width."""
        released = self.arguments.get("normalization") == "released_code"
        return self.layer is Fastformer or released or self.arguments.get("tied", False)

    @property
    def positional(self) -> bool:
        """True if outputs depend on distances between tokens."""
        return issubclass(self.layer, POSITIONAL)

    def make(self, **arguments: Any) -> Any:
        return self.layer(UNITS, **{**self.arguments, **arguments})

    def built(self, **arguments: Any) -> Any:
        return built(self.make(**arguments))

    def mix(self, w: Any, *inputs_and_masks: np.ndarray) -> np.ndarray:
        options = {"causal": self.causal, "positional": self.positional}
        return naive.mix(self.equation, w, *inputs_and_masks, **options)


_linear = naive.linear_attention
_relation = partial(naive.relation, phi=naive.relu)
_small = {"state_size": 2, "expansion": 1}
_bias, _causal = {"use_bias": True}, {"causal": True}
_whole = {"use_bias": True, "output_projection": True}
_short = {"max_length": 4, "expansion": 1}


def _linear_case(normalization: str, **arguments: Any) -> Case:
    of_equation = {"normalization": normalization}
    of_equation |= {k: arguments[k] for k in ("feature_map", "num_heads") if k in arguments}
    return Case(LinearAttention, partial(_linear, **of_equation), of_equation | arguments)


def _local_case(window: int, global_tokens: int, **arguments: Any) -> Case:
    sizes = {"window": window, "global_tokens": global_tokens}
    return Case(LocalAttention, partial(naive.local_attention, **sizes), sizes | arguments)


CASES = (
    Case(Attention, naive.attention),
    Case(Attention, naive.attention, _whole),
    Case(Attention, partial(naive.attention, num_heads=3), {"num_heads": 3, **_causal, **_bias}),
    Case(LinearAttention, _linear),
    Case(LinearAttention, _linear, _whole),
    _linear_case("sum"),
    _linear_case("sum", **_bias),
    _linear_case("released_code"),
    _linear_case("released_code", **_whole),
    _linear_case("sum", feature_map="softmax"),
    _linear_case("rms", feature_map="identity", **_causal, **_bias),
    _linear_case("sum", feature_map="hedgehog", num_heads=3, **_bias),
    Case(Relation, _relation),
    Case(Relation, _relation, _whole),
    Case(Relation, partial(naive.relation, phi=np.tanh), {"activation": "tanh", **_bias}),
    Case(Relation, _relation, {"num_heads": 3, **_bias}),
    Case(Relation, _relation, {"num_heads": 3, **_causal, **_bias}),
    Case(PointwiseMLP, naive.pointwise_mlp),
    Case(PointwiseMLP, naive.pointwise_mlp, {"use_bias": False, "output_projection": True}),
    Case(PointwiseMLP, naive.gated_mlp, {"gated": True}),
    Case(Attention, naive.attention, _causal),
    Case(LinearAttention, _linear, _causal),
    _linear_case("sum", **_causal, **_whole),
    _linear_case("released_code", **_causal, **_bias),
    Case(Relation, _relation, _causal),
    Case(Relation, _relation, {**_causal, **_whole}),
    Case(SummaryMixing, naive.summary_mixing),
    Case(SummaryMixing, naive.summary_mixing, _causal),
    Case(AFTSimple, naive.aft_simple),
    Case(AFTSimple, naive.aft_simple, _causal),
    Case(AFTLocal, partial(naive.aft_local, window=3), {"window": 3}),
    Case(AFTLocal, partial(naive.aft_local, window=3), {"window": 3, **_causal}),
    Case(Fastformer, naive.fastformer),
    Case(Fastformer, naive.fastformer, _bias),
    Case(HyperMixer, naive.hyper_mixer),
    Case(HyperMixer, naive.hyper_mixer, {"tied": True, **_bias}),
    Case(FourierMixing, naive.fourier_mixing),
    Case(FourierMixing, naive.fourier_mixing, _bias),
    Case(GMLP, naive.gmlp, {"expansion": 1}),
    Case(GMLP, naive.gmlp, {**_short, **_bias}),
    Case(GMLP, naive.gmlp, {**_short, **_causal}),
    Case(LocalAttention, naive.local_attention),
    _local_case(2, 2, **_bias),
    _local_case(2, 1, **_causal, **_bias),
    Case(Retention, naive.retention),
    Case(Retention, naive.retention, {**_causal, **_bias}),
    Case(Mamba2, naive.mamba2, _small),
    Case(Mamba2, naive.mamba2, {**_small, **_causal, **_bias}),
    Case(MLSTM, naive.mlstm),
    Case(MLSTM, naive.mlstm, {**_causal, "use_bias": False}),
    Case(DeltaNet, naive.delta_net, {"filter_width": 2}),
    Case(DeltaNet, naive.delta_net, {**_causal, **_bias}),
    Case(GatedDeltaNet, naive.delta_net),
    Case(GatedDeltaNet, naive.delta_net, {**_causal, "expansion": 1, **_bias}),
    Case(GatedLinearAttention, naive.gated_linear_attention),
    Case(
        GatedLinearAttention,
        naive.gated_linear_attention,
        {"key_dim": 2, "gate_rank": 2, **_causal, **_bias},
    ),
    Case(HGRN2, naive.hgrn2),
    Case(
        HGRN2,
        partial(naive.hgrn2, lower_bound=0.5),
        {"lower_bound": 0.5, **_causal, "use_bias": False},
    ),
    Case(MinGRU, naive.min_gru),
    Case(MinGRU, naive.min_gru, {**_causal, "use_bias": False}),
    Case(MinLSTM, naive.min_gru),
    Case(MinLSTM, naive.min_gru, {**_causal, "use_bias": False}),
)
MIXERS = tuple(dict.fromkeys(case.layer for case in CASES))
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
    """Return the weights by name, in float64; the place is added to equal names."""
    names = [v.name for v in layer.weights]
    names = [n if names.count(n) == 1 else f"{n}_{i}" for i, n in enumerate(names)]
    return dict(zip(names, (w.astype("float64") for w in layer.get_weights()), strict=True))


def randomize(layer: Any, seed: int = 0) -> None:
    """Assign random values to all weights, including biases."""
    rng = np.random.default_rng(seed)
    layer.set_weights([rng.normal(size=w.shape).astype("float32") for w in layer.get_weights()])


def built(layer: Any, *widths: int) -> Any:
    """Build a layer for inputs of these widths, by default one of 4, and assign random weights."""
    layer.build(*((None, None, width) for width in widths or (4,)))
    randomize(layer)
    return layer


def meant(
    layer: Any, equation: naive.Equation, x: np.ndarray, mask: np.ndarray, *value: np.ndarray
) -> np.ndarray:
    """Return the outputs of a mixer's equation; `value` is another input and its mask."""
    value, value_mask = value or (x, mask)
    inputs = (x.astype("float64"), value.astype("float64"), mask, value_mask)
    options = {"causal": getattr(layer, "causal", False)}
    options["positional"] = isinstance(layer, POSITIONAL)
    return naive.mix(equation, weights_of(layer), *inputs, **options)


def steps(
    layer: Any, x: np.ndarray, mask: np.ndarray | None = None, state: Any = None
) -> np.ndarray:
    """Return the outputs of `step`, one token after the other."""
    # JAX takes long for a first eager step.
    step = compiled(layer.step, xla=True) if BACKEND == "jax" else layer.step
    state = layer.initial_state(len(x), x.shape[1]) if state is None else state
    outputs = []
    for i in range(x.shape[1]):
        own = (slice(None), slice(i, i + 1))
        output, state = step(x[own], state, None if mask is None else mask[own])
        outputs.append(array(output))
    return np.concatenate(outputs, axis=1)


def close_slopes(
    loss: Callable[[], float],
    arrays: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    tolerance: float = 1e-4,
) -> None:
    """Compare gradients with slopes of a loss of these arrays, in three random directions each.

    If large terms cancel, as in the gradient of the keys' bias, errors are relative to them.
    """
    rng = np.random.default_rng(2)
    largest = max(1.0, *(np.abs(gradient).max(initial=0.0) for gradient in gradients))
    for own, gradient in zip(arrays, gradients, strict=True):
        directions = rng.normal(size=(3, *own.shape)) / np.sqrt(own.size)
        found = np.tensordot(directions, gradient, gradient.ndim)
        close(found / largest, naive.slopes(loss, own, directions) / largest, tolerance)
