"""Contract of the sentence encoders, and of encoders with attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from relation_tf.networks.encoders import Encoder, MultiHeadSelfAttention
from relation_tf.networks.sentence_encoders import (
    AdditiveAttentionPooling,
    ConvolutionalNetwork,
    DeepAveragingNetwork,
    RecurrentNetwork,
    SentenceStateLSTM,
)
from tests.backends import array, close
from tests.layers.cases import poisoned, randomize, tokens
from tests.layers.contract import *  # noqa: F403
from tests.layers.contract import Case
from tests.networks import naive


def s_lstm(num_steps: int, window: int, words: bool = True) -> Case:
    arguments = {"num_steps": num_steps, "window": window, "return_sequences": words}

    def equation(x: np.ndarray, w: Any) -> np.ndarray:
        return naive.s_lstm(x, w, num_steps, window)[0 if words else 1]

    kind = "tokens" if words else "vector"
    return Case(SentenceStateLSTM, {"units": 3, **arguments}, 3, kind, equation, skips_gaps=False)


CASES = (
    Case(DeepAveragingNetwork, {"units": 3, "num_layers": 3}, 3, equation=naive.deep_averaging),
    Case(ConvolutionalNetwork, {"units": 2, "widths": [2, 3], "num_layers": 2}, 4),
    Case(RecurrentNetwork, {"units": 3, "cell": "gru", "num_layers": 2}, 3),
    Case(
        RecurrentNetwork,
        {"units": 3, "cell": "rnn", "bidirectional": True, "return_sequences": True},
        6,
        "tokens",
    ),
    Case(AdditiveAttentionPooling, {"units": 3}, 4, equation=naive.additive_attention),
    s_lstm(2, 5, words=False),
    s_lstm(3, 2),  # Words read the sentence's weights from the third step on.
    Case(MultiHeadSelfAttention, {"units": 4, "num_heads": 2}, 4, "tokens"),
    Case(Encoder, {"mechanism": "relation", "units": 3, "norm": "pre"}, 3, "tokens"),
    Case(Encoder, {"mechanism": "multi-head-attention", "num_heads": 2}, 4, "tokens"),
)


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.mark.parametrize(
    "make",
    [
        partial(DeepAveragingNetwork, 8),
        partial(MultiHeadSelfAttention, 4, dropout=0.5),
        partial(Encoder, "relation", 2, dropout=0.5, options={"variant": "equations"}),
    ],
    ids=lambda make: make.func.__name__,
)
def test_dropout_in_training_only_and_by_its_seed(make: Callable[..., Any]) -> None:
    x = tokens(0, 2, 5, 4)

    def trained(seed: int) -> np.ndarray:
        layer = make(seed=seed)
        layer.build(x.shape)
        randomize(layer)
        assert (array(layer(x)) == array(layer(x, training=False))).all()
        return array(layer(x, training=True))

    np.testing.assert_array_equal(trained(1), trained(1))
    assert np.abs(trained(1) - trained(2)).max() > 1e-4


@pytest.mark.parametrize(
    ("layer", "arguments", "message"),
    [
        (DeepAveragingNetwork, {"word_dropout": 1}, r"in \[0, 1\)\. Received: word_dropout=1$"),
        (ConvolutionalNetwork, {"widths": []}, r"a list of positive .* Received: widths=\[\]$"),
        (ConvolutionalNetwork, {"widths": "345"}, r"Received: widths='345'$"),
        (ConvolutionalNetwork, {"widths": (3, 0)}, r"positive integer\. Received: widths=0$"),
        (RecurrentNetwork, {"cell": "elman"}, r"'rnn', 'gru', 'lstm'\. Received: cell='elman'$"),
        (SentenceStateLSTM, {"num_steps": 1}, r"at least 2 unless .* Received: num_steps=1$"),
        (MultiHeadSelfAttention, {"num_heads": 3}, r"Received: units=4, num_heads=3$"),
    ],
)
def test_wrong_arguments(layer: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layer(4, **arguments)


# Averages


def averages(mask: Any, rate: float, samples: int) -> np.ndarray:
    """Return training outputs for an identity matrix: the weights of six tokens."""
    layer = DeepAveragingNetwork(6, 1, activation="linear", word_dropout=rate, seed=1)
    layer.build((None, None, 6))
    layer.set_weights([np.eye(6), np.zeros(6)])
    x = np.repeat(np.eye(6, dtype="float32")[None], samples, axis=0)
    return array(layer(x, mask=mask, training=True))


@pytest.mark.parametrize("masked", [False, True])
def test_word_dropout_leaves_out_whole_tokens(masked: bool) -> None:
    samples, rate, length = 4000, 0.3, 4 if masked else 6
    mask = np.repeat((np.arange(6) < length)[None], samples, axis=0) if masked else None
    weights = averages(mask, rate, samples)
    kept = weights > 0
    close(weights, kept / kept.sum(axis=1, keepdims=True))
    assert not kept[:, length:].any()
    # If all would be dropped, all are kept.
    expected = 1 - rate + rate**length
    assert np.abs(kept[:, :length].mean(axis=0) - expected).max() < 5 * (0.25 / samples) ** 0.5


def test_word_dropout_never_leaves_nothing() -> None:
    weights = averages(np.eye(6, dtype=bool), 0.99, 6)
    close(weights, np.eye(6))


# Convolutions


def convolved(x: np.ndarray, mask: np.ndarray, stacks: list[list[np.ndarray]]) -> np.ndarray:
    """Apply the equation to one sentence, (tokens, width); a stack is kernels and biases."""
    maxima = []
    for stack in stacks:
        y = x
        for kernel, bias in zip(stack[::2], stack[1::2], strict=True):
            y = np.where(mask[:, None], y, 0)
            before = (len(kernel) - 1) // 2
            padded = np.pad(y, ((before, len(kernel) - 1 - before), (0, 0)))
            windows = [padded[t : t + len(kernel)] for t in range(len(x))]
            y = np.maximum([np.einsum("kw,kwu->u", w, kernel) + bias for w in windows], 0)
        maxima.append(y[mask].max(axis=0) if mask.any() else np.zeros(y.shape[1]))
    return np.concatenate(maxima)


@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("length", [1, 2, 9])
def test_equation_of_convolutions(length: int, num_layers: int) -> None:
    """Includes masked tokens inside the sentence and windows wider than the sentence."""
    mask = np.random.default_rng(0).random((4, length)) < 0.6
    mask[-1] = False
    x = poisoned(tokens(1, 4, length, 3), mask)
    layer = ConvolutionalNetwork(5, widths=(2, 3, 5), num_layers=num_layers)
    layer.build(x.shape)
    randomize(layer)
    weights = layer.get_weights()
    step = 2 * num_layers
    stacks = [weights[first : first + step] for first in range(0, len(weights), step)]
    expected = [convolved(x[b], mask[b], stacks) for b in range(4)]
    close(array(layer(x, mask=mask)), expected)
