"""Compiled steps of tasks: classification, regression, sequences, token labels."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from relation_tf import networks
from relation_tf.registry import METRICS
from relation_tf.tasks.batches import evaluation_batches
from relation_tf.tasks.diagnostics import Symbols
from relation_tf.tasks.encoding import EncodedSplit, EncodedTask
from relation_tf.tasks.generated import Characters
from relation_tf.tasks.metrics import score
from relation_tf.tasks.task import Task
from relation_tf.training.trainer import trace, train_step

EVALUATION_BATCH = 1024

Arrays = tuple[tuple[np.ndarray, ...], np.ndarray]
"""Texts and labels of a batch."""


class TaskSteps:
    """Network of a task and its compiled steps; the networks of a group share variables.

    Args:
        task: The task.
        model: The network of the task.
        optimizer: The optimizer.
        loop: If True, one call takes the steps of several batches: with a call for each, small
            networks take twice the time.
    """

    def __init__(
        self, task: EncodedTask, model: keras.Model, optimizer: Any, loop: bool = True
    ) -> None:
        self.task, self._loop = task, loop
        self.model = model
        self._branches = networks.training_branches(model)
        self._optimizer = optimizer
        # Traced once for all numbers of rows and all lengths.
        ids, labels = self.signature
        flat = tuple(tf.TensorSpec((None,), text.dtype) for text in ids)
        places = tf.TensorSpec((None, len(ids) + 1, 2), tf.int32)
        shapes = tf.TensorSpec((None, len(ids), len(ids[0].shape)), tf.int32)
        looped = flat, labels, places, shapes
        self._train = trace(self._steps, *looped) if loop else trace(self.step, *self.signature)
        self._predict = trace(self._predict_step, self.signature[0])
        self._first_step()

    @property
    def signature(self) -> tuple[tuple[tf.TensorSpec, ...], tf.TensorSpec]:
        """Signature of a training step: the texts, and the labels."""
        ids = tuple(tf.TensorSpec((None, None), tf.int32) for _ in self.task.task.inputs)
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

    def train(self, batches: Sequence[Arrays]) -> tuple[np.ndarray, np.ndarray]:
        """Take a step for each batch; return their mean losses and numbers of correct rows."""
        if not self._loop:
            steps = [
                self._train(tuple(map(tf.constant, ids)), tf.constant(y)) for ids, y in batches
            ]
            return np.array([loss for loss, _ in steps]), np.array([right for _, right in steps])
        columns = [*zip(*((*ids, labels) for ids, labels in batches), strict=True)]
        sizes = np.array([[array.size for array in column] for column in columns]).T
        places = np.stack([np.cumsum(sizes, axis=0) - sizes, sizes], axis=2).astype(np.int32)
        shapes = np.array([[array.shape for array in ids] for ids, _ in batches], np.int32)
        *flat, labels = (tf.constant(np.concatenate([*map(np.ravel, x)])) for x in columns)
        losses, right = self._train(tuple(flat), labels, tf.constant(places), tf.constant(shapes))
        return losses.numpy(), right.numpy()

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
        """Write the outputs of all rows; those with equal texts are computed once."""
        distinct = np.unique(split.first_equal)
        for batch in evaluation_batches(split.lengths[:, distinct], EVALUATION_BATCH):
            rows = distinct[batch]
            predicted = self._predict(tuple(map(tf.constant, self.pad(split, rows)))).numpy()
            outputs[rows, : predicted.shape[1]] = predicted
        return outputs[split.first_equal]

    def _first_step(self) -> None:
        """Run both once, so that the first call counts as compilation; `reset` undoes the step."""
        rows = np.arange(min(2, len(self.train_rows)))
        texts = self.pad(self.train_rows, rows)
        self.train([(texts, self.labels(self.train_rows)[rows])])
        self._predict(tuple(map(tf.constant, texts)))

    def _steps(self, flat: tuple[Any, ...], labels: Any, places: Any, shapes: Any) -> list[Any]:
        """Take steps, in a graph; return their losses and numbers of correct rows.

        Args:
            flat: The values of all batches, for each text.
            labels: The labels of all batches.
            places: Start and size of each text and the labels in them, by batch.
            shapes: Shape of each text, by batch.
        """
        number = tf.shape(places)[0]

        def take(i: Any, losses: Any, right: Any) -> tuple[Any, Any, Any]:
            *texts, rows = (
                tf.slice(values, [places[i, k, 0]], [places[i, k, 1]])
                for k, values in enumerate((*flat, labels))
            )
            ids = tuple(
                tf.ensure_shape(tf.reshape(text, shapes[i, k]), spec.shape)
                for k, (text, spec) in enumerate(zip(texts, self.signature[0], strict=True))
            )
            loss, hits = self.step(ids, rows)
            return i + 1, losses.write(i, loss), right.write(i, hits)

        arrays = [tf.TensorArray(dtype, number) for dtype in (tf.float32, tf.int64)]
        _, *written = tf.while_loop(
            lambda i, *_: i < number, take, (0, *arrays), parallel_iterations=1
        )
        return [array.stack() for array in written]

    def step(self, ids: tuple[Any, ...], labels: Any) -> tuple[Any, Any]:
        """Take a step, in a graph; return the mean loss and the number of correct rows."""
        loss, right = train_step(self.model, self._optimizer, lambda: self._loss(ids, labels))
        return loss, tf.math.count_nonzero(right)

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


class TokenClassificationSteps(TokenSteps):
    """Steps of token classification; label 0 means no label.

    The output layer is computed at labelled tokens only.
    """

    def __init__(self, task: EncodedTask, model: keras.Model, *arguments: Any) -> None:
        self._output = model.get_layer("output")
        self._vectors = keras.Model(model.input, self._output.input)
        super().__init__(task, model, *arguments)

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
        """Return the metrics of the labels of all labelled tokens."""
        labels, task = split.inputs[1].pad(np.arange(len(split))), self.task.task
        kept = labels > 0
        return score(task, name or next(iter(task.scored)), outputs[kept], labels[kept])

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
        labels = tf.argmax(logits, axis=1, output_type=tf.int32) + 1
        labels = tf.where(tf.reduce_all(tf.math.is_finite(logits), axis=1), labels, -1)
        return tf.scatter_nd(places, labels, tf.shape(targets, out_type=tf.int64))
