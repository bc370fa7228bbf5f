"""Compiled steps of a classification or regression task."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from relation_tf import networks
from relation_tf.tasks.batches import evaluation_batches
from relation_tf.tasks.diagnostics.rows import Symbols
from relation_tf.tasks.encoding import EncodedSplit, EncodedTask
from relation_tf.tasks.generated import Characters
from relation_tf.tasks.metrics import score
from relation_tf.tasks.task import Task
from relation_tf.training.replicas import Replicas
from relation_tf.training.trainer import trace, train_step

EVALUATION_BATCH = 1024


class TaskSteps:
    """Network of a task and its compiled steps; the networks of a group share variables.

    Args:
        task: The task.
        model: The network of the task.
        optimizer: The optimizer.
        replicas: The devices that share each step.
    """

    def __init__(
        self, task: EncodedTask, model: keras.Model, optimizer: Any, replicas: Replicas
    ) -> None:
        self.task = task
        self.model = model
        self._branches = networks.training_branches(model)
        self._optimizer = optimizer
        self.step = replicas.sum_over_replicas(self._train_step)
        # Traced once for all numbers of rows and all lengths.
        self._train = trace(self.step, *self.signature)
        self._predict = trace(replicas.gather_rows(self._predict_step), self.signature[0])
        self._first_step()

    @property
    def signature(self) -> tuple[tuple[tf.TensorSpec, ...], tf.TensorSpec]:
        """Signature of a training step: the texts, and the labels."""
        text = tf.TensorSpec((None,), tf.string)
        ids = tuple(
            text if self.task.vocabulary is None else tf.TensorSpec((None, None), tf.int32)
            for _ in self.task.task.inputs
        )
        return ids, tf.TensorSpec((None,), self.labels(self.train_rows).dtype)

    @property
    def train_rows(self) -> EncodedSplit:
        """The training split."""
        return self.task.splits["train"]

    @property
    def tokens(self) -> int:
        """Number of tokens of the training texts, without padding."""
        return int(self.train_rows.lengths.sum())

    @property
    def held_out(self) -> EncodedSplit:
        """The validation split."""
        return self.task.splits[self.task.validation]

    def pad(self, split: EncodedSplit, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the texts of some rows."""
        return tuple(column.pad(rows) for column in split.inputs)

    def labels(self, split: EncodedSplit) -> np.ndarray:
        """Return the label of each row."""
        assert split.labels is not None  # of a split that is trained on or scored
        return split.labels

    def train(self, ids: tuple[np.ndarray, ...], labels: np.ndarray) -> tuple[Any, Any]:
        """Take one step; return the batch's mean loss and the number of correct rows."""
        return self._train(tuple(map(tf.constant, ids)), tf.constant(labels))

    def predict(self, split: EncodedSplit) -> np.ndarray:
        """Return the outputs for all rows: `(rows, classes)`, or `(rows,)` for a regression."""
        classes = 1 if self.task.task.labels is None else len(self.task.task.labels)
        outputs = self._fill(np.empty((len(split), classes), np.float32), split)
        return outputs[:, 0] if self.task.task.labels is None else outputs

    def loss(self, outputs: np.ndarray, split: EncodedSplit) -> float:
        """Return the mean loss of the outputs of `predict` for a split, as in Keras."""
        labels = self.labels(split)
        if outputs.ndim == 1:
            return float(np.mean((outputs.astype(np.float64) - labels) ** 2))
        chosen = outputs[np.arange(len(labels)), labels].astype(np.float64)
        return float(np.mean(-np.log(np.clip(chosen, 1e-7, 1 - 1e-7))))

    def score(self, outputs: np.ndarray, split: EncodedSplit, name: str = "") -> dict[str, float]:
        """Return the metrics of the outputs of `predict` for a split.

        Args:
            outputs: The outputs.
            split: The split.
            name: Name of the score, by default the first scored one, for validation rows.
        """
        task = self.task.task
        return score_outputs(task, outputs, self.labels(split), name or next(iter(task.scored)))

    def _fill(self, outputs: np.ndarray, split: EncodedSplit) -> np.ndarray:
        for rows in evaluation_batches(split.lengths, EVALUATION_BATCH):
            found = self._predict(tuple(map(tf.constant, self.pad(split, rows)))).numpy()
            outputs[rows, : found.shape[1]] = found
        return outputs

    def _first_step(self) -> None:
        """Run both once, so that the first call counts as compilation; `reset` undoes the step."""
        rows = np.arange(min(2, len(self.train_rows)))
        texts = self.pad(self.train_rows, rows)
        self.train(texts, self.labels(self.train_rows)[rows])
        self._predict(tuple(map(tf.constant, texts)))

    def _train_step(self, ids: tuple[Any, ...], labels: Any, share: Any) -> tuple[Any, Any]:
        """Take a step; return the rows' part of the mean loss, and the number of correct rows."""
        loss, right = train_step(
            self.model, self._optimizer, lambda: self._loss(ids, labels), share
        )
        return loss, tf.math.count_nonzero(right & (share > 0))

    def _loss(self, ids: tuple[Any, ...], labels: Any) -> tuple[Any, Any]:
        """Return the mean training loss of some rows, and a mask of the correct ones."""
        texts = ids[0] if len(ids) == 1 else list(ids)
        if self._branches is not None:
            outputs, common = self._branches(texts, training=True)
            loss = _cross_entropy(labels, outputs) + _cross_entropy(labels, common)
            return loss, _right(outputs, labels)
        outputs = self.model(texts, training=True)
        if self.task.task.labels is None:
            squares = keras.losses.MeanSquaredError(reduction="sum")(labels[:, None], outputs)
            return squares / tf.cast(tf.shape(labels)[0], squares.dtype), tf.zeros((0,), tf.bool)
        return _cross_entropy(labels, outputs), _right(outputs, labels)

    def _predict_step(self, ids: tuple[Any, ...]) -> Any:
        return self.model(ids[0] if len(ids) == 1 else list(ids), training=False)


def score_outputs(
    task: Task, outputs: np.ndarray, labels: np.ndarray, name: str
) -> dict[str, float]:
    """Return the metrics of the outputs of a network.

    Args:
        task: The task.
        outputs: Probabilities `(rows, classes)`, or scores `(rows,)` of a regression.
        labels: Label of each row.
        name: Name of the score.
    """
    true = labels * task.maximum if task.labels is None else np.array(task.labels)[labels]
    return score(task, name, words_of(task, outputs), true)


def are_finite(outputs: np.ndarray) -> bool:
    """Return True if all outputs of `TaskSteps.predict` are finite; ids of others are -1."""
    return bool(np.isfinite(outputs).all() and (outputs.dtype.kind == "f" or outputs.min() >= 0))


def _cross_entropy(labels: Any, outputs: Any) -> Any:
    """Return the mean cross-entropy of some rows."""
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="sum")(labels, outputs)
    return loss / tf.cast(tf.shape(labels)[0], loss.dtype)


def _right(outputs: Any, labels: Any) -> Any:
    """Return a mask of the rows whose most probable class is the label."""
    return tf.argmax(outputs, axis=1, output_type=labels.dtype) == labels


def words_of(
    task: Task, outputs: np.ndarray, targets: Characters | Symbols | None = None
) -> np.ndarray:
    """Convert outputs to label words, scores in the range of the task, or text."""
    if targets is not None:
        return np.array(targets.decode(outputs), dtype=object)
    if task.labels is None:
        return np.clip(outputs, 0.0, 1.0) * task.maximum
    return np.array(task.labels)[outputs.argmax(axis=1)]
