"""Attention of all tokens: memory, and comparison with other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from benchmarks.measured import Measured, compare, tokens
from benchmarks.memory import added_memory
from benchmarks.steps import train_step
from benchmarks.timing import Spread, in_turn, ratio, spread
from benchmarks.worker import measure
from relation_tf.layers import Attention

_LENGTH, _WIDTH, _UNITS = 6231, 100, 64


def time() -> Measured:
    """Compare the time of a step with the default algorithm and with the N x N matrix."""
    sides = {name: _step(name, 4, _LENGTH) for name in ("auto", "direct")}
    taken = in_turn(sides, rounds=9, seconds=60)
    return Measured(
        ratio(taken["auto"], taken["direct"]),
        {"what": spread(taken["auto"]), "against": spread(taken["direct"])},
    )


def memory() -> Measured:
    """Compare the memory of a step with the N x N matrix and with the default algorithm."""
    backend = keras.backend.backend()
    needed = {
        name: spread([measure("attention:peak", {"algorithm": name}, backend) for _ in range(3)])
        for name in ("auto", "direct")
    }
    value = needed["direct"].median / needed["auto"].median
    return Measured(
        Spread(value, value, value, 3),
        {"what": needed["auto"], "against": needed["direct"]},
        unit="bytes",
        note="peak memory within a step, minus the memory of the process before it",
    )


def peak(algorithm: str) -> int:
    """Return the bytes that a step needs, measured in a new process."""
    _step(algorithm, 4, 64)()
    return added_memory(_step(algorithm, 4, _LENGTH))


def against_keras(length: int) -> Measured:
    """Compare with the Keras layer with one head."""
    x = tokens(8, length, _WIDTH)
    peer = keras.layers.MultiHeadAttention(1, _UNITS, use_bias=False)
    peer.build(x.shape, x.shape)
    return compare(
        _step("auto", 8, length),
        train_step(lambda x: peer(x, x), [x], peer.trainable_variables),
        "the Keras layer also has an output projection",
    )


def against_torch(length: int) -> Measured:
    """Compare with the fused PyTorch kernel and PyTorch projections."""
    import torch

    x = torch.from_numpy(tokens(8, length, _WIDTH)).requires_grad_()
    kernels = [torch.randn(_WIDTH, _UNITS, requires_grad=True) for _ in range(3)]

    def peer() -> Any:
        q, k, v = (torch.unsqueeze(x @ kernel, 1) for kernel in kernels)
        loss = torch.nn.functional.scaled_dot_product_attention(q, k, v).square().sum()
        return torch.autograd.grad(loss, [x, *kernels])

    return compare(_step("auto", 8, length), peer)


def _step(algorithm: str, batch: int, length: int) -> Callable[[], Any]:
    layer, x = Attention(_UNITS, algorithm=algorithm), tokens(batch, length, _WIDTH)
    layer.build(x.shape)
    return train_step(layer, [x], layer.trainable_variables)
