"""Models of finished runs, in their folders. Does not import Keras until a model is written."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from relation_tf.errors import SuiteError
from relation_tf.files import write_bytes, write_text

if TYPE_CHECKING:
    from relation_tf.training.trainer import SuiteTrainer

MODEL, VOCABULARY = "model.keras", "vocabulary.json"


def check_can_be_saved(trainer: SuiteTrainer) -> None:
    """Check, before the training, that Keras can save the network of a run and load it again.

    Raises:
        SuiteError: If a custom layer is not registered or has no usable `get_config`.
    """
    if trainer.config.has_built_in_layer:
        return
    import keras

    try:
        keras.saving.deserialize_keras_object(
            keras.saving.serialize_keras_object(trainer.model), safe_mode=False
        )
    except Exception as error:  # a custom layer may raise anything
        config = trainer.config
        raise SuiteError(
            f"key 'save_models': must be false for method {config.method}, which Keras cannot save "
            f"and load. `relation-tf check-layer {config.mixer}` says what to change"
        ) from error


def write_model(folder: Path, trainer: SuiteTrainer) -> None:
    """Write the network of a finished run and its vocabulary into the folder of the run.

    The networks of a group of tasks are one model, see `relation_tf.networks.as_one`.
    """
    from relation_tf.tasks.vocabulary import Vocabulary

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / MODEL
        trainer.model.save(path)
        write_bytes(folder / MODEL, path.read_bytes())
    if isinstance(vocabulary := trainer.task.vocabulary, Vocabulary):
        write_text(folder / VOCABULARY, vocabulary.to_json())
