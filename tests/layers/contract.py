"""Contract of all layers with one input `x` and a mask.

A test module imports all names and defines the fixture `case`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from relation_tf.networks.recurrent import RecurrentNetwork
from tests.backends import BACKEND, array, close, close_gradients, compiled, started, vjp
from tests.keras_testing import run_layer_test
from tests.layers.cases import poisoned, randomize, tokens

WIDTH = 4
SIZES = ("units", "rank", "filter_width")
LENGTHS = [4, 1, 2]
SENTENCES = tokens(0, 3, 4, WIDTH)
MASK = np.arange(4) < np.array(LENGTHS)[:, None]
IDS = np.array([[5, 2, 9, 7], [1, 0, 0, 0], [3, 3, 0, 0]])
# Half an ulp of 1 is 5e-4 in float16 and 4e-3 in bfloat16; a few roundings follow each other.
TOLERANCE = {"float16": 1e-2, "bfloat16": 8e-2}


@dataclass(frozen=True, eq=False)
class Case:
    """Variant of a layer, for inputs of width 4."""

    layer: Callable[..., Any]
    arguments: Mapping[str, Any]
    output_width: int
    output_type: str = "vector"
    empty_is_zero: bool = True

    def __str__(self) -> str:
        values = (f"{name}={value}" for name, value in self.arguments.items())
        return "-".join([self.layer.__name__, *values])

    def make(self, **arguments: Any) -> Any:
        return self.layer(**{**self.arguments, **arguments})

    def shape(self, batch: int | None, length: int | None) -> tuple[int | None, ...]:
        """Shape of the output."""
        tokens = (length,) if self.output_type == "tokens" else ()
        return (batch, *tokens, self.output_width)


def built(case: Case, **arguments: Any) -> Any:
    layer = case.make(**arguments)
    layer.build((None, None, WIDTH))
    randomize(layer)
    return layer


def run(layer: Any) -> Callable[..., np.ndarray]:
    """Return the layer as a function of two arrays: tokens and mask (or None)."""
    return started(lambda x, mask: layer(x, mask=mask))


def embedding(mask_zero: bool) -> keras.layers.Embedding:
    layer = keras.layers.Embedding(10, WIDTH, mask_zero=mask_zero)
    layer.build()
    layer.set_weights([tokens(1, 10, WIDTH)])
    return layer


def test_keras_contract(case: Case) -> None:
    run_layer_test(
        case.layer,
        dict(case.arguments),
        input_shape=(2, 5, WIDTH),
        expected_output_shape=case.shape(2, 5),
        expected_output_dtype="float32",
        supports_masking=True,
        run_mixed_precision_check=False,  # Tested below, with values.
    )


def test_sentences_are_independent(case: Case) -> None:
    encode = run(built(case))
    together = encode(SENTENCES, MASK)
    for sentence, length, output in zip(SENTENCES, LENGTHS, together, strict=True):
        alone = encode(sentence[None, :length], None)[0]
        close(output[:length] if case.output_type == "tokens" else output, alone)


def test_padding_changes_no_output_and_no_gradient(case: Case) -> None:
    """Vary the values, number and side of padded tokens."""
    layer = built(case)
    x = poisoned(SENTENCES, MASK)
    cotangent = tokens(2, *case.shape(3, 4))

    def gradients(before: int, after: int) -> Any:
        around = ((0, 0), (before, after))
        mask = np.pad(MASK, around)
        kept = slice(before, before + 4)

        def encode(x: Any) -> Any:
            y = layer(x, mask=mask)
            return y[:, kept] if case.output_type == "tokens" else y

        padded = np.pad(x, (*around, (0, 0)), constant_values=np.nan)
        output, [for_x], for_weights = vjp(encode, [padded], layer.trainable_weights, cotangent)
        assert not for_x[~mask].any()
        return output, for_x[:, kept], for_weights

    clean, [for_clean], for_clean_weights = vjp(
        lambda x: layer(x, mask=MASK), [SENTENCES], layer.trainable_weights, cotangent
    )
    assert np.isfinite(clean).all()
    wanted = [for_clean, *for_clean_weights]
    for before, after in ((0, 0), (2, 1)):
        output, for_x, for_weights = gradients(before, after)
        close(output, clean)
        close_gradients([for_x, *for_weights], wanted, 1e-5)


@pytest.mark.parametrize("hold", [np.nan, np.inf])
def test_fully_masked_sentence(case: Case, hold: float) -> None:
    layer = built(case)
    x, mask = np.full((2, 3, WIDTH), hold, "float32"), np.zeros((2, 3), bool)
    output, [for_x], for_weights = vjp(lambda x: layer(x, mask=mask), [x], layer.trainable_weights)
    assert np.isfinite(output).all()
    assert output.any() != case.empty_is_zero
    assert not for_x.any()
    assert all(np.isfinite(gradient).all() for gradient in for_weights)


def test_attached_and_explicit_masks(case: Case) -> None:
    layer = built(case)
    ids = keras.Input((None,), dtype="int32")
    output = layer(embedding(mask_zero=True)(ids))
    assert output.shape == case.shape(None, None)
    assert (getattr(output, "_keras_mask", None) is not None) == (case.output_type == "tokens")
    model = keras.Model(ids, output)
    bare, encode = embedding(mask_zero=False), run(layer)
    for length in (4, 1):
        expected = encode(bare(IDS[:, :length]), IDS[:, :length] != 0)
        close(array(model(IDS[:, :length])), expected)
    # The explicit mask overrides the attached mask.
    explicit = np.array([[True, True, True, False], [True] * 4, [True, False, True, False]])
    marked = layer(embedding(mask_zero=True)(IDS), mask=explicit)
    if case.output_type == "tokens":
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(marked._keras_mask), explicit)
    output = array(marked)
    close(output, encode(bare(IDS), explicit.astype("float32")))
    assert np.abs(output - encode(bare(IDS), IDS != 0)).max() > 1e-4


@pytest.mark.parametrize("policy", ["float16", "mixed_bfloat16"])
def test_half_precision_is_close_to_float32(case: Case, policy: str) -> None:
    if BACKEND == "jax" and "num_heads" in case.arguments and policy == "float16":
        pytest.skip("JAX compiles no dot_product_attention in float16 for a CPU")
    recurrent = case.layer is RecurrentNetwork and not policy.startswith("mixed")
    # Keras has no orthogonal initializer in half precision: some backends lack this QR.
    drawn = {"recurrent_initializer": "glorot_uniform"} if recurrent else {}
    exact, layer = case.make(), case.make(dtype=policy, **drawn)
    exact.build(SENTENCES.shape)
    randomize(exact)
    layer.build(SENTENCES.shape)
    layer.set_weights(exact.get_weights())
    expected = run(exact)(SENTENCES, MASK)
    dtypes = []

    def encode(x: Any, mask: Any) -> Any:
        y = layer(x, mask=mask)
        dtypes.append(keras.backend.standardize_dtype(y.dtype))
        return y

    output = started(encode)(poisoned(SENTENCES, MASK), MASK)
    compute = policy.removeprefix("mixed_")
    assert dtypes == [compute]
    trained = {w.dtype for w in layer.trainable_weights}
    assert trained == {"float32" if "mixed" in policy else compute}
    close(output, expected, TOLERANCE[compute])


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no XLA here")
def test_compiled(case: Case) -> None:
    layer = built(case)

    def call(x: Any, mask: Any) -> Any:
        return layer(x, mask=mask)

    close(array(compiled(call, xla=True)(SENTENCES, MASK)), array(call(SENTENCES, MASK)))


def test_keras_file_round_trip(case: Case, tmp_path: Path) -> None:
    ids = keras.Input((None,), dtype="int32")
    y = case.make()(keras.layers.Embedding(10, WIDTH, mask_zero=True)(ids))
    model = keras.Model(ids, keras.layers.Dense(2)(y))
    randomize_trainable(model)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    close(started(again)(IDS), started(model)(IDS), 1e-6)
    for one, other in zip(model.trainable_weights, again.trainable_weights, strict=True):
        np.testing.assert_array_equal(array(one), array(other))


def randomize_trainable(model: Any) -> None:
    """Assign values different from initial values."""
    rng = np.random.default_rng(3)
    for variable in model.trainable_weights:
        variable.assign(rng.normal(size=variable.shape).astype("float32"))


def test_configuration(case: Case) -> None:
    layer = case.make(name="mine", dtype="mixed_bfloat16", trainable=False)
    config = layer.get_config()
    again = type(layer).from_config(config)
    assert again.get_config() == config
    named = {
        name
        for name, parameter in inspect.signature(type(layer).__init__).parameters.items()
        if name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    }
    assert {"name", "dtype", "trainable", *named, *case.arguments} <= set(config)
    for name, value in case.arguments.items():
        assert config[name] == value
    with pytest.raises((TypeError, ValueError), match="unitz"):
        case.make(unitz=3)


@pytest.mark.parametrize("shape", [(2, 4), (2, 3, None), (2, 3, 4, 5)])
def test_a_wrong_shape(case: Case, shape: Any) -> None:
    with pytest.raises(ValueError, match=r"must have shape \(batch, tokens, width\)") as caught:
        case.make().build(shape)
    assert str(caught.value).endswith(f".shape={shape}")


def test_a_wrong_size(case: Case) -> None:
    size = next((name for name in SIZES if name in case.arguments), None)
    if size is None:
        pytest.skip("has no size")
    for value in (0, -3, 2.5, True, "many"):
        message = rf"`{size}` must be a positive .*{size}={value!r}$"
        with pytest.raises(ValueError, match=message):
            case.make(**{size: value})
