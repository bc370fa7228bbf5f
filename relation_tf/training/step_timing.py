"""One run of a task that is timed: a causal network goes through a text a token at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError
from relation_tf.networks.next_token import NextTokenNetwork
from relation_tf.tasks.decoding_speed import length_of, letters
from relation_tf.tasks.encoding import EncodedSplit, EncodedTask
from relation_tf.training.training import dtype_policy

SECONDS = 1.0
"""What all passes of a run take, at least."""

PASSES = 3
"""How many they are, at least."""

_FIRST_TOKENS = 128  # that are gone through, and checked, before the clock starts
_TOLERANCE = 1e-2  # of the largest logit; a GPU rounds products of matrices to 10 bits


@dataclass(frozen=True)
class Passes:
    """What a run gave.

    Attributes:
        seconds: Of each pass over the text.
        state_bytes: What the network holds of the tokens so far, of all rows of a batch.
    """

    seconds: Sequence[float]
    state_bytes: int

    @property
    def typical(self) -> float:
        """The median of the passes."""
        return median(self.seconds)


class StepTimer:
    """A causal network and its compiled steps: after each token the logits of the next.

    Its weights are those that a network of the run's seed starts with. The token that comes next is
    the text's own, so that all networks go through the same one; to take the most probable instead
    costs next to nothing.

    Args:
        config: The run; of how networks are trained it has `batch_size`, `embedding_dim` and
            `threads`.
        task: The text.

    Raises:
        ValueError: Where the mechanism does not go a token at a time.
        SuiteError: Where its steps do not give what the whole text gives.
    """

    vectors = match = None  # which a network that is trained may have
    xla = False

    def __init__(self, config: RunConfig, task: EncodedTask) -> None:
        start = time.perf_counter()
        keras.utils.set_random_seed(config.seed)
        self.task = replace(task, splits={"train": _rows(task, config.batch_size)})
        assert task.vocabulary is not None  # of a task that is timed
        self._network = _build(config, task.vocabulary.size)
        self.model = self._network.model
        (texts,) = self.task.splits["train"].inputs
        self._text = tf.constant(texts.pad(np.arange(config.batch_size)))
        self._positions = self._network.positions(self._text.shape[1])
        ids = tf.TensorSpec((config.batch_size, None), tf.int32)
        self._pass = tf.function(self._read, autograph=False).get_concrete_function(ids)
        self._check_steps(config)
        self.compile_seconds = time.perf_counter() - start

    def _check_steps(self, config: RunConfig) -> None:
        """Refuse a layer whose steps compute something else: its speed would mean nothing."""
        first = self._text[:, :_FIRST_TOKENS]
        by_steps, whole = self._pass(first).numpy(), self.model(first)[:, -1].numpy()
        apart = float(np.abs(by_steps - whole).max())
        if not apart <= _TOLERANCE * max(1e-6, float(np.abs(whole).max())):
            raise SuiteError(
                f"method {config.method}: expected steps that give what the whole text gives. "
                f"Received: logits of token {_FIRST_TOKENS} that are {apart:.3g} apart"
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

    def read(self) -> np.ndarray:
        """The logits after the last token, `(batch, letters)`."""
        logits: np.ndarray = self._pass(self._text).numpy()
        return logits

    def seconds(self) -> float:
        """Of one pass over the text."""
        start = time.perf_counter()
        self.read()
        return time.perf_counter() - start

    def time(self) -> Passes:
        """Go through the text as often as it takes to tell the speed."""
        seconds: list[float] = []
        while len(seconds) < PASSES or sum(seconds) < SECONDS:
            seconds.append(self.seconds())
        held = map(tf.convert_to_tensor, tf.nest.flatten(self._state()))
        return Passes(seconds, sum(part.shape.num_elements() * part.dtype.size for part in held))


def check_step_timing(config: RunConfig) -> None:
    """Build the network of a run's method with few letters.

    Raises:
        SuiteError: Where it cannot be; the message names the method.
    """
    try:
        _build(config, vocabulary_size=2)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SuiteError(f"method {config.method}: {' '.join(str(error).split())}") from error


def _build(config: RunConfig, vocabulary_size: int) -> NextTokenNetwork:
    width = config.embedding_dim
    with dtype_policy("float32"):  # whatever a notebook has set
        return NextTokenNetwork(
            config.mechanism, vocabulary_size, config.units, width, config.options
        )


def _rows(task: EncodedTask, count: int) -> EncodedSplit:
    """So many rows of the text: a batch."""
    return EncodedSplit((letters(length_of(task.task), count),), None, np.arange(count))
