from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from relation_tf.errors import DataError
from relation_tf.tasks import Vocabulary, vocabulary

TEXTS = ["The cat, it seems, is THE cat.", "Don't stop!"]


def test_letters_of_padding_in_a_text_are_no_padding():
    rows = Vocabulary.train(["[PAD] [UNK]"]).encode(["[PAD]"])
    assert rows.lengths.tolist() == [3]
    assert 0 not in rows.ids
    pieces = Vocabulary.train(["[PAD] [UNK] ##p"], tokens="wordpiece").encode(["[PAD] ##p"])
    assert 0 not in pieces.ids
    assert pieces.lengths.tolist() == [8]


@pytest.mark.parametrize("tokens", ["word", "wordpiece"])
def test_start_token_is_before_each_text(tokens):
    made = Vocabulary.train(TEXTS, tokens=tokens, start_token=True)
    assert [made.words[word] for word in ("[PAD]", "[UNK]", "[START]")] == [0, 1, 2]
    texts = ["the cat", "", "[START]"]
    rows = made.encode(texts)
    assert rows.ids[rows.offsets[:-1]].tolist() == [2, 2, 2]
    assert (rows.ids == 2).sum() == 3  # the letters in a text are something else
    assert rows.lengths[1] == 1
    assert made.encode(texts, max_length=2).lengths.tolist() == [2, 1, 2]
    again = Vocabulary.from_json(made.to_json())
    assert again.encode(texts).ids.tolist() == rows.ids.tolist()


# Blanks of all kinds, what is one character or several in lower case or without its accent, what
# joins with its neighbour, and what BERT drops or sets apart.
ODD = st.text(
    "aB.'#[] \t\n\u0085\xa0\u2028\u3000éÅΣſİǅß\u0301\u0307가각好「\0\x1c\ufffd\u200b😀", max_size=12
)
MANY = st.lists(st.one_of(ODD, st.text(max_size=8)), max_size=6)


@given(MANY, MANY, st.booleans())
@settings(max_examples=150, deadline=None)
def test_words_are_those_that_tokenizers_would_train_and_find(texts, others, spaced):
    made = Vocabulary.train(texts, spaced=spaced)
    whole = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    whole.normalizer = normalizers.Lowercase()
    whole.pre_tokenizer = (
        pre_tokenizers.WhitespaceSplit()
        if spaced
        else pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
        )
    )
    trainer = trainers.WordLevelTrainer(special_tokens=["[PAD]", "[UNK]"], show_progress=False)
    whole.train_from_iterator(texts, trainer)
    assert made.words == whole.get_vocab()
    expected_same(made, [*texts, *others])


@given(MANY, MANY)
@settings(max_examples=100, deadline=None)
def test_pieces_are_those_that_tokenizers_would_find(texts, others):
    expected_same(Vocabulary.train(texts, tokens="wordpiece"), [*texts, *others])


def expected_same(made, texts):
    whole = Tokenizer.from_str(made.to_json()).encode_batch_fast(texts)
    rows = made.encode(texts)
    assert rows.lengths.tolist() == [len(encoding.ids) for encoding in whole]
    assert rows.ids.tolist() == [i for encoding in whole for i in encoding.ids]


@given(MANY, st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_parts_join_to_all_rows(texts, part, max_length):
    made = Vocabulary.train(texts)
    expected = made.encode(texts, max_length)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "_PART", part)
        rows = made.encode(texts, max_length)
    assert rows.ids.tolist() == expected.ids.tolist()
    assert rows.lengths.tolist() == expected.lengths.tolist()


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
import hashlib, itertools, json
from relation_tf.tasks import Vocabulary
syllables = ["ba", "de", "gi", "lo", "mu", "na", "pe", "ri", "so", "tu"]
words = ["".join(word) for word in itertools.product(syllables, repeat=3)]
texts = [" ".join(words[i::50]) for i in range(50)] * 2
for tokens in ("word", "wordpiece"):
    found = Vocabulary.train(texts, 300, tokens=tokens).words
    print(hashlib.sha256(json.dumps(sorted(found.items())).encode()).hexdigest()[:16])
"""


def test_every_process_trains_the_same():
    # All pairs of syllables are equally frequent, so that ties decide nearly everything.
    digests = {
        subprocess.run(
            [sys.executable, "-c", TRAIN],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "RAYON_NUM_THREADS": str(1 + seed % 3)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in range(2)
    }
    assert len(digests) == 1
    assert len(digests.pop().split()) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda vocab: vocab.pop("[PAD]"), r"\[PAD\] must have id 0. Received: None"),
        (lambda vocab: vocab.pop("[UNK]"), r"its unknown word '\[UNK\]' is missing"),
        (lambda vocab: vocab.update(a=4), "ids must be 0 to 3. Received: 4"),
    ],
)
def test_a_vocabulary_with_impossible_ids_is_one_line(tmp_path, change, said):
    content = json.loads(Vocabulary.train(["a b"]).to_json())
    change(content["model"]["vocab"])
    path = tmp_path / "vocabulary.json"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=f"^{path}: expected a vocabulary: {said}$"):
        Vocabulary.read(path)
