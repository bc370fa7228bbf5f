"""Backend helpers of the tests: gradients and compilation on TensorFlow, JAX and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

BACKEND = keras.backend.backend()


def vjp(
    function: Callable[..., Any],
    inputs: Sequence[np.ndarray],
    variables: Sequence[Any],
    cotangent: np.ndarray | float = 1.0,
) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """Return the output of `function(*inputs)` and the gradients of `sum(output * cotangent)`.

    Args:
        function: A function of tensors, which may call built layers.
        inputs: Floating-point arrays.
        variables: Variables of those layers.
        cotangent: Weights of the output's entries.

    Returns:
        The output, the gradients for the inputs, the gradients for the variables; zeros where the
        output does not depend on one.
    """
    inputs = [ops.convert_to_tensor(x) for x in inputs]
    steps = {"tensorflow": _vjp_tensorflow, "jax": _vjp_jax, "torch": _vjp_torch}
    output, gradients = steps[BACKEND](function, inputs, list(variables), cotangent)
    arrays = [ops.convert_to_numpy(gradient) for gradient in gradients]
    return ops.convert_to_numpy(output), arrays[: len(inputs)], arrays[len(inputs) :]


def _vjp_tensorflow(function: Any, inputs: Any, variables: Any, cotangent: Any) -> Any:
    import tensorflow as tf

    sources = [*inputs, *(variable.value for variable in variables)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = function(*inputs)
        loss = ops.sum(output * ops.cast(cotangent, output.dtype))
    gradients = tape.gradient(loss, sources, unconnected_gradients="zero")
    return output, [tf.convert_to_tensor(gradient) for gradient in gradients]


def _vjp_jax(function: Any, inputs: Any, variables: Any, cotangent: Any) -> Any:
    import jax

    def loss(inputs: Any, values: Any) -> Any:
        with keras.StatelessScope(state_mapping=zip(variables, values, strict=True)):
            output = function(*inputs)
        return ops.sum(output * ops.cast(cotangent, output.dtype)), output

    differentiate = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
    values = [variable.value for variable in variables]
    (_, output), (for_inputs, for_variables) = differentiate(inputs, values)
    return output, [*for_inputs, *for_variables]


def _vjp_torch(function: Any, inputs: Any, variables: Any, cotangent: Any) -> Any:
    import torch

    inputs = [x.requires_grad_() for x in inputs]
    output = function(*inputs)
    loss = ops.sum(output * ops.cast(cotangent, output.dtype))
    sources = [*inputs, *(variable.value for variable in variables)]
    if not loss.requires_grad:  # the output is constant
        return output, [torch.zeros_like(source) for source in sources]
    return output, torch.autograd.grad(loss, sources, materialize_grads=True, allow_unused=True)


def hessian_product(
    function: Callable[..., Any],
    inputs: Sequence[np.ndarray],
    directions: Sequence[np.ndarray],
    cotangent: np.ndarray,
) -> list[np.ndarray]:
    """Return the Hessian of `sum(function(*inputs) * cotangent)` times the directions.

    It is the gradient of the gradient's product with the directions.
    """
    tensors = [ops.convert_to_tensor(x) for x in inputs]
    products = {
        "tensorflow": _hessian_product_tensorflow,
        "jax": _hessian_product_jax,
        "torch": _hessian_product_torch,
    }

    def loss(inputs: Any) -> Any:
        return ops.sum(function(*inputs) * ops.convert_to_tensor(cotangent))

    return [ops.convert_to_numpy(x) for x in products[BACKEND](loss, tensors, directions)]


def _inner(gradients: Any, directions: Any) -> Any:
    pairs = zip(gradients, directions, strict=True)
    return sum(ops.sum(one * ops.convert_to_tensor(other)) for one, other in pairs)


def _hessian_product_tensorflow(loss: Any, inputs: Any, directions: Any) -> Any:
    import tensorflow as tf

    with tf.GradientTape() as outer:
        outer.watch(inputs)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            value = loss(inputs)
        product = _inner(tape.gradient(value, inputs), directions)
    return outer.gradient(product, inputs, unconnected_gradients="zero")


def _hessian_product_jax(loss: Any, inputs: Any, directions: Any) -> Any:
    import jax

    return jax.jit(jax.grad(lambda x: _inner(jax.grad(loss)(x), directions)))(inputs)


def _hessian_product_torch(loss: Any, inputs: Any, directions: Any) -> Any:
    import torch

    inputs = [x.requires_grad_() for x in inputs]
    gradients = torch.autograd.grad(loss(inputs), inputs, create_graph=True)
    return torch.autograd.grad(_inner(gradients, directions), inputs, materialize_grads=True)


def compiled(function: Callable[..., Any], *, xla: bool) -> Callable[..., Any]:
    """Return the compiled function: a TensorFlow graph, with or without XLA; on JAX with XLA."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=xla)
    import jax

    return jax.jit(function) if xla else function


def started(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Return the function from arrays to an array; compiled on JAX, where eager mode is slow."""
    run = compiled(function, xla=True) if BACKEND == "jax" else function
    return lambda *inputs: array(run(*inputs))


def close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Assert that two arrays agree, relative to the largest entry (absolutely below 1)."""
    expected = np.asarray(expected)
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    actual = ops.convert_to_numpy(actual)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def close_gradients(
    actual: Sequence[Any], expected: Sequence[Any], tolerance: float = 1e-4
) -> None:
    """Assert that gradients agree, relative to the largest entry of all of them.

    Errors of a gradient in which large terms cancel, as in that of the keys' bias, are relative to
    these terms.
    """
    actual, expected = ([ops.convert_to_numpy(x) for x in arrays] for arrays in (actual, expected))
    scale = max(1.0, *(np.abs(x).max(initial=0.0) for x in expected))
    for one, other in zip(actual, expected, strict=True):
        close(one / scale, other / scale, tolerance)


def array(x: Any) -> np.ndarray:
    """Convert a tensor of any floating-point type to a float32 array."""
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def with_unknown_length(
    function: Callable[..., Any], arrays: Sequence[np.ndarray], xla: bool = False
) -> Callable[..., Any]:
    """Compile a function of such arrays on TensorFlow for any batch and number of tokens.

    Returns:
        Function that returns the output and the gradients of its sum for the floating-point arrays.
    """
    import tensorflow as tf

    spec = [tf.TensorSpec((None, None, *x.shape[2:]), x.dtype) for x in arrays]

    @tf.function(input_signature=spec, jit_compile=xla)
    def unknown(*inputs: Any) -> Any:
        differentiable = [x for x in inputs if x.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(differentiable)
            output = function(*inputs)
        return output, tape.gradient(output, differentiable)

    return unknown
