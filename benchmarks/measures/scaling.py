"""Time and memory of a training step by text length, for all mechanisms and other libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from benchmarks.measured import tokens
from benchmarks.memory import added_memory
from benchmarks.steps import train_step
from benchmarks.timing import Spread, in_turn, spread
from relation_tf import layers

_BATCH, _WIDTH = 4, 64


@dataclass(frozen=True)
class Point:
    """Length, seconds of a step, and additional bytes of a step."""

    length: int
    seconds: Spread
    bytes: int


def grow(subject: str, lengths: list[int]) -> list[Point]:
    """Measure a curve in this process."""
    build = SUBJECTS.get(subject, lambda: _built(getattr(layers, subject)(_WIDTH)))
    _step(build(), 64)()
    points = []
    for length in lengths:
        step = _step(build(), length)
        step()  # compiles it
        memory = added_memory(step)
        points.append(Point(length, spread(in_turn({"step": step}, seconds=3.0)["step"]), memory))
    return points


def _step(layer: Any, length: int) -> Callable[[], Any]:
    x = tokens(_BATCH, length, _WIDTH)
    return train_step(layer, [x], getattr(layer, "trainable_variables", []))


def _built(layer: keras.Layer) -> Any:
    layer.build((_BATCH, None, _WIDTH))
    return layer


def _contexts() -> Callable[[Any], Any]:
    fofe = layers.FOFE(0.2)
    return lambda x: keras.ops.concatenate(fofe(x), axis=-1)


class KerasAttention(keras.Layer):
    """Self-attention with the Keras layer with one head."""

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.attention = keras.layers.MultiHeadAttention(1, _WIDTH, use_bias=False)
        self.attention.build(shape, shape)
        self.built = True

    def call(self, x: Any) -> Any:
        return self.attention(x, x)


class Projected(keras.Layer):
    """Projections Q, K and V, and an attention function of another library."""

    def __init__(self, attend: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        self._attend = attend

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.kernels = [self.add_weight(shape=(_WIDTH, _WIDTH)) for _ in range(3)]
        self.built = True

    def call(self, x: Any) -> Any:
        return self._attend(*(keras.ops.matmul(x, kernel) for kernel in self.kernels))


def _torch_attention() -> Any:
    from torch.nn.functional import scaled_dot_product_attention

    def attend(q: Any, k: Any, v: Any) -> Any:
        return scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])

    return _built(Projected(attend))


def _torch_linear_attention() -> Any:
    from linear_attention_transformer.linear_attention_transformer import linear_attn

    def attend(q: Any, k: Any, v: Any) -> Any:
        return linear_attn(q[:, None], k[:, None], v[:, None])

    return _built(Projected(attend))


def _jax_attention() -> Any:
    from jax.nn import dot_product_attention

    def attend(q: Any, k: Any, v: Any) -> Any:
        return dot_product_attention(q[:, :, None], k[:, :, None], v[:, :, None])

    return _built(Projected(attend))


# Other subjects are layers with their default options.
SUBJECTS: dict[str, Callable[[], Any]] = {
    "LinearAttention": lambda: _built(layers.LinearAttention(_WIDTH, normalization="sum")),
    "Contextualizer": lambda: _built(layers.Contextualizer(rank=_WIDTH)),
    "FOFE": _contexts,
    "FCSR": lambda: _built(layers.FCSR()),
    "Attention, N x N": lambda: _built(layers.Attention(_WIDTH, algorithm="direct")),
    "Keras MultiHeadAttention": lambda: _built(KerasAttention()),
    "PyTorch scaled_dot_product_attention": _torch_attention,
    "PyTorch linear-attention-transformer": _torch_linear_attention,
    "JAX dot_product_attention": _jax_attention,
}
