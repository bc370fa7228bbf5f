"""Attention of features to features."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from relation_tf.layers import FeatureAttention
from tests.backends import BACKEND, array, close, compiled, started, vjp
from tests.keras_testing import run_layer_test
from tests.layers import naive
from tests.layers.cases import poisoned, randomize, tokens
from tests.layers.test_masks import EXPLICIT, IDS, embedding
from tests.layers.test_saving import Reader

UNITS, WIDTH = 3, 4
needs_compiler = pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no XLA here")


def built(**arguments: Any) -> FeatureAttention:
    layer = FeatureAttention(UNITS, **arguments)
    layer.build((None, None, WIDTH))
    randomize(layer)
    return layer


def weights(layer: FeatureAttention) -> dict[str, np.ndarray]:
    arrays = layer.get_weights()
    return {v.name: w.astype("float64") for v, w in zip(layer.weights, arrays, strict=True)}


def twin(w: dict[str, np.ndarray], r: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The equation on the kept tokens of each sequence."""
    return np.stack(
        [naive.feature_attention(one[kept], w) for one, kept in zip(r, mask, strict=True)]
    )


def some(batch: int, length: int) -> np.ndarray:
    """A random mask with gaps that keeps nothing of the last sequence."""
    mask = np.random.default_rng(2).random((batch, length)) < 0.6
    mask[:, -1] = True
    mask[-1] = False
    return mask


@pytest.mark.parametrize("length", [1, 3, 63])
def test_equation_and_gradients(length: int) -> None:
    layer, mask = built(), some(3, length)
    # Sums of about 1, so that what cancels in float32 is as small at any length.
    r, cotangent = tokens(0, 3, length, WIDTH) / np.float32(length**0.5), tokens(1, 3, UNITS)
    output, [for_r], for_weights = vjp(
        lambda r: layer(r, mask=mask), [poisoned(r, mask)], layer.weights, cotangent
    )
    w, wide = weights(layer), r.astype("float64")
    close(output, twin(w, wide, mask))

    def loss() -> float:
        return float(np.sum(twin(w, wide, mask) * cotangent))

    for x, actual in zip([wide, *w.values()], [for_r, *for_weights], strict=True):
        close(actual, naive.gradient(loss, x))


def test_weights_and_their_order() -> None:
    layer = built()
    assert [v.name for v in layer.weights] == ["query_kernel", "key_kernel", "feature_kernel"]
    assert [v.shape for v in layer.weights] == [(WIDTH, UNITS), (WIDTH, UNITS), (UNITS, 1)]


@pytest.mark.parametrize(
    "initializer", ["glorot_uniform", keras.initializers.RandomNormal()], ids=["name", "normal"]
)
def test_queries_and_keys_start_apart(initializer: Any) -> None:
    layer = FeatureAttention(UNITS, kernel_initializer=initializer)
    layer.build((None, None, WIDTH))
    assert not np.allclose(*layer.get_weights()[:2])


def test_no_mask_keeps_all() -> None:
    layer, r = built(), tokens(3, 2, 5, WIDTH)
    close(array(layer(r)), array(layer(r, mask=np.ones((2, 5), bool))))


@pytest.mark.tensorflow  # Keras multiplies matrices in float32 elsewhere.
def test_float64_is_float64_throughout() -> None:
    layer, mask = built(dtype="float64"), some(3, 9)
    r = tokens(4, 3, 9, WIDTH).astype("float64")
    output = keras.ops.convert_to_numpy(layer(r, mask=mask))
    w = {v.name: keras.ops.convert_to_numpy(v) for v in layer.weights}
    np.testing.assert_allclose(output, twin(w, r, mask), rtol=1e-12, atol=1e-12)


def test_padding_changes_no_output_and_no_gradient() -> None:
    layer, r, cotangent = built(), tokens(2, 3, 5, WIDTH), tokens(3, 3, UNITS)

    def gradients(r: np.ndarray, mask: np.ndarray) -> Any:
        return vjp(lambda r: layer(r, mask=mask), [r], layer.weights, cotangent)

    expected, [for_r], for_weights = gradients(r, EXPLICIT)
    assert np.isfinite(expected).all()
    for before, after in [(0, 0), (0, 4), (3, 0)]:
        longer = ((0, 0), (before, after))
        mask = np.pad(EXPLICIT, longer)
        poison = np.pad(poisoned(r, EXPLICIT), (*longer, (0, 0)), constant_values=np.inf)
        output, [for_padded], for_padded_weights = gradients(poison, mask)
        close(output, expected)
        close(for_padded[:, before : before + 5], for_r)
        assert not for_padded[~mask].any()
        for actual, gradient in zip(for_padded_weights, for_weights, strict=True):
            close(actual, gradient)


@pytest.mark.parametrize("hold", [0.0, np.nan, np.inf])
def test_a_batch_masked_whole_gives_zeros_and_no_gradients(hold: float) -> None:
    layer, r = built(), np.full((2, 3, WIDTH), hold, "float32")
    output, [for_r], for_weights = vjp(
        lambda r: layer(r, mask=np.zeros((2, 3), bool)), [r], layer.weights
    )
    assert not output.any()
    assert not for_r.any()
    assert not any(gradient.any() for gradient in for_weights)


def test_mask_of_an_embedding_ends_here() -> None:
    layer = built()
    ids = keras.Input((None,), dtype="int32")
    output = layer(embedding(mask_zero=True)(ids))
    assert getattr(output, "_keras_mask", None) is None
    expected = layer(embedding(mask_zero=False)(IDS), mask=IDS != 0)
    close(keras.Model(ids, output).predict(IDS, verbose=0), array(expected))


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_explicit_mask_wins_over_the_attached_one(dtype: str) -> None:
    layer = built()
    output = layer(embedding(mask_zero=True)(IDS), mask=EXPLICIT.astype(dtype))
    close(array(output), array(layer(embedding(mask_zero=False)(IDS), mask=EXPLICIT)))


def test_lengths_that_are_not_known() -> None:
    layer = built()
    r, mask = keras.Input((None, WIDTH)), keras.Input((None,), dtype="bool")
    output = layer(r, mask=mask)
    assert output.shape == (None, UNITS)
    model = keras.Model([r, mask], output)
    for length in (1, 63):
        values, kept = tokens(6, 3, length, WIDTH), some(3, length)
        close(array(model([values, kept])), twin(weights(layer), values.astype("float64"), kept))


@pytest.mark.parametrize("policy", ["float16", "bfloat16", "mixed_float16", "mixed_bfloat16"])
def test_close_to_float32(policy: str) -> None:
    r, mask = tokens(0, 3, 9, WIDTH), some(3, 9)
    exact, layer = FeatureAttention(UNITS), FeatureAttention(UNITS, dtype=policy)
    expected = exact(r, mask=mask)
    layer.build(r.shape)
    layer.set_weights([w.numpy() for w in exact.weights])
    output = layer(r, mask=mask)
    compute = policy.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(output.dtype) == compute
    assert {w.dtype for w in layer.weights} == {"float32" if "mixed" in policy else compute}
    close(array(output), array(expected), {"float16": 5e-3, "bfloat16": 4e-2}[compute])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_are_not_made_in_half_precision(dtype: str) -> None:
    """70,000 ones are infinite in float16, and 256 in bfloat16, before the last matrix."""
    layer = FeatureAttention(1, kernel_initializer="ones", dtype=dtype)
    layer.build((None, None, 1))
    layer.set_weights([np.ones((1, 1)), np.ones((1, 1)), np.full((1, 1), 2.0**-10)])
    output = array(layer(np.ones((1, 70_000, 1), dtype="float32")))
    np.testing.assert_allclose(output, [[70_000 / 1024]], rtol=4e-3)


@needs_compiler
@pytest.mark.parametrize("xla", [True, False])
def test_xla_changes_no_output(xla: bool) -> None:
    layer, r, mask = built(), tokens(0, 3, 9, WIDTH), some(3, 9)
    run = compiled(lambda r, mask: layer(r, mask=mask), xla=xla)
    close(array(run(r, mask)), twin(weights(layer), r.astype("float64"), mask))


@needs_compiler
def test_xla_changes_no_training() -> None:
    def trained(*, xla: bool) -> list[np.ndarray]:
        ids = keras.Input((None,), dtype="int32")
        x = FeatureAttention(UNITS)(keras.layers.Embedding(10, 4, mask_zero=True)(ids))
        model = keras.Model(ids, keras.layers.Dense(2)(x))
        randomize(model)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=xla)
        model.train_on_batch(IDS, np.array([0, 1, 1]))
        return model.get_weights()

    for one, other in zip(trained(xla=True), trained(xla=False), strict=True):
        close(one, other)


@pytest.mark.parametrize("arguments", [{}, {"kernel_regularizer": "l2"}], ids=["plain", "l2"])
def test_keras_contract(arguments: dict[str, Any]) -> None:
    run_layer_test(
        FeatureAttention,
        {"units": UNITS, **arguments},
        input_shape=(2, 5, 4),
        expected_output_shape=(2, UNITS),
        expected_output_dtype="float32",
        expected_num_trainable_weights=3,
        expected_num_non_trainable_weights=0,
        expected_num_seed_generators=0,
        expected_num_losses=3 if arguments else 0,
        supports_masking=True,
    )


def test_every_argument_is_in_the_configuration() -> None:
    arguments = {
        "units": 7,
        "kernel_initializer": "he_normal",
        "kernel_regularizer": "l2",
        "name": "mine",
        "dtype": "mixed_bfloat16",
        "trainable": False,
    }
    config = FeatureAttention(**arguments).get_config()
    assert set(config) == set(arguments)
    again = FeatureAttention.from_config(config)
    assert again.get_config() == config
    assert (again.units, again.name, again.trainable) == (7, "mine", False)
    assert again.dtype_policy.name == "mixed_bfloat16"
    assert isinstance(again.kernel_initializer, keras.initializers.HeNormal)
    assert isinstance(again.kernel_regularizer, keras.regularizers.L2)


def functional(layer: FeatureAttention) -> keras.Model:
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(10, 4, mask_zero=True)(ids)
    return keras.Model(ids, keras.layers.Dense(2)(layer(x)))


@pytest.mark.parametrize("make_model", [functional, Reader])
def test_keras_file_round_trip(make_model: Any, tmp_path: Path) -> None:
    model = make_model(FeatureAttention(UNITS))
    started = model.predict(IDS, verbose=0)
    randomize(model)
    changed = model.predict(IDS, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    close(again.predict(IDS, verbose=0), changed, 1e-6)
    assert not np.allclose(changed, started)


@pytest.mark.parametrize(
    ("units", "received"),
    [(0, "0"), (-3, "-3"), (2.5, r"2\.5"), (True, "True"), ("many", "'many'"), (None, "None")],
)
def test_wrong_units(units: Any, received: str) -> None:
    message = rf"^`units` must be a positive integer\. Received: units={received}$"
    with pytest.raises(ValueError, match=message):
        FeatureAttention(units)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 5), (2, 3, None), (3,)])
def test_wrong_shape(shape: tuple[int | None, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"`r` must be of shape \(batch, tokens, width\)"
    ) as caught:
        FeatureAttention(UNITS).build(shape)
    assert str(caught.value).endswith(f"r.shape={shape}")


few = settings(
    max_examples=10,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (batch, tokens, width) and a mask."""
    shape = draw(st.tuples(st.sampled_from([1, 3]), st.sampled_from([1, 2, 5])))
    mask = draw(hnp.arrays(bool, shape))
    return draw(hnp.arrays("float32", (*shape, WIDTH), elements=st.floats(-3, 3, width=16))), mask


@cache
def function() -> Callable[..., np.ndarray]:
    layer = built()
    return started(lambda r, mask: layer(r, mask=mask))


@few
@given(batch=batches())
def test_masked_tokens_might_as_well_not_be_there(batch: Any) -> None:
    """Nor the other sequences of the batch."""
    r, mask = batch
    for one, kept, output in zip(r, mask, function()(r, mask), strict=True):
        if kept.any():
            close(output[None], function()(one[None, kept], kept[None, kept]))


@few
@given(batch=batches(), data=st.data())
def test_order_does_not_matter(batch: Any, data: st.DataObject) -> None:
    r, mask = batch
    order = np.array(data.draw(st.permutations(range(r.shape[1]))))
    close(function()(r[:, order], mask[:, order]), function()(r, mask))
