"""What the causal forms of the mechanisms have in common."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import width_of
from relation_tf.layers.masking import softmax, to_float32, zero_masked
from relation_tf.layers.token_mixer import TokenMixer


class CausalMixer(TokenMixer):
    """A token mixer that has a causal form: query i sees the tokens of `value` up to i.

    Positions are counted from the start in both, as by `use_causal_mask` of Keras's attention
    layers. So `layer(x[:, :1], x)` is the first output of `layer(x)`, where the first token sees
    itself alone; what a causal network reads is its last token.

    The causal form also goes one token at a time:

        state = layer.initial_state(batch_size)
        for i in range(length):
            output, state = layer.step(x[:, i : i + 1], state)

    gives what `layer(x)` gives, position by position. Shapes and types of a state never change, so
    that a step, and a loop of steps, can be compiled.

    Args:
        units: Width of the output, at least 1.
        causal: Whether a query sees no later token.
        **kwargs: As in `TokenMixer`.
    """

    def __init__(self, units: int, *, causal: bool = False, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.causal = causal

    def initial_state(self, batch_size: int, max_length: int | None = None) -> tuple[Any, ...]:
        """The state before the first token.

        Args:
            batch_size: Number of sequences.
            max_length: The most steps, where the state holds all tokens, as that of `Attention`;
                others do not grow, and need none.

        Returns:
            A tuple of tensors, which `step` takes.

        Raises:
            ValueError: Where the layer is not causal, not built, or needs a `max_length`.
        """
        check_steps(self)
        return self.start(batch_size, max_length)

    def step(self, x: Any, state: tuple[Any, ...], mask: Any = None) -> tuple[Any, tuple[Any, ...]]:
        """The next token of each sequence, not in training.

        Args:
            x: Tensor of shape `(batch, 1, width)`.
            state: What `initial_state` or the step before gave.
            mask: Boolean tensor of shape `(batch, 1)`, by default True. Where it is False the
                output is zero and later tokens do not see this one.

        Returns:
            The output, `(batch, 1, units)`, and the next state.

        Raises:
            ValueError: Where `x` is of another shape.
        """
        x = ops.convert_to_tensor(x, dtype=self.compute_dtype)
        width_of("x", x.shape)
        if x.shape[1] != 1:
            raise ValueError(
                f"`x` must be one token, (batch, 1, width). Received: x.shape={tuple(x.shape)}"
            )
        mask = ops.ones(ops.shape(x)[:2], "bool") if mask is None else ops.cast(mask, "bool")
        # Outside of a call Keras casts no weights: under a mixed policy this is in float32.
        output, state = self.advance(zero_masked(x, mask), state, mask)
        output = ops.cast(self.project_output(output, training=False), self.compute_dtype)
        return zero_masked(output, mask), state

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """The mechanism's own state before the first token."""
        raise NotImplementedError

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """The equation for one more token, zero where masked, and the next state."""
        raise NotImplementedError

    def zeros(self, *shape: int) -> Any:
        """Zeros to sum up in, in float32 or wider."""
        return ops.zeros(shape, keras.backend.result_type(self.compute_dtype, "float32"))


def check_steps(layer: Any) -> None:
    """Refuse one token at a time where a layer is not causal or not built.

    Raises:
        ValueError: Then.
    """
    if not layer.causal:
        raise ValueError("one token at a time needs causal=True. Received: causal=False")
    if not layer.built:
        raise ValueError(
            f"{layer.name!r} must be built, by a call or by build(), before it has a state."
        )


def aligned(query: Any, value: Any, value_mask: Any) -> tuple[Any, Any]:
    """The tokens of `value` at the positions of `query`, and their mask.

    Tokens after the last query are seen by none and left out; where there are fewer tokens than
    queries, masked ones follow.
    """
    if query is value or query.shape[1] == value.shape[1] is not None:
        return value, value_mask
    length = ops.shape(query)[1]
    if value_mask is None:
        value_mask = ops.ones(ops.shape(value)[:2], "bool")
    value, value_mask = value[:, :length], value_mask[:, :length]
    missing = length - ops.shape(value)[1]
    value_mask = ops.pad(ops.cast(value_mask, "int32"), ((0, 0), (0, missing)))
    return ops.pad(value, ((0, 0), (0, missing), (0, 0))), ops.cast(value_mask, "bool")


def up_to_own(num_tokens: Any) -> Any:
    """`(tokens, tokens)`, True where a column's position is not after the row's."""
    positions = ops.arange(num_tokens, dtype="int32")
    return positions[:, None] >= positions


def running_mean(x: Any, mask: Any) -> tuple[Any, Any]:
    """Mean over the kept tokens up to each, accumulated in float32 or wider.

    Args:
        x: Tensor of shape `(batch, tokens, width)`, zero at masked tokens.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.

    Returns:
        Tensor like `x`, zero up to the first kept token, and a boolean tensor of shape
        `(batch, tokens, 1)`, True from there on; None where all are kept.
    """
    total = ops.cumsum(to_float32(x), axis=1)
    if mask is None:
        count = ops.arange(1, ops.shape(x)[1] + 1, dtype=total.dtype)[:, None]
        return ops.cast(total / count, x.dtype), None
    count = ops.cumsum(ops.cast(mask, total.dtype), axis=1)[..., None]
    return ops.cast(total / ops.maximum(count, 1.0), x.dtype), count > 0


def causal_softmax(scores: Any, mask: Any) -> Any:
    """`masked_softmax` of `(batch, tokens, tokens)`, with zero weight on later tokens too."""
    wide = to_float32(scores)
    kept = up_to_own(ops.shape(scores)[1])
    if mask is not None:
        kept = ops.logical_and(kept, mask[:, None, :])
    weights = softmax(ops.where(kept, wide, -1e30))
    return ops.cast(ops.where(kept, weights, 0.0), scores.dtype)
