"""Recurrent layers compared with their recurrences, token by token, and with keras-hub."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any
from unittest import mock

from keras import ops

from benchmarks import direct
from benchmarks.measured import Measured, check_equal, compare, tokens
from benchmarks.steps import Step, train_step
from benchmarks.timing import spread
from relation_tf import layers
from relation_tf.layers.delta_net import delta_rule

_BATCH, _HEADS, _WIDTH = 2, 4, 64
_SHORT = 70  # tokens to compare the results: more than a chunk

# Kernels where the layers import them, and their recurrences.
_KERNELS = {
    "recurrence.chunked_recurrence": direct.recurrence,
    "delta_net.delta_rule": direct.delta_rule,
    "min_gru.elementwise_recurrence": direct.elementwise_recurrence,
}


def against_loop(layer: str, length: int) -> Measured:
    """Compare a causal layer with the same layer whose recurrence is a loop over tokens."""
    mixer = _built(layer)
    x = tokens(_BATCH, length, _HEADS * _WIDTH)
    chunks = _step(mixer, x)
    with ExitStack() as replaced:
        for name, loop in _KERNELS.items():
            replaced.enter_context(mock.patch(f"relation_tf.layers.{name}", loop))
        looped = mixer(x[:, :_SHORT])
        loop_step = _step(mixer, x)  # traced here
    check_equal(mixer(x[:, :_SHORT]), looped)
    return compare(chunks, loop_step)


def first_call(layer: str, length: int) -> Measured:
    """Measure the seconds of the first training step, which compiles it."""
    mixer = _built(layer)
    x = tokens(_BATCH, length, _HEADS * _WIDTH)
    start = time.perf_counter()
    _step(mixer, x)()
    return Measured(spread([time.perf_counter() - start]))


def delta_rule_keras_hub(length: int) -> Measured:
    """Compare the gated delta rule with the one of keras-hub's Qwen3.5."""
    from keras_hub.src.models.qwen3_5.qwen3_5_gated_delta_net import _chunk_gated_delta_rule

    def ours(q: Any, k: Any, v: Any, log_decays: Any, writes: Any) -> Any:
        root = ops.sqrt(writes)[..., None]
        q = _normed(q) * _WIDTH**-0.5
        return delta_rule(q, root * _normed(k), root * v, log_decays)

    def theirs(*inputs: Any) -> Any:
        return _chunk_gated_delta_rule(*inputs)[0]

    q, k, v = (
        ops.reshape(tokens(_BATCH, length, 3 * _HEADS * _WIDTH), (_BATCH, length, 3, _HEADS, -1))[
            :, :, i
        ]
        for i in range(3)
    )
    gates = ops.sigmoid(tokens(_BATCH, length, 2 * _HEADS))
    inputs = (q, k, v, ops.log(gates[..., :_HEADS]), gates[..., _HEADS:])
    check_equal(ours(*inputs), theirs(*inputs))
    return compare(train_step(ours, inputs, []), train_step(theirs, inputs, []))


def _normed(x: Any) -> Any:
    return x * ops.rsqrt(ops.sum(ops.square(x), axis=-1, keepdims=True) + 1e-6)


def _built(layer: str) -> Any:
    heads = {} if layer in ("MinGRU", "MinLSTM") else {"num_heads": _HEADS}
    mixer = getattr(layers, layer)(_HEADS * _WIDTH, causal=True, **heads)
    mixer.build((_BATCH, None, _HEADS * _WIDTH))
    return mixer


def _step(mixer: Any, x: Any) -> Step:
    return train_step(mixer, [x], mixer.trainable_variables)
