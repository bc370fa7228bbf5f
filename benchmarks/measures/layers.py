"""Layers compared with direct implementations of their equations, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from benchmarks import direct
from benchmarks.measured import Measured, check_equal, compare, tokens
from benchmarks.measures.machine import matrix_rate
from benchmarks.steps import forward_step, train_step
from benchmarks.timing import in_turn, spread
from relation_tf import layers
from relation_tf.layers import FCSR, FOFE, Contextualizer, FourierMixing, LinearAttention, Relation

_BATCH, _LENGTH, _WIDTH, _UNITS = 8, 2494, 100, 256
_NARROW = 64
_DOCUMENTS = 32  # batch size of the Contextualizer paper


def relation() -> Measured:
    """Compare with equations 7-12 of the Relation paper."""
    layer = Relation(_UNITS)
    return _against(layer, lambda x: direct.relation(layer, x), tokens(_BATCH, _LENGTH, _WIDTH))


def linear_attention() -> Measured:
    """Compare with equation 5 of the Relation paper."""
    layer = LinearAttention(_UNITS)
    x = tokens(_BATCH, _LENGTH, _WIDTH)
    return _against(layer, lambda x: direct.linear_attention(layer, x), x)


def narrow(layer: str, equations: str, **arguments: Any) -> Measured:
    """Compare a layer of 64 units with a function of `benchmarks.direct`."""
    made = getattr(layers, layer)(_NARROW, **arguments)
    x = tokens(_BATCH, _LENGTH, _NARROW)
    return _against(made, lambda x: getattr(direct, equations)(made, x), x)


def fourier_mixing() -> Measured:
    """Compare with products with the matrices of the Fourier transforms."""
    layer, products = (FourierMixing(_UNITS, algorithm=name) for name in ("fft", "direct"))
    return _against(layer, products, tokens(_BATCH, _LENGTH, _UNITS))


def contextualizer(length: int) -> Measured:
    """Compare with the steps of the Contextualizer, computed token by token."""
    layer = Contextualizer(rank=256, num_steps=5)
    x = tokens(_DOCUMENTS, length, 128)
    return _against(layer, lambda x: direct.contextualizer(layer, x), x)


def _against(layer: Any, equations: Callable[[Any], Any], x: np.ndarray) -> Measured:
    layer.build(x.shape)
    check_equal(layer(x), equations(x))
    variables = layer.trainable_variables
    return compare(train_step(layer, [x], variables), train_step(equations, [x], variables))


def fofe() -> Measured:
    """Compare both contexts with products with the matrix of weights."""
    layer, x = FOFE(decay=0.2), tokens(_BATCH, _LENGTH, 300)
    matrix = ops.convert_to_tensor(direct.fofe_matrix(_LENGTH, 0.2))
    transposed = ops.convert_to_tensor(direct.fofe_matrix(_LENGTH, 0.2).T.copy())

    def contexts(x: Any) -> Any:
        return ops.concatenate(layer(x), axis=-1)

    def products(x: Any) -> Any:
        return ops.concatenate([matrix @ x, transposed @ x], axis=-1)

    check_equal(contexts(x), products(x))
    return compare(train_step(contexts, [x], []), train_step(products, [x], []))


def fcsr() -> Measured:
    """Measure the rate of the two matrix products of FCSR as a share of the machine's rate."""
    batch, length, width = 20, 467, 300
    layer, x = FCSR(), tokens(batch, length, width)
    layer.build(x.shape)
    seconds = in_turn({"what": forward_step(layer, [x])})["what"]
    operations = 2 * 2 * batch * length * (3 * width) * (4 * width)
    rate, best = [operations / s for s in seconds], matrix_rate()
    return Measured(
        spread([r / best.median for r in rate]),
        {"what": spread(rate), "against": best},
        unit="operations/s",
        note="only the operations of the two matrix products are counted",
    )
