"""The checked layer: creation, calls and gradients."""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.masking import zero_masked
from relation_tf.networks.mechanisms import accepts, make_layer
from relation_tf.networks.mixing import copy_of, is_layer, mix_all, mix_for_first
from relation_tf.registry import Mechanism

BATCH, TOKENS = 4, 6  # Different, to detect layers that confuse the axes.
KEPT = np.arange(TOKENS) < np.array([[6], [3], [1], [4]])
EVERYTHING = np.ones_like(KEPT)

_SEED = 0
DROPOUT = 0.5  # For layers with `variant="released_code"`.
_LONGEST = 300  # Maximum number of characters of an exception.
_PACKAGE = Path(__file__).parents[2]


class FaultError(Exception):
    """Fault of the layer, and how to fix it."""

    def __init__(self, found: str, fix: str) -> None:
        super().__init__(f"{found} To fix: {fix}")


class NotApplicableError(Exception):
    """Reason why a check does not apply."""


@dataclass(frozen=True)
class Subject:
    """The checked layer and its inputs."""

    mechanism: Any
    entry: Mechanism
    units: int
    width: int
    options: dict[str, Any]
    varied: bool = False  # If True, weights have other values than their initial constants.

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
            raise FaultError(
                f"The object is not a Keras layer but {type(layer).__name__}.",
                "use a subclass of keras.layers.Layer.",
            )
        layer.supports_masking = True  # As in networks: masks are passed by name.
        return layer

    def model(self, tokens: int | None = TOKENS) -> keras.Model:
        """Return a model of only the layer, with tokens and a mask as inputs."""
        x = keras.Input((tokens, self.width), name="x")
        mask = keras.Input((tokens,), dtype="bool", name="mask")
        model = keras.Model([x, mask], mix_all(self.layer(), x, mask))
        if self.varied:
            vary_constants(model)
        return model

    @cached_property
    def x(self) -> np.ndarray:
        """Random tokens, `(BATCH, TOKENS, width)`."""
        return self.tokens(BATCH, TOKENS)

    def tokens(self, batch: int, tokens: int) -> np.ndarray:
        """Return random tokens with the scale of trained embeddings."""
        rng = np.random.default_rng(tokens)
        return rng.normal(size=(batch, tokens, self.width)).astype("float32")

    @cached_property
    def mixer(self) -> Any:
        """Layer that `mixed` and `read` call."""
        layer = self.layer()
        if self.varied:
            mix_all(layer, tensor(self.x), tensor(KEPT))  # creates the weights
            vary_constants(layer)
        return layer

    def mixed(self, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return the output of `mixer` in inference mode."""
        return array(mix_all(self.mixer, tensor(x), tensor(mask)))

    def read(self, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return the readout of the first token."""
        return array(mix_for_first(self.mixer, tensor(x), tensor(mask)))

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


def gradients_of(subject: Subject, x: np.ndarray) -> tuple[list[str], dict[str, np.ndarray]]:
    """Return the names of the trainable weights, and the gradients of the input and weights."""
    model = subject.model()
    variables = model.trainable_weights
    rng = np.random.default_rng(_SEED)
    cotangent = rng.normal(size=tuple(subject.mixed(subject.x, KEPT).shape)).astype("float32")
    mask, weighting = tensor(KEPT), tensor(cotangent)

    def loss(x: Any) -> Any:
        y = ops.cast(model([x, mask], training=True), "float32")
        # Networks read only unmasked tokens.
        return ops.sum((zero_masked(y, mask) if len(y.shape) == 3 else y) * weighting)

    names = ["the input", *(variable.path for variable in variables)]
    arrays = differentiated(loss, x, variables)
    return names[1:], dict(zip(names, arrays, strict=True))


def differentiated(loss: Any, x: np.ndarray, variables: Any = ()) -> list[np.ndarray]:
    """Return the gradients of a loss by x and by variables; one zero for none."""
    steps = {"tensorflow": _by_tensorflow, "jax": _by_jax, "torch": _by_torch}
    backend = keras.backend.backend()
    if backend not in steps:
        raise NotApplicableError(f"The backend {backend} has no gradients.")
    gradients = steps[backend](loss, tensor(x), variables)
    return [np.zeros(1) if g is None else ops.convert_to_numpy(g) for g in gradients]


def _by_tensorflow(loss: Any, x: Any, variables: Any) -> Any:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        value = loss(x)
    gradients = tape.gradient(value, [x, *(variable.value for variable in variables)])
    return [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients]


def _by_jax(loss: Any, x: Any, variables: Any) -> Any:
    import jax

    def stateless(x: Any, values: Any) -> Any:
        with keras.StatelessScope(state_mapping=zip(variables, values, strict=True)):
            return loss(x)

    values = [variable.value for variable in variables]
    for_x, for_values = jax.jit(jax.grad(stateless, argnums=(0, 1)))(x, values)
    return [for_x, *for_values]


def _by_torch(loss: Any, x: Any, variables: Any) -> Any:
    import torch

    x = x.requires_grad_()
    sources = [x, *(variable.value for variable in variables)]
    return torch.autograd.grad(loss(x), sources, allow_unused=True)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function with XLA."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False, jit_compile=True)
    if backend == "jax":
        import jax

        return jax.jit(function)
    raise NotApplicableError(f"The backend {backend} has no XLA.")


def described(error: BaseException) -> str:
    """Return an exception as one sentence with its place, without Keras's traceback text."""
    wrapped = re.search(r"\x1b\[1m(.*?)\x1b\[0m", str(error), re.DOTALL)
    text = wrapped[1] if wrapped else str(error)
    text = re.split(r"(?:Error|Exception) encountered: ?", text)[-1]
    text = re.sub(r"\{\{function_node .*?\}\} ?| ?\[Op:\w+\].*", "", text)  # of TensorFlow
    text = re.sub(r" You can attempt the following .*", "", text, flags=re.DOTALL)  # of AutoGraph
    text = " ".join(text.split())
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"{type(error).__name__}{_place(error)}: {short.rstrip('.')}."


def _place(error: BaseException) -> str:
    frame = own_frame(error)
    return f" at {Path(frame.filename).name}:{frame.lineno}, in {frame.name}" if frame else ""


def own_frame(error: BaseException) -> traceback.FrameSummary | None:
    """Return the last frame outside of this and installed packages."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not Path(frame.filename).is_relative_to(_PACKAGE) and _is_own(frame.filename):
            return frame
    return None


def _is_own(file: str) -> bool:
    """Return True for a file that is not installed, and for cells of notebooks."""
    return not file.startswith(("<frozen", *sysconfig.get_paths().values()))


def array(x: Any) -> np.ndarray:
    """Convert a tensor to float32."""
    return np.asarray(ops.convert_to_numpy(ops.cast(x, "float32")))


def tensor(x: np.ndarray) -> Any:
    """Convert an array to a tensor."""
    return ops.convert_to_tensor(x)
