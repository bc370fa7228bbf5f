"""Time a causal network that reads a text one token at a time."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError, in_one_line
from relation_tf.interrupts import check_interrupts
from relation_tf.networks.next_token import NextTokenNetwork
from relation_tf.networks.precision import dtype_policy
from relation_tf.tasks.encoding import EncodedSplit, EncodedTask
from relation_tf.tasks.generated import decoding, length_of
from relation_tf.training.checkpoint import Checkpoint
from relation_tf.training.stopping import Stop
from relation_tf.training.trainer import (
    Estimate,
    ProgressCallback,
    SuiteTrainer,
    TrainingResult,
    check_backend,
    trace,
)

SECONDS = 1.0
"""Minimum seconds for all passes of a run."""

PASSES = 3
"""Minimum number of passes."""

_FIRST_TOKENS = 128  # tokens to check before the timing
_TOLERANCE = 1e-2  # relative to the largest logit; a GPU multiplies with 10-bit precision


class StepTimer(SuiteTrainer):
    """Timer of a causal network that computes next-token logits after each token.

    Nothing is trained: the weights are the initial weights of the run's seed. The next token comes
    from the text, so that all networks read the same text; choosing the most probable token instead
    would cost almost no time.

    Args:
        config: The run; uses the training settings `batch_size`, `embedding_dim` and `threads`.
        task: The text.
        unused: Arguments of other trainers, such as word vectors.

    Raises:
        ValueError: If the mechanism cannot read one token at a time.
        SuiteError: If the logits of the steps differ from those of the whole text.
    """

    def __init__(self, config: RunConfig, task: EncodedTask, *unused: Any) -> None:
        check_backend()
        start = time.perf_counter()
        self.config = config
        rows = np.arange(config.batch_size)
        (texts,) = decoding(length_of(task.task), len(rows)).encode("train")
        self.task = replace(task, splits={"train": EncodedSplit((texts,), None, rows)})
        self._network = self._build_network(config.seed)
        super().__init__(self._network.model)
        self._text = tf.constant(texts.pad(rows))
        self._positions = self._network.positions(self._text.shape[1])
        ids = tf.TensorSpec((config.batch_size, None), tf.int32)
        self._pass = trace(self._read, ids)
        self._check_steps()
        self.compile_seconds = time.perf_counter() - start

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Build the network of a run's method with a small vocabulary."""
        with in_one_line(f"method {config.method}"):
            _build(config, vocabulary_size=2)

    @property
    def reusable(self) -> bool:
        """False, because compilation is part of the cost of each run."""
        return False

    @property
    def tokens(self) -> int:
        """Tokens per pass."""
        (lengths,) = self.task.splits["train"].lengths
        return int(lengths.sum())

    def run(
        self,
        seed: int,
        on_progress: ProgressCallback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> TrainingResult:
        """Read the text repeatedly and measure the speed."""
        self.reset(seed)
        passes: list[float] = []
        while len(passes) < PASSES or sum(passes) < SECONDS:
            check_interrupts()
            passes.append(self._time_pass())
        typical, total = median(passes), sum(passes)
        (metric,) = self.task.task.metrics
        held = map(tf.convert_to_tensor, tf.nest.flatten(self._state()))
        size = sum(part.shape.num_elements() * part.dtype.size for part in held)
        return TrainingResult(
            history=[{"pass": i, "seconds": each} for i, each in enumerate(passes, 1)],
            seconds={
                "training": 0.0,
                "evaluation": total,
                "total": total,
                "epoch": typical,
                "batch": typical / self._text.shape[1],
            },
            stop=Stop("timed", len(passes)),
            metrics={name: {metric: self.tokens / typical} for name in self.task.task.scored},
            facts={"state_bytes": size},
        )

    def estimate(self) -> Estimate:
        """Measure one pass; an epoch is all passes and the compilation."""
        seconds = max(SECONDS, PASSES * self._time_pass()) + self.compile_seconds
        return Estimate(seconds, once=0.0, prediction_bytes=0)

    def read(self) -> np.ndarray:
        """Return the logits after the last token, `(batch, vocabulary)`."""
        logits: np.ndarray = self._pass(self._text).numpy()
        return logits

    def _build_network(self, seed: int) -> NextTokenNetwork:
        keras.utils.set_random_seed(seed)
        assert self.task.vocabulary is not None  # of a task that is timed
        return _build(self.config, self.task.vocabulary.size)

    def _build(self, seed: int) -> keras.Model:
        return self._build_network(seed).model

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

    def _time_pass(self) -> float:
        start = time.perf_counter()
        self.read()
        return time.perf_counter() - start

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
