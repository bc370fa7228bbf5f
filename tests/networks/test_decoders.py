"""Encoder-decoders: equations, padding, steps, files and training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from relation_tf.layers import Relation, SinePositionEncoding
from relation_tf.networks import (
    encoder,
    recurrent_encoder_decoder,
    sequence_loss,
    transformer_encoder_decoder,
)
from relation_tf.networks.decoders import Decoder, LuongEncoderDecoder, TransformerEncoderDecoder
from tests.backends import BACKEND, array, close, compiled, vjp
from tests.layers.cases import close_slopes, randomize

SOURCE, TARGET, UNITS = 9, 7, 4
# A full row, a padded row, an empty row.
SOURCES = np.array([[3, 4, 5, 6, 8], [7, 3, 0, 0, 0], [0, 0, 0, 0, 0]])
TARGETS = np.array([[1, 5, 3, 6, 2, 4], [1, 4, 4, 0, 0, 0], [1, 3, 0, 6, 5, 0]])
KEPT = TARGETS != 0

Make = Callable[..., Any]


def transformer(mechanism: Any, **arguments: Any) -> Make:
    def make(**more: Any) -> Any:
        return transformer_encoder_decoder(
            SOURCE, TARGET, UNITS, mechanism, source_heads=2, **{**arguments, **more}
        )

    return make


def recurrent(**arguments: Any) -> Any:
    return recurrent_encoder_decoder(SOURCE, TARGET, UNITS, **arguments)


def luong(cell: str, attention: str) -> Make:
    def make(**more: Any) -> Any:
        return recurrent(cell=cell, attention=attention, **more)

    return make


LUONG = {
    "dot": luong("gru", "dot"),
    "general": luong("lstm", "general"),
    "concat": luong("gru", "concat"),
    "none": luong("lstm", "none"),
}
MAKE = {
    "gru": recurrent,
    **LUONG,
    "relation": transformer("relation", num_layers=1),
    "linear-attention": transformer("linear-attention", num_layers=1),
    "attention-post": transformer("attention", num_layers=1, norm="post"),
    "two mechanisms": transformer("multi-head-attention", decoder_mechanism="relation"),
}
every = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)


def built(make: Make, **arguments: Any) -> Any:
    model = make(**arguments)
    model.build()
    randomize(model)
    return model


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def gru_after(x: np.ndarray, s: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """Keras's GRU, with the reset gate after the matrix: each gate has two biases."""
    kernel, recurrent, (input_bias, recurrent_bias) = weights
    given = np.split(x @ kernel + input_bias, 3)
    own = np.split(s @ recurrent + recurrent_bias, 3)
    z, r = sigmoid(given[0] + own[0]), sigmoid(given[1] + own[1])
    return z * s + (1 - z) * np.tanh(given[2] + r * own[2])


def gru_before(x: np.ndarray, s: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """GRU of Bahdanau et al., appendix A.1.1, with the reset gate before the matrix."""
    (w_z, w_r, w), (u_z, u_r, u) = (np.split(matrix, 3, axis=1) for matrix in weights[:2])
    b_z, b_r, b = np.split(weights[2], 3)
    z, r = sigmoid(x @ w_z + s @ u_z + b_z), sigmoid(x @ w_r + s @ u_r + b_r)
    return z * s + (1 - z) * np.tanh(x @ w + (r * s) @ u + b)


def naive_recurrent(weights: list[np.ndarray], source: np.ndarray, target: np.ndarray) -> Any:
    """Return logits `(tokens, vocabulary)` and attention of one pair of unmasked tokens."""
    embed_source, embed_target = weights[:2]
    forward, backward = weights[2:5], weights[5:8]
    first, first_bias, w, u, v, *cell = weights[8:16]
    hidden, hidden_bias, last, last_bias = weights[16:]
    states = []
    for one, x in ((forward, embed_source[source]), (backward, embed_source[source][::-1])):
        s = np.zeros(UNITS)
        states.append([s := gru_after(row, s, one) for row in x])
    h = np.concatenate([states[0], states[1][::-1]], axis=1)
    s = np.tanh(h[0, UNITS:] @ first + first_bias)
    logits, attention = [], []
    for x in embed_target[target]:
        a = softmax((np.tanh(s @ w + h @ u) @ v)[:, 0])
        context = a @ h
        s = gru_before(np.concatenate([x, context]), s, cell)
        read = np.tanh(np.concatenate([s, context, x]) @ hidden + hidden_bias)
        logits.append(read @ last + last_bias)
        attention.append(a)
    return np.array(logits), np.array(attention)


def lstm(x: np.ndarray, s: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """LSTM; the state is `h` followed by the cell."""
    h, cell = np.split(s, 2)
    kernel, recurrent, bias = weights
    i, f, new, o = np.split(x @ kernel + h @ recurrent + bias, 4)
    cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(new)
    return np.concatenate([sigmoid(o) * np.tanh(cell), cell])


def naive_score(attention: str, matrices: list[np.ndarray], s: np.ndarray, h: np.ndarray) -> float:
    """Return Luong's score of a state of the source."""
    if attention == "concat":
        of_s, of_h, v = matrices
        return (np.tanh(s @ of_s + h @ of_h) @ v)[0]
    return s @ (matrices[0] @ h if attention == "general" else h)


def naive_luong(
    model: Any, weights: list[np.ndarray], source: np.ndarray, target: np.ndarray
) -> Any:
    """Return logits `(tokens, vocabulary)` and attention of one pair of unmasked tokens."""
    after, size = (gru_after, UNITS) if model.cell == "gru" else (lstm, 2 * UNITS)
    embed_source, embed_target, *rest = weights
    reader, writer, (*scoring, last, last_bias) = rest[:3], rest[3:6], rest[6:]
    s, h = np.zeros(size), []
    for x in embed_source[source]:
        s = after(x, s, reader)
        h.append(s[:UNITS])
    logits, attention = [], []
    for x in embed_target[target]:
        s = after(x, s, writer)
        read, a = s[:UNITS], np.zeros(len(h))
        if model.attention != "none":
            *matrices, hidden = scoring
            scores = [naive_score(model.attention, matrices, read, one) for one in h]
            a = softmax(np.array(scores))
            read = np.tanh(np.concatenate([a @ np.array(h), read]) @ hidden)
        logits.append(read @ last + last_bias)
        attention.append(a)
    return np.array(logits), np.array(attention)


def luong_weights(model: Any) -> list[Any]:
    """Return the weights in the order of the naive implementation."""
    parts = [model.source_embedding, model.target_embedding, model.encoder, model.decoder]
    parts += [model.attend, model.hidden] if model.attention != "none" else []
    return [variable for part in [*parts, model.logits] for variable in part.trainable_variables]


def recurrent_weights(model: Any) -> list[Any]:
    """Return the weights in the order of the naive implementation."""
    parts = (model.source_embedding, model.target_embedding, model.encoder, model.first,
             model.attention, model.cell, model.hidden, model.logits)  # fmt: skip
    return [variable for part in parts for variable in part.trainable_variables]


def naive_of(model: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Return the naive implementation of a recurrent model and its variables."""
    if isinstance(model, LuongEncoderDecoder):
        return partial(naive_luong, model), luong_weights(model)
    return naive_recurrent, recurrent_weights(model)


def steps_of(model: Any, targets: np.ndarray = TARGETS) -> tuple[np.ndarray, np.ndarray]:
    """Return logits and attention, computed by steps of one token."""
    state = model.initial_state(SOURCES, max_length=targets.shape[1])
    logits, attention = [], []
    for i in range(targets.shape[1]):
        one, state, weights = model.step(targets[:, i : i + 1], state)
        logits.append(array(one))
        attention.append(array(weights))
    return np.concatenate(logits, axis=1), np.concatenate(attention, axis=1)


@pytest.mark.parametrize("name", ["gru", *LUONG])
def test_recurrent_equations(name: str) -> None:
    model = built(MAKE[name])
    naive, variables = naive_of(model)
    weights = [array(variable) for variable in variables]
    logits, attention = array(model([SOURCES, TARGETS])), steps_of(model)[1]
    for row in range(2):
        source, kept = SOURCES[row][SOURCES[row] != 0], KEPT[row]
        expected, weighed = naive(weights, source, TARGETS[row][kept])
        close(logits[row][kept], expected)
        close(attention[row][kept][:, : len(source)], weighed)


@pytest.mark.parametrize("name", ["gru", *LUONG])
def test_recurrent_gradients(name: str) -> None:
    """Compare slopes along a direction with the naive implementation."""
    model = built(MAKE[name])
    rng = np.random.default_rng(3)
    naive, variables = naive_of(model)
    weights = [array(variable).astype("float64") * 0.5 for variable in variables]
    for variable, value in zip(variables, weights, strict=True):
        variable.assign(value.astype("float32"))
    rows = slice(0, 2)
    cotangent = rng.normal(size=(2, TARGETS.shape[1], TARGET)) * KEPT[rows, :, None]
    _, _, gradients = vjp(
        lambda: model([SOURCES[rows], TARGETS[rows]]), [], variables, cotangent.astype("float32")
    )

    def loss() -> float:
        return sum(
            (naive(weights, source[source != 0], target[kept])[0] * slopes[kept]).sum()
            for source, target, kept, slopes in zip(
                SOURCES[rows], TARGETS[rows], KEPT[rows], cotangent, strict=True
            )
        )

    close_slopes(loss, weights, gradients, 1e-3)


def normalized(x: np.ndarray, norm: Any) -> np.ndarray:
    scale, shift = (array(variable) for variable in norm.weights)
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    return (x - x.mean(axis=-1, keepdims=True)) / deviation * scale + shift


def affine(x: np.ndarray, dense: Any) -> np.ndarray:
    return x @ array(dense.kernel) + array(dense.bias)


def heads_over(x: np.ndarray, memory: np.ndarray, layer: Any) -> np.ndarray:
    """Compute multi-head attention by loops over heads and rows."""
    q, k, v = affine(x, layer.query), affine(memory, layer.key), affine(memory, layer.value)
    heads = []
    for own in np.split(np.arange(UNITS), layer.num_heads):
        scores = q[:, own] @ k[:, own].T / np.sqrt(len(own))
        heads.append(softmax(scores) @ v[:, own])
    return affine(np.concatenate(heads, axis=-1), layer.output_dense)


def attend_back(x: np.ndarray, mixer: Any) -> np.ndarray:
    """Compute causal attention with one head by a loop over queries."""
    q, k, v = (x @ array(w) for w in (mixer.query_kernel, mixer.key_kernel, mixer.value_kernel))
    rows = [softmax(q[i] @ k[: i + 1].T / np.sqrt(UNITS)) @ v[: i + 1] for i in range(len(x))]
    return np.array(rows)


def decoder_block(x: np.ndarray, memory: np.ndarray, block: Any) -> np.ndarray:
    parts = (
        (block.mixer_norm, lambda x: attend_back(x, block.mixer)),
        (block.look_norm, lambda x: heads_over(x, memory, block.look)),
        (
            block.feed_norm,
            lambda x: affine(np.maximum(affine(x, block.hidden), 0), block.output_dense),
        ),
    )
    for norm, part in parts:
        before = block.norm == "pre"
        x = x + part(normalized(x, norm)) if before else normalized(x + part(x), norm)
    return x


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_transformer_equations(norm: str) -> None:
    model = built(transformer("attention", norm=norm))
    logits = array(model([SOURCES, TARGETS]))

    def embedded(embedding: Any, ids: np.ndarray) -> np.ndarray:
        x = array(embedding.embeddings)[ids] * np.sqrt(UNITS)
        return array(SinePositionEncoding()(x[None].astype("float32")))[0]

    for row in range(2):
        kept = KEPT[row]
        source = embedded(model.source_embedding, SOURCES[row][SOURCES[row] != 0])
        memory = array(model.encoder(source[None]))[0]
        x = embedded(model.target_embedding, TARGETS[row][kept])
        for block in model.decoder.blocks:
            x = decoder_block(x, memory, block)
        if norm == "pre":
            x = normalized(x, model.decoder.closing)
        close(logits[row][kept], affine(x, model.logits))


@every
def test_one_token_at_a_time_equals_the_whole(make: Make) -> None:
    model = built(make)
    logits, attention = steps_of(model)
    close(logits, array(model([SOURCES, TARGETS])))
    assert (attention >= 0).all()
    has_source = (SOURCES != 0).any(axis=1)[:, None]
    weighed = KEPT & has_source & (getattr(model, "attention", "") != "none")
    close(attention.sum(axis=-1), weighed)
    assert not (attention * (SOURCES == 0)[:, None]).any()


@every
def test_padding_changes_nothing_and_gets_zeros(make: Make) -> None:
    model = built(make)
    logits = array(model([SOURCES, TARGETS]))
    longer = [np.pad(ids, ((0, 0), (0, 3))) for ids in (SOURCES, TARGETS)]
    close(array(model(longer))[:, : TARGETS.shape[1]], logits)
    close(array(model([SOURCES[1:2, :2], TARGETS[1:2, :3]])), logits[1:2, :3])
    assert np.isfinite(logits).all()
    assert not logits[~KEPT].any()


@pytest.mark.parametrize("name", ["gru", "general", "two mechanisms"])
def test_a_file_keeps_it(name: str, tmp_path: Path) -> None:
    model = built(MAKE[name], dropout=0.2, seed=5, name="mine")
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        array(again([SOURCES, TARGETS])), array(model([SOURCES, TARGETS]))
    )
    assert (again.dropout, again.seed, again.name) == (0.2, model.seed, "mine")


@pytest.mark.skipif(BACKEND == "torch", reason="has no compilation here")
def test_a_step_can_be_compiled() -> None:
    model = built(MAKE["relation"])
    step = compiled(model.step, xla=BACKEND == "jax")
    state = model.initial_state(SOURCES, max_length=6)
    for i in range(2):
        logits, state, _ = step(ops.convert_to_tensor(TARGETS[:, i : i + 1]), state)
    close(array(logits), array(model([SOURCES, TARGETS]))[:, 1:2], 1e-4)


@pytest.mark.parametrize("name", ["gru", "concat", "relation"])
def test_dropout_in_training_only_and_by_its_seed(name: str) -> None:
    def trained(seed: int) -> np.ndarray:
        model = built(MAKE[name], dropout=0.5, seed=seed)
        close(array(model([SOURCES, TARGETS])), array(model([SOURCES, TARGETS], training=False)))
        return array(model([SOURCES, TARGETS], training=True))

    first = trained(1)
    np.testing.assert_array_equal(trained(1), first)
    assert np.abs(trained(2) - first).max() > 1e-3


def test_seeds_and_options_reach_the_stacks() -> None:
    model = transformer_encoder_decoder(
        SOURCE, TARGET, 8, "linear-attention", options={"normalization": "none"}, seed=3
    )
    model.build()
    seeds = {model.seed, model.encoder.seed, model.decoder.seed}
    assert len(seeds) == 3
    default = transformer_encoder_decoder(SOURCE, TARGET, 8, "linear-attention")
    default.build()
    for each, normalization in ((model, "none"), (default, "sum")):
        for stack in (each.encoder, each.decoder):
            assert [one.mixer.normalization for one in stack.blocks] == [normalization] * 2
    other = transformer_encoder_decoder(
        SOURCE, TARGET, 8, "linear-attention", "relation", options={"normalization": "none"}
    )
    other.build()
    assert type(other.decoder.blocks[0].mixer) is Relation


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: recurrent_encoder_decoder(0, 7, 4), r"Received: source_vocabulary=0$"),
        (lambda: recurrent_encoder_decoder(9, 7, 0), r"Received: units=0$"),
        (lambda: recurrent(attention="sum"), r"Received: attention='sum'$"),
        (lambda: recurrent(cell="lstm"), r"unless cell='gru'\. Received: .*cell='lstm'$"),
        (lambda: luong("rnn", "dot")(), r"one of 'gru', 'lstm'\. Received: cell='rnn'$"),
        (lambda: recurrent(dropout=1.0), r"must be a number in \[0, 1\)\. Received: dropout=1\.0$"),
        (
            lambda: transformer_encoder_decoder(9, 7, 6, "relation"),
            r"divisible by `source_heads`\. Received: units=6, source_heads=4$",
        ),
        (
            lambda: TransformerEncoderDecoder(
                encoder("relation", units=8), Decoder("relation", units=4), 9, 7
            ),
            r"must have the same `units`\. Received: encoder\.units=8, decoder\.units=4$",
        ),
        (lambda: recurrent().initial_state(SOURCES, 0), r"Received: max_length=0$"),
        (
            lambda: Decoder("relation", units=8)(np.zeros((1, 3, 8), "float32")),
            r"`source` must be the output of `project`\. Received: None",
        ),
    ],
)
def test_wrong_arguments(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_loss_is_that_of_the_unmasked_tokens() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 3, 5)).astype("float32")
    targets = np.array([[4, 2, 0], [1, 0, 0]])
    p = softmax(logits)
    expected = -np.mean(np.log([p[0, 0, 4], p[0, 1, 2], p[1, 0, 1]]))
    close(array(sequence_loss(targets, logits)), expected)
    assert float(sequence_loss(np.zeros((2, 3), int), logits)) == 0.0
