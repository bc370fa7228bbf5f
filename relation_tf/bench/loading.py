"""Load the models of finished runs. Keras and TensorFlow are imported when a model is loaded."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from relation_tf import __version__
from relation_tf.bench.checksums import MODEL, VOCABULARY, damage_of_model
from relation_tf.bench.run_folder import read_config
from relation_tf.config.layer_source import check_unchanged
from relation_tf.config.plugins import load_plugins
from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError, without_breaks
from relation_tf.faults import first_fault
from relation_tf.files import expand_home, read_json
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.vocabulary import Vocabulary
from relation_tf.training.session import check_backend, check_tensorflow

if TYPE_CHECKING:
    from relation_tf.bench.trained_model import TrainedModel


def load(folder: str | Path, *, safe_mode: bool = True) -> TrainedModel:
    """Load the model of a finished run, which a suite with `save_models = true` keeps.

    Args:
        folder: The folder of a run, such as `"runs/demo/runs/RTE/relation-64/seed-1"`, or a copy.
        safe_mode: As in `keras.saving.load_model`. Must be False for `saved-model:PATH`, and for a
            custom layer inside `encoder`.

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
    # First, because it discards TensorFlow's log messages.
    from relation_tf.networks import as_one  # noqa: F401

    # isort: split
    from relation_tf.bench.trained_model import TrainedModel

    check_backend()  # now also that of keras.json
    config = _config(path)
    check_unchanged(config, f"{path}: method {config.method}")
    task = find_task(config.entry)
    if task.generated or task.members:
        raise SuiteError(
            f"{path}: must be a run of one task with texts. Received: {task.name}. Load its model "
            f"with keras.saving.load_model({str(path / MODEL)!r})"
        )
    model = _read_model(path, safe_mode)
    vocabulary = None if config.tokens == "text" else Vocabulary.read(path / VOCABULARY)
    return TrainedModel(model, task, vocabulary, path, config)


def _config(folder: Path) -> RunConfig:
    """Return the configuration of a run, whose plugins are imported first.

    Raises:
        SuiteError: If a plugin cannot be imported or a value is not allowed.
    """
    found = read_config(folder)
    try:
        load_plugins(found["plugins"])
        return RunConfig.of(found)
    except ValidationError as error:
        raise SuiteError(f"{folder / 'config.json'}: {first_fault(error, RunConfig)}") from error


def _check_finished(folder: Path) -> None:
    """Check that a folder is that of a finished run of this version with a model.

    Raises:
        SuiteError: If it is not.
    """
    if not (folder / "config.json").is_file():
        found = sorted(folder.glob(f"runs/*/*/*/{MODEL}"))
        hint = f" Did you mean {str(found[0].parent)!r}?" if found else ""
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
    if fault := damage_of_model(folder):
        raise SuiteError(f"{fault}; `relation-tf run` trains it again")
    version = str(read_json(folder / "manifest.json").get("versions", {}).get("relation_tf"))
    if _series(version) != _series(__version__):
        raise SuiteError(
            f"{folder}: this model was written by relation_tf {version}. Received: relation_tf "
            f"{__version__}. Install relation_tf=={version} to load it"
        )


def _series(version: str) -> list[str]:
    """Return the part of a version that changes if models change."""
    return version.split(".")[:2]


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
