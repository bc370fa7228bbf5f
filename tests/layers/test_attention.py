"""Algorithms of attention: equal outputs, without the full matrix of weights; heads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from relation_tf.layers import Attention, Relation, attention
from tests.backends import BACKEND, array, close, close_gradients, started, vjp
from tests.layers import cases, naive
from tests.layers.cases import meant, poisoned, some, tokens

FORMS: list[dict[str, Any]] = [
    {"units": 6},
    {"units": 3, "use_bias": True},  # Narrower than the input, so that K and V are formed.
    {"units": 3, "causal": True},
    {"units": 6, "causal": True, "use_bias": True},
]
all_forms = pytest.mark.parametrize("form", FORMS, ids=str)
WIDTH = 4


@pytest.fixture
def chunks_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small chunks, so that short sequences have several."""
    monkeypatch.setattr(attention, "_CHUNK", 4)


def built(algorithm: str, **arguments: Any) -> Attention:
    layer = Attention(**arguments, algorithm=algorithm)
    layer.build((None, None, WIDTH))
    # Weights independent of the order in which a backend draws them.
    layer.set_weights([tokens(i, *w.shape) for i, w in enumerate(layer.weights)])
    return layer


def gradients(
    layer: Attention, arrays: list[np.ndarray], masks: dict[str, np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the output and the gradients of inputs and weights."""
    cotangent = tokens(9, *arrays[0].shape[:2], layer.units)
    output, for_inputs, for_weights = vjp(
        lambda *inputs: layer(*inputs, **masks), arrays, layer.weights, cotangent
    )
    return output, [*for_inputs, *for_weights]


def check(
    form: dict[str, Any],
    arrays: list[np.ndarray],
    masks: dict[str, np.ndarray],
    tolerance: float = 1e-5,
    algorithm: str = "chunked",
) -> None:
    """Compare with the direct formula; errors of gradients are relative to the largest gradient.

    If softmax is 1, its gradient is 0 in the formula and a rounding error here.
    """
    expected, expected_gradients = gradients(built("direct", **form), arrays, masks)
    output, actual_gradients = gradients(built(algorithm, **form), arrays, masks)
    close(output, expected, tolerance)
    close_gradients(actual_gradients, expected_gradients, max(tolerance, 1e-4))


@pytest.mark.parametrize("length", [1, 13])
@all_forms
@pytest.mark.usefixtures("chunks_of_four")
def test_one_input_of_several_chunks(form: dict[str, Any], length: int) -> None:
    mask = some(1, 3, length)
    check(form, [poisoned(tokens(0, 3, length, WIDTH), mask)], {"query_mask": mask})


@pytest.mark.parametrize(("queries", "length"), [(13, 1), (11, 6)])
@all_forms
@pytest.mark.usefixtures("chunks_of_four")
def test_two_inputs_of_several_chunks(form: dict[str, Any], queries: int, length: int) -> None:
    masks = {"query_mask": some(1, 3, queries), "value_mask": some(2, 3, length)}
    masks["query_mask"][-1] = True  # Queries without unmasked tokens.
    arrays = [
        poisoned(tokens(3, 3, queries, WIDTH), masks["query_mask"]),
        poisoned(tokens(4, 3, length, WIDTH), masks["value_mask"]),
    ]
    check(form, arrays, masks)


@all_forms
def test_fused_with_fully_masked_tokens(form: dict[str, Any]) -> None:
    masks = {"query_mask": some(1, 3, 7), "value_mask": some(2, 3, 300)}
    masks["query_mask"][-1] = True  # Queries without unmasked tokens.
    query = poisoned(tokens(3, 3, 7, WIDTH), masks["query_mask"])
    value = poisoned(tokens(4, 3, 300, WIDTH), masks["value_mask"])
    check(form, [query, value], masks, algorithm="fused")
    nothing = np.zeros((3, 300), bool)
    output, all_gradients = gradients(built("fused", **form), [value], {"query_mask": nothing})
    assert not output.any()
    assert not any(gradient.any() for gradient in all_gradients)


@pytest.mark.usefixtures("chunks_of_four")
def test_many_tokens_do_not_overflow_float16() -> None:
    """A sum of 70,000 ones is infinite in float16."""
    layer = Attention(2, kernel_initializer="ones", dtype="float16", algorithm="chunked")
    ones = np.ones((1, 70_000, 2), "float16")
    layer.build(ones.shape)
    output, _, [*_, for_values] = vjp(lambda x: layer(x[:, :5], x), [ones], layer.weights)
    close(output, np.full((1, 5, 2), 2.0), 5e-3)
    close(for_values, np.full((2, 2), 5.0), 5e-3)


@all_forms
@pytest.mark.usefixtures("chunks_of_four")
def test_unknown_lengths(form: dict[str, Any]) -> None:
    query, value = keras.Input((None, WIDTH)), keras.Input((None, WIDTH))
    layer, expected = built("auto", **form), built("direct", **form)
    model = keras.Model([query, value], [layer(query), layer(query, value)])
    for queries, length in [(1, 1), (3, 9), (9, 4), (13, 13)]:
        q, v = tokens(6, 2, queries, WIDTH), tokens(7, 2, length, WIDTH)
        one, two = model([q, v])
        close(array(one), array(expected(q)))
        close(array(two), array(expected(q, v)))


@pytest.mark.parametrize("shape", [(0, 7), (2, 0)])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_empty_inputs(shape: tuple[int, int], dropout: float) -> None:
    """The last batch of a replica may be empty."""
    layer = built("chunked", units=3, dropout=dropout)
    output, [for_x], _ = vjp(
        lambda x: layer(x, training=True), [tokens(0, *shape, WIDTH)], layer.weights
    )
    assert output.shape == (*shape, 3)
    assert for_x.shape == (*shape, WIDTH)


# Compilation


# Memory


def shapes_of_a_step(layer: Any, length: int) -> Iterator[tuple[Any, ...]]:
    """Return the shapes of all tensors of a compiled step, with its gradient."""
    x, mask = tokens(0, 2, length, WIDTH), np.ones((2, length), bool)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        @tf.function(autograph=False)
        def step(x: Any, mask: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = ops.sum(layer(x, query_mask=mask, training=True) ** 2)
            return tape.gradient(loss, [x, *(w.value for w in layer.trainable_weights)])

        graph = step.get_concrete_function(tf.constant(x), tf.constant(mask)).graph
        definition = graph.as_graph_def(add_shapes=True)
        nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
        for node in nodes:
            for shape in node.attr["_output_shapes"].list.shape:
                yield tuple(axis.size for axis in shape.dim)
        return
    import jax
    from jax.extend.core import jaxprs_in_params

    def loss(x: Any, weights: Any) -> Any:
        mapping = zip(layer.trainable_weights, weights, strict=True)
        with keras.StatelessScope(state_mapping=mapping):
            return ops.sum(layer(x, query_mask=mask, training=True) ** 2)

    def shapes(jaxpr: Any) -> Iterator[tuple[Any, ...]]:
        for equation in jaxpr.eqns:
            for variable in equation.outvars:
                yield tuple(variable.aval.shape)
            for inner in jaxprs_in_params(equation.params):
                yield from shapes(inner)

    values = [w.value for w in layer.trainable_weights]
    yield from shapes(jax.make_jaxpr(jax.grad(loss, argnums=(0, 1)))(x, values).jaxpr)


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no graph here")
@pytest.mark.parametrize(("dropout", "causal"), [(0.0, False), (0.5, True)])
def test_no_tensor_holds_all_weights(dropout: float, causal: bool) -> None:
    length = 1031

    def shapes(algorithm: str) -> list[tuple[Any, ...]]:
        layer = built(algorithm, units=6, dropout=dropout, causal=causal)
        return list(shapes_of_a_step(layer, length))

    def largest(algorithm: str) -> int:
        return max(int(np.prod(shape)) for shape in shapes(algorithm))

    assert largest("factored") >= 2 * length**2
    assert largest("auto") <= 2 * length * 512
    # The weights of different chunks are not stored together either.
    assert all(shape.count(length) < 2 for shape in shapes("auto"))


# Dropout


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.75])
@pytest.mark.usefixtures("chunks_of_four")
def test_weights_are_dropped_independently(rate: float) -> None:
    """With V = I, outputs are the weights."""
    length, samples = 9, 1500
    seed_generator = keras.random.SeedGenerator(3)
    queries = np.zeros((samples, length, length), "float32")
    eye = np.repeat(np.eye(length, dtype="float32")[None], samples, axis=0)
    weights = array(
        attention.chunked_attention(queries, eye, eye, dropout=rate, seed_generator=seed_generator)
    )
    kept = weights > 0
    np.testing.assert_allclose(weights[kept], 1 / length / (1 - rate), rtol=1e-4)
    pairs = np.cov(kept.reshape(samples, -1).T)  # (81, 81)
    variance = rate * (1 - rate)
    assert np.abs(kept.mean(axis=0) - (1 - rate)).max() < 5 * (variance / samples) ** 0.5
    np.testing.assert_allclose(np.diag(pairs), variance, atol=0.05)
    assert np.abs(pairs - np.diag(np.diag(pairs))).max() < 6 * variance / samples**0.5


@pytest.mark.parametrize("form", FORMS[:2], ids=str)
@pytest.mark.usefixtures("chunks_of_four")
def test_gradient_uses_the_dropout_mask_of_the_output(form: dict[str, Any]) -> None:
    """Compare with central differences along one direction, with equal seeds."""
    arguments = {**form, "dropout": 0.5, "seed": 1}
    x, mask = tokens(0, 2, 13, WIDTH), np.arange(13) < np.array([[13], [6]])
    cotangent = tokens(1, 2, 13, form["units"])
    layer = built("chunked", **arguments)
    arrays = [x, *layer.get_weights()]
    _, for_inputs, for_weights = vjp(
        lambda x: layer(x, query_mask=mask, training=True), [x], layer.trainable_weights, cotangent
    )

    def loss(step: float) -> float:
        again = built("chunked", **arguments)
        moved = [w + step * d for w, d in zip(arrays, directions, strict=True)]
        again.set_weights(moved[1:])
        output = again(moved[0].astype("float32"), query_mask=mask, training=True)
        return float(np.sum(array(output).astype("float64") * cotangent))

    directions = [tokens(30 + i, *w.shape) for i, w in enumerate(arrays)]
    pairs = zip([*for_inputs, *for_weights], directions, strict=True)
    slope, step = sum(np.sum(gradient * d) for gradient, d in pairs), 2e-3
    assert (loss(step) - loss(-step)) / (2 * step) == pytest.approx(slope, rel=1e-2, abs=0.05)


@pytest.mark.skipif(BACKEND != "torch", reason="PyTorch records no graph in a custom gradient")
@all_forms
def test_second_derivatives_on_pytorch(form: dict[str, Any], chunks_of_four: None) -> None:
    import torch

    def penalty(algorithm: str) -> Any:
        x = torch.tensor(tokens(0, 2, 6, WIDTH), requires_grad=True)
        output = (built(algorithm, **form)(x) ** 2).sum()
        (slope,) = torch.autograd.grad(output, x, create_graph=True)
        return torch.autograd.grad((slope**2).sum(), x)[0]

    close(penalty("chunked"), array(penalty("direct")), 1e-4)


# Heads


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("algorithm", ["auto", "direct", "factored", "chunked", "fused"])
def test_heads_of_attention(algorithm: str, causal: bool) -> None:
    layer = cases.built(Attention(6, 2, algorithm=algorithm, causal=causal, use_bias=True))
    run = started(lambda x, mask: layer(x, query_mask=mask))
    for length in (7, 600):
        x, mask = tokens(0, 2, length, 4), some(1, 2, length)
        wanted = meant(layer, partial(naive.attention, num_heads=2), x, mask)
        close(run(poisoned(x, mask), mask), wanted)


@pytest.mark.parametrize("layer", [Attention, Relation])
def test_numbers_of_heads_that_do_not_divide_the_units(layer: type) -> None:
    with pytest.raises(ValueError, match=r"must divide `units`. Received: units=6, num_heads=4"):
        layer(6, num_heads=4)
