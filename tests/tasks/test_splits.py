from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.errors import DataError
from relation_tf.tasks import TextSplit
from relation_tf.tasks.splits import cut


def rows(labels, dtype=np.int32):
    texts = [str(i) for i in range(len(labels))]
    return TextSplit((texts, texts), np.array(labels, dtype), np.arange(len(labels)))


@given(st.lists(st.integers(0, 3), min_size=2, max_size=80), st.data())
@settings(max_examples=100, deadline=None)
def test_every_row_is_in_one_part_and_classes_keep_their_shares(labels, data):
    count = data.draw(st.integers(1, len(labels) - 1))
    rest, taken = cut(rows(labels), count)
    assert len(taken) == count
    assert sorted([*rest.index, *taken.index]) == list(range(len(labels)))
    for part in (rest, taken):
        assert np.all(np.diff(part.index) > 0)
        assert part.labels.tolist() == [labels[i] for i in part.index]
        assert part.texts == ([str(i) for i in part.index],) * 2
    for label in set(labels):
        fair = count * labels.count(label) / len(labels)
        assert abs((taken.labels == label).sum() - fair) < 1


def test_rows_never_change():
    _, taken = cut(rows([0] * 700 + [1] * 300), 0.1)
    digest = hashlib.sha256(json.dumps(taken.index.tolist()).encode()).hexdigest()
    assert taken.index[:5].tolist() == [0, 2, 6, 32, 50]
    assert digest.startswith("b5fdaecae8aa2c63")


def test_seeds_give_other_rows():
    labels = [0] * 700 + [1] * 300
    taken = [set(cut(rows(labels), 0.1, seed=seed)[1].index.tolist()) for seed in (None, 1, 2, 1)]
    assert taken[1] == taken[3]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert 0 < len(taken[i] & taken[j]) < 30  # about ten by chance


def test_rows_depend_only_on_their_numbers():
    # A row that is left out before does not move the others of its class by more than one.
    split = rows([0] * 500)
    _, all_of_them = cut(split, 50)
    _, without_first = cut(split.take(np.arange(1, 500)), 50)
    assert len(set(all_of_them.index) & set(without_first.index)) >= 49


@pytest.mark.parametrize(("count", "size"), [(1, 0.5), (4, 0.1), (4, 4), (4, 9)])
def test_neither_part_may_be_empty(count, size):
    with pytest.raises(DataError, match=f"Received: {count} rows"):
        cut(rows([0] * count), size)
