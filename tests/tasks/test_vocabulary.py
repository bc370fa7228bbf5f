from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.tasks import Vocabulary

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


def test_letters_of_padding_in_a_text_are_no_padding():
    rows = Vocabulary.train(["[PAD] [UNK]"]).encode(["[PAD]"])
    assert rows.lengths.tolist() == [3]
    assert 0 not in rows.ids
    pieces = Vocabulary.train(["[PAD] [UNK] ##p"], tokens="wordpiece").encode(["[PAD] ##p"])
    assert 0 not in pieces.ids
    assert pieces.lengths.tolist() == [8]


def pieces_of(vocabulary, text):
    pieces = {i: piece for piece, i in vocabulary.words.items()}
    return [pieces[i] for i in vocabulary.encode([text]).ids]


def test_wordpiece_splits_words_as_bert_does():
    vocabulary = Vocabulary.train(["Lower, lower, LÓWER!", "low low"], tokens="wordpiece")
    assert vocabulary.words["[PAD]"] == 0
    assert vocabulary.words["[UNK]"] == 1
    assert sorted(vocabulary.words.values()) == list(range(vocabulary.size))
    assert pieces_of(vocabulary, "lower") == ["lower"]
    assert pieces_of(vocabulary, "Lówer, lowre") == ["lower", ",", "low", "##r", "##e"]
    assert pieces_of(vocabulary, "low好 low") == ["low", "[UNK]", "low"]


ALPHABET = st.text("abcé ,!好", max_size=12)


@given(st.lists(ALPHABET, max_size=6), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_wordpiece_knows_every_word_of_its_text_and_keeps_its_size(texts, size):
    vocabulary = Vocabulary.train(texts, tokens="wordpiece")
    assert vocabulary.words["[UNK]"] not in vocabulary.encode(texts).ids
    again = Vocabulary.from_json(vocabulary.to_json())
    assert again.words == vocabulary.words
    assert again.encode(texts).ids.tolist() == vocabulary.encode(texts).ids.tolist()
    small = Vocabulary.train(texts, size, tokens="wordpiece")
    assert small.size <= max(2, size)
    assert sorted(small.words.values()) == list(range(small.size))


TRAIN = """
import hashlib, itertools, json, sys
from relation_tf.tasks import Vocabulary
syllables = ["ba", "de", "gi", "lo", "mu", "na", "pe", "ri", "so", "tu"]
words = ["".join(word) for word in itertools.product(syllables, repeat=3)]
texts = [" ".join(words[i::50]) for i in range(50)] * 2
words = Vocabulary.train(texts, 300, tokens=sys.argv[1]).words
print(hashlib.sha256(json.dumps(sorted(words.items())).encode()).hexdigest()[:16])
"""


@pytest.mark.parametrize("tokens", ["word", "wordpiece"])
def test_every_process_trains_the_same(tokens):
    # All pairs of syllables are equally frequent, so that ties decide nearly everything.
    digests = {
        subprocess.run(
            [sys.executable, "-c", TRAIN, tokens],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "RAYON_NUM_THREADS": str(1 + seed % 3)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in range(4)
    }
    assert len(digests) == 1
