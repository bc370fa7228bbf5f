"""Full-context semantic representation (FCSR), its contexts (FOFE) and attention of features."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.arguments import (
    one_of,
    positive_integer,
    positive_integer_or_none,
    rate,
    width_of,
)
from relation_tf.layers.base import BaseLayer, WeightedLayer
from relation_tf.layers.masking import (
    as_floats,
    boolean,
    close_up,
    spread_out,
    to_float32,
    zero_masked,
)
from relation_tf.layers.token_mixer import affine

_Linear = Callable[[Any], Any]
_BLOCK = 32


@keras.saving.register_keras_serializable(package="relation_tf")
class FCSR(WeightedLayer):
    """Full-context semantic representation: two gated cells over tokens and their contexts.

    `S` are the tokens, `S_l` and `S_r` their left and right contexts (see `FOFE`). Each cell
    computes four gates from its three inputs, `Gq, Gk, Gv, Go = relu([inputs] W + b)`:

    - context integration of `S, S_l, S_r`: `C = S * Gq + S_l * Gk + S_r * Gv`,
      `C^ = tanh(C) * Go`;
    - semantic analysis of `S, C, C^`: `H = S * Gq + C * Gk + C^ * Gv`, `H^ = tanh(H) * Go`.

    The output is `[C, C^, H, H^]`. Each cell has one matrix for all gates: rows in the order of
    its inputs, columns in the order q, k, v, o. Cost is linear in the number of tokens. On
    JAX there is no forward-mode derivative. H grows with the fourth power of the input and can
    exceed float16: use bfloat16.

    Args:
        decay: Factor in [0, 1) by which the weight of a token decreases per position of distance.
        window: Number of nearest tokens on each side to include, at least 1; None for all.
        **kwargs: As in `WeightedLayer`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`. Masked tokens are removed from contexts and distances;
            their outputs are zero.

    Returns:
        Tensor of shape `(batch, tokens, 4 width)`.

    Raises:
        ValueError: If `decay` or `window` is out of range or `x` has another shape.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import FCSR
        >>> FCSR(decay=0.2)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 12)
        True

    References:
        - The FCSR preprint, "Full-context semantic representation".
    """

    def __init__(self, decay: float = 0.2, window: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decay, self.window = checked_reach(decay, window)

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create a matrix and a bias for each cell."""
        self.width = width_of("x", x_shape)
        self.integration_kernel, self.integration_bias = self._add_cell("integration", self.width)
        self.analysis_kernel, self.analysis_bias = self._add_cell("analysis", self.width)
        self.built = True

    def call(self, x: Any, mask: Any = None) -> Any:
        """Apply the two cells."""
        x = self.as_tokens(x)
        mask = boolean(mask, x)
        x = zero_masked(x, mask)
        left, right = contexts(x, mask, self.decay, self.window)
        c, c_hat = self._cell(x, left, right, self.integration_kernel, self.integration_bias)
        h, h_hat = self._cell(x, c, c_hat, self.analysis_kernel, self.analysis_bias)
        return zero_masked(ops.concatenate([c, c_hat, h, h_hat], axis=-1), mask)

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return `(batch, tokens, 4 width)`."""
        return (*self.checked_shape(x_shape)[:-1], 4 * width_of("x", x_shape))

    def _add_cell(self, name: str, width: int) -> tuple[Any, Any]:
        kernel = self.add_kernel(f"{name}_kernel", 3 * width, 4 * width)
        return kernel, self.add_bias(f"{name}_bias", 4 * width)

    def _cell(self, q: Any, k: Any, v: Any, kernel: Any, bias: Any) -> tuple[Any, Any]:
        """Return the gated sum of three tensors and its tanh times the output gate."""
        gates = self._gates(affine(ops.concatenate([q, k, v], axis=-1), kernel, bias))
        gate_q, gate_k, gate_v, gate_o = ops.split(gates, 4, axis=-1)
        total = q * gate_q + k * gate_k + v * gate_v
        return total, ops.tanh(total) * gate_o

    def _gates(self, x: Any) -> Any:
        """Apply the activation of equations 5 and 7, which section 3.3.1 of the preprint names."""
        return ops.relu(x)


@keras.saving.register_keras_serializable(package="relation_tf")
class FeatureAttention(WeightedLayer):
    """Sequence representation from attention between features.

    `relu((R W_q)^T (R W_k) / sqrt(units)) W_f`: equation 9 of the FCSR preprint, interpreted so
    that its shapes agree. The first product, `(units, units)`, sums over tokens; `W_f` of shape
    `(units, 1)` sums over its columns. The output grows with the square of the input and with the
    number of tokens and can exceed float16: use bfloat16.

    With `products="elements"`, the other reading: the first product is element-wise, and `W_f`
    weighs its features, `sum over tokens of relu((R W_q) * (R W_k) / sqrt(units)) * W_f^T`.

    Args:
        units: Number of features, and width of the output.
        products: `"features"` or `"elements"`.
        bias_initializer: No effect: the layer has no biases.
        bias_regularizer: No effect.
        **kwargs: As in `WeightedLayer`.

    Call arguments:
        r: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`; masked tokens are excluded from the sum.

    Returns:
        Tensor of shape `(batch, units)`; zero if all tokens are masked.

    Raises:
        ValueError: If `units` is not a positive integer or `r` has another shape.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import FeatureAttention
        >>> FeatureAttention(units=8)(np.ones((2, 5, 3), "float32")).shape == (2, 8)
        True

    References:
        - The FCSR preprint, equation 9.
    """

    def __init__(self, units: int, products: str = "features", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = positive_integer("units", units)
        self.products = one_of("products", products, ("features", "elements"))

    def build(self, r_shape: tuple[int | None, ...]) -> None:
        """Create W_q, W_k and W_f."""
        self.width = width_of("r", r_shape)
        self.query_kernel = self.add_kernel("query_kernel", self.width, self.units)
        self.key_kernel = self.add_kernel("key_kernel", self.width, self.units)
        self.feature_kernel = self.add_kernel("feature_kernel", self.units, 1)
        self.built = True

    def call(self, r: Any, mask: Any = None) -> Any:
        """Compute equation 9."""
        r = self.as_tokens(r, "r")
        r = zero_masked(r, boolean(mask, r))
        q = to_float32(ops.matmul(r, self.query_kernel) * self.units**-0.5)
        k = to_float32(ops.matmul(r, self.key_kernel))
        kernel = to_float32(ops.convert_to_tensor(self.feature_kernel))
        if self.products == "elements":
            return ops.cast(ops.sum(ops.relu(q * k), axis=1) * kernel[:, 0], r.dtype)
        related = ops.relu(ops.matmul(ops.transpose(q, (0, 2, 1)), k))  # (batch, units, units)
        return ops.cast(ops.squeeze(ops.matmul(related, kernel), axis=-1), r.dtype)

    def compute_mask(self, r: Any, previous_mask: Any = None) -> None:
        """Return None: the output has no token axis."""
        return None

    def compute_output_shape(self, r_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return `(batch, units)`."""
        return (self.checked_shape(r_shape, "r")[0], self.units)


@keras.saving.register_keras_serializable(package="relation_tf")
class FOFE(BaseLayer):
    """Left and right context of each token, with weights that decay with distance.

    With `f(i) = S_i + decay f(i - 1)`, the left context of token t is `f` over `S_1 .. S_{t-1}`.
    The right context is `f` over `S_N .. S_{t+1}`, from the end of the sequence towards t. So the
    nearest neighbour has weight 1, the next token `decay`, then `decay^2`. The left context of the
    first token and the right context of the last token are zero. As a matrix over tokens the left
    context is strictly lower triangular, so it is singular (the FCSR preprint calls it invertible):
    the last token cannot be restored from it.

    The sums are computed by doubling, `f <- f + decay^(2^k) shift(f, 2^k)`, in time linear in the
    number of tokens, until weights are below the precision of float32. With a slow decay they are
    computed hierarchically in blocks of tokens. On JAX there is no forward-mode derivative.

    `keras.layers.TimeDistributed` supports only layers with one output, so not this one.

    Args:
        decay: Factor in [0, 1) by which the weight of a token decreases per position of distance.
            With 0 a context is the neighbour.
        window: Number of nearest tokens on each side to include, at least 1; None for all.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`. Masked tokens are removed from contexts and distances;
            their own contexts are zero.

    Returns:
        The left and the right contexts: two tensors with the shape of `x`.

    Raises:
        ValueError: If `decay` or `window` is out of range or `x` has another shape.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import FOFE
        >>> left, right = FOFE(decay=0.5)(np.array([[[1.0], [2.0], [4.0]]], "float32"))
        >>> np.asarray(left).ravel().tolist(), np.asarray(right).ravel().tolist()
        ([0.0, 1.0, 2.5], [4.0, 4.0, 0.0])

    References:
        - Zhang et al. 2015, "The Fixed-Size Ordinally-Forgetting Encoding Method for Neural Network
          Language Models".
        - The FCSR preprint, figure 3 for the window.
    """

    def __init__(self, decay: float = 0.2, window: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decay, self.window = checked_reach(decay, window)

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Check the shape; the layer has no weights."""
        width_of("x", x_shape)
        self.built = True

    def call(self, x: Any, mask: Any = None) -> tuple[Any, Any]:
        """Return the left and right contexts."""
        x = as_floats(x, self.compute_dtype)
        mask = boolean(mask, x)
        return contexts(x, mask, self.decay, self.window)

    def compute_mask(self, x: Any, previous_mask: Any = None) -> tuple[Any, Any]:
        """Return the mask of the input for both contexts."""
        return previous_mask, previous_mask

    def compute_output_shape(
        self, x_shape: tuple[int | None, ...]
    ) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
        """Return the shape of `x` for both contexts."""
        return tuple(x_shape), tuple(x_shape)


def checked_reach(decay: float, window: int | None) -> tuple[float, int | None]:
    """Return `decay` and `window`, or raise if one is out of range."""
    decay = float(rate("decay", decay))
    return decay, positive_integer_or_none("window", window)


def contexts(x: Any, mask: Any, decay: float, window: int | None) -> tuple[Any, Any]:
    """Compute left and right contexts, accumulated in float32 or wider.

    Args:
        x: Tensor of shape `(batch, tokens, width)`; the values at masked tokens have no effect.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.
        decay: As in `FOFE`.
        window: As in `FOFE`.

    Returns:
        Two tensors with the shape and dtype of `x`, zero at masked tokens.
    """
    compute = _compiled() if keras.backend.backend() == "jax" else _contexts
    return compute(x, mask, decay, window)


@cache
def _compiled() -> Callable[..., tuple[Any, Any]]:
    """Return `_contexts` compiled by JAX, once per shape.

    Without it each call outside `jax.jit` would compile the branches of `ops.cond` again.
    """
    import jax

    return jax.jit(_contexts, static_argnums=(2, 3))


def _contexts(x: Any, mask: Any, decay: float, window: int | None) -> tuple[Any, Any]:
    wide = zero_masked(to_float32(x), mask)
    left = partial(_left, decay=decay, window=window)

    def right(x: Any) -> Any:
        return ops.flip(left(ops.flip(x, axis=1)), axis=1)

    return (
        ops.cast(_of_kept(wide, mask, left, right), x.dtype),
        ops.cast(_of_kept(wide, mask, right, left), x.dtype),
    )


def _of_kept(x: Any, mask: Any, function: _Linear, transposed: _Linear) -> Any:
    """Apply a linear function to the unmasked tokens, with `transposed` as its gradient.

    The gradient then costs as much as the function. Automatic differentiation of its slices costs
    several times as much, and XLA in TensorFlow fails on `ops.cond` with unknown lengths.
    """

    @ops.custom_gradient
    def of_kept(x: Any, mask: Any = None) -> tuple[Any, Callable[..., Any]]:
        def gradient(*arguments: Any, upstream: Any = None) -> Any:
            upstream = arguments[0] if upstream is None else upstream
            for_x = _of_kept(zero_masked(upstream, mask), mask, transposed, function)
            return for_x if mask is None else (for_x, None)

        if mask is None:
            return function(x), gradient
        # Padding at the ends is zero and has no effect; a gap would increase distances.
        gap = _has_gap(mask)
        closed = ops.cond(gap, lambda: close_up(x, mask), lambda: x)
        output = function(closed)
        output = ops.cond(gap, lambda: spread_out(output, mask), lambda: output)
        return zero_masked(output, mask), gradient

    # The mask is an argument: JAX cannot vmap a custom gradient that captures tensors.
    return of_kept(x) if mask is None else of_kept(x, mask)


def _left(x: Any, decay: float, window: int | None) -> Any:
    """Compute the left contexts without a mask."""
    length = x.shape[1]
    reach = _reach(decay, float(np.finfo(keras.backend.standardize_dtype(x.dtype)).eps))
    if length is not None:
        reach = min(reach, max(length - 1, 1))
    if window is not None and window < reach:
        return _geometric_sum(_later(x, 1), decay, window)
    if reach > _BLOCK:
        return _left_by_blocks(x, decay)
    return _geometric_sum(_later(x, 1), decay, 1 << (reach - 1).bit_length())


def _reach(decay: float, epsilon: float) -> int:
    """Return the smallest n with `decay^n / (1 - decay)`, the sum of later weights, <= epsilon."""
    if decay == 0:
        return 1
    return max(math.ceil(math.log(epsilon * (1 - decay)) / math.log(decay)), 1)


def _left_by_blocks(x: Any, decay: float) -> Any:
    """Compute the left contexts by recursion over blocks of tokens.

    The sums of blocks form a shorter sequence. Its left contexts with `decay^_BLOCK` are the
    contributions of earlier blocks, so that doublings over all tokens stay within a block.
    """
    length, width = ops.shape(x)[1], x.shape[2]
    padding = -length % _BLOCK
    padded = ops.pad(x, ((0, 0), (0, padding), (0, 0)))
    inside = _geometric_sum(ops.reshape(padded, (-1, _BLOCK, width)), decay, _BLOCK)
    blocks = ops.reshape(inside[:, -1], (-1, (length + padding) // _BLOCK, width))
    before = ops.reshape(_left(blocks, decay**_BLOCK, None), (-1, 1, width))
    fading = ops.cast(decay ** np.arange(_BLOCK)[:, None], x.dtype)
    left = _later(inside, 1) + fading * before
    return ops.reshape(left, (-1, length + padding, width))[:, :length]


def _geometric_sum(x: Any, decay: float, terms: int) -> Any:
    """Compute `sum over k < terms of decay^k x_{t - k}`.

    Processes the binary digits of `terms`: each digit doubles the number of terms, 1 adds a term.
    """
    total, summed = x, 1
    for digit in f"{terms:b}"[1:]:
        total = total + decay**summed * _later(total, summed)
        summed *= 2
        if digit == "1":
            total = x + decay * _later(total, 1)
            summed += 1
    return total


def _later(x: Any, steps: int) -> Any:
    """Shift tokens `steps` positions to the right and pad with zeros."""
    return ops.concatenate([ops.zeros_like(x[:, :steps]), x[:, :-steps]], axis=1)


def _has_gap(mask: Any) -> Any:
    """Return True if any sequence has a masked token between unmasked tokens."""
    begins = ops.logical_and(mask[:, 1:], ops.logical_not(mask[:, :-1]))
    first = mask[:, :1]  # a slice, for zero tokens too
    runs = sum(ops.sum(ops.cast(x, "int32"), axis=1) for x in (first, begins))
    return ops.any(runs > 1)
