"""Load the models of finished runs. Keras and TensorFlow are imported when a model is loaded."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from relation_tf import __version__
from relation_tf.bench.run_folder import MODEL, VOCABULARY, damage, read_config
from relation_tf.config.run import RunConfig
from relation_tf.config.user_code import check_unchanged, load_plugins
from relation_tf.errors import DataError, SuiteError, join_names, without_breaks
from relation_tf.files import expand_home, read_json
from relation_tf.settings import first_fault
from relation_tf.tasks.batches import evaluation_batches
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.rows import Ragged
from relation_tf.tasks.tables import check_spelled
from relation_tf.tasks.task import Task
from relation_tf.tasks.vocabulary import Vocabulary
from relation_tf.training.session import check_backend, check_tensorflow

if TYPE_CHECKING:
    import keras


def load(folder: str | Path, *, safe_mode: bool = True) -> TrainedModel:
    """Load the model of a finished run, which a suite with `save_models = true` keeps.

    Args:
        folder: The folder of a run, such as `"runs/demo/runs/RTE/relation-64/seed-1"`, or a copy.
        safe_mode: As in `keras.saving.load_model`. Must be False for a custom layer inside
            `encoder`.

    Raises:
        SuiteError: If the folder has no model, its run is not finished or of another version of
            this package, its model is damaged, a custom layer or its plugin has changed, or the
            task is a group or generated.

    Example:
        >>> import tempfile
        >>> import relation_tf
        >>> from relation_tf.bench import run_suite
        >>> one = {"tasks": ["WNLI"], "methods": ["baseline-64"], "seeds": [1]}
        >>> changes = {"save_models": True, "epochs": 2}
        >>> results = run_suite("demo", tempfile.mkdtemp(), settings=changes, **one, quiet=True)
        >>> trained = relation_tf.load(results.runs[0]["folder"])
        >>> trained.labels, trained.predict([("It rained .", "The street is wet .")]).shape
        (('0', '1'), (1,))
    """
    check_tensorflow()
    path = expand_home(folder)
    _check_finished(path)
    from relation_tf.networks import as_one  # noqa: F401  # discards TensorFlow's log messages

    check_backend()  # now also that of keras.json
    written = read_config(path)
    load_plugins(written["plugins"])
    try:
        config = RunConfig.of(written)
    except ValidationError as error:
        raise SuiteError(f"{path / 'config.json'}: {first_fault(error, RunConfig)}") from error
    check_unchanged(config, f"{path}: method {config.method}")
    task = find_task(config.entry)
    if task.generated or task.members:
        raise SuiteError(
            f"{path}: must be a run of one task with texts. Received: {task.name}. Load its model "
            f"with keras.saving.load_model({str(path / MODEL)!r}) after `from relation_tf.layers "
            "import *` and `from relation_tf.networks import *`"
        )
    model = _read_model(path, safe_mode)
    vocabulary = Vocabulary.read(path / VOCABULARY)
    return TrainedModel(model, task, vocabulary, path, config)


def _check_finished(folder: Path) -> None:
    """Check that a folder is that of a finished run of this version with a model.

    Raises:
        SuiteError: If it is not.
    """
    if not (folder / "config.json").is_file():
        models = sorted(folder.glob(f"runs/*/*/*/{MODEL}"))
        hint = f" Did you mean {str(models[0].parent)!r}?" if models else ""
        raise SuiteError(
            f"{folder}: not the folder of a run, such as runs/demo/runs/RTE/relation-64/seed-1: it "
            f"has no config.json.{hint}"
        )
    if not (folder / "result.json").is_file():
        raise SuiteError(
            f"{folder}: this run is not finished (no result.json). Run the suite again to resume"
        )
    if not (folder / MODEL).is_file():
        raise SuiteError(
            f"{folder}: this run has no {MODEL}. Set save_models = true in the suite, delete the "
            "folder of the run and run the suite again"
        )
    if fault := damage(folder, others=False):
        raise SuiteError(f"{fault}; `relation-tf run` trains it again")
    version = str(read_json(folder / "manifest.json").get("versions", {}).get("relation_tf"))
    if version.split(".")[:2] != __version__.split(".")[:2]:  # the part that changes with models
        raise SuiteError(
            f"{folder}: this model was written by relation_tf {version}. Received: relation_tf "
            f"{__version__}. Install relation_tf=={version} to load it"
        )


def _read_model(folder: Path, safe_mode: bool) -> Any:
    import keras

    try:
        # Keras finds only layers whose modules are imported; custom ones are imported already.
        for name in ("relation_tf.layers", "relation_tf.networks"):
            folders = importlib.import_module(name).__path__
            for module in pkgutil.walk_packages(folders, f"{name}."):
                importlib.import_module(module.name)
        return keras.saving.load_model(folder / MODEL, compile=False, safe_mode=safe_mode)
    except Exception as error:  # any error in the file, or of a custom layer
        reason = without_breaks(error)
        raise SuiteError(f"{folder / MODEL}: cannot be loaded: {reason:.300}") from error


class TrainedModel:
    """The model of a finished run, see `load`.

    Attributes:
        model: The Keras model. Its inputs are those of `encode`.
        task: The task that it was trained on.
        vocabulary: The vocabulary of its texts.
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
        vocabulary: Vocabulary,
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
        from relation_tf.training.steps import words_of

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
        return [column.pad(np.arange(len(column))) for column in self._columns(texts)]

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

    def _columns(self, texts: Iterable[Any]) -> list[Ragged]:
        """Return the encoded texts of each input."""
        if isinstance(texts, str):
            raise DataError(f"texts must be a list. Received: a string, {texts!r:.40}")
        if isinstance(texts, Mapping | pd.DataFrame):  # they iterate over names
            raise DataError(f"texts must be a list. Received: a {type(texts).__name__}")
        rows = [(row,) if self.num_texts == 1 else row for row in texts]
        if not rows:
            raise DataError("texts must have one or more texts. Received: none")
        for number, row in enumerate(rows):
            if isinstance(row, str) or not _are_strings(row, self.num_texts):
                form = "a string" if self.num_texts == 1 else "a pair of strings"
                received = row[0] if self.num_texts == 1 else row
                raise DataError(
                    f"text {number} must be {form} for task {self.task.name}. "
                    f"Received: {received!r:.60}"
                )
            for text in (row,) if isinstance(row, str) else row:
                check_spelled(f"text {number}", text)
        columns = ([row[i] for row in rows] for i in range(self.num_texts))
        return [self.vocabulary.encode(column, self.config.max_length) for column in columns]

    def _outputs(self, texts: Iterable[Any]) -> np.ndarray:
        """Return the outputs, `(texts, width)`, in batches as in a run."""
        import tensorflow as tf

        from relation_tf.training.steps import EVALUATION_BATCH

        columns = self._columns(texts)
        lengths = np.stack([column.lengths for column in columns])
        batches = evaluation_batches(lengths, EVALUATION_BATCH)
        inputs = [tuple(tf.constant(column.pad(rows)) for column in columns) for rows in batches]
        outputs = np.concatenate([self._compiled(batch).numpy() for batch in inputs])
        return outputs[np.argsort(np.concatenate(batches))]

    @functools.cached_property
    def _compiled(self) -> Any:
        """The model, compiled once for all numbers of rows and tokens, as in a run."""
        import tensorflow as tf

        from relation_tf.training.trainer import trace

        ids = tf.TensorSpec((None, None), tf.int32)

        def compute(inputs: tuple[Any, ...]) -> Any:
            return self.model(inputs[0] if len(inputs) == 1 else list(inputs), training=False)

        return trace(compute, (ids,) * self.num_texts)


def _are_strings(row: Any, count: int) -> bool:
    try:
        texts = [*row]
    except TypeError:
        return False
    return len(texts) == count and all(isinstance(text, str) for text in texts)
