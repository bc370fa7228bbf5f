"""Time and memory of the next token of a causal mechanism, by number of previous tokens."""

from __future__ import annotations

from typing import Any

import keras

from benchmarks.measured import tokens
from benchmarks.measures.scaling import Point
from benchmarks.steps import forward_step
from benchmarks.timing import in_turn, spread
from relation_tf import layers

_BATCH, _WIDTH = 4, 64


def decode(subject: str, lengths: list[int]) -> list[Point]:
    """Return a curve of compiled steps; bytes are the size of the state.

    The state of attention is allocated for all tokens and each step reads all of it, so the cost
    does not depend on the number of previous tokens.
    """
    layer = getattr(layers, subject)(_WIDTH, causal=True)
    layer.build((_BATCH, None, _WIDTH))
    points = []
    for length in lengths:
        state = layer.initial_state(_BATCH, max_length=length)
        step = forward_step(
            lambda x, *state: layer.step(x, state), [tokens(_BATCH, 1, _WIDTH), *state]
        )
        seconds = spread(in_turn({"step": step}, seconds=2.0)["step"])
        points.append(Point(length, seconds, sum(map(_bytes, state))))
    return points


def _bytes(part: Any) -> int:
    return int(keras.ops.convert_to_numpy(part).nbytes)
