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

from relation_tf.bench.replicas import Replicas
from relation_tf.bench.suite import RunConfig, SuiteError
from relation_tf.bench.training import dtype_policy
from relation_tf.networks.next_token import NextTokenNetwork
from relation_tf.tasks.decoding import length_of, letters
from relation_tf.tasks.encoding import EncodedSplit, EncodedTask

_SECONDS = 1.0  # that all passes take, at least
_PASSES = 3  # at least
_FIRST_TOKENS = 16  # that are gone through before the clock starts


@dataclass(frozen=True)
class Timed:
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


class SteppingNetwork:
    """A causal network and its compiled steps: after each token the logits of the next.

    Its weights are those that it starts with. The token that comes next is the text's own, so that
    all networks go through the same one; to take the most probable instead costs next to nothing.

    Args:
        config: The run; of how networks are trained it has `batch_size`, `embedding_dim`,
            `precision` and `threads`.
        task: The text.

    Raises:
        SuiteError: Where the mechanism does not go a token at a time.
    """

    vectors = match = None  # which a network that is trained may have
    xla = False

    def __init__(self, config: RunConfig, task: EncodedTask) -> None:
        start = time.perf_counter()
        self.task = replace(task, splits={"train": _rows(task, config.batch_size)})
        assert task.vocabulary is not None  # of a task that is timed
        self._network = _build(config, task.vocabulary.size)
        self.model = self._network.model
        (texts,) = self.task.splits["train"].inputs
        self._text = tf.constant(texts.pad(np.arange(config.batch_size)))
        self._positions = self._network.positions(self._text.shape[1])
        ids = tf.TensorSpec((config.batch_size, None), tf.int32)
        self._pass = tf.function(self._read).get_concrete_function(ids)
        self._pass(self._text[:, :_FIRST_TOKENS])
        self.compile_seconds = time.perf_counter() - start

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

    def time(self) -> Timed:
        """Go through the text as often as it takes to tell the speed."""
        seconds: list[float] = []
        while len(seconds) < _PASSES or sum(seconds) < _SECONDS:
            start = time.perf_counter()
            self.read()
            seconds.append(time.perf_counter() - start)
        held = map(tf.convert_to_tensor, tf.nest.flatten(self._state()))
        return Timed(seconds, sum(part.shape.num_elements() * part.dtype.size for part in held))


def start_stepping(config: RunConfig, task: EncodedTask, replicas: Replicas) -> SteppingNetwork:
    """The network of a run with the start values of its seed.

    Raises:
        SuiteError: Where the mechanism does not go a token at a time, or several devices are given.
    """
    if replicas.count > 1:
        raise SuiteError(f"{task.task.name}: a text is gone through by one device, found several")
    keras.utils.set_random_seed(config.seed)
    return SteppingNetwork(config, task)


def check_stepping(config: RunConfig) -> None:
    """Build the network of a run's method with few letters.

    Raises:
        SuiteError: Where it cannot be; the message names the method.
    """
    _build(config, vocabulary_size=2)


def _build(config: RunConfig, vocabulary_size: int) -> NextTokenNetwork:
    width = config.embedding_dim
    try:
        with dtype_policy(config.precision):
            return NextTokenNetwork(
                config.mechanism, vocabulary_size, config.units, width, config.options
            )
    except (TypeError, ValueError, RuntimeError) as error:
        raise SuiteError(f"method {config.method}: {' '.join(str(error).split())}") from error


def _rows(task: EncodedTask, count: int) -> EncodedSplit:
    """So many rows of the text: a batch."""
    return EncodedSplit((letters(length_of(task.task), count),), None, np.arange(count))
