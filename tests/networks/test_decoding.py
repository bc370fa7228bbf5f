"""Greedy decoding and beam search, compared with naive searches of one sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from relation_tf.networks import (
    beam_search,
    exact_match,
    greedy_decode,
    recurrent_encoder_decoder,
    transformer_encoder_decoder,
)
from relation_tf.networks.decoders import DecoderState
from tests.backends import array, close
from tests.layers.cases import randomize

START, END, SIZE, LONGEST = 1, 2, 5, 3
SOURCES = np.array([[3, 4, 5, 6], [7, 3, 0, 0], [8, 8, 8, 0]])


class Table:
    """Model with random logits for each source and each prefix."""

    target_vocabulary = SIZE

    def __init__(self, seed: int, sources: int) -> None:
        rng = np.random.default_rng(seed)
        self.logits = 2 * rng.normal(size=(sources, SIZE ** (LONGEST + 1), SIZE))

    def initial_state(self, source_ids: np.ndarray, max_length: int) -> DecoderState:
        row = ops.convert_to_tensor(source_ids[:, :1], "int32")
        return DecoderState(row, ops.zeros_like(row))

    def step(self, token_ids: np.ndarray, state: DecoderState) -> Any:
        code = state.target * SIZE + ops.convert_to_tensor(token_ids)
        row, place = (ops.convert_to_numpy(x)[:, 0] for x in (state.source, code))
        logits = ops.convert_to_tensor(self.logits[row, place % SIZE ** (LONGEST + 1)], "float32")
        weights = ops.ones((len(row), 1, 1))
        return logits[:, None], state._replace(target=code), weights

    def log_p(self, row: int, tokens: tuple[int, ...]) -> np.ndarray:
        code = 0
        for token in (START, *tokens):
            code = code * SIZE + token
        logits = self.logits[row, code]
        log_p = logits - np.log(np.exp(logits).sum())
        log_p[[0, START]] = -np.inf
        return log_p


def penalized(score: float, tokens: tuple[int, ...], penalty: float) -> float:
    return score / ((5 + len(tokens)) / 6) ** penalty


def naive_beams(model: Table, row: int, width: int, penalty: float) -> Any:
    beams: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for _ in range(LONGEST):
        longer = []
        for score, tokens in beams:
            if tokens[-1:] == (END,):
                longer.append((score, tokens))
            else:
                log_p = model.log_p(row, tokens)
                longer += [(score + log_p[i], (*tokens, i)) for i in range(SIZE)]
        beams = sorted(longer, key=lambda beam: -beam[0])[:width]
    return max((penalized(*beam, penalty), *beam) for beam in beams if np.isfinite(beam[0]))


def padded(tokens: tuple[int, ...], width: int) -> list[int]:
    return [*tokens, *[0] * (width - len(tokens))]


def check(decoded: Any, expected: list[Any]) -> None:
    width = max(len(tokens) for *_, tokens in expected)
    assert decoded.ids.tolist() == [padded(tokens, width) for *_, tokens in expected]
    close(decoded.normalized, [best for best, *_ in expected])
    close(decoded.scores, [score for _, score, _ in expected])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.sampled_from([0.0, 0.6, 1.0]))
def test_beams_are_those_of_the_naive_search(seed: int, width: int, penalty: float) -> None:
    model, rows = Table(seed, 3), np.arange(3)[:, None]
    decoded = beam_search(model, rows, START, END, LONGEST, width, penalty)
    check(decoded, [naive_beams(model, row, width, penalty) for row in range(3)])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_one_beam_is_greedy(seed: int) -> None:
    model, rows = Table(seed, 3), np.arange(3)[:, None]
    greedy = greedy_decode(model, rows, START, END, LONGEST, 0.3)
    one = beam_search(model, rows, START, END, LONGEST, 1, 0.3)
    check(greedy, [naive_beams(model, row, 1, 0.3) for row in range(3)])
    np.testing.assert_array_equal(one.ids, greedy.ids)
    np.testing.assert_array_equal(one.scores, greedy.scores)


def network(name: str) -> Any:
    if name == "gru":
        model = recurrent_encoder_decoder(9, 7, 4)
    else:
        model = transformer_encoder_decoder(9, 7, 4, name, num_layers=1)
    model.build()
    randomize(model)
    return model


def teacher_forced(model: Any, ids: np.ndarray) -> np.ndarray:
    """Return the log probability of each sequence, computed in one call."""
    logits = array(model([SOURCES, np.pad(ids, ((0, 0), (1, 0)), constant_values=START)[:, :-1]]))
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    own = np.take_along_axis(log_p, ids[..., None], axis=-1)[..., 0]
    return np.where(ids != 0, own, 0).sum(axis=1)


@pytest.mark.parametrize("name", ["gru", "relation", "attention"])
def test_scores_are_log_probabilities_of_the_ids(name: str) -> None:
    """Detects beams that continue with the state of another beam."""
    model = network(name)
    greedy = greedy_decode(model, SOURCES, START, END, max_length=6)
    beams = beam_search(model, SOURCES, START, END, max_length=6, beam_width=5)
    for decoded in (greedy, beams):
        close(decoded.scores, teacher_forced(model, decoded.ids), 1e-4)
    alone = beam_search(model, SOURCES[1:2, :2], START, END, max_length=6, beam_width=5)
    length = np.count_nonzero(beams.ids[1])
    np.testing.assert_array_equal(alone.ids[0], beams.ids[1, :length])
    one = beam_search(model, SOURCES, START, END, max_length=6, beam_width=1)
    np.testing.assert_array_equal(one.ids, greedy.ids)


def test_attention_weights_of_the_decoded_text() -> None:
    model = network("gru")
    decoded = greedy_decode(model, SOURCES, START, END, max_length=6)
    assert decoded.attention.shape == (*decoded.ids.shape, SOURCES.shape[1])
    close(decoded.attention.sum(axis=-1), decoded.ids != 0)
    assert not decoded.attention[:, :, 2:][1].any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": 0}, r"`start` must be an id from 1 to 4\. Received: start=0$"),
        ({"end": 5}, r"`end` must be an id from 1 to 4\. Received: end=5$"),
        ({"start": END}, rf"`start` and `end` must differ\. Received: start={END}, end={END}$"),
        ({"max_length": 0}, r"Received: max_length=0$"),
        ({"beam_width": 0}, r"Received: beam_width=0$"),
    ],
)
def test_wrong_arguments(arguments: dict[str, int], message: str) -> None:
    good = {"start": START, "end": END, "max_length": LONGEST}
    with pytest.raises(ValueError, match=message):
        beam_search(Table(0, 1), np.zeros((1, 1), int), **{**good, **arguments})


def test_exact_match() -> None:
    targets = np.array([[5, 2, 0], [5, 6, 2], [5, 0, 0]])
    assert exact_match(targets, targets) == 1.0
    assert exact_match(targets, np.array([[5, 2], [5, 6], [5, 0]])) == pytest.approx(2 / 3)
    assert exact_match(targets, np.pad(targets, ((0, 0), (0, 4)))) == 1.0
    assert exact_match(targets, np.full((3, 1), 6)) == 0.0
