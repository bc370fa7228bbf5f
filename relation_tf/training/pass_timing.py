"""Time repeated passes of an untrained network over a text."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import replace
from statistics import median
from typing import Any

import keras
import numpy as np

from relation_tf.config.run import RunConfig
from relation_tf.tasks.encoding import EncodedSplit, EncodedTask
from relation_tf.tasks.generated import length_of, one_text
from relation_tf.training.checkpoint import Checkpoint
from relation_tf.training.session import check_backend
from relation_tf.training.stopping import Stop
from relation_tf.training.trainer import (
    Estimate,
    ProgressCallback,
    SuiteTrainer,
    TrainingResult,
)

SECONDS = 1.0
"""Minimum seconds for all passes of a run."""

PASSES = 3
"""Minimum number of passes."""


class PassTimer(SuiteTrainer):
    """Timer of a network whose weights are the initial weights of the run's seed.

    A subclass builds the network in `_build`, compiles a pass in `_compile`, and computes one in
    `_compute`.

    Args:
        config: The run; uses the training settings `batch_size`, `embedding_dim` and `threads`.
        task: The text.
        unused: Arguments of other trainers, such as word vectors.
    """

    extra_passes = 0  # after the timed ones

    def __init__(self, config: RunConfig, task: EncodedTask, *unused: Any) -> None:
        check_backend()
        start = time.perf_counter()
        self.config = config
        rows = np.arange(config.batch_size)
        (texts,) = one_text(length_of(task.task), len(rows)).encode("train")
        self.task = replace(task, splits={"train": EncodedSplit((texts,), None, rows)})
        super().__init__(self._start())
        self._compile(texts.pad(rows))
        self.compile_seconds = time.perf_counter() - start

    def _start(self) -> keras.Model:
        """Return the model that is timed."""
        return self._build(self.config.seed)

    @abstractmethod
    def _compile(self, ids: np.ndarray) -> None:
        """Prepare passes over the ids, `(batch, tokens)`."""

    @abstractmethod
    def _compute(self) -> None:
        """Compute one pass and wait for its result."""

    def _facts(self) -> dict[str, Any]:
        """Return measured facts other than the time."""
        return {}

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
        """Compute passes and measure the speed."""
        self.reset(seed)
        passes: list[float] = []
        while len(passes) < PASSES or sum(passes) < SECONDS:
            passes.append(self._time_pass())
        typical, total = median(passes), sum(passes)
        (metric,) = self.task.task.metrics
        return TrainingResult(
            history=[{"pass": i, "seconds": each} for i, each in enumerate(passes, 1)],
            seconds={
                "training": 0.0,
                "evaluation": total,
                "total": total,
                "epoch": typical,
                "batch": typical / length_of(self.task.task),
            },
            stop=Stop("timed", len(passes)),
            metrics={name: {metric: self.tokens / typical} for name in self.task.task.scored},
            facts=self._facts(),
        )

    def estimate(self) -> Estimate:
        """Measure one pass; an epoch is all passes and the compilation."""
        own = self._time_pass()
        seconds = max(SECONDS, PASSES * own) + self.extra_passes * own + self.compile_seconds
        return Estimate(seconds, once=0.0, prediction_bytes=0)

    def _time_pass(self) -> float:
        start = time.perf_counter()
        self._compute()
        return time.perf_counter() - start
