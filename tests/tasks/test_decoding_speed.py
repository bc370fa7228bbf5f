"""Texts that are gone through a token at a time."""

from __future__ import annotations

import numpy as np
import pytest

from relation_tf.tasks import find_source, load_task
from relation_tf.tasks.decoding_speed import ALPHABET, LENGTHS, letters


@pytest.mark.parametrize("length", LENGTHS)
def test_a_task_is_one_text_of_its_length(length):
    name = f"decode-{length}"
    task = load_task(name)
    (text,) = task.splits["train"].inputs
    assert text.lengths.tolist() == [length]
    assert task.vocabulary.size == 29
    assert task.task.timed
    assert task.task.scored == {name: "train"}
    assert task.source.kind == "generated"
    texts = find_source(name).read().splits["train"].texts
    assert ALPHABET.decode(text.pad(np.arange(1))) == list(texts[0])


def test_texts_are_the_same_each_time_and_differ_by_length():
    digests = {find_source(f"decode-{length}").digest() for length in LENGTHS}
    again = {find_source(f"decode-{length}").digest() for length in LENGTHS}
    assert digests == again
    assert len(digests) == len(LENGTHS)


def test_rows_of_a_batch_differ():
    first, second = letters(40, rows=2).pad(np.arange(2))
    assert (first != second).any()
