"""Synchronous forward and backward passes on each backend, compiled if the backend compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
from keras import ops

Step = Callable[[], Any]


def train_step(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    variables: Sequence[Any],
    xla: bool = False,
) -> Step:
    """Return a step that computes `function(*inputs)` and the gradients of its sum of squares.

    Gradients are for the variables and for floating-point inputs, as for a layer inside a network.
    With `xla`, TensorFlow compiles the step with XLA, as JAX always does.
    """
    build = {
        "tensorflow": partial(_train_tensorflow, xla=xla),
        "jax": _train_jax,
        "torch": _train_torch,
    }
    tensors = [ops.convert_to_tensor(x) for x in inputs]
    return build[keras.backend.backend()](function, tensors, list(variables))


def forward_step(function: Callable[..., Any], inputs: Sequence[Any]) -> Step:
    """Return a step that computes `function(*inputs)`."""
    build = {"tensorflow": _forward_tensorflow, "jax": _forward_jax, "torch": _forward_torch}
    return build[keras.backend.backend()](function, [ops.convert_to_tensor(x) for x in inputs])


def _loss(output: Any) -> Any:
    return ops.sum(ops.square(ops.cast(output, "float32")))


def _real(tensors: Sequence[Any]) -> list[Any]:
    return [x for x in tensors if "float" in keras.backend.standardize_dtype(x.dtype)]


def _train_tensorflow(function: Any, inputs: Any, variables: Any, xla: bool) -> Step:
    import tensorflow as tf

    values = [variable.value for variable in variables]

    @tf.function(jit_compile=xla)
    def step(*tensors: Any) -> Any:
        with tf.GradientTape() as tape:
            watched = _real(tensors)
            tape.watch(watched)
            loss = _loss(function(*tensors))
        return tape.gradient(loss, [*watched, *values])

    return _waiting(step, inputs)


def _waiting(function: Any, inputs: Any) -> Step:
    import tensorflow as tf

    run = function.get_concrete_function(*inputs)

    def step() -> Any:
        output = run(*inputs)
        tf.test.experimental.sync_devices()
        return output

    return step


def _train_jax(function: Any, inputs: Any, variables: Any) -> Step:
    import jax

    places = [i for i, x in enumerate(inputs) if _real([x])]

    def loss(real: Any, values: Any) -> Any:
        tensors = list(inputs)
        for place, x in zip(places, real, strict=True):
            tensors[place] = x
        with keras.StatelessScope(state_mapping=zip(variables, values, strict=True)):
            return _loss(function(*tensors))

    step = jax.jit(jax.grad(loss, argnums=(0, 1)))
    real, values = [inputs[i] for i in places], [variable.value for variable in variables]
    return lambda: jax.block_until_ready(step(real, values))


def _train_torch(function: Any, inputs: Any, variables: Any) -> Step:
    import torch

    real = [x.requires_grad_() for x in _real(inputs)]
    sources = [*real, *(variable.value for variable in variables)]
    return _synchronized(
        lambda: torch.autograd.grad(_loss(function(*inputs)), sources, allow_unused=True)
    )


def _forward_tensorflow(function: Any, inputs: Any) -> Step:
    import tensorflow as tf

    return _waiting(tf.function(function), inputs)


def _forward_jax(function: Any, inputs: Any) -> Step:
    import jax

    run = jax.jit(function)
    return lambda: jax.block_until_ready(run(*inputs))


def _forward_torch(function: Any, inputs: Any) -> Step:
    import torch

    def step() -> Any:
        with torch.no_grad():
            return function(*inputs)

    return _synchronized(step)


def _synchronized(function: Step) -> Step:
    """Return a function that waits for the GPU, if PyTorch has one."""
    import torch

    def step() -> Any:
        output = function()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return output

    return step
