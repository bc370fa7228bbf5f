from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from relation_tf.tasks import plan_batches
from relation_tf.tasks.batches import (
    bucket,
    evaluation_batches,
    pad_to_bucket,
    padded_tokens,
    padding_share,
    widths,
)

LENGTHS = st.tuples(st.integers(1, 2), st.integers(1, 60)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(0, 40))
)


@given(LENGTHS, st.integers(1, 9), st.sampled_from(["length", "random"]))
@settings(max_examples=80, deadline=None)
def test_every_row_is_in_exactly_one_batch(lengths, batch_size, batching):
    batches = plan_batches(lengths, batch_size, seed=1, epoch=0, batching=batching)
    assert sorted(np.concatenate(batches)) == list(range(lengths.shape[1]))
    assert max(map(len, batches)) <= batch_size
    assert len(batches) == -(-lengths.shape[1] // batch_size)


@given(LENGTHS, st.integers(1, 9), st.booleans())
@settings(max_examples=40, deadline=None)
def test_padded_tokens_are_those_of_the_arrays(lengths, batch_size, buckets):
    batches = plan_batches(lengths, batch_size, seed=1, epoch=0, batching="random")
    total = 0
    for i, rows in enumerate(batches):
        arrays = [np.zeros((len(rows), longest)) for longest in lengths[:, rows].max(axis=1)]
        arrays = [pad_to_bucket(array) if buckets else array for array in arrays]
        total += sum(array.size for array in arrays)
        given = widths(lengths, batches, buckets=buckets)[:, i]
        assert given.tolist() == [array.shape[1] for array in arrays]
    assert padded_tokens(lengths, batches, buckets=buckets) == total
    share = padding_share((lengths, batches), buckets=buckets)
    assert share == pytest.approx(1 - lengths.sum() / total if total else 0)


@given(st.integers(0, 10_000))
def test_bucket_is_the_smallest_width_for_a_text(length):
    width = bucket(length)
    assert width >= length
    assert bucket(width) == width
    assert length <= 8 or bucket(length - 1) in (width, length - 1)
    assert length <= 16 or width < 1.5 * length


@pytest.mark.parametrize("batching", ["length", "random"])
def test_batches_depend_on_seed_and_epoch(batching):
    lengths = np.random.default_rng(0).integers(1, 5, (2, 200))

    def plan(seed, epoch):
        return [rows.tolist() for rows in plan_batches(lengths, 16, seed, epoch, batching)]

    assert plan(1, 0) == plan(1, 0)
    assert plan(1, 0) != plan(1, 1)
    assert plan(1, 0) != plan(2, 0)


@given(
    lengths=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    batch_size=st.integers(1, 8),
    max_tokens=st.integers(1, 200),
)
def test_evaluation_batches_respect_the_token_limit(lengths, batch_size, max_tokens):
    array = np.array([lengths, lengths[::-1]])
    batches = evaluation_batches(array, batch_size, max_tokens)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for rows in batches:
        assert len(rows) <= batch_size
        assert len(rows) == 1 or padded_tokens(array, [rows]) <= max_tokens
