"""Recurrences in chunks equal the recurrence token by token."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from keras import ops

from relation_tf.layers import (
    HGRN2,
    MLSTM,
    DeltaNet,
    GatedDeltaNet,
    GatedLinearAttention,
    Mamba2,
    Retention,
)
from relation_tf.layers.recurrence import chunked_recurrence
from relation_tf.layers.scan import decays_between
from tests.backends import array, close, close_gradients, started, vjp, with_unknown_length
from tests.layers import naive
from tests.layers.cases import built, meant, poisoned, some, tokens

vector_or_not = pytest.mark.parametrize("vector", [False, True])


def terms(length: int, heads: int = 2, vector: bool = False) -> list[np.ndarray]:
    """Return random queries, keys, values and log decays, those from -400 to -0.002."""
    log_decays = -np.exp(2 * tokens(3, 2, length, 2, *((3,) if vector else ())))
    shape = (2, length, heads, 3)
    return [tokens(0, *shape), tokens(1, *shape), tokens(2, 2, length, 2, 4), log_decays]


def expected(arrays: list[np.ndarray]) -> np.ndarray:
    count = np.arange(1, arrays[0].shape[1] + 1)
    rows = zip(*(x.astype("float64") for x in arrays), strict=True)
    return np.stack([naive.recurrence(*row, count) for row in rows])


def pairwise_gradients(arrays: list[np.ndarray], cotangent: np.ndarray) -> list[np.ndarray]:
    """Return the gradients from all pairs of tokens, in float64."""
    q, k, v, log_decays = (x.astype("float64") for x in arrays)
    length, vector = q.shape[1], log_decays.ndim == 4
    log_decays = np.broadcast_to(log_decays if vector else log_decays[..., None], k.shape)
    total = np.cumsum(log_decays, axis=1).transpose(0, 2, 1, 3)
    between = np.minimum(total[:, :, :, None] - total[:, :, None], 0)
    decay = np.exp(between) * np.tri(length)[..., None]  # (batch, heads, i, j, features)
    scores = np.einsum("bihk,bjhk,bhijk->bhij", q, k, decay)
    upstream = np.einsum("bihv,bjhv->bhij", cotangent, v)
    through = np.einsum("bihk,bjhk,bhijk,bhij->bhijk", q, k, decay, upstream)
    # The log decay of token s is part of all pairs j < s <= i.
    passed = through.sum(axis=3) - through.sum(axis=2)
    for_log_decays = passed[:, :, ::-1].cumsum(axis=2)[:, :, ::-1].transpose(0, 2, 1, 3)
    return [
        np.einsum("bhijk,bhij,bjhk->bihk", decay, upstream, k),
        np.einsum("bhijk,bhij,bihk->bjhk", decay, upstream, q),
        np.einsum("bhij,bihv->bjhv", scores, cotangent),
        for_log_decays if vector else for_log_decays.sum(axis=-1),
    ]


@vector_or_not
@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 257])
def test_outputs_and_gradients(length: int, vector: bool) -> None:
    arrays, cotangent = terms(length, vector=vector), tokens(4, 2, length, 2, 4)
    output, gradients, _ = vjp(chunked_recurrence, arrays, [], cotangent)
    close(output, expected(arrays))
    close_gradients(gradients, pairwise_gradients(arrays, cotangent.astype("float64")))


@vector_or_not
def test_a_large_decay_does_not_disturb_small_ones(vector: bool) -> None:
    """The difference of two sums of logarithms around -1e6 has no digits for 0.01."""
    arrays = terms(50, vector=vector)
    arrays[3] = np.full_like(arrays[3], -0.01)
    arrays[3][:, 3] = -1e6
    close(chunked_recurrence(*map(ops.convert_to_tensor, arrays)), expected(arrays))


def test_a_decay_of_zero_forgets_all_earlier_tokens() -> None:
    logs = np.full((1, 1, 1, 4, 1), -0.5, "float32")
    logs[..., 2, 0] = -np.inf
    between = array(decays_between(ops.convert_to_tensor(logs)))[0, 0, 0]
    step = np.exp(-0.5)
    expected = [[1, 0, 0, 0], [step, 1, 0, 0], [0, 0, 1, 0], [0, 0, step, 1]]
    close(between, np.array(expected))


@pytest.mark.tensorflow
@pytest.mark.parametrize("xla", [False, True])
@vector_or_not
def test_unknown_length(xla: bool, vector: bool) -> None:
    unknown = with_unknown_length(chunked_recurrence, terms(1, vector=vector), xla)
    for length in [100] if xla else [1, 3, 8, 9, 33, 100]:
        arrays = terms(length, vector=vector)
        output, gradients = unknown(*arrays)
        close(output, expected(arrays))
        close_gradients(gradients, pairwise_gradients(arrays, np.ones((2, length, 2, 4))))


@pytest.mark.tensorflow
def test_texts_of_a_chunk_do_not_see_each_other() -> None:
    arrays = terms(5, vector=True)
    unknown = with_unknown_length(chunked_recurrence, arrays)
    for x in arrays:
        broken = [y.copy() if y is x else y for y in arrays]
        next(y for y, z in zip(broken, arrays, strict=True) if y is not z)[0] = np.nan
        close(unknown(*broken)[0][1:], expected(arrays)[1:])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("layer_class", "equation"),
    [
        (Retention, naive.retention),
        (Mamba2, naive.mamba2),
        (MLSTM, naive.mlstm),
        (DeltaNet, naive.delta_net),
        (GatedDeltaNet, naive.delta_net),
        (GatedLinearAttention, naive.gated_linear_attention),
        (HGRN2, naive.hgrn2),
    ],
)
def test_heads_of_several_chunks(layer_class: Any, equation: Any, causal: bool) -> None:
    layer = built(layer_class(6, 2, causal=causal, use_bias=True))
    layer.set_weights([w / 2 for w in layer.get_weights()])
    x, mask = tokens(0, 3, 130, 4), some(1, 3, 130)
    run = started(lambda x, mask: layer(x, query_mask=mask))
    wanted = meant(layer, partial(equation, num_heads=2), x, mask)
    close(run(poisoned(x, mask), mask), wanted, 5e-5)


def test_retention_rotates_by_the_distance_in_both_directions() -> None:
    """With the opposite rotation of later tokens, these outputs would differ."""
    layer, x = Retention(8, num_heads=2), tokens(0, 2, 9, 8)
    close(array(layer(x[:, ::-1].copy()))[:, ::-1], array(layer(x)))
