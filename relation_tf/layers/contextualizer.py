"""Context vector of a document, refined iteratively."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from relation_tf.layers.arguments import (
    one_of,
    positive_integer,
    positive_number,
    seed_or_none,
    true_or_false,
    width_of,
)
from relation_tf.layers.base import WeightedLayer
from relation_tf.layers.masking import boolean, float32_or_wider, to_float32, zero_masked
from relation_tf.layers.token_mixer import standardize

_INITIAL_CONTEXTS = ("ones", "learned", "uniform")
_ALGORITHMS = ("auto", "tokens", "moments")


class _Step(NamedTuple):
    """Weights of one refinement step."""

    w: Any  # (rank, width)
    u: Any  # (width, rank)
    v: Any  # (width, rank)
    bias: Any  # (width,), or None
    scale: Any  # (width,)
    offset: Any  # (width,)


@keras.saving.register_keras_serializable(package="relation_tf")
class Contextualizer(WeightedLayer):
    """Context vector of a document, refined by iterated second-order attention.

    Starting from `c_0`, the layer repeats for `k = 1 .. num_steps`, with separate weights per step:

    - `a_i = ((x_i U) * (c V)) W + b` for each token (second-order attention);
    - `z = LayerNorm(sum_i a_i * x_i)` over features, with learned scale and offset;
    - `c = c + z`.

    The paper adds positions to the tokens: put a `SoftmaxPositionEncoding` before this layer. For
    a document without tokens the sum is zero.

    Both algorithms compute the same output:

    - `"tokens"` computes the steps as written.
    - `"moments"` computes `C = X^T X` and `s = sum_i x_i` once. Each step is then
      `z = LayerNorm(t + b * s)` with `t_j = sum_r (C U)_jr W_rj (c V)_r`; its cost does not depend
      on the number of tokens. On JAX it has no forward-mode derivative.

    `"auto"` selects the algorithm with fewer multiplications, at run time if the number of tokens
    is unknown. Time is linear in the number of tokens. Sums over tokens, the context and all of
    `"moments"` are in float32 or wider.

    Args:
        rank: Inner dimension of U, V and W, at least 1.
        num_steps: Number of steps, at least 1.
        initial_context: `c_0`: `"ones"`, `"learned"` (one vector, initialized with ones) or
            `"uniform"` (a new sample from U(-1, 1) for each document, also in inference).
        algorithm: `"tokens"`, `"moments"` or `"auto"`.
        epsilon: Positive number added to the variance in LayerNorm.
        seed: Random seed of the uniform initial context.
        use_bias: If False, b is left out: the steps then have no term without the context.
        **kwargs: As in `WeightedLayer`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens are ignored.

    Returns:
        Tensor of shape `(batch, width)`, without a mask.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import Contextualizer
        >>> Contextualizer(rank=2, num_steps=3)(np.ones((2, 5, 4), "float32")).shape == (2, 4)
        True

    References:
        - Maupomé, Meurs 2022, doi 10.3390/info13060290.
    """

    def __init__(
        self,
        rank: int,
        num_steps: int = 5,
        initial_context: str = "ones",
        algorithm: str = "auto",
        epsilon: float = 1e-5,
        seed: int | None = None,
        *,
        use_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rank = positive_integer("rank", rank)
        self.num_steps = positive_integer("num_steps", num_steps)
        self.initial_context = one_of("initial_context", initial_context, _INITIAL_CONTEXTS)
        self.algorithm = one_of("algorithm", algorithm, _ALGORITHMS)
        self.epsilon = positive_number("epsilon", epsilon)
        self.seed = seed_or_none("seed", seed)
        self.use_bias = true_or_false("use_bias", use_bias)
        if initial_context == "uniform":
            self.seed_generator = keras.random.SeedGenerator(self.seed)

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the weights: one 2-D variable for each matrix, in the order of the equations."""
        self.width = width = width_of("x", x_shape)
        if self.initial_context == "learned":
            self.context = self._add_vector("context", width, "ones")
        self.steps = [self._add_step(k, width) for k in range(1, self.num_steps + 1)]
        self.built = True

    def _add_step(self, k: int, width: int) -> _Step:
        return _Step(
            w=self.add_kernel(f"w_kernel_{k}", self.rank, width),
            u=self.add_kernel(f"u_kernel_{k}", width, self.rank),
            v=self.add_kernel(f"v_kernel_{k}", width, self.rank),
            bias=self.add_bias(f"bias_{k}", width) if self.use_bias else None,
            scale=self._add_vector(f"scale_{k}", width, "ones"),
            offset=self._add_vector(f"offset_{k}", width, "zeros"),
        )

    def _add_vector(self, name: str, width: int, initializer: str) -> Any:
        # Not autocast: the vector is applied to the context, which is float32 or wider.
        return self.add_weight(name=name, shape=(width,), initializer=initializer, autocast=False)

    def call(self, x: Any, mask: Any = None) -> Any:
        """Return the refined context."""
        x = self.as_tokens(x)
        x = zero_masked(x, boolean(mask, x))
        start, length = self._start(x), x.shape[1]
        if self.algorithm != "auto":
            context = self._refine(start, x, self.algorithm)
        elif length is not None:
            longer = length > self._crossover(x.shape[-1])
            context = self._refine(start, x, "moments" if longer else "tokens")
        else:
            context = self._refine_by_length(start, x)
        return ops.cast(context, x.dtype)

    def _start(self, x: Any) -> Any:
        """Return `c_0`, `(batch, width)`."""
        shape, dtype = (ops.shape(x)[0], x.shape[-1]), float32_or_wider(x.dtype)
        if self.initial_context == "uniform":
            return keras.random.uniform(shape, -1.0, 1.0, dtype, seed=self.seed_generator)
        if self.initial_context == "learned":
            return ops.broadcast_to(to_float32(self.context), shape)
        return ops.ones(shape, dtype)

    def _crossover(self, width: int) -> int:
        """Return the number of tokens up to which `"tokens"` needs no more multiplications.

        `"tokens"` needs `2 tokens width rank` per step; `"moments"` needs `width^2 rank` per step
        and `tokens width^2` once.
        """
        saved = 2 * self.num_steps * self.rank - width
        if saved <= 0:
            return 2**31 - 1  # "tokens" is cheaper for any number of tokens.
        return self.num_steps * self.rank * width // saved

    def _refine(self, context: Any, x: Any, algorithm: str) -> Any:
        """Return `c_K`; masked tokens of `x` must be zero."""
        mixed_by = _by_moments(x) if algorithm == "moments" else _by_tokens(x)
        for step in self.steps:
            z = standardize(mixed_by(step, context), self.epsilon)
            context = context + z * to_float32(step.scale) + to_float32(step.offset)
        return context

    def _refine_by_length(self, context: Any, x: Any) -> Any:
        """Return `c_K` if the number of tokens is known only at run time.

        One algorithm gets the whole batch and the other an empty batch, at no cost. XLA compiles
        this, but not the gradient of `ops.cond` with unknown shapes.
        """
        batch, length, width = ops.shape(x)
        split = ops.where(length > self._crossover(width), 0, batch)
        by_tokens = self._refine(context[:split], x[:split], "tokens")
        by_moments = self._refine(context[split:], x[split:], "moments")
        return ops.concatenate([by_tokens, by_moments], axis=0)

    def compute_mask(self, x: Any, previous_mask: Any = None) -> None:
        """Return None: the output has no token axis."""

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return `(batch, width)`."""
        return (self.checked_shape(x_shape)[0], x_shape[-1])


def _by_tokens(x: Any) -> Callable[[_Step, Any], Any]:
    """Return a function that computes `sum_i a_i * x_i` of a step and a context from the tokens."""

    def mixed(step: _Step, context: Any) -> Any:
        query = ops.cast(ops.matmul(context, to_float32(step.v)), x.dtype)[:, None, :]
        related = ops.matmul(ops.matmul(x, step.u) * query, step.w)
        related = related if step.bias is None else related + step.bias
        return ops.sum(to_float32(related) * to_float32(x), axis=1)

    return mixed


def _by_moments(x: Any) -> Callable[[_Step, Any], Any]:
    """Return a function that computes `sum_i a_i * x_i` from the moments of the tokens."""
    x = to_float32(x)
    first = ops.sum(x, axis=1)  # (batch, width)
    second = _second_moment(x)

    def mixed(step: _Step, context: Any) -> Any:
        query = ops.matmul(context, to_float32(step.v))[:, None, :]
        u, w = to_float32(step.u), to_float32(step.w)
        weighted = ops.matmul(second, u) * ops.transpose(w)  # (batch, width, rank)
        total = ops.matmul(weighted, ops.transpose(query, (0, 2, 1)))[:, :, 0]
        return total if step.bias is None else total + to_float32(step.bias) * first

    return mixed


@ops.custom_gradient
def _second_moment(x: Any) -> tuple[Any, Callable[..., Any]]:
    """Compute `X^T X`, shape `(batch, width, width)`.

    The custom gradient `X (D + D^T)` needs one product instead of two, `X D + X D^T`.
    """

    def gradient(*arguments: Any, upstream: Any = None) -> Any:
        upstream = arguments[0] if upstream is None else upstream
        return ops.matmul(x, upstream + ops.transpose(upstream, (0, 2, 1)))

    return ops.matmul(ops.transpose(x, (0, 2, 1)), x), gradient
