"""Positions as a learned softmax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from relation_tf.layers import SoftmaxPositionEncoding
from tests.backends import BACKEND, array, close, compiled, started, vjp
from tests.keras_testing import run_layer_test
from tests.layers import naive
from tests.layers.cases import poisoned, randomize, tokens
from tests.layers.test_masks import EXPLICIT, IDS, embedding, mask_of

SLOPE = np.array([0.0, 0.7, -0.4, 5.0], "float32")
needs_compiler = pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no XLA here")


def built(slope: Any = SLOPE, **arguments: Any) -> SoftmaxPositionEncoding:
    layer = SoftmaxPositionEncoding(**arguments)
    layer.build((None, None, len(slope)))
    layer.set_weights([np.asarray(slope, "float32")])
    return layer


def twin(x: np.ndarray, mask: np.ndarray, slope: Any = SLOPE) -> np.ndarray:
    """The equation on the kept tokens of each sequence, zeros elsewhere."""
    y = np.zeros(x.shape)
    for b, kept in enumerate(mask):
        y[b, kept] = naive.softmax_position_encoding(x[b, kept], slope)
    return y


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("length", [1, 3, 63])
def test_equation_and_gradients(length: int, gaps: bool) -> None:
    mask = np.ones((3, length), bool)
    if gaps:
        mask = np.random.default_rng(1).random((3, length)) < 0.6
        mask[:, -1] = True
        mask[-1] = False
    x, cotangent = poisoned(tokens(2, 3, length, 4), mask), tokens(3, 3, length, 4)
    layer = built()
    call = (lambda x: layer(x, mask=mask)) if gaps else layer
    output, [for_x], [for_slope] = vjp(call, [x], layer.weights, cotangent)
    wide, slope = x.astype("float64"), SLOPE.astype("float64")

    def loss() -> float:
        return float(np.sum(twin(wide, mask, slope) * cotangent))

    close(output, twin(wide, mask, slope))
    close(for_x, np.where(mask[..., None], naive.gradient(loss, wide), 0.0))
    close(for_slope, naive.gradient(loss, slope))


@pytest.mark.tensorflow  # JAX computes in float32.
def test_float64_is_float64_throughout() -> None:
    x = tokens(4, 2, 9, 4).astype("float64")
    output = keras.ops.convert_to_numpy(built(dtype="float64")(x))
    expected = twin(x, np.ones((2, 9), bool), SLOPE.astype("float64"))
    np.testing.assert_allclose(output, expected, rtol=1e-12, atol=1e-13)


def test_all_tokens_count_the_same_at_the_start() -> None:
    x = tokens(5, 2, 5, 3)
    close(array(SoftmaxPositionEncoding()(x)), x / 5)
    close(array(SoftmaxPositionEncoding(initializer="ones")(x)), twin(x, np.full((2, 5), True), 1))


@pytest.mark.parametrize("slope", [5.0, -5.0, 1e-3, -1e-3, 0.0, 1e4])
def test_ten_thousand_tokens(slope: float) -> None:
    length = 10_000
    x, cotangent = tokens(6, 1, length, 1), tokens(7, 1, length, 1)
    layer = built([slope])
    output, [for_x], [for_slope] = vjp(layer, [x], layer.weights, cotangent)
    wide = np.arange(length) * slope
    weights = np.exp(wide - wide.max())
    weights = (weights / weights.sum())[None, :, None]
    np.testing.assert_allclose(output, x * weights, rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(for_x, cotangent * weights, rtol=1e-4, atol=1e-12)
    position = np.arange(length)[None, :, None]
    spread = position - np.sum(position * weights)
    expected = np.sum(cotangent * x * weights * spread)
    scale = np.sum(np.abs(cotangent * x * weights * spread))
    np.testing.assert_allclose(for_slope, [expected], rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.parametrize("policy", ["float16", "bfloat16", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("length", [9, 10_000])
def test_half_precision_is_close_to_float32(policy: str, length: int) -> None:
    slope = np.array([0.0, 0.75, -0.5, 5.0], "float32")  # Exact in half precision.
    x = np.ones((2, length, 4), "float32")
    mask = np.arange(length) < np.array([[length], [length - 3]])
    layer = built(slope, dtype=policy)
    output = layer(x, mask=mask)
    compute = policy.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(output.dtype) == compute
    assert layer.weights[0].dtype == ("float32" if "mixed" in policy else compute)
    expected = array(built(slope)(x, mask=mask))
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3}[compute]
    # 1 / 10,000 is among the small numbers of float16, where steps are 6e-8.
    np.testing.assert_allclose(array(output), expected, rtol=tolerance, atol=6e-8)
    _, [for_x], [for_slope] = vjp(
        lambda x: keras.ops.cast(layer(x, mask=mask), "float32"), [x], layer.weights
    )
    assert np.isfinite(for_x).all()
    assert np.isfinite(for_slope.astype("float32")).all()


def test_mixed_precision_keeps_the_slope() -> None:
    """Rounded to bfloat16, the slope 0.3 would be off by 0.1 % and its power at 1,000 by 40 %."""
    x = np.ones((1, 1001, 1), "float32")
    weights = [array(built([0.3], dtype=p)(x)) for p in ("mixed_bfloat16", "float32")]
    np.testing.assert_allclose(*weights, rtol=8e-3, atol=1e-30)


def test_padding_changes_no_output_and_no_gradient() -> None:
    layer, x, cotangent = built(), tokens(8, 3, 5, 4), tokens(9, 3, 5, 4)
    kept = EXPLICIT[..., None]

    def gradients(x: np.ndarray, mask: np.ndarray, where: slice) -> Any:
        return vjp(lambda x: layer(x, mask=mask)[:, where], [x], layer.weights, cotangent)

    expected, [for_x], [for_slope] = gradients(x, EXPLICIT, slice(5))
    assert np.isfinite(expected).all()
    right, left = ((0, 0), (0, 4)), ((0, 0), (4, 0))
    for padded, mask, where in [
        (poisoned(x, EXPLICIT), EXPLICIT, slice(5)),
        (np.where(kept, x, np.float32(3e38)), EXPLICIT, slice(5)),
        (np.pad(x, (*right, (0, 0)), constant_values=np.nan), np.pad(EXPLICIT, right), slice(5)),
        (np.pad(x, (*left, (0, 0)), constant_values=np.inf), np.pad(EXPLICIT, left), slice(4, 9)),
    ]:
        output, [for_padded], [for_padded_slope] = gradients(padded, mask, where)
        close(output, expected)
        close(for_padded[:, where], for_x)
        assert not for_padded[~mask].any()
        close(for_padded_slope, for_slope)


@pytest.mark.parametrize("hold", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("slope", [1.0, -200.0, 200.0])
def test_a_sequence_masked_whole_gives_zeros_and_finite_gradients(
    hold: float, slope: float
) -> None:
    layer, x = built([slope] * 4), np.full((2, 3, 4), hold, "float32")
    mask = np.zeros((2, 3), bool)
    output, [for_x], [for_slope] = vjp(lambda x: layer(x, mask=mask), [x], layer.weights)
    assert not output.any()
    assert not for_x.any()
    assert not for_slope.any()


@pytest.mark.parametrize("slope", [-200.0, 200.0])
def test_steep_slopes_do_not_overflow_at_masked_tokens(slope: float) -> None:
    layer, mask = built([slope]), np.array([[False, False, True, True, False, False]])
    output, [for_x], [for_slope] = vjp(
        lambda x: layer(x, mask=mask), [np.ones((1, 6, 1), "float32")], layer.weights
    )
    expected = [0, 0, 0, 1, 0, 0] if slope > 0 else [0, 0, 1, 0, 0, 0]
    np.testing.assert_array_equal(output.ravel(), expected)
    np.testing.assert_array_equal(for_x.ravel(), expected)
    np.testing.assert_array_equal(for_slope, [0])


def test_mask_of_an_embedding_in_a_functional_model() -> None:
    layer, ids = built(), keras.Input((None,), dtype="int32")
    output = layer(embedding(mask_zero=True)(ids))
    assert output._keras_mask is not None
    expected = layer(embedding(mask_zero=False)(IDS), mask=IDS != 0)
    close(keras.Model(ids, output).predict(IDS, verbose=0), array(expected))


def test_output_carries_the_mask() -> None:
    output = built()(embedding(mask_zero=True)(IDS))
    np.testing.assert_array_equal(mask_of(output), IDS != 0)
    assert not array(output)[IDS == 0].any()


def test_explicit_mask_wins_over_the_attached_one() -> None:
    layer = built()
    output = layer(embedding(mask_zero=True)(IDS), mask=EXPLICIT)
    close(array(output), array(layer(embedding(mask_zero=False)(IDS), mask=EXPLICIT)))
    np.testing.assert_array_equal(mask_of(output), EXPLICIT)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_mask_of_another_type(dtype: str) -> None:
    layer, x = built(), tokens(10, 3, 5, 4)
    close(array(layer(x, mask=EXPLICIT.astype(dtype))), array(layer(x, mask=EXPLICIT)))


def test_lengths_that_are_not_known() -> None:
    layer, x = built(), keras.Input((None, 4))
    y = layer(x)
    assert y.shape == (None, None, 4)
    model = keras.Model(x, y)
    for length in (1, 3, 63):
        one = tokens(11, 2, length, 4)
        close(array(model(one)), twin(one, np.ones((2, length), bool)))


@needs_compiler
@pytest.mark.parametrize("xla", [True, False])
def test_compilation(xla: bool) -> None:
    layer, x = built(), tokens(12, 3, 5, 4)
    close(array(compiled(layer, xla=xla)(x)), array(layer(x)))
    masked = compiled(lambda x, mask: layer(x, mask=mask), xla=xla)
    close(array(masked(x, EXPLICIT)), array(layer(x, mask=EXPLICIT)))


def test_keras_contract() -> None:
    run_layer_test(
        SoftmaxPositionEncoding,
        {"initializer": "random_normal"},
        input_shape=(2, 5, 4),
        expected_output_shape=(2, 5, 4),
        expected_output_dtype="float32",
        expected_num_trainable_weights=1,
        expected_num_non_trainable_weights=0,
        expected_num_seed_generators=0,
        supports_masking=True,
    )


def test_every_argument_is_in_the_configuration() -> None:
    arguments = {
        "initializer": "ones",
        "name": "mine",
        "dtype": "mixed_bfloat16",
        "trainable": False,
    }
    config = SoftmaxPositionEncoding(**arguments).get_config()
    assert set(config) == set(arguments)
    again = SoftmaxPositionEncoding.from_config(config)
    assert again.get_config() == config
    assert isinstance(again.initializer, keras.initializers.Ones)
    assert (again.name, again.dtype_policy.name) == ("mine", "mixed_bfloat16")
    assert not again.trainable


def test_keras_file_round_trip(tmp_path: Path) -> None:
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(10, 4, mask_zero=True)(ids)
    model = keras.Model(ids, SoftmaxPositionEncoding()(x))
    randomize(model)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    expected = model.predict(IDS, verbose=0)
    np.testing.assert_allclose(again.predict(IDS, verbose=0), expected, rtol=1e-6, atol=1e-6)
    again.layers[-1].set_weights([SLOPE])
    assert not np.allclose(again.predict(IDS, verbose=0), expected)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 5), (2, 3, None), (3,)])
def test_wrong_shape(shape: tuple[int | None, ...]) -> None:
    message = r"^`x` must be of shape \(batch, tokens, width\) .* Received: x\.shape="
    with pytest.raises(ValueError, match=message) as caught:
        SoftmaxPositionEncoding().build(shape)
    assert str(caught.value).endswith(f"={shape}")


few = settings(max_examples=20, derandomize=True, deadline=None)


@few
@given(data=st.data())
def test_masked_tokens_might_as_well_not_be_there(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.sampled_from([1, 3]), st.sampled_from([1, 2, 5])))
    mask = data.draw(hnp.arrays(bool, shape))
    x = data.draw(hnp.arrays("float32", (*shape, 4), elements=st.floats(-3, 3, width=16)))
    layer = built()
    output = started(lambda x, mask: layer(x, mask=mask))(x, mask)
    assert not output[~mask].any()
    for one, kept, y in zip(x, mask, output, strict=True):
        if kept.any():
            close(y[kept], array(layer(one[None, kept]))[0])
            # The weights of each feature sum to one.
            weights = array(layer(np.ones_like(one)[None], mask=kept[None]))[0]
            np.testing.assert_allclose(weights.sum(axis=0), 1.0, rtol=1e-5)
