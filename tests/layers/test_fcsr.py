"""Full-context semantic representation."""

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

from relation_tf.layers import FCSR
from tests.backends import BACKEND, array, close, compiled, started, vjp
from tests.keras_testing import run_layer_test
from tests.layers import naive
from tests.layers.cases import poisoned, randomize, tokens
from tests.layers.test_masks import EXPLICIT, IDS, embedding, mask_of
from tests.layers.test_saving import Reader

WIDTH = 2
NAMES = ["integration_kernel", "integration_bias", "analysis_kernel", "analysis_bias"]
needs_compiler = pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no XLA here")


def built(decay: float = 0.2, window: int | None = None, width: int = WIDTH, **more: Any) -> FCSR:
    layer = FCSR(decay, window, **more)
    layer.build((None, None, width))
    randomize(layer)
    return layer


def weights(layer: FCSR) -> dict[str, np.ndarray]:
    arrays = layer.get_weights()
    return {v.name: w.astype("float64") for v, w in zip(layer.weights, arrays, strict=True)}


def twin(w: dict[str, np.ndarray], x: np.ndarray, mask: np.ndarray, layer: FCSR) -> np.ndarray:
    """The equations on the kept tokens of each sequence."""
    output = np.zeros((*x.shape[:2], 4 * x.shape[2]))
    for one, kept, row in zip(x, mask, output, strict=True):
        row[kept] = naive.fcsr(one[kept], w, layer.decay, layer.window)
    return output


def some(batch: int, length: int) -> np.ndarray:
    """A random mask with gaps that keeps nothing of the last sequence."""
    mask = np.random.default_rng(2).random((batch, length)) < 0.6
    mask[:, -1] = True
    mask[-1] = False
    return mask


@pytest.mark.parametrize("length", [1, 3, 63])
@pytest.mark.parametrize(
    ("decay", "window"), [(0, None), (0.2, None), (0.2, 3), (0.9, 100), (0.999, 1), (0.999, None)]
)
def test_equations_and_gradients(decay: float, window: int | None, length: int) -> None:
    layer, mask = built(decay, window), some(2, length)
    x, cotangent = tokens(0, 2, length, WIDTH), tokens(1, 2, length, 4 * WIDTH)
    output, [for_x], for_weights = vjp(
        lambda x: layer(x, mask=mask), [poisoned(x, mask)], layer.weights, cotangent
    )
    w, wide = weights(layer), x.astype("float64")
    close(output, twin(w, wide, mask, layer))

    def loss() -> float:
        # The last sequence is masked whole, and so zero whatever the weights.
        kept, rows = mask[0], naive.fcsr(wide[0][mask[0]], w, decay, window)
        return float(np.sum(rows * cotangent[0][kept]))

    for kept_or_weight, actual in zip([wide, *w.values()], [for_x, *for_weights], strict=True):
        close(actual, naive.gradient(loss, kept_or_weight))


def test_weights_and_their_order() -> None:
    layer = built(width=5)
    assert [v.name for v in layer.weights] == NAMES
    assert [v.shape for v in layer.weights] == [(15, 20), (20,), (15, 20), (20,)]


def test_by_hand() -> None:
    """The token 2 between 1 and 3."""
    layer = FCSR()
    layer.build((None, None, 1))
    zeros = np.zeros((3, 4))
    # Without kernels the gates are the biases, in the order q, k, v, o.
    layer.set_weights([zeros, np.array([1, 2, 3, 4]), zeros, np.array([1, 0, 0, 1])])
    output = array(layer(np.array([[[1.0], [2.0], [3.0]]], "float32")))
    c = 2 * 1 + 1 * 2 + 3 * 3
    close(output[0, 1], [c, 4 * np.tanh(c), 2, np.tanh(2)])


@pytest.mark.parametrize(
    "initializer",
    ["glorot_uniform", keras.initializers.RandomNormal(), keras.initializers.GlorotUniform()],
    ids=["name", "normal", "glorot"],
)
def test_the_cells_start_apart(initializer: Any) -> None:
    layer = FCSR(kernel_initializer=initializer)
    layer.build((None, None, 4))
    kernels = [w for w in layer.get_weights() if w.ndim == 2]
    assert not np.allclose(*kernels)


def test_no_mask_keeps_all() -> None:
    layer, x = built(), tokens(3, 2, 5, WIDTH)
    close(array(layer(x)), array(layer(x, mask=np.ones((2, 5), bool))))


@pytest.mark.tensorflow  # Keras multiplies matrices in float32 elsewhere.
def test_float64_is_float64_throughout() -> None:
    layer, mask = built(dtype="float64"), some(3, 9)
    x = tokens(4, 3, 9, WIDTH).astype("float64")
    output = keras.ops.convert_to_numpy(layer(x, mask=mask))
    w = {v.name: keras.ops.convert_to_numpy(v) for v in layer.weights}
    np.testing.assert_allclose(output, twin(w, x, mask, layer), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "mask", [EXPLICIT, np.arange(5) >= np.array([[0], [2], [4]])], ids=["gaps", "left"]
)
def test_padding_changes_no_output_and_no_gradient(mask: np.ndarray) -> None:
    layer, x, cotangent = built(), tokens(2, 3, 5, WIDTH), tokens(3, 3, 5, 4 * WIDTH)

    def gradients(x: np.ndarray, mask: np.ndarray, before: int = 0) -> Any:
        output, [for_x], for_weights = vjp(
            lambda x: layer(x, mask=mask)[:, before : before + 5], [x], layer.weights, cotangent
        )
        return output, for_x[:, before : before + 5], for_x[~mask], for_weights

    expected, for_x, _, for_weights = gradients(x, mask)
    assert np.isfinite(expected).all()
    assert not expected[~mask].any()
    for before, after in [(0, 0), (0, 4), (3, 0)]:
        longer = ((0, 0), (before, after))
        poison = np.pad(poisoned(x, mask), (*longer, (0, 0)), constant_values=np.inf)
        output, for_padded, for_padding, for_padded_weights = gradients(
            poison, np.pad(mask, longer), before
        )
        close(output, expected)
        close(for_padded, for_x)
        assert not for_padding.any()
        for actual, gradient in zip(for_padded_weights, for_weights, strict=True):
            close(actual, gradient)


@pytest.mark.parametrize("hold", [0.0, np.nan, np.inf])
def test_a_batch_masked_whole_gives_zeros_and_no_gradients(hold: float) -> None:
    layer, x = built(), np.full((2, 3, WIDTH), hold, "float32")
    output, [for_x], for_weights = vjp(
        lambda x: layer(x, mask=np.zeros((2, 3), bool)), [x], layer.weights
    )
    assert not output.any()
    assert not for_x.any()
    assert not any(gradient.any() for gradient in for_weights)


def test_mask_of_an_embedding_in_a_functional_model() -> None:
    layer = built(width=4)
    ids = keras.Input((None,), dtype="int32")
    output = layer(embedding(mask_zero=True)(ids))
    assert output._keras_mask is not None
    expected = layer(embedding(mask_zero=False)(IDS), mask=IDS != 0)
    close(keras.Model(ids, output).predict(IDS, verbose=0), array(expected))


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_masks_are_kept_and_an_explicit_one_wins(dtype: str) -> None:
    layer, embed = built(width=4), embedding(mask_zero=True)
    np.testing.assert_array_equal(mask_of(layer(embed(IDS))), IDS != 0)
    output = layer(embed(IDS), mask=EXPLICIT.astype(dtype))
    close(array(output), array(layer(embedding(mask_zero=False)(IDS), mask=EXPLICIT)))
    np.testing.assert_array_equal(mask_of(output).astype(bool), EXPLICIT)


@pytest.mark.parametrize("decay", [0.2, 0.999])
def test_lengths_that_are_not_known(decay: float) -> None:
    layer = built(decay)
    x, mask = keras.Input((None, WIDTH)), keras.Input((None,), dtype="bool")
    output = layer(x, mask=mask)
    assert output.shape == (None, None, 4 * WIDTH)
    model = keras.Model([x, mask], output)
    for length in (1, 63, 100):
        values, kept = tokens(6, 3, length, WIDTH), some(3, length)
        wide = values.astype("float64")
        close(array(model([values, kept])), twin(weights(layer), wide, kept, layer))


@pytest.mark.parametrize("policy", ["float16", "bfloat16", "mixed_float16", "mixed_bfloat16"])
def test_close_to_float32(policy: str) -> None:
    x, mask = tokens(0, 3, 9, WIDTH), some(3, 9)
    exact, layer = FCSR(), FCSR(dtype=policy)
    expected = exact(x, mask=mask)
    layer.build(x.shape)
    layer.set_weights([w.numpy() for w in exact.weights])
    output = layer(x, mask=mask)
    compute = policy.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(output.dtype) == compute
    assert {w.dtype for w in layer.weights} == {"float32" if "mixed" in policy else compute}
    close(array(output), array(expected), {"float16": 5e-3, "bfloat16": 4e-2}[compute])


def test_contexts_are_not_summed_in_float16() -> None:
    """Gates of Gk alone pass the left context of the last of 20,000 ones: 1,000."""
    layer = FCSR(0.999, dtype="float16")
    layer.build((None, None, 1))
    zeros = np.zeros((3, 4))
    layer.set_weights([zeros, np.array([0, 1, 0, 0]), zeros, zeros[0]])
    output = array(layer(np.ones((1, 20_000, 1), "float16")))
    np.testing.assert_allclose(output[0, -1], [1000, 0, 0, 0], rtol=1e-3)


@needs_compiler
@pytest.mark.parametrize("xla", [True, False])
@pytest.mark.parametrize("decay", [0.2, 0.999])
def test_xla_changes_no_output(decay: float, xla: bool) -> None:
    layer, x, mask = built(decay), tokens(0, 3, 40, WIDTH), some(3, 40)
    run = compiled(lambda x, mask: layer(x, mask=mask), xla=xla)
    close(array(run(x, mask)), twin(weights(layer), x.astype("float64"), mask, layer))


def classifier(**arguments: Any) -> keras.Model:
    ids = keras.Input((None,), dtype="int32")
    x = FCSR(0.9, name="fcsr", **arguments)(keras.layers.Embedding(10, 4, mask_zero=True)(ids))
    model = keras.Model(ids, keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(x)))
    randomize(model)
    return model


@pytest.mark.tensorflow
def test_xla_changes_no_training() -> None:
    """In one graph for batches of two lengths, one with padding at the end, one with a gap."""
    import tensorflow as tf

    labels = np.array([0, 1])
    batches = [
        np.array([[5, 2, 9, 0, 0], [1, 3, 3, 7, 7]]),
        np.array([[5, 0, 9], [4, 4, 6]]),
    ]

    def trained(*, xla: bool) -> list[np.ndarray]:
        model = classifier()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=xla)
        specs = (tf.TensorSpec((None, None), "int64"), tf.TensorSpec((None,), "int64"))
        data = tf.data.Dataset.from_generator(
            lambda: ((ids, labels) for ids in batches), output_signature=specs
        )
        model.fit(data.apply(tf.data.experimental.assert_cardinality(2)), verbose=0, shuffle=False)
        return model.get_weights()

    for one, other in zip(trained(xla=True), trained(xla=False), strict=True):
        close(one, other)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"decay": 0.9, "window": 2, "kernel_regularizer": "l2", "bias_regularizer": "l1"}],
    ids=["plain", "regularized"],
)
def test_keras_contract(arguments: dict[str, Any]) -> None:
    run_layer_test(
        FCSR,
        arguments,
        input_shape=(2, 5, 4),
        expected_output_shape=(2, 5, 16),
        expected_output_dtype="float32",
        expected_num_trainable_weights=4,
        expected_num_non_trainable_weights=0,
        expected_num_seed_generators=0,
        expected_num_losses=4 if arguments else 0,
        supports_masking=True,
    )


def test_every_argument_is_in_the_configuration() -> None:
    arguments = {
        "decay": 0.5,
        "window": 3,
        "kernel_initializer": "he_normal",
        "bias_initializer": "ones",
        "kernel_regularizer": "l2",
        "bias_regularizer": "l1",
        "name": "mine",
        "dtype": "mixed_bfloat16",
        "trainable": False,
    }
    config = FCSR(**arguments).get_config()
    assert set(config) == set(arguments)
    again = FCSR.from_config(config)
    assert again.get_config() == config
    assert (again.decay, again.window, again.name, again.trainable) == (0.5, 3, "mine", False)
    assert again.dtype_policy.name == "mixed_bfloat16"
    assert isinstance(again.kernel_initializer, keras.initializers.HeNormal)
    assert isinstance(again.bias_initializer, keras.initializers.Ones)
    assert isinstance(again.kernel_regularizer, keras.regularizers.L2)
    assert isinstance(again.bias_regularizer, keras.regularizers.L1)


def functional(layer: FCSR) -> keras.Model:
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(10, 4, mask_zero=True)(ids)
    return keras.Model(ids, keras.layers.Dense(2)(layer(x)))


@pytest.mark.parametrize("make_model", [functional, Reader])
def test_keras_file_round_trip(make_model: Any, tmp_path: Path) -> None:
    model = make_model(FCSR(0.7, 2))
    started = model.predict(IDS, verbose=0)
    randomize(model)
    changed = model.predict(IDS, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    close(again.predict(IDS, verbose=0), changed, 1e-6)
    assert not np.allclose(changed, started)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decay": 1.5}, r"`decay` must be in \[0, 1\)\. Received: decay=1\.5$"),
        ({"decay": -1}, r"Received: decay=-1$"),
        ({"window": 0}, r"`window` must be a positive integer or None\. Received: window=0$"),
        ({"window": 2.0}, r"Received: window=2\.0$"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FCSR(**arguments)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 5), (2, 3, None), (3,)])
def test_wrong_shape(shape: tuple[int | None, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"`x` must be of shape \(batch, tokens, width\)"
    ) as caught:
        FCSR().build(shape)
    assert str(caught.value).endswith(f"x.shape={shape}")


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
    return started(lambda x, mask: layer(x, mask=mask))


@few
@given(batch=batches())
def test_masked_tokens_might_as_well_not_be_there(batch: Any) -> None:
    """Nor the other sequences of the batch."""
    x, mask = batch
    for one, kept, output in zip(x, mask, function()(x, mask), strict=True):
        if kept.any():
            close(output[kept][None], function()(one[None, kept], kept[None, kept]))
        assert not output[~kept].any()
