"""The checked layer: creation, calls and weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.networks.mechanisms import accepts, make_layer
from relation_tf.networks.mixing import copy_of, is_layer, mix_all
from relation_tf.registry import Mechanism

BATCH, TOKENS = 4, 6  # Different, to detect layers that confuse the axes.
KEPT = np.arange(TOKENS) < np.array([[6], [3], [1], [4]])
EVERYTHING = np.ones_like(KEPT)
DROPOUT = 0.5  # For layers with `variant="released_code"`.

_SEED = 0


@dataclass(frozen=True)
class Subject:
    """The checked layer and its inputs."""

    mechanism: Any
    entry: Mechanism
    units: int
    width: int
    options: dict[str, Any]
    varied: bool = False  # If True, weights have other values than their initial constants.
    in_blocks: bool = False  # If True, the layer must return a vector for each token.

    def __str__(self) -> str:
        name = self.mechanism
        if isinstance(name, type):
            name = f"{name.__module__}:{name.__qualname__}"
        elif is_layer(name):
            name = f"{type(name).__name__} {name.name!r}"
        units = {} if is_layer(self.mechanism) else {"units": self.units}
        settings = {**units, "width": self.width, **self.options}
        arguments = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        return f"{name} with {arguments} ({keras.backend.backend()})"

    def layer(self) -> Any:
        """Return a new layer from the same seed."""
        keras.utils.set_random_seed(_SEED)
        if is_layer(self.mechanism):
            layer = copy_of(self.mechanism, name="mechanism")
        else:
            layer = make_layer(self.entry, self.units, DROPOUT, self.options)
        if not is_layer(layer):
            raise TypeError(f"{type(layer).__name__} is not a subclass of keras.layers.Layer")
        layer.supports_masking = True  # As in networks: masks are passed by name.
        return layer

    def model(self, before: Callable[[Any], Any] = lambda x: x) -> keras.Model:
        """Return a model of the layer, after another one, for any number of tokens and a mask."""
        x = keras.Input((None, self.width), name="x")
        mask = keras.Input((None,), dtype="bool", name="mask")
        model = keras.Model([x, mask], mix_all(self.layer(), before(x), mask))
        if self.varied:
            vary_constants(model)
        return model

    @cached_property
    def x(self) -> np.ndarray:
        """Random tokens, `(BATCH, TOKENS, width)`."""
        return self.tokens(TOKENS)

    def tokens(self, length: int) -> np.ndarray:
        """Return random tokens with the scale of trained embeddings."""
        rng = np.random.default_rng(length)
        return rng.normal(size=(BATCH, length, self.width)).astype("float32")

    @cached_property
    def mixer(self) -> Any:
        """Layer that `mixed` calls."""
        layer = self.layer()
        if self.varied:
            mix_all(layer, tensor(self.x), tensor(KEPT))  # creates the weights
            vary_constants(layer)
        return layer

    def mixed(self, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return the output of `mixer` in inference mode."""
        return array(mix_all(self.mixer, tensor(x), tensor(mask)))

    @property
    def masks(self) -> list[str]:
        """Names of the call arguments that get a mask."""
        names = ["query_mask", "value_mask"] if accepts(self.mixer, "value") else ["mask"]
        return [name for name in names if accepts(self.mixer, name)]


def vary_constants(layer: Any) -> None:
    """Change the weights that start as constants, such as biases, as training would.

    Initial zeros hide what a layer computes with them. Equal entries of a trainable weight or a
    moving statistic become different: zeros small values of both signs, others 10 to 30 % larger or
    smaller. Values depend on the shapes only. Random weights keep their values.
    """
    rng = np.random.default_rng(_SEED)
    for weight in layer.weights:
        if not (weight.trainable or weight.name.startswith("moving_")):
            continue
        start = array(weight)
        change = rng.choice([-1, 1], start.shape) * rng.uniform(0.1, 0.3, start.shape)
        inputs = np.prod(start.shape[:-1])  # A matrix of zeros gets the scale of a random one.
        value = np.where(start == 0, change / np.sqrt(inputs), start * (1 + change))
        _, places, counts = np.unique(start, return_inverse=True, return_counts=True)
        repeated = (counts[places] > 1).reshape(start.shape) | (start == 0) | (start.size == 1)
        value = np.where(repeated, value, start).astype("float32")
        weight.assign(weight.constraint(tensor(value)) if weight.constraint else value)


def kept_of(output: np.ndarray) -> np.ndarray:
    """Return the outputs at unmasked tokens, or all outputs of a vector layer."""
    return output[KEPT] if output.ndim == 3 else output


def array(x: Any) -> np.ndarray:
    """Convert a tensor to float32."""
    return np.asarray(ops.convert_to_numpy(ops.cast(x, "float32")))


def tensor(x: np.ndarray) -> Any:
    """Convert an array to a tensor."""
    return ops.convert_to_tensor(x)
