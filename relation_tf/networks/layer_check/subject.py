"""The layer that is checked: how it is made, called and differentiated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.masking import zero_masked
from relation_tf.networks.mechanisms import accepts, make_layer
from relation_tf.networks.mixing import accepted, copy_of, is_layer, mix_all
from relation_tf.registry import Mechanism

BATCH, TOKENS = 4, 6  # Different, so that a layer that confuses the axes is found.
KEPT = np.arange(TOKENS) < np.array([[6], [3], [1], [4]])
EVERYTHING = np.ones_like(KEPT)

_SEED = 0
_DROPOUT = 0.5  # Of the layers with `variant="released_code"`.
_LONGEST = 300  # Characters of an exception.


class FaultError(Exception):
    """A fault of the layer, and how to fix it."""

    def __init__(self, found: str, mend: str) -> None:
        super().__init__(f"{found} To mend: {mend}")


class NotApplicableError(Exception):
    """The reason why a check does not apply."""


@dataclass(frozen=True)
class Subject:
    """The layer that is checked, and what it is called with."""

    mechanism: Any
    entry: Mechanism
    units: int
    width: int
    options: dict[str, Any]

    def __str__(self) -> str:
        name = self.mechanism
        if isinstance(name, type):
            name = f"{name.__module__}:{name.__qualname__}"
        elif is_layer(name):
            name = f"{type(name).__name__} {name.name!r}"
        asked = {} if is_layer(self.mechanism) else {"units": self.units}
        settings = {**asked, "width": self.width, **self.options}
        told = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        return f"{name} with {told} ({keras.backend.backend()})"

    @property
    def own(self) -> bool:
        """True for a custom class, whose output must have the requested width."""
        return self.entry.factory == self.mechanism and not is_layer(self.mechanism)

    def layer(self) -> Any:
        """Return the layer, made again from the same seed."""
        keras.utils.set_random_seed(_SEED)
        if is_layer(self.mechanism):
            layer = copy_of(self.mechanism, name="mechanism")
        else:
            layer = make_layer(self.entry, self.units, _DROPOUT, self.options)
        if not is_layer(layer):
            raise FaultError(
                f"Expected a Keras layer, got {type(layer).__name__}.",
                "name a subclass of keras.layers.Layer.",
            )
        layer.supports_masking = True  # as networks do: masks go by name
        return layer

    def model(self, tokens: int | None = TOKENS) -> keras.Model:
        """A network of the layer alone, from tokens and a mask."""
        x = keras.Input((tokens, self.width), name="x")
        mask = keras.Input((tokens,), dtype="bool", name="mask")
        return keras.Model([x, mask], mix_all(self.layer(), x, mask))

    @cached_property
    def x(self) -> np.ndarray:
        """Tokens."""
        return self.tokens(BATCH, TOKENS)

    def tokens(self, batch: int, tokens: int) -> np.ndarray:
        """Random tokens, as large as embeddings are after some training."""
        rng = np.random.default_rng(tokens)
        return rng.normal(size=(batch, tokens, self.width)).astype("float32")

    @cached_property
    def mixer(self) -> Any:
        """The layer that `mixed` and `read` call."""
        return self.layer()

    def mixed(self, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """The output of one and the same layer, not in training."""
        return array(mix_all(self.mixer, tensor(x), tensor(mask)))

    def read(self, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Its read-out of the first token."""
        tokens, kept = tensor(x), tensor(mask)
        masks = {"query_mask": kept[:, :1], "value_mask": kept}
        layer = self.mixer
        return array(layer(tokens[:, :1], value=tokens, **accepted(layer, masks)))

    @property
    def masks(self) -> list[str]:
        """The arguments of its call that a network hands a mask to."""
        names = ["query_mask", "value_mask"] if accepts(self.mixer, "value") else ["mask"]
        return [name for name in names if accepts(self.mixer, name)]


def gradients_of(subject: Subject, x: np.ndarray) -> tuple[list[str], dict[str, np.ndarray]]:
    """The names of the trainable weights, and the gradients of the input and of them."""
    steps = {"tensorflow": _by_tensorflow, "jax": _by_jax, "torch": _by_torch}
    backend = keras.backend.backend()
    if backend not in steps:
        raise NotApplicableError(f"No gradients on the backend {backend}.")
    model = subject.model()
    variables = model.trainable_weights
    rng = np.random.default_rng(_SEED)
    for variable in variables:
        # A product of weights that start at zero would hide each other's gradient.
        if not array(variable).any():
            variable.assign(rng.normal(scale=0.1, size=variable.shape))
    cotangent = rng.normal(size=tuple(subject.mixed(subject.x, KEPT).shape)).astype("float32")
    mask, weighting = tensor(KEPT), tensor(cotangent)

    def loss(x: Any) -> Any:
        y = ops.cast(model([x, mask], training=True), "float32")
        # Networks read kept tokens.
        return ops.sum((zero_masked(y, mask) if len(y.shape) == 3 else y) * weighting)

    gradients = steps[backend](loss, tensor(x), variables)
    names = ["the input", *(variable.path for variable in variables)]
    arrays = [np.zeros(1) if g is None else ops.convert_to_numpy(g) for g in gradients]
    return names[1:], dict(zip(names, arrays, strict=True))


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
    """Compile a function by XLA."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False, jit_compile=True)
    if backend == "jax":
        import jax

        return jax.jit(function)
    raise NotApplicableError(f"No XLA on the backend {backend}.")


@contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Set the global dtype policy within a block."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def told(error: BaseException) -> str:
    """An exception as one sentence, without what Keras wraps around it."""
    wrapped = re.search(r"\x1b\[1m(.*?)\x1b\[0m", str(error), re.DOTALL)
    text = wrapped[1] if wrapped else str(error)
    text = re.split(r"(?:Error|Exception) encountered: ?", text)[-1]
    text = " ".join(text.split())
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"{type(error).__name__}: {short.rstrip('.')}."


def array(x: Any) -> np.ndarray:
    """Convert a tensor to float32."""
    return np.asarray(ops.convert_to_numpy(ops.cast(x, "float32")))


def tensor(x: np.ndarray) -> Any:
    """Convert an array to a tensor."""
    return ops.convert_to_tensor(x)
