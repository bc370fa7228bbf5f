"""Compiled steps of a sequence-to-sequence task."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from relation_tf import networks
from relation_tf.registry import METRICS
from relation_tf.tasks.encoding import EncodedSplit
from relation_tf.tasks.generated import Characters
from relation_tf.training.classification import words_of
from relation_tf.training.token_steps import TokenSteps


class SequenceSteps(TokenSteps):
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

    def predict(self, split: EncodedSplit) -> np.ndarray:
        """Return the decoded ids of each source, `(rows, tokens)`, 0 after the end token.

        All ids of a source with outputs that are not finite are -1.
        """
        return self._fill(np.zeros((len(split), self._longest), np.int32), split)

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

    def _predict_step(self, ids: tuple[Any, ...]) -> Any:
        """Decode like `greedy_decode`, in one graph, with as many steps as the longest target."""
        targets = self.task.targets
        assert isinstance(targets, Characters)  # of a task that is written
        sources = ids[0]
        state = self.model.initial_state(sources, self._longest)
        last = tf.fill(tf.shape(sources)[:1], targets.start)
        never = tf.constant([0, targets.start])
        finite, written = tf.ones_like(last, tf.bool), []
        for _ in range(self._longest):
            logits, state, _ = self.model.step(last[:, None], state)
            barred = tf.reduce_any(tf.range(targets.size)[:, None] == never, axis=1)
            best = tf.argmax(tf.where(barred, -np.inf, logits[:, 0]), axis=1, output_type=tf.int32)
            ended = (last == targets.end) | (last == 0)
            finite &= ended | tf.reduce_all(tf.math.is_finite(logits[:, 0]), axis=1)
            last = tf.where(ended, 0, best)
            written.append(last)
        return tf.where(finite[:, None], tf.stack(written, axis=1), -1)
