"""Compiled steps of a sequence-to-sequence task."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from relation_tf import networks
from relation_tf.interrupts import check_interrupts
from relation_tf.registry import METRICS
from relation_tf.tasks.batches import evaluation_batches
from relation_tf.tasks.encoding import EncodedSplit
from relation_tf.training.classification import EVALUATION_BATCH, TaskSteps, words_of
from relation_tf.training.trainer import trace


class SequenceSteps(TaskSteps):
    """Steps of a sequence-to-sequence task: teacher-forced loss, greedy decoding.

    The inputs are the sources and the targets, from start to end token. Targets are padded to one
    width, because the number of decoding steps is fixed in the graph.
    """

    @property
    def signature(self) -> tuple[tuple[tf.TensorSpec, ...], tf.TensorSpec]:
        """Signature of a training step: sources and targets, and unused labels."""
        (sources, _), nothing = super().signature
        return (sources, tf.TensorSpec((None, self._longest + 1), tf.int32)), nothing

    def pad(self, split: EncodedSplit, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return sources and targets of some rows."""
        sources, targets = super().pad(split, rows)
        return sources, np.pad(targets, ((0, 0), (0, self._longest + 1 - targets.shape[1])))

    def labels(self, split: EncodedSplit) -> np.ndarray:
        """Return zeros; the targets are inputs."""
        return np.zeros(len(split), np.int64)

    def predict(self, split: EncodedSplit) -> np.ndarray:
        """Return the decoded ids of each source, `(rows, tokens)`, 0 after the end token."""
        return self._fill(np.zeros((len(split), self._longest), np.int32), split)

    def loss(self, outputs: np.ndarray, split: EncodedSplit) -> float:
        """Return the mean over rows of the mean teacher-forced loss over tokens."""
        total = 0.0
        for rows in evaluation_batches(split.lengths, EVALUATION_BATCH):
            check_interrupts()
            texts = map(tf.constant, self.pad(split, rows))
            total += float(tf.reduce_sum(self._row_losses(*texts)))
        return total / len(split)

    def score(self, outputs: np.ndarray, split: EncodedSplit, name: str = "") -> dict[str, float]:
        """Return the metrics: exact match of the ids, and others of the texts."""
        targets = split.inputs[1].pad(np.arange(len(split)))[:, 1:]
        scores = {}
        for metric in self.task.task.metrics:
            if (function := METRICS.find(metric).function) is None:
                scores[metric] = networks.exact_match(targets, outputs)
            else:
                texts = (words_of(self.task.task, ids, self.task.targets)
                         for ids in (outputs, targets))  # fmt: skip
                scores[metric] = float(function(*texts))
        return scores

    @functools.cached_property
    def _longest(self) -> int:
        """Tokens of the longest target, including the end token."""
        splits = self.task.splits.values()
        return int(max(split.inputs[1].lengths.max(initial=2) for split in splits)) - 1

    @functools.cached_property
    def _row_losses(self) -> Any:
        """Compiled mean loss over the tokens of each target."""

        def losses(sources: Any, targets: Any) -> Any:
            return self._losses(sources, targets, training=False)[0]

        return trace(losses, *self.signature[0])

    def _first_step(self) -> None:
        super()._first_step()
        self._row_losses(*map(tf.constant, self.pad(self.train_rows, np.arange(1))))

    def _losses(self, sources: Any, targets: Any, training: bool) -> tuple[Any, Any]:
        """Return the mean loss of each row, and a mask of rows with only correct tokens."""
        logits = self.model([sources, targets[:, :-1]], training=training)
        following = targets[:, 1:]
        kept = following != 0
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(following, logits)
        tokens = tf.math.count_nonzero(kept, axis=1, dtype=losses.dtype)
        right = tf.argmax(logits, axis=2, output_type=tf.int32) == following
        losses = tf.reduce_sum(tf.where(kept, losses, 0.0), axis=1) / tokens
        return losses, tf.reduce_all(right | ~kept, axis=1)

    def _loss(self, ids: tuple[Any, ...], labels: Any) -> tuple[Any, Any]:
        sources, targets = ids
        losses, right = self._losses(sources, targets, training=True)
        return tf.reduce_mean(losses), right

    def _predict_step(self, ids: tuple[Any, ...]) -> Any:
        """Decode like `greedy_decode`, in one graph, with as many steps as the longest target."""
        targets = self.task.targets
        assert targets is not None  # of a task that is written
        sources = ids[0]
        state = self.model.initial_state(sources, self._longest)
        last = tf.fill(tf.shape(sources)[:1], targets.start)
        never = tf.constant([0, targets.start])
        written = []
        for _ in range(self._longest):
            logits, state, _ = self.model.step(last[:, None], state)
            barred = tf.reduce_any(tf.range(targets.size)[:, None] == never, axis=1)
            best = tf.argmax(tf.where(barred, -np.inf, logits[:, 0]), axis=1, output_type=tf.int32)
            last = tf.where((last == targets.end) | (last == 0), 0, best)
            written.append(last)
        return tf.stack(written, axis=1)
