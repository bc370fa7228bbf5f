"""Contextualizer, with both algorithms; `test_contract` compares them with the equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relation_tf.layers import Contextualizer, SoftmaxPositionEncoding, contextualizer
from tests.backends import (
    BACKEND,
    array,
    close,
    close_gradients,
    compiled,
    vjp,
    with_unknown_length,
)
from tests.layers import naive
from tests.layers.cases import built, some, tokens, weights_of

RANK, WIDTH, STEPS = 3, 4, 2
CROSSOVER = 3  # 2 N m r K > N m^2 + K m^2 r for N >= 4.
PER_STEP = ["w_kernel", "u_kernel", "v_kernel", "bias", "scale", "offset"]

both_algorithms = pytest.mark.parametrize("algorithm", ["tokens", "moments"])


def made(**arguments: Any) -> Contextualizer:
    return Contextualizer(**{"rank": RANK, "num_steps": STEPS, **arguments})


def start(layer: Contextualizer, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the initial context of the next call; zero scale and offset add nothing to it."""
    same = Contextualizer.from_config(layer.get_config())
    same.build(x.shape)
    for variable, value in zip(same.weights, layer.get_weights(), strict=True):
        variable.assign(0 * value if variable.name.startswith(("scale", "offset")) else value)
    return array(same(x, mask=mask)).astype("float64")


def twin(
    w: dict[str, np.ndarray], x: np.ndarray, mask: np.ndarray, starts: np.ndarray
) -> np.ndarray:
    """Apply the equation to the unmasked tokens of each document."""
    documents = zip(x, mask, starts, strict=True)
    return np.stack([naive.contextualizer(d[kept], w, c, STEPS) for d, kept, c in documents])


@both_algorithms
def test_uniform_context_follows_the_equation(algorithm: str) -> None:
    x, mask = tokens(7, 3, 5, WIDTH), some(8, 3, 5)
    layer = built(made(algorithm=algorithm, initial_context="uniform", seed=1))
    starts = start(layer, x, mask)
    close(array(layer(x, mask=mask)), twin(weights_of(layer), x.astype("float64"), mask, starts))


def test_empty_document() -> None:
    layer = built(made(initial_context="learned"))
    w = weights_of(layer)
    expected = w["context"] + w["offset_1"] + w["offset_2"]
    x = np.full((1, 3, WIDTH), np.nan, "float32")
    close(array(layer(x, mask=np.zeros((1, 3), bool))), expected[None])
    close(array(layer(x[:, :0])), expected[None])


def test_order_of_weights() -> None:
    layer = built(made(initial_context="learned"))
    steps = [f"{name}_{k}" for k in (1, 2) for name in PER_STEP]
    assert [w.name for w in layer.weights] == ["context", *steps]
    shapes = [(RANK, WIDTH), (WIDTH, RANK), (WIDTH, RANK), (WIDTH,), (WIDTH,), (WIDTH,)]
    assert [tuple(w.shape) for w in layer.weights] == [(WIDTH,), *shapes, *shapes]


@pytest.mark.parametrize(("length", "chosen"), [(CROSSOVER, "tokens"), (CROSSOVER + 1, "moments")])
def test_auto_selects_the_algorithm_with_fewer_multiplications(
    length: int, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"tokens": "moments", "moments": "tokens"}[chosen]
    layer, x = built(made()), tokens(12, 2, length, WIDTH)
    expected = array(layer(x))
    monkeypatch.delattr(contextualizer, f"_by_{other}")
    close(array(layer(x)), expected)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("xla", "initial_context"),
    [(False, "uniform"), (True, "learned")],
)
def test_length_unknown_at_trace_time(initial_context: str, xla: bool) -> None:
    layers = [
        built(made(algorithm=algorithm, initial_context=initial_context, seed=1))
        for algorithm in ("auto", "tokens", "moments")
    ]
    auto, *others = (lambda x, mask, layer=layer: layer(x, mask=mask) for layer in layers)
    run = with_unknown_length(auto, [tokens(15, 2, 1, WIDTH), some(16, 2, 1)], xla)
    for length in (CROSSOVER, CROSSOVER + 1) if xla else (1, CROSSOVER, CROSSOVER + 1, 63):
        x, mask = tokens(15, 2, length, WIDTH), some(16, 2, length)
        output, gradients = run(x, mask)
        for other in others:
            expected, for_x, _ = vjp(lambda x, mask=mask, call=other: call(x, mask), [x], [])
            close(output, expected, 1e-4)
            close_gradients(gradients, for_x)


@pytest.mark.tensorflow
def test_auto_selects_at_run_time_for_unknown_lengths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import tensorflow as tf

    by_moments = contextualizer._by_moments
    monkeypatch.setattr(contextualizer, "_by_moments", lambda x: by_moments(x * np.nan))
    run = tf.function(built(made()), input_signature=[tf.TensorSpec((None, None, WIDTH))])
    lengths = range(1, 7)
    by_tokens = [np.isfinite(run(tokens(17, 2, n, WIDTH)).numpy()).all() for n in lengths]
    assert by_tokens == [length <= CROSSOVER for length in lengths]


def test_uniform_context_is_sampled_for_each_call() -> None:
    """Samples differ between documents and calls; equal seeds give equal samples."""
    x = np.repeat(tokens(22, 1, 5, WIDTH), 2, axis=0)

    def calls(seed: int) -> list[np.ndarray]:
        layer = built(made(initial_context="uniform", seed=seed))
        return [array(layer(x, training=training)) for training in (False, False, True)]

    outputs = calls(1)
    np.testing.assert_array_equal(calls(1), outputs)
    different = [*np.concatenate(outputs), *calls(100)[0]]
    for i, one in enumerate(different):
        for other in different[:i]:
            assert np.abs(one - other).max() > 1e-3


def test_uniform_context_is_uniform() -> None:
    layer, samples = made(initial_context="uniform", seed=1), 5000
    x, nothing = np.zeros((samples, 1, WIDTH), "float32"), np.zeros((samples, 1), bool)
    drawn = array(layer(x, mask=nothing))  # Initial offsets are zero.
    assert drawn.min() >= -1
    assert drawn.max() <= 1
    quantiles = np.quantile(drawn, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    expected = np.array([[-0.9, -0.5, 0, 0.5, 0.9]]).T
    np.testing.assert_allclose(quantiles, np.repeat(expected, WIDTH, axis=1), rtol=0, atol=0.06)


@both_algorithms
def test_long_documents_do_not_overflow_float16(algorithm: str) -> None:
    """A sum of 70,000 ones is infinite in float16."""
    x = np.ones((1, 70_000, WIDTH), "float16") * np.arange(1, 5, dtype="float16")
    arguments = {"algorithm": algorithm, "kernel_initializer": "ones"}
    output = array(made(dtype="float16", **arguments)(x))
    close(output, array(made(**arguments)(x.astype("float32"))), 2e-3)


@both_algorithms
def test_ten_thousand_tokens_with_positions(algorithm: str) -> None:
    x, mask = tokens(24, 1, 10_000, WIDTH), np.ones((1, 10_000), bool)
    positions = SoftmaxPositionEncoding()
    positions.build(x.shape)
    slope = np.array([0.0, 1e-3, -5.0, 5.0], "float32")
    positions.set_weights([slope])
    layer = built(made(algorithm=algorithm))
    document = naive.softmax_position_encoding(x[0].astype("float64"), slope.astype("float64"))
    close(
        array(layer(positions(x))),
        twin(weights_of(layer), document[None], mask, np.ones((1, WIDTH))),
        1e-3,
    )


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no XLA here")
def test_compilation_of_uniform_context() -> None:
    """On TensorFlow XLA samples other numbers from the same distribution."""
    layer = made(initial_context="uniform", seed=1)
    x, nothing = np.zeros((2, 1, WIDTH), "float32"), np.zeros((2, 1), bool)
    layer.build(x.shape)
    drawn = array(compiled(lambda x: layer(x, mask=nothing), xla=True)(x))
    assert np.abs(drawn).max() <= 1
    assert len(np.unique(drawn)) == drawn.size
