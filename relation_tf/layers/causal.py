"""Base class and functions of causal token mixing."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from relation_tf.layers.arguments import check_width, differ, true_or_false, width_of
from relation_tf.layers.masking import float32_or_wider, softmax_over, to_float32, zero_masked
from relation_tf.layers.token_mixer import TokenMixer, Variant


class CausalMixer(TokenMixer):
    """Token mixer with a causal form: query i sees tokens 1 to i of `value`.

    Positions start at the first token of `query` and of `value`, as with `use_causal_mask` in
    Keras's attention layers. So `layer(x[:, :1], x)` is the first output of `layer(x)`, and its
    token sees only itself. Causal networks therefore read the last token.

    The causal form can also process one token at a time. The outputs equal those of `layer(x)`:

        state = layer.initial_state(batch_size)
        for i in range(length):
            output, state = layer.step(x[:, i : i + 1], state)

    The shapes and dtypes of the state are constant, so that steps can be compiled.

    Args:
        units: Width of the output, at least 1.
        variant: As in `TokenMixer`.
        use_bias: As in `TokenMixer`.
        dropout: As in `TokenMixer`.
        output_projection: As in `TokenMixer`.
        algorithm: As in `TokenMixer`.
        causal: If True, a query does not see later tokens.
        seed: As in `TokenMixer`.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    def __init__(
        self,
        units: int,
        *,
        variant: Variant = "equations",
        use_bias: bool | None = None,
        dropout: float | None = None,
        output_projection: bool | None = None,
        algorithm: str = "auto",
        causal: bool = False,
        seed: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            units,
            variant=variant,
            use_bias=use_bias,
            dropout=dropout,
            output_projection=output_projection,
            algorithm=algorithm,
            seed=seed,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            **kwargs,
        )
        self.causal = true_or_false("causal", causal)

    def initial_state(self, batch_size: int, max_length: int | None = None) -> tuple[Any, ...]:
        """Return the state before the first token.

        Args:
            batch_size: Number of sequences.
            max_length: Maximum number of steps. Required by layers with a state that holds all
                tokens (`Attention`), ignored by others.

        Returns:
            A tuple of tensors for `step`.

        Raises:
            ValueError: If the layer is not causal, not built, or requires a `max_length`.
        """
        check_steps(self)
        return self.start(batch_size, max_length)

    def step(self, x: Any, state: tuple[Any, ...], mask: Any = None) -> tuple[Any, tuple[Any, ...]]:
        """Process the next token of each sequence, in inference mode.

        Args:
            x: Tensor of shape `(batch, 1, width)`.
            state: State from `initial_state` or from the previous step.
            mask: Boolean tensor of shape `(batch, 1)`, default: all True. If False, the output is
                zero and later tokens do not see this token.

        Returns:
            The output, shape `(batch, 1, units)`, and the next state.

        Raises:
            ValueError: If the layer is not causal or not built, if `x` or `mask` has another shape,
                or if the state is of another batch size.
        """
        check_steps(self)
        x, mask = one_token(x, mask, self.compute_dtype)
        for width in (self.query_width, self.value_width):
            check_width("x", x.shape, width)
        check_state(state, x)
        # Keras casts weights only inside `call`: under a mixed policy steps run in float32.
        output, state = self.advance(zero_masked(x, mask), state, mask)
        output = ops.cast(self.project_output(output, training=False), self.compute_dtype)
        return zero_masked(output, mask), state

    def start(self, batch_size: int, max_length: int | None) -> tuple[Any, ...]:
        """Return the mechanism's state before the first token."""
        raise NotImplementedError

    def advance(self, x: Any, state: Any, mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return the mechanism's output for one token (zero if masked) and the next state."""
        raise NotImplementedError

    def zeros(self, *shape: int) -> Any:
        """Return zeros in float32 or wider, for accumulation."""
        return ops.zeros(shape, float32_or_wider(self.compute_dtype))


def one_token(x: Any, mask: Any, dtype: str) -> tuple[Any, Any]:
    """Return one token of each sequence and its mask, or raise for other shapes.

    Args:
        x: Tensor of shape `(batch, 1, width)`.
        mask: Boolean tensor of shape `(batch, 1)`, or None for all True.
        dtype: Type of the token.
    """
    x = ops.convert_to_tensor(x, dtype=dtype)
    width_of("x", x.shape)
    if x.shape[1] != 1:
        raise ValueError(
            "`x` must have shape (batch, 1, width), one token per sequence. "
            f"Received: x.shape={tuple(x.shape)}"
        )
    if mask is None:
        return x, ops.ones(ops.shape(x)[:2], "bool")
    mask = ops.cast(mask, "bool")
    if len(mask.shape) != 2 or mask.shape[1] != 1 or differ(mask.shape[0], x.shape[0]):
        raise ValueError(
            "`mask` must have shape (batch, 1). "
            f"Received: mask.shape={tuple(mask.shape)}, x.shape={tuple(x.shape)}"
        )
    return x, mask


def check_steps(layer: Any) -> None:
    """Raise a ValueError if a layer is not causal or not built."""
    if not layer.causal:
        raise ValueError("`initial_state` and `step` require causal=True. Received: causal=False")
    check_built(layer)


def check_state(state: Any, x: Any) -> None:
    """Raise a ValueError if a tensor of a state is known to have another batch size than `x`."""
    for part in keras.tree.flatten(state):  # Numbers of tokens may be one for all sequences.
        if len(part.shape) > 1 and differ(part.shape[0], x.shape[0]):
            raise ValueError(
                "`state` must have the batch size of `x`. "
                f"Received: shape {tuple(part.shape)} in the state, x.shape={tuple(x.shape)}"
            )


def check_built(layer: Any) -> None:
    """Raise a ValueError if a layer is not built."""
    if not layer.built:
        raise ValueError(
            f"layer {layer.name!r} has no state before it is built. "
            "Call the layer or its build() first."
        )


def aligned(query: Any, value: Any, value_mask: Any) -> tuple[Any, Any]:
    """Truncate or pad `value` and its mask to the length of `query`.

    No query sees the tokens after the last query. Padded tokens are masked.
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
    """Return the causal mask `(tokens, tokens)`: True if column <= row."""
    positions = ops.arange(num_tokens, dtype="int32")
    return positions[:, None] >= positions


def running_mean(x: Any, mask: Any) -> tuple[Any, Any]:
    """Return the mean over the unmasked tokens up to each position, summed in float32 or wider.

    Args:
        x: Tensor of shape `(batch, tokens, width)`, zero at masked tokens.
        mask: Boolean tensor of shape `(batch, tokens)`, or None to keep all.

    Returns:
        Tensor with the shape and dtype of `x`, zero before the first unmasked token; and a boolean
        tensor of shape `(batch, tokens, 1)`, True from the first unmasked token on (None if `mask`
        is None).
    """
    total = ops.cumsum(to_float32(x), axis=1)
    if mask is None:
        count = ops.arange(1, ops.shape(x)[1] + 1, dtype=total.dtype)[:, None]
        return ops.cast(total / count, x.dtype), None
    count = ops.cumsum(ops.cast(mask, total.dtype), axis=1)[..., None]
    return ops.cast(total / ops.maximum(count, 1.0), x.dtype), count > 0


def mean_step(x: Any, state: tuple[Any, Any], mask: Any) -> tuple[Any, tuple[Any, Any]]:
    """Add a token to a running mean.

    Args:
        x: Tensor of shape `(batch, 1, width)`, zero at masked tokens.
        state: Sum and number of the unmasked tokens before it, `(batch, 1, width)` and
            `(batch, 1, 1)`.
        mask: Boolean tensor of shape `(batch, 1)`.

    Returns:
        The mean, with the shape and dtype of `x`; zero without unmasked tokens. The next state.
    """
    total, count = state
    total = total + to_float32(x)
    count = count + ops.cast(mask[..., None], count.dtype)
    return ops.cast(total / ops.maximum(count, 1.0), x.dtype), (total, count)


def causal_softmax(scores: Any, mask: Any) -> Any:
    """Apply `masked_softmax` to `(batch, tokens, tokens)` with zero weight on later tokens."""
    kept = up_to_own(ops.shape(scores)[1])
    return softmax_over(scores, kept if mask is None else ops.logical_and(kept, mask[:, None, :]))
