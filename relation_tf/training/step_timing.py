"""Time a causal network that reads a text one token at a time."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError, in_one_line
from relation_tf.networks.next_token import NextTokenNetwork, bytes_of
from relation_tf.networks.precision import dtype_policy
from relation_tf.training.pass_timing import PassTimer
from relation_tf.training.trainer import trace

_FIRST_TOKENS = 128  # tokens to check before the timing
_TOLERANCE = 1e-2  # relative to the largest logit; a GPU multiplies with 10-bit precision


class StepTimer(PassTimer):
    """Timer of a causal network that computes next-token logits after each token.

    The next token comes from the text, so that all networks read the same text; choosing the most
    probable token instead would cost almost no time.

    Raises:
        ValueError: If the mechanism cannot read one token at a time.
        SuiteError: If the logits of the steps differ from those of the whole text.
    """

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Build the network of a run's method with a small vocabulary."""
        with in_one_line(f"method {config.method}"):
            _build(config, vocabulary_size=2)

    def read(self) -> np.ndarray:
        """Return the logits after the last token, `(batch, vocabulary)`."""
        logits: np.ndarray = self._pass(self._text).numpy()
        return logits

    def _start(self) -> keras.Model:
        self._network = self._build_network(self.config.seed)
        return self._network.model

    def _build_network(self, seed: int) -> NextTokenNetwork:
        keras.utils.set_random_seed(seed)
        assert self.task.vocabulary is not None  # of a task that is timed
        return _build(self.config, self.task.vocabulary.size)

    def _build(self, seed: int) -> keras.Model:
        return self._build_network(seed).model

    def _compile(self, ids: np.ndarray) -> None:
        self._text = tf.constant(ids)
        self._positions = self._network.positions(ids.shape[1])
        self._pass = trace(self._read, tf.TensorSpec((len(ids), None), tf.int32))
        self._check_steps()

    def _compute(self) -> None:
        self.read()

    def _facts(self) -> dict[str, Any]:
        return {"state_bytes": bytes_of(self._state())}

    def _check_steps(self) -> None:
        """Check that the steps give the same logits as the whole text."""
        first = self._text[:, :_FIRST_TOKENS]
        by_steps, whole = self._pass(first).numpy(), self.model(first)[:, -1].numpy()
        apart = float(np.abs(by_steps - whole).max())
        if not apart <= _TOLERANCE * max(1e-6, float(np.abs(whole).max())):
            raise SuiteError(
                f"method {self.config.method}: the steps must give the same logits as the whole "
                f"text. Received: a difference of {apart:.3g} at token {_FIRST_TOKENS}"
            )

    def _state(self) -> Any:
        return self._network.initial_state(*self._text.shape)

    def _read(self, ids: Any) -> Any:
        def advance(place: Any, state: Any, _: Any) -> tuple[Any, Any, Any]:
            position = self._positions[:, place]
            logits, state = self._network.step(ids[:, place], position, state)
            return place + 1, state, logits

        logits = tf.zeros((self._text.shape[0], self.model.output_shape[-1]))
        start = (tf.constant(0), self._state(), logits)
        length = tf.shape(ids)[1]
        _, _, logits = tf.while_loop(
            lambda place, *_: place < length, advance, start, parallel_iterations=1
        )
        return logits


def _build(config: RunConfig, vocabulary_size: int) -> NextTokenNetwork:
    width = config.embedding_dim
    with dtype_policy("float32"):  # a notebook may have set another policy
        return NextTokenNetwork(
            config.mechanism, vocabulary_size, config.units, width, config.options
        )
