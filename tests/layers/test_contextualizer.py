"""Contextualizer, with both algorithms; `test_contract` compares them with the equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relation_tf.layers import Contextualizer, contextualizer
from tests.backends import array, close, close_gradients, vjp, with_unknown_length
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


@both_algorithms
def test_long_documents_do_not_overflow_float16(algorithm: str) -> None:
    """A sum of 70,000 ones is infinite in float16."""
    x = np.ones((1, 70_000, WIDTH), "float16") * np.arange(1, 5, dtype="float16")
    arguments = {"algorithm": algorithm, "kernel_initializer": "ones"}
    output = array(made(dtype="float16", **arguments)(x))
    close(output, array(made(**arguments)(x.astype("float32"))), 2e-3)
