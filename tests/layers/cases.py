"""The token mixers in the forms that the tests go through, and inputs for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from relation_tf.layers import Attention, LinearAttention, PointwiseMLP, Relation
from tests.layers import naive

UNITS = 3
MIXERS = (Attention, LinearAttention, Relation, PointwiseMLP)


@dataclass(frozen=True, eq=False)
class Case:
    """One form of a layer and its equation."""

    layer: type
    equation: naive.Equation
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        values = (f"{name}={value}" for name, value in self.arguments.items())
        return "-".join([self.layer.__name__, *values])

    @property
    def causal(self) -> bool:
        """Whether a query sees no later token."""
        return self.arguments.get("causal", False)

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The ways to compute this form."""
        return tuple(a for a in self.layer.algorithms if not (self.causal and a == "folded"))

    @property
    def dropout(self) -> float:
        """A rate; none where the form has no place for dropout."""
        return 0.0 if self.causal and self.layer is LinearAttention else 0.5

    @property
    def one_width(self) -> bool:
        """Whether query and value have to be of one width."""
        return self.arguments.get("normalization") == "released_code"

    def make(self, **arguments: Any) -> Any:
        return self.layer(UNITS, **{**self.arguments, **arguments})

    def mix(self, w: Any, *inputs_and_masks: np.ndarray) -> np.ndarray:
        return naive.mix(self.equation, w, *inputs_and_masks, causal=self.causal)


_linear = naive.linear_attention
_relation = partial(naive.relation, phi=naive.relu)

CASES = (
    Case(Attention, naive.attention),
    Case(Attention, naive.attention, {"use_bias": True, "output_projection": True}),
    Case(LinearAttention, _linear),
    Case(LinearAttention, _linear, {"use_bias": True, "output_projection": True}),
    Case(LinearAttention, partial(_linear, normalization="none"), {"normalization": "none"}),
    Case(
        LinearAttention,
        partial(_linear, normalization="none"),
        {"normalization": "none", "use_bias": True},
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
    Case(Relation, _relation),
    Case(Relation, _relation, {"use_bias": True, "output_projection": True}),
    Case(Relation, partial(naive.relation, phi=np.tanh), {"activation": "tanh", "use_bias": True}),
    Case(PointwiseMLP, naive.pointwise_mlp),
    Case(PointwiseMLP, naive.pointwise_mlp, {"use_bias": False, "output_projection": True}),
    Case(PointwiseMLP, naive.gated_mlp, {"gated": True}),
    Case(Attention, naive.attention, {"causal": True}),
    Case(LinearAttention, _linear, {"causal": True}),
    Case(
        LinearAttention,
        partial(_linear, normalization="none"),
        {"causal": True, "normalization": "none", "use_bias": True, "output_projection": True},
    ),
    Case(
        LinearAttention,
        partial(_linear, normalization="released_code"),
        {"causal": True, "normalization": "released_code", "use_bias": True},
    ),
    Case(Relation, _relation, {"causal": True}),
    Case(Relation, _relation, {"causal": True, "use_bias": True, "output_projection": True}),
)
CAUSAL = tuple(case for case in CASES if case.causal)
# One form of each mechanism, for what biases and the closing projection have no part in. By default
# attention goes by chunks only where it is long.
PLAIN = (
    *(case for case in CASES if "use_bias" not in case.arguments),
    Case(Attention, naive.attention, {"algorithm": "chunked"}),
)


def tokens(seed: int, *shape: int) -> np.ndarray:
    """Random tokens, float32."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def poisoned(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """`x` with NaN and both infinities where the mask keeps nothing."""
    poison = np.resize(np.array([np.nan, np.inf, -np.inf], x.dtype), x.shape)
    return np.where(mask[..., None], x, poison)


def some(seed: int, batch: int, length: int) -> np.ndarray:
    """A random mask with gaps that keeps the last token, and nothing of the last sequence."""
    mask = np.random.default_rng(seed).random((batch, length)) < 0.6
    mask[:, -1] = True
    mask[-1] = False
    return mask


def weights_of(layer: Any) -> dict[str, np.ndarray]:
    """The weights by name, in float64."""
    arrays = layer.get_weights()
    return {v.name: w.astype("float64") for v, w in zip(layer.weights, arrays, strict=True)}


def randomize(layer: Any, seed: int = 0) -> None:
    """Give all weights random values, biases too."""
    rng = np.random.default_rng(seed)
    layer.set_weights([rng.normal(size=w.shape).astype("float32") for w in layer.get_weights()])
