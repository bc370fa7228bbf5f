from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.tasks import Ragged, Vocabulary

TEXTS = ["The cat, it seems, is THE cat.", "Don't stop!"]


def test_lower_case_with_punctuation_apart():
    words = Vocabulary.train(TEXTS).words
    assert set(words) == {
        "[PAD]", "[UNK]", "the", "cat", ",", "it", "seems", "is", ".", "don", "'", "t", "stop", "!",
    }  # fmt: skip
    assert words["[PAD]"] == 0
    assert words["[UNK]"] == 1


def test_unknown_words_and_empty_text():
    vocabulary = Vocabulary.train(TEXTS)
    rows = vocabulary.encode(["cat DOG", "", "stop"])
    assert rows.lengths.tolist() == [2, 0, 1]
    assert rows.ids.tolist() == [vocabulary.words["cat"], 1, vocabulary.words["stop"]]


def test_same_text_gives_same_ids_and_survives_json():
    first, second = Vocabulary.train(TEXTS), Vocabulary.train(TEXTS)
    assert first.words == second.words
    again = Vocabulary.from_json(first.to_json())
    assert again.words == first.words
    assert again.encode(TEXTS).ids.tolist() == first.encode(TEXTS).ids.tolist()


def test_sizes_can_be_limited():
    vocabulary = Vocabulary.train(TEXTS, max_size=4)
    assert vocabulary.size == 4
    assert vocabulary.encode(TEXTS, max_length=2).lengths.tolist() == [2, 2]


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
