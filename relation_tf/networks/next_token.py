"""A causal network as a suite of `decode-N` times it: from token ids to the logits of the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from relation_tf.layers import SinePositionEncoding
from relation_tf.networks.mechanisms import find_mechanism, make_layer


class NextTokenNetwork:
    """Ids to the logits of each next token, of whole texts and a token at a time.

    Args:
        mechanism: What mixes the tokens: a name of the registry, or `"package.module:Name"`. It has
            to be causal, and to have `initial_state` and `step`.
        vocabulary_size: Number of ids, 0 (padding) included.
        units: Width of the mechanism.
        embedding_dim: Width of the embedding.
        options: Further arguments of the mechanism.

    Attributes:
        model: From ids `(batch, tokens)` to logits `(batch, tokens, vocabulary_size)`.
        mechanism: The layer.

    Raises:
        ValueError: For a mechanism that is not so, and options that cannot be.

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
                "expected a causal mechanism with `initial_state` and `step`, such as relation "
                f"with options = {{ causal = true }}. Received: {mechanism!r} with "
                f"options = {dict(options or {})}"
            )
        if changed := state_change(self.mechanism, embedding_dim):
            raise ValueError(changed)

    def initial_state(self, batch_size: int, max_length: int) -> Any:
        """The state of the mechanism before the first token, with room for all."""
        return self.mechanism.initial_state(batch_size, max_length)

    def positions(self, length: int) -> Any:
        """What stands for the place of each token, `(1, length, embedding_dim)`."""
        dtype = self._embedding.compute_dtype
        zeros = ops.zeros((1, length, self._embedding.output_dim), dtype)
        return zeros if self._positions is None else self._positions(zeros)

    def step(self, ids: Any, position: Any, state: Any) -> tuple[Any, Any]:
        """One more token of each text.

        Args:
            ids: `(batch,)`.
            position: Of this place, `(1, embedding_dim)`.
            state: What `initial_state` or the step before gave.

        Returns:
            The logits of the next token, float32, `(batch, vocabulary_size)`, and the next state.
        """
        x = self._embedding(ids) + position
        x, state = self.mechanism.step(x[:, None], state)
        return ops.cast(self._head(x)[:, 0], "float32"), state


def state_change(layer: Any, width: int) -> str | None:
    """What is wrong with a state that changes its shapes or types: no loop of steps can compile it.

    Args:
        layer: A causal layer that is built, with `initial_state(batch_size, max_length)` and
            `step(x, state)`.
        width: Of its input.

    Returns:
        What was expected and what came; None where nothing changes.
    """
    state = layer.initial_state(1, 2)
    _, after = layer.step(ops.zeros((1, 1, width), layer.compute_dtype), state)
    before, after = _parts(state), _parts(after)
    if before == after:
        return None
    return (
        f"expected a state whose parts stay as `initial_state` of {type(layer).__name__} makes "
        f"them, {_told(before)}. Received after a step: {_told(after)}"
    )


def _parts(state: Any) -> list[tuple[tuple[int, ...], str]]:
    tensors = [ops.convert_to_tensor(part) for part in keras.tree.flatten(state)]
    return [(tuple(part.shape), keras.backend.standardize_dtype(part.dtype)) for part in tensors]


def _told(parts: list[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{dtype} {shape}" for shape, dtype in parts) or "nothing"
