"""The model of a finished run: its predictions and its inputs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from relation_tf.config.run import RunConfig
from relation_tf.errors import DataError, join_names
from relation_tf.files import read_json
from relation_tf.tasks.batches import evaluation_batches
from relation_tf.tasks.rows import Ragged, Texts
from relation_tf.tasks.tables import check_spelled
from relation_tf.tasks.task import Task
from relation_tf.tasks.vocabulary import Vocabulary
from relation_tf.training.steps import EVALUATION_BATCH, words_of
from relation_tf.training.trainer import trace


class TrainedModel:
    """The model of a finished run, see `load`.

    Attributes:
        model: The Keras model. Its inputs are those of `encode`.
        task: The task that it was trained on.
        vocabulary: The vocabulary of its texts; None if it reads strings.
        config: The configuration of the run.
        result: `result.json` of the run, with its `metrics` and `parameters`.
        manifest: `manifest.json` of the run, with its `versions` and `data`.
        folder: The folder of the run.

    Args:
        model: The Keras model.
        task: The task.
        vocabulary: The vocabulary.
        folder: The folder of the run.
        config: The configuration of the run.
    """

    def __init__(
        self,
        model: keras.Model,
        task: Task,
        vocabulary: Vocabulary | None,
        folder: Path,
        config: RunConfig,
    ) -> None:
        self.model = model
        self.task = task
        self.vocabulary = vocabulary
        self.folder = folder
        self.config = config
        self.result: Mapping[str, Any] = read_json(folder / "result.json")
        self.manifest: Mapping[str, Any] = read_json(folder / "manifest.json")

    def __repr__(self) -> str:
        scores = [
            f"{name} {metric} {value:.4g}"
            for name in self.task.scored
            for metric, value in self.result["metrics"].get(name, {}).items()
        ]
        run = f"{self.config.method} on {self.task.name}, seed {self.config.seed}"
        return f"<TrainedModel {run}: {join_names(scores)}; {self.folder}>"

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Labels in the order of the classes; None for a regression."""
        return self.task.labels

    def predict(self, texts: Iterable[Any]) -> np.ndarray:
        """Predict the label of each text.

        Args:
            texts: Strings, or pairs of strings for a task with two texts.

        Returns:
            Array `(texts,)`: labels, or scores for a regression.

        Raises:
            DataError: If a text has the wrong form.
        """
        outputs = self._outputs(texts)
        return words_of(self.task, outputs[:, 0] if self.task.labels is None else outputs)

    def predict_proba(self, texts: Iterable[Any]) -> np.ndarray:
        """Return the probabilities of the classes, `(texts, classes)`, in the order of `labels`.

        Args:
            texts: As in `predict`.

        Raises:
            DataError: If a text has the wrong form, or texts are not classified.
        """
        if self.task.labels is None:
            raise DataError(f"task {self.task.name} has no classes: {self._predicts}. Use predict")
        return self._outputs(texts)

    def encode(self, texts: Iterable[Any]) -> list[np.ndarray]:
        """Convert texts to the inputs of the model.

        Args:
            texts: As in `predict`.

        Returns:
            An array for each input of the model: token ids `(texts, tokens)`, `int32`, padded with
            0, or strings `(texts,)`.

        Raises:
            DataError: If a text has the wrong form.
        """
        columns = self._columns(texts)
        return [column.pad(np.arange(len(column))) for column in columns]

    @property
    def num_texts(self) -> int:
        """Number of texts of a row."""
        return len(self.task.inputs)

    @property
    def _predicts(self) -> str:
        """The kind of prediction, for messages."""
        of = "pair of texts" if self.num_texts == 2 else "text"
        if self.task.labels is None:
            return f"a score from 0 to {self.task.maximum:g} for each {of}"
        return f"{join_names(self.task.labels, ' or ')} for each {of}"

    def _columns(self, texts: Iterable[Any]) -> list[Ragged | Texts]:
        """Return the encoded texts of each input."""
        if isinstance(texts, str):
            raise DataError(f"texts must be a list. Received: a string, {texts!r:.40}")
        rows = [(each,) if self.num_texts == 1 else each for each in texts]
        if not rows:
            raise DataError("texts must have one or more texts. Received: none")
        for number, row in enumerate(rows):
            if isinstance(row, str) or not _are_strings(row, self.num_texts):
                form = "a string" if self.num_texts == 1 else "a pair of strings"
                found = row[0] if self.num_texts == 1 else row
                raise DataError(
                    f"text {number} must be {form} for task {self.task.name}. "
                    f"Received: {found!r:.60}"
                )
            for text in (row,) if isinstance(row, str) else row:
                check_spelled(f"text {number}", text)
        return [self._encode([row[i] for row in rows]) for i in range(self.num_texts)]

    def _encode(self, texts: list[str]) -> Ragged | Texts:
        if self.vocabulary is None:
            return Texts.join(texts)
        return self.vocabulary.encode(texts, self.config.max_length)

    def _outputs(self, texts: Iterable[Any]) -> np.ndarray:
        """Return the outputs, `(texts, width)`, in the same batches as those of the run."""
        columns = self._columns(texts)
        lengths = np.stack([column.lengths for column in columns])
        batches = evaluation_batches(lengths, EVALUATION_BATCH)
        inputs = [tuple(tf.constant(column.pad(rows)) for column in columns) for rows in batches]
        outputs = np.concatenate([self._compiled(each).numpy() for each in inputs])
        return outputs[np.argsort(np.concatenate(batches))]

    @functools.cached_property
    def _compiled(self) -> Any:
        """The model, compiled once for all numbers of rows and tokens, as in a run."""
        text = self.vocabulary is None
        ids = tf.TensorSpec((None,), tf.string) if text else tf.TensorSpec((None, None), tf.int32)

        def compute(inputs: tuple[Any, ...]) -> Any:
            return self.model(inputs[0] if len(inputs) == 1 else list(inputs), training=False)

        return trace(compute, (ids,) * self.num_texts)


def _are_strings(row: Any, count: int) -> bool:
    try:
        texts = [*row]
    except TypeError:
        return False
    return len(texts) == count and all(isinstance(text, str) for text in texts)
