from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.tasks import Ragged, Texts


@given(st.lists(st.lists(st.integers(1, 99), max_size=6), min_size=1, max_size=8), st.data())
@settings(max_examples=60, deadline=None)
def test_padding_equals_the_loop(rows, data):
    lengths = [len(row) for row in rows]
    ids = [i for row in rows for i in row]
    ragged = Ragged(np.array(ids, np.int32), np.cumsum([0, *lengths]))
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=8))
    width = max(1, max(lengths[i] for i in chosen))
    expected = [rows[i] + [0] * (width - lengths[i]) for i in chosen]
    assert ragged.pad(np.array(chosen)).tolist() == expected


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), max_size=8), st.data()
)
@settings(max_examples=100, deadline=None)
def test_texts_come_back(texts, data):
    rows = Texts.join(texts)
    assert len(rows) == len(texts)
    assert rows.lengths.tolist() == [len(text) for text in texts]
    chosen = data.draw(st.lists(st.sampled_from(range(len(texts))), max_size=8)) if texts else []
    batch = rows.pad(np.array(chosen, int))
    assert batch.shape == (len(chosen),)
    assert batch.tolist() == [texts[i] for i in chosen]


def test_tensorflow_takes_texts():
    import tensorflow as tf

    batch = tf.constant(Texts.join(["Naïve", "", "好"]).pad(np.arange(3)))
    assert batch.dtype == tf.string
    assert [text.decode() for text in batch.numpy()] == ["Naïve", "", "好"]
