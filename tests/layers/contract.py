"""Contract of all layers with one input `x` and a mask.

A test module imports all names and defines the fixture `case`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.backends import array, close, close_gradients, started, vjp
from tests.keras_testing import run_layer_test
from tests.layers.cases import built, close_slopes, poisoned, some, tokens, weights_of

WIDTH = 4
SENTENCES = tokens(0, 3, 4, WIDTH)
MASK = np.arange(4) < np.array([4, 2, 0])[:, None]
IDS = np.array([[5, 2, 9, 7], [1, 0, 0, 0], [3, 3, 0, 0]])
TOLERANCE = 8e-2  # Half an ulp of 1 is 4e-3 in bfloat16; a few roundings follow each other.


@dataclass(frozen=True, eq=False)
class Case:
    """Variant of a layer, for inputs of width 4.

    Attributes:
        equation: Function of the unmasked tokens of one sentence and the weights by name.
        skips_gaps: If True, the equation also holds for tokens around a masked one.
    """

    layer: Callable[..., Any]
    arguments: Mapping[str, Any]
    output_width: int
    output_type: str = "vector"
    equation: Callable[..., np.ndarray] | None = None
    skips_gaps: bool = True

    def __str__(self) -> str:
        values = (f"{name}={value}" for name, value in self.arguments.items())
        return "-".join([self.layer.__name__, *values])

    def make(self, **arguments: Any) -> Any:
        return self.layer(**{**self.arguments, **arguments})

    def shape(self, batch: int | None, length: int | None) -> tuple[int | None, ...]:
        """Shape of the output."""
        tokens = (length,) if self.output_type == "tokens" else ()
        return (batch, *tokens, self.output_width)

    def mask(self, length: int) -> np.ndarray:
        """Mask of three sentences; all tokens of the last one are masked."""
        if self.skips_gaps:
            return some(1, 3, length)
        return np.arange(length) < np.array([length, (length + 1) // 2, 0])[:, None]

    def outputs(self, x: np.ndarray, mask: np.ndarray, w: Mapping[str, np.ndarray]) -> np.ndarray:
        """Apply the equation to each sentence; zero at masked tokens."""
        assert self.equation is not None
        rows = [self.equation(one[kept], w) for one, kept in zip(x, mask, strict=True)]
        if self.output_type == "vector":
            return np.stack(rows)
        output = np.zeros((*mask.shape, self.output_width))
        output[mask] = np.concatenate(rows)
        return output


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


@pytest.mark.parametrize("length", [1, 63])
def test_equation_and_gradients(case: Case, length: int) -> None:
    """With gaps in the masks, NaN at masked tokens and a sentence of masked tokens only."""
    if case.equation is None:
        pytest.skip("has an own test")
    layer, mask = built(case.make()), case.mask(length)
    x, cotangent = tokens(2, 3, length, WIDTH), tokens(3, *case.shape(3, length))
    output, [for_x], for_weights = vjp(
        lambda x: layer(x, mask=mask), [poisoned(x, mask)], layer.weights, cotangent
    )
    w, wide = weights_of(layer), x.astype("float64")

    def loss() -> float:
        return float(np.sum(case.outputs(wide, mask, w) * cotangent))

    close(output, case.outputs(wide, mask, w))
    close_slopes(loss, [wide, *w.values()], [for_x, *for_weights])
    assert not for_x[~mask].any()


def test_padding_changes_no_output_and_no_gradient(case: Case) -> None:
    """Vary the values, number and side of padded tokens; one sentence is padding only."""
    if case.equation is not None:
        pytest.skip("the equation has no padding")
    layer, x = built(case.make()), poisoned(SENTENCES, MASK)
    cotangent = tokens(2, *case.shape(3, 4))

    def gradients(x: np.ndarray, before: int, after: int) -> Any:
        around = ((0, 0), (before, after))
        mask = np.pad(MASK, around)
        kept = slice(before, before + 4)

        def encode(x: Any) -> Any:
            y = layer(x, mask=mask)
            return y[:, kept] if case.output_type == "tokens" else y

        padded = np.pad(x, (*around, (0, 0)), constant_values=np.nan)
        output, [for_x], for_weights = vjp(encode, [padded], layer.trainable_weights, cotangent)
        assert not for_x[~mask].any()
        return output, [for_x[:, kept], *for_weights]

    clean, wanted = gradients(SENTENCES, 0, 0)
    assert all(np.isfinite(each).all() for each in (clean, *wanted))
    for before, after in ((0, 0), (2, 1)):
        output, found = gradients(x, before, after)
        close(output, clean)
        close_gradients(found, wanted, 1e-5)
    alone = run(layer)(SENTENCES[1:2, :2], None)
    close(clean[1:2, :2] if case.output_type == "tokens" else clean[1:2], alone)


def test_masks_and_file(case: Case, tmp_path: Path) -> None:
    """The attached mask and an explicit one, which overrides it; in a saved model too."""
    layer, ids = built(case.make()), keras.Input((None,), dtype="int32")
    output = layer(embedding(mask_zero=True)(ids))
    assert output.shape == case.shape(None, None)
    assert (getattr(output, "_keras_mask", None) is not None) == (case.output_type == "tokens")
    bare, encode, model = embedding(mask_zero=False), run(layer), keras.Model(ids, output)
    attached = encode(bare(IDS), IDS != 0)
    close(array(model(IDS)), attached)
    explicit = np.array([[True, True, True, False], [True] * 4, [True, False, True, False]])
    marked = layer(embedding(mask_zero=True)(IDS), mask=explicit)
    if case.output_type == "tokens":
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(marked._keras_mask), explicit)
    close(array(marked), encode(bare(IDS), explicit.astype("float32")))
    assert np.abs(array(marked) - attached).max() > 1e-4
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    close(started(again)(IDS), attached)
    for one, other in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(array(one), array(other))


def test_half_precision_is_close_to_float32(case: Case) -> None:
    exact, layer = built(case.make()), case.make(dtype="mixed_bfloat16")
    layer.build(SENTENCES.shape)
    layer.set_weights(exact.get_weights())
    dtypes = []

    def encode(x: Any, mask: Any) -> Any:
        y = layer(x, mask=mask)
        dtypes.append(keras.backend.standardize_dtype(y.dtype))
        return y

    output = started(encode)(poisoned(SENTENCES, MASK), MASK)
    assert dtypes == ["bfloat16"]
    assert {w.dtype for w in layer.trainable_weights} == {"float32"}
    close(output, run(exact)(SENTENCES, MASK), TOLERANCE)
