"""Compiled steps of tasks whose loss is a mean over tokens."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import tensorflow as tf

from relation_tf.tasks.batches import evaluation_batches
from relation_tf.tasks.encoding import EncodedSplit
from relation_tf.training.classification import EVALUATION_BATCH, TaskSteps
from relation_tf.training.trainer import trace


class TokenSteps(TaskSteps, ABC):
    """Steps of a task with two inputs: the texts, and the targets or labels of tokens."""

    def labels(self, split: EncodedSplit) -> np.ndarray:
        """Return zeros; the targets are inputs."""
        return np.zeros(len(split), np.int64)

    def loss(self, outputs: np.ndarray, split: EncodedSplit) -> float:
        """Return the mean over rows of the mean loss over tokens."""
        total = 0.0
        for rows in evaluation_batches(split.lengths, EVALUATION_BATCH):
            texts = map(tf.constant, self.pad(split, rows))
            total += float(tf.reduce_sum(self._row_losses(*texts)))
        return total / len(split)

    @functools.cached_property
    def _row_losses(self) -> Any:
        """Compiled mean loss over the tokens of each row."""

        def losses(texts: Any, targets: Any) -> Any:
            return self._losses(texts, targets, training=False)[0]

        return trace(losses, *self.signature[0])

    def _first_step(self) -> None:
        super()._first_step()
        self._row_losses(*map(tf.constant, self.pad(self.train_rows, np.arange(1))))

    def _loss(self, ids: tuple[Any, ...], labels: Any) -> tuple[Any, Any]:
        texts, targets = ids
        losses, right = self._losses(texts, targets, training=True)
        return tf.reduce_mean(losses), right

    @abstractmethod
    def _losses(self, texts: Any, targets: Any, training: bool) -> tuple[Any, Any]:
        """Return the mean loss of each row, and a mask of rows with only correct tokens."""
