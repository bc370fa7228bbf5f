"""Left and right contexts by fixed-size ordinally forgetting encoding."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.arguments import positive_integer, rate, width_of
from relation_tf.layers.base import BaseLayer
from relation_tf.layers.masking import boolean, to_float32, zero_masked

_Linear = Callable[[Any], Any]

_BLOCK = 32


@keras.saving.register_keras_serializable(package="relation_tf")
class FOFE(BaseLayer):
    """What stands left and right of each token, the nearer the heavier.

    With `f(i) = S_i + decay f(i - 1)` the left context of token t is `f` over `S_1 .. S_{t-1}`; the
    right one is `f` over `S_N .. S_{t+1}`, from the far end towards t. So the nearest neighbour has
    weight 1, the next one `decay`, then `decay^2`. At the ends the contexts are zero.

    The sums come from doublings, `f <- f + decay^(2^k) shift(f, 2^k)`, in time linear in the number
    of tokens, and end where weights are below the rounding of float32. With a slow decay they go
    by blocks of tokens, then by blocks of those.

    Args:
        decay: Weight of a token relative to its nearer neighbour, in [0, 1). With 0 a context is
            just the neighbour.
        window: How many of the nearest tokens on each side count, at least 1; None for all.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Tensor of shape `(batch, tokens, width)`.
        mask: Boolean, `(batch, tokens)`. Masked tokens might as well not be there: they are in no
            context and no distance. Both contexts at masked tokens are zero.

    Returns:
        The left and the right contexts, two tensors of the shape of `x`.

    Raises:
        ValueError: `decay` or `window` is out of its range, or `x` of another shape.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import FOFE
        >>> left, right = FOFE(decay=0.5)(np.array([[[1.0], [2.0], [4.0]]], "float32"))
        >>> np.asarray(left).ravel().tolist(), np.asarray(right).ravel().tolist()
        ([0.0, 1.0, 2.5], [4.0, 4.0, 0.0])

    References:
        - Zhang et al. 2015, "The Fixed-Size Ordinally-Forgetting Encoding Method for Neural Network
          Language Models".
        - The FCSR preprint; its figure 3 has the window.
    """

    def __init__(self, decay: float = 0.2, window: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decay, self.window = checked_reach(decay, window)

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Check the shape; there are no weights."""
        width_of("x", x_shape)
        self.built = True

    def call(self, x: Any, mask: Any = None) -> tuple[Any, Any]:
        """The two contexts."""
        mask = boolean(mask)
        return contexts(x, mask, self.decay, self.window)

    def compute_mask(self, x: Any, previous_mask: Any = None) -> tuple[Any, Any]:
        """Both contexts keep the mask."""
        return previous_mask, previous_mask

    def compute_output_shape(
        self, x_shape: tuple[int | None, ...]
    ) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
        """Twice the shape of `x`."""
        return tuple(x_shape), tuple(x_shape)


def checked_reach(decay: float, window: int | None) -> tuple[float, int | None]:
    """Return decay and window; refuse those that no context can have."""
    return float(rate("decay", decay)), None if window is None else positive_integer(
        "window", window
    )


def contexts(x: Any, mask: Any, decay: float, window: int | None) -> tuple[Any, Any]:
    """Left and right contexts, accumulated in float32 or wider.

    Args:
        x: Tensor of shape `(batch, tokens, width)`; what masked tokens hold does not matter.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.
        decay: As in `FOFE`.
        window: As in `FOFE`.

    Returns:
        Two tensors like `x`, zero at masked tokens.
    """
    wide = zero_masked(to_float32(x), mask)
    left = partial(_left, decay=decay, window=window)

    def right(x: Any) -> Any:
        return ops.flip(left(ops.flip(x, axis=1)), axis=1)

    return (
        ops.cast(_of_kept(wide, mask, left, right), x.dtype),
        ops.cast(_of_kept(wide, mask, right, left), x.dtype),
    )


def _of_kept(x: Any, mask: Any, function: _Linear, transposed: _Linear) -> Any:
    """A function of the kept tokens alone, with `transposed` as its gradient.

    That costs what the function costs; the gradients of its slices, one by one, cost several times
    as much, and TensorFlow has none for a condition by XLA where lengths are not known.
    """

    @ops.custom_gradient
    def of_kept(x: Any, mask: Any = None) -> tuple[Any, Callable[..., Any]]:
        def gradient(*arguments: Any, upstream: Any = None) -> Any:
            upstream = arguments[0] if upstream is None else upstream
            for_x = _of_kept(zero_masked(upstream, mask), mask, transposed, function)
            return for_x if mask is None else (for_x, None)

        if mask is None:
            return function(x), gradient
        # Padding at the ends is zero and adds nothing; a gap would stretch distances.
        gap = _has_gap(mask)
        together = ops.cond(gap, lambda: _close_up(x, mask), lambda: x)
        output = function(together)
        output = ops.cond(gap, lambda: _spread_out(output, mask), lambda: output)
        return zero_masked(output, mask), gradient

    # The mask is an argument because JAX cannot batch a function with a gradient that captures it.
    return of_kept(x) if mask is None else of_kept(x, mask)


def _left(x: Any, decay: float, window: int | None) -> Any:
    """The left contexts where all tokens count."""
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
    """The distance at which all further weights together, decay^n / (1 - decay), are < epsilon."""
    if decay == 0:
        return 1
    return max(math.ceil(math.log(epsilon * (1 - decay)) / math.log(decay)), 1)


def _left_by_blocks(x: Any, decay: float) -> Any:
    """The left contexts by blocks of tokens, themselves tokens of a shorter sequence.

    A block hands on the sum over its tokens; what reaches a block from those before it is again a
    left context, with `decay^_BLOCK`. So the doublings of all tokens stay within a block.
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
    """`sum over k < terms of decay^k x_{t - k}`.

    The binary digits of `terms` say how: each doubles what is summed, a one adds a term more.
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
    """Each token `steps` places later, zeros before; any number of steps, any length."""
    return ops.concatenate([ops.zeros_like(x[:, :steps]), x[:, :-steps]], axis=1)


def _has_gap(mask: Any) -> Any:
    """Whether kept tokens stand on both sides of a masked one in any sequence."""
    begins = ops.logical_and(mask[:, 1:], ops.logical_not(mask[:, :-1]))
    runs = ops.sum(ops.cast(begins, "int32"), axis=1) + ops.cast(mask[:, 0], "int32")
    return ops.any(runs > 1)


def _close_up(x: Any, mask: Any) -> Any:
    """The kept tokens moved together, the others behind them."""
    position = ops.arange(ops.shape(mask)[1], dtype="int32")
    # Distinct keys, so that no sort can change the order.
    order = ops.argsort(ops.where(mask, position, position + ops.shape(mask)[1]), axis=1)
    return ops.take_along_axis(x, order[..., None], axis=1)


def _spread_out(x: Any, mask: Any) -> Any:
    """The kept tokens moved back to their places; anything at the others."""
    place = ops.maximum(ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1, 0)
    return ops.take_along_axis(x, place[..., None], axis=1)
