"""Compiled steps of token classification."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from relation_tf.tasks.encoding import EncodedSplit, EncodedTask
from relation_tf.training.replicas import Replicas
from relation_tf.training.token_steps import TokenSteps


class TokenClassificationSteps(TokenSteps):
    """Steps of token classification; label 0 means no label.

    The output layer is computed at labelled tokens only.
    """

    def __init__(
        self, task: EncodedTask, model: keras.Model, optimizer: Any, replicas: Replicas
    ) -> None:
        self._output = model.get_layer("output")
        self._vectors = keras.Model(model.input, self._output.input)
        super().__init__(task, model, optimizer, replicas)

    @property
    def tokens(self) -> int:
        """Number of tokens of the training texts, without the labels."""
        return int(self.train_rows.inputs[0].lengths.sum())

    def predict(self, split: EncodedSplit) -> np.ndarray:
        """Return the predicted labels, `(rows, tokens)`; 0 without a label, -1 without outputs."""
        longest = int(split.lengths.max(initial=1))
        outputs = np.zeros((len(split), longest), np.int32)
        return self._fill(outputs, split)

    def score(self, outputs: np.ndarray, split: EncodedSplit, name: str = "") -> dict[str, float]:
        """Return the share of labelled tokens that are classified correctly."""
        labels = split.inputs[1].pad(np.arange(len(split)))
        accuracy = float(np.mean((outputs == labels)[labels > 0]))
        return dict.fromkeys(self.task.task.metrics, accuracy)

    def _losses(self, texts: Any, targets: Any, training: bool) -> tuple[Any, Any]:
        """Return the mean loss of each row, and a mask of rows with only correct labels."""
        places = tf.where(targets > 0)
        logits = self._logits(texts, places, training)
        labels = tf.gather_nd(targets, places) - 1
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        wrong = tf.argmax(logits, axis=1, output_type=tf.int32) != labels
        rows, of_row = tf.shape(targets)[0], places[:, 0]

        def summed(values: Any) -> Any:
            return tf.math.unsorted_segment_sum(values, of_row, rows)

        number = summed(tf.ones_like(losses))
        return summed(losses) / number, summed(tf.cast(wrong, tf.int32)) == 0

    def _logits(self, texts: Any, places: Any, training: bool) -> Any:
        vectors = self._vectors(texts, training=training)
        return tf.cast(self._output(tf.gather_nd(vectors, places)), tf.float32)

    def _predict_step(self, ids: tuple[Any, ...]) -> Any:
        texts, targets = ids
        places = tf.where(targets > 0)
        logits = self._logits(texts, places, False)
        found = tf.argmax(logits, axis=1, output_type=tf.int32) + 1
        found = tf.where(tf.reduce_all(tf.math.is_finite(logits), axis=1), found, -1)
        return tf.scatter_nd(places, found, tf.shape(targets, out_type=tf.int64))
