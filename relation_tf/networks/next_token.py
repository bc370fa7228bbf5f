"""Causal network of the timing tasks `decode-N`: token ids to logits of the next token."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers import SinePositionEncoding
from relation_tf.networks.mechanisms import find_mechanism, in_blocks, make_layer
from relation_tf.networks.precision import dtype_policy


class NextTokenNetwork:
    """Network from token ids to logits of the next token, for whole texts or token by token.

    Args:
        mechanism: Token-mixing layer: a registered name or `"package.module:Name"`. It must be
            causal and have the methods `initial_state` and `step`.
        vocabulary_size: Number of ids, including 0 (padding).
        units: Width of the mechanism.
        embedding_dim: Width of the embedding.
        options: Further arguments of the mechanism.

    Attributes:
        model: Keras model from ids `(batch, tokens)` to logits `(batch, tokens, vocabulary_size)`.
        mechanism: The token-mixing layer.

    Raises:
        ValueError: If the mechanism is not causal, has no steps, or rejects the options.

    Example:
        >>> import numpy as np
        >>> network = NextTokenNetwork("relation", 9, units=8, options={"causal": True})
        >>> state = network.initial_state(batch_size=2, max_length=5)
        >>> table = network.positions(5)
        >>> logits, state = network.step(np.array([3, 4]), table[:, 0], state)
        >>> tuple(logits.shape)
        (2, 9)
    """

    def __init__(
        self,
        mechanism: str,
        vocabulary_size: int,
        units: int = 64,
        embedding_dim: int = 64,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        entry = find_mechanism(mechanism)
        self.mechanism = make_layer(entry, units, 0.0, options)
        self._positions = SinePositionEncoding() if entry.positions == "sine" else None
        self._embedding = keras.layers.Embedding(vocabulary_size, embedding_dim, name="embedding")
        self._head = keras.layers.Dense(vocabulary_size, name="next_token")
        ids = keras.Input((None,), dtype="int32")
        x = self._embedding(ids)
        x = self.mechanism(x if self._positions is None else self._positions(x))
        self.model = keras.Model(ids, self._head(x))
        steps = all(hasattr(self.mechanism, name) for name in ("initial_state", "step"))
        if not (getattr(self.mechanism, "causal", False) and steps):
            raise ValueError(
                f"mechanism {mechanism!r} with options = {dict(options or {})} must be causal and "
                'have the methods `initial_state` and `step`. Example: mechanism = "relation", '
                "options = { causal = true }"
            )
        if changed := state_change(self.mechanism, embedding_dim):
            raise ValueError(changed)

    def initial_state(self, batch_size: int, max_length: int) -> Any:
        """Return the state of the mechanism before the first token."""
        return self.mechanism.initial_state(batch_size, max_length)

    def positions(self, length: int) -> Any:
        """Return the position encodings, `(1, length, embedding_dim)`."""
        dtype = self._embedding.compute_dtype
        zeros = ops.zeros((1, length, self._embedding.output_dim), dtype)
        return zeros if self._positions is None else self._positions(zeros)

    def step(self, ids: Any, position: Any, state: Any) -> tuple[Any, Any]:
        """Process one token of each text.

        Args:
            ids: Token ids, `(batch,)`.
            position: Encoding of the current position, `(1, embedding_dim)`.
            state: State from `initial_state` or from the previous step.

        Returns:
            The logits of the next token, float32, `(batch, vocabulary_size)`; and the next state.
        """
        x = self._embedding(ids) + position
        x, state = self.mechanism.step(x[:, None], state)
        return ops.cast(self._head(x)[:, 0], "float32"), state


@dtype_policy("float32")
def state_bytes(
    mechanism: str,
    units: int,
    embedding_dim: int,
    options: Mapping[str, Any] | None = None,
    max_length: int | None = None,
) -> int | None:
    """Return the state size of the causal form of a mechanism for one text in float32, in bytes.

    Args:
        mechanism: As for `NextTokenNetwork`, with or without `causal=True` in the options.
        units: Width of the mechanism.
        embedding_dim: Width of the tokens.
        options: Further arguments of the mechanism.
        max_length: Number of tokens.

    Returns:
        The size; None if the mechanism has no causal form with `step`.

    Example:
        >>> [state_bytes("attention", 64, 64, max_length=length) for length in (128, 256)]
        [65668, 131332]
        >>> state_bytes("relation", 64, 64, max_length=256)
        260
    """
    entry = find_mechanism(mechanism)
    causal = {**in_blocks(entry, options, equations=True), "causal": True}
    try:
        layer = make_layer(entry, units, 0.0, causal)
        layer.build((1, None, embedding_dim))
        state = layer.initial_state(1, max_length)
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return None
    return bytes_of(state)


def bytes_of(state: Any) -> int:
    """Return the size of a state in bytes."""
    return sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in _parts(state))


def state_change(layer: Any, width: int) -> str | None:
    """Check that a step does not change the shapes and dtypes of the state.

    A loop of steps can be compiled only if they are constant.

    Args:
        layer: A built causal layer with `initial_state(batch_size, max_length)` and
            `step(x, state)`.
        width: Width of its input.

    Returns:
        A message if they change, else None.
    """
    state = layer.initial_state(1, 2)
    _, after = layer.step(ops.zeros((1, 1, width), layer.compute_dtype), state)
    before, after = _parts(state), _parts(after)
    if before == after:
        return None
    return (
        f"`step` of {type(layer).__name__} changes the shapes or dtypes of the state, so that "
        f"steps cannot be compiled: {_described(before)} before, {_described(after)} after a step"
    )


def _parts(state: Any) -> list[tuple[tuple[int, ...], str]]:
    tensors = [ops.convert_to_tensor(part) for part in keras.tree.flatten(state)]
    return [(tuple(part.shape), keras.backend.standardize_dtype(part.dtype)) for part in tensors]


def _described(parts: list[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{dtype} {shape}" for shape, dtype in parts) or "nothing"
