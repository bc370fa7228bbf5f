from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.tasks import Ragged


def lists_of(ragged):
    assert (ragged.ids.dtype, ragged.offsets.dtype) == ("int32", "int64")
    return [ragged.ids[start:end].tolist() for start, end in itertools.pairwise(ragged.offsets)]


ROWS = st.lists(st.lists(st.integers(1, 99), max_size=6), max_size=8)


@given(st.lists(ROWS, max_size=3))
@settings(max_examples=60, deadline=None)
def test_rows_are_joined(parts):
    expected = [row for part in parts for row in part]
    assert lists_of(Ragged.join(map(Ragged.of, parts))) == expected


@given(st.lists(st.lists(st.integers(1, 99), max_size=6), min_size=1, max_size=8), st.data())
@settings(max_examples=60, deadline=None)
def test_padding_equals_the_loop(rows, data):
    lengths = [len(row) for row in rows]
    ragged = Ragged.of(rows)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=8))
    width = max(1, max(lengths[i] for i in chosen))
    expected = [rows[i] + [0] * (width - lengths[i]) for i in chosen]
    assert ragged.pad(np.array(chosen)).tolist() == expected
