"""What the sentence encoders that stand beside the mechanisms have in common."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import keras
from keras import ops

from relation_tf.layers.masking import zero_masked
from relation_tf.layers.token_mixer import width_of


class SentenceEncoder(keras.layers.Layer):
    """A layer from the tokens of a sentence to one vector, or to tokens that know the sentence.

    It owns what all encoders share: checked arguments, masks and the kernels' initializer. An
    encoder adds its weights in `build_encoder` and its equation in `encode`; it says by
    `gives_tokens` and `output_width` what comes out.

    Args:
        units: Width of the layer, at least 1.
        kernel_initializer: Initializer of the matrices.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    def __init__(
        self, units: int, *, kernel_initializer: Any = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.units = positive_integer("units", units)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True

    @property
    def gives_tokens(self) -> bool:
        """Whether the output is `(batch, tokens, width)`; else it is `(batch, width)`."""
        return False

    def output_width(self, width: int) -> int:
        """Width of the output for inputs of a width."""
        return self.units

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the weights."""
        self.build_encoder(width_of("x", x_shape))
        self.built = True

    def build_encoder(self, width: int) -> None:
        """Create the encoder's own weights."""
        raise NotImplementedError

    def encode(self, x: Any, mask: Any, training: bool) -> Any:
        """The equation. Masked tokens of `x` are zero here; `mask` is boolean or None."""
        raise NotImplementedError

    def call(self, x: Any, mask: Any = None, training: bool | None = None) -> Any:
        """Encode the sentences.

        Args:
            x: Tensor of shape `(batch, tokens, width)`.
            mask: Boolean tensor of shape `(batch, tokens)`, True where a token is kept. What a
                masked token holds changes no output.
            training: Whether to apply dropout.

        Returns:
            Tensor of shape `(batch, width)`, or `(batch, tokens, width)`, zero at masked tokens.
        """
        mask = None if mask is None else ops.cast(mask, "bool")
        y = self.encode(zero_masked(x, mask), mask, bool(training))
        return zero_masked(y, mask) if self.gives_tokens else y

    def compute_mask(self, x: Any, previous_mask: Any = None) -> Any:
        """Tokens keep their mask; a vector has none."""
        return previous_mask if self.gives_tokens else None

    def compute_output_shape(self, x_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """`(batch, width)` or `(batch, tokens, width)`."""
        width = self.output_width(width_of("x", x_shape))
        return (*x_shape[: 2 if self.gives_tokens else 1], width)

    def add_dense(self, name: str, width: int, units: int, **arguments: Any) -> keras.layers.Dense:
        """A Dense from `width` to `units`, built."""
        dense = keras.layers.Dense(
            units,
            # An initializer without a seed draws one when it is made: matrices that shared it
            # would start alike.
            kernel_initializer=self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
            **arguments,
        )
        dense.build((None, width))
        return dense

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }


def positive_integer(name: str, value: Any) -> int:
    """The value of an argument that must be a positive integer."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value!r}")
    return int(value)
