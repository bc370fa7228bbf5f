"""Properties for all sequences and masks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from relation_tf.layers import Retention
from tests.backends import array, close, started
from tests.layers.cases import PLAIN, Case, randomize, tokens

WIDTH = 4
few = settings(
    max_examples=10,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
all_cases = pytest.mark.parametrize("case", PLAIN, ids=str)
without_positions = pytest.mark.parametrize(
    "case", [case for case in PLAIN if not case.causal and not case.positional], ids=str
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Generate tokens (batch, tokens, width) and a mask."""
    shape = draw(st.tuples(st.sampled_from([1, 3]), st.sampled_from([1, 2, 5])))
    mask = draw(hnp.arrays(bool, shape))
    x = draw(hnp.arrays("float32", (*shape, WIDTH), elements=st.floats(-3, 3, width=16)))
    return x, mask


@cache
def mixer(case: Case) -> Callable[..., np.ndarray]:
    """Return the layer with weights as a function of query, value and their masks."""
    layer = case.make()
    layer.build((None, None, WIDTH))
    randomize(layer)
    return started(lambda q, v, q_mask, v_mask: layer(q, v, query_mask=q_mask, value_mask=v_mask))


@without_positions
@few
@given(batch=batches(), data=st.data())
def test_permuted_tokens_permute_the_output(case: Case, batch: Any, data: st.DataObject) -> None:
    """Most mechanisms do not depend on positions."""
    mix, (x, mask) = mixer(case), batch
    order = np.array(data.draw(st.permutations(range(x.shape[1]))))
    permuted, permuted_mask = x[:, order], mask[:, order]
    close(mix(permuted, permuted, permuted_mask, permuted_mask), mix(x, x, mask, mask)[:, order])


@without_positions
@few
@given(batch=batches())
def test_queries_are_independent(case: Case, batch: Any) -> None:
    """Required for the readout of one token."""
    mix, (x, mask) = mixer(case), batch
    last = mix(x[:, -1:], x, mask[:, -1:], mask)
    close(last, mix(x, x, mask, mask)[:, -1:])


def test_retention_rotates_by_the_distance_in_both_directions() -> None:
    """With the opposite rotation of later tokens, these outputs would differ."""
    layer, x = Retention(8, num_heads=2), tokens(0, 2, 9, 8)
    close(array(layer(x[:, ::-1].copy()))[:, ::-1], array(layer(x)), 1e-5)
