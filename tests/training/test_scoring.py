"""Scores of texts, compared with a model that reads one prefix for each token."""

from __future__ import annotations

import numpy as np
import pytest

from relation_tf.bench import pretrain
from relation_tf.errors import SuiteError
from relation_tf.tasks.plain_text import read_plain_text
from relation_tf.training import PretrainingSettings, load_pretrained
from relation_tf.training.generation import make_language_model
from relation_tf.training.scoring import Scorer, windows
from tests.backends import close
from tests.training.test_generation import LENGTH, MECHANISMS, write_folder

pytestmark = pytest.mark.tensorflow

SIZE = 50  # ids of the texts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("made"), *MECHANISMS)


def log_softmax(logits):
    logits = np.asarray(logits, np.float64)
    return logits - np.logaddexp.reduce(logits)


def naive_score(model, ids, start):
    """Score each token with a separate call on the tokens that its window has before it."""
    total, greedy, end = 0.0, True, 0
    for i in range(start, len(ids)):
        if i >= end:  # the next window
            end = LENGTH if i == 0 else i + LENGTH - 1
            end = min(max(end, LENGTH), len(ids))
            begin = max(0, end - LENGTH)
        logits = model.bias.numpy() if i == 0 else model(np.array([ids[begin:i]]))[0, -1]
        p = log_softmax(logits)
        total += p[ids[i]]
        greedy &= p.argmax() == ids[i]
    return total, greedy


def texts():
    rng = np.random.default_rng(3)
    lengths = [(1, 0), (2, 0), (5, 3), (8, 0), (9, 0), (9, 8), (30, 0), (30, 1), (30, 24), (30, 12)]
    return [(rng.integers(2, SIZE, count).tolist(), start) for count, start in lengths]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scores_are_those_of_one_token_at_a_time(folder, mechanism):
    pretrained = load_pretrained(folder, mechanism)
    model = make_language_model(pretrained)
    scores = Scorer(pretrained, batch_size=4).score(texts())
    for score, (ids, start) in zip(scores, texts(), strict=True):
        total, greedy = naive_score(model, ids, start)
        close(score.log_probability, total)
        assert score.greedy == greedy


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_padding_changes_nothing(folder, mechanism):
    pretrained = load_pretrained(folder, mechanism)
    together = Scorer(pretrained, batch_size=100)
    alone = Scorer(pretrained, batch_size=1)
    scores = np.array([each.log_probability for each in together.score(texts())])
    single = np.array([alone.score([text])[0].log_probability for text in texts()])
    close(scores, single)
    rows = [ids for ids, _ in texts()] + [[]]
    logits = np.concatenate([alone.next_logits([ids]) for ids in rows])
    close(together.next_logits(rows), logits)


def test_texts_without_scored_tokens(folder):
    scorer = Scorer(load_pretrained(folder, "relation"))
    scores = scorer.score([([], 0), ([4, 5], 2)])
    assert [(each.log_probability, each.greedy) for each in scores] == [(0.0, True)] * 2
    assert scorer.score([]) == []


def test_the_most_probable_tokens_are_greedy(folder):
    scorer = Scorer(load_pretrained(folder, "attention"))
    ids = []
    for _ in range(12):
        ids.append(int(scorer.next_logits([ids])[0].argmax()))
    short = ids[:LENGTH]
    other = [*short[:-1], (short[-1] + 1) % SIZE]
    assert [each.greedy for each in scorer.score([(short, 0), (other, 0)])] == [True, False]


def test_next_logits_read_the_last_tokens_only(folder):
    pretrained = load_pretrained(folder, "attention")
    model = make_language_model(pretrained)
    ids = texts()[-1][0]
    (logits,) = Scorer(pretrained).next_logits([ids])
    expected = model(np.array([ids[-(LENGTH - 1) :]]))[0, -1]
    close(logits, expected)


@pytest.mark.parametrize("length", [2, 3, 8])
def test_windows_score_each_token_once(length):
    for count in range(1, 30):
        for start in range(count):
            found = [*windows(count, start, length)]
            scored = [i for window in found for i in range(window.first, window.end)]
            assert scored == [*range(start, count)]
            for begin, first, end in found:
                assert end - begin == min(count, length)
                assert begin < first or first == 0


def test_masked_encoders_are_refused(tmp_path):
    write_folder(tmp_path, "relation", objective="masked")
    with pytest.raises(SuiteError, match="must be pre-trained with --objective causal"):
        Scorer(load_pretrained(tmp_path, "relation"))


@pytest.mark.slow
def test_blocks_have_the_held_out_loss_of_pretraining(tmp_path):
    file = tmp_path / "train.txt"
    file.write_text("the cat sees a dog and a bird .\n" * 40 + "a dog and the bird see it .\n" * 40)
    settings = PretrainingSettings(
        objective="causal", num_layers=1, units=8, length=12, batch_size=4, steps=5,
        vocabulary_size=60,
    )  # fmt: skip
    made = pretrain([file], tmp_path / "out", ["relation"], [1], settings, quiet=True)
    held_out = read_plain_text([file], 12, vocabulary_size=60).held_out
    scorer = Scorer(load_pretrained(tmp_path / "out", "relation"))
    scores = scorer.score([(block.tolist(), 1) for block in held_out])
    loss = -sum(each.log_probability for each in scores) / (11 * len(held_out))
    assert len(held_out) > 1
    close(loss, made.runs[0]["held_out_loss"])
