"""Export the models of finished runs for other programs."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relation_tf.bench.loading import RUN_FILES, load
from relation_tf.bench.model_card import write_card
from relation_tf.bench.models import MODEL, VOCABULARY, Format
from relation_tf.bench.run_folder import writing
from relation_tf.errors import SuiteError, UnknownNameError, require_package, without_breaks
from relation_tf.files import expand_home, write_text
from relation_tf.quiet import errors_only, stderr_to

if TYPE_CHECKING:
    from relation_tf.bench.trained_model import TrainedModel

ONNX, SAVED_MODEL = "model.onnx", "saved-model"
SAFETENSORS, ARCHITECTURE = "model.safetensors", "architecture.json"

_TOLERANCE = 1e-5  # of an output of an ONNX model
_LENGTHS = (1, 7, 40, 130)  # tokens of the texts that check an ONNX model


@dataclass(frozen=True)
class _Format:
    """A format of exported models.

    Attributes:
        write: Writes a model into a folder.
        packages: Packages that it needs.
        extra: The extra of this package that installs them.
    """

    write: Callable[[TrainedModel, Path], None]
    packages: tuple[str, ...] = ()
    extra: str = ""


def export_model(
    folder: str | Path,
    out: str | Path,
    format: Format = "keras",
    task: str | None = None,
    *,
    safe_mode: bool = True,
) -> Path:
    """Export the model of a finished run, with its vocabulary and a model card.

    Args:
        folder: The folder of the run, see `load`.
        out: The new folder. It gets `README.md`, the model card; `vocabulary.json`, a file of the
            package `tokenizers`; the settings and scores of the run; and the model:
            `model.keras` (`"keras"`), a TensorFlow SavedModel `saved-model/`, `model.onnx`, or
            `model.safetensors` and `architecture.json`.
        format: `"keras"`, `"saved-model"`, `"onnx"` or `"safetensors"`.
        task: A task of the group that the model was trained on.
        safe_mode: As in `load`.

    Returns:
        The new folder.

    Raises:
        SuiteError: If the model cannot be loaded or exported, a package is missing, or `out`
            exists.

    Example:
        >>> import tempfile
        >>> from relation_tf.bench import export_model, run_suite
        >>> one = {"tasks": ["WNLI"], "methods": ["baseline-64"], "seeds": [1]}
        >>> changes = {"save_models": True, "epochs": 2}
        >>> results = run_suite("demo", tempfile.mkdtemp(), settings=changes, **one, quiet=True)
        >>> out = export_model(results.runs[0]["folder"], tempfile.mkdtemp() + "/exported")
        >>> sorted(path.name for path in out.iterdir())  # doctest: +NORMALIZE_WHITESPACE
        ['README.md', 'config.json', 'manifest.json', 'model.keras', 'result.json',
         'vocabulary.json']
    """
    if format not in _FORMATS:
        raise UnknownNameError("format", format, _FORMATS)
    kind = _FORMATS[format]
    for package in kind.packages:
        require_package(f"format {format!r}", package, kind.extra)
    out = expand_home(out)
    if out.exists():
        raise SuiteError(f"{out}: exists already. Choose another --out (out=)")
    trained = load(folder, task, safe_mode=safe_mode)
    if trained.task.written and format != "keras":
        raise SuiteError(
            f"format {format!r}: cannot export {trained.config.method}, an encoder-decoder, which "
            "writes its text in a loop. Use 'keras'"
        )
    scratch = out.with_name(f".{out.name}.{os.getpid()}")
    with writing(out):
        scratch.mkdir(parents=True)
        try:
            kind.write(trained, scratch)
            for name in (*RUN_FILES, VOCABULARY):
                if (trained.folder / name).exists():
                    shutil.copyfile(trained.folder / name, scratch / name)
            write_card(trained, scratch, format, safe_mode)
            scratch.replace(out)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return out


def _write_keras(trained: TrainedModel, folder: Path) -> None:
    # The file of a group has the networks of all tasks, so that `load` reads it as the run's.
    shutil.copyfile(trained.folder / MODEL, folder / MODEL)


def _write_saved_model(trained: TrainedModel, folder: Path) -> None:
    _call_once(trained)
    path = folder / SAVED_MODEL
    with _in_one_line(trained, SAVED_MODEL):
        trained.model.export(path, format="tf_saved_model", verbose=False)


def _write_onnx(trained: TrainedModel, folder: Path) -> None:
    """Write an ONNX file and compare its outputs with those of the model.

    Operations that tf2onnx does not know give a file that cannot be used, and only a warning.
    """
    # Read at the first import of onnxruntime, which otherwise connects to a server of its authors.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    _call_once(trained)
    with _in_one_line(trained, "onnx"):
        trained.model.export(folder / ONNX, format="onnx", verbose=False)
        _check_onnx(trained, folder / ONNX)


def _check_onnx(trained: TrainedModel, path: Path) -> None:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4  # errors are raised
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    for length in _LENGTHS:
        ids = _some_ids(trained, length)
        (found,) = session.run(None, dict(zip(names, ids, strict=True)))
        expected = np.array(trained.model(ids[0] if len(ids) == 1 else ids, training=False))
        worst = np.abs(found - expected).max()
        if not worst <= _TOLERANCE * max(1.0, np.abs(expected).max()):  # logits may be large
            raise ValueError(f"its outputs differ by {worst:.1e} at {length} tokens")


def _write_safetensors(trained: TrainedModel, folder: Path) -> None:
    """Write the weights, numbered in the order of `model.weights`, and the architecture."""
    import keras
    from safetensors.numpy import save_file

    with _in_one_line(trained, "safetensors"):
        weights = trained.model.weights
        tensors = {
            f"{number:04}/{weight.path}": keras.ops.convert_to_numpy(weight)
            for number, weight in enumerate(weights)
        }
        save_file(tensors, folder / SAFETENSORS)
        write_text(folder / ARCHITECTURE, trained.model.to_json(indent=1) + "\n")


_FORMATS: dict[Format, _Format] = {
    "keras": _Format(_write_keras),
    "saved-model": _Format(_write_saved_model),
    "onnx": _Format(_write_onnx, ("onnx", "tf2onnx", "onnxruntime"), "onnx"),
    "safetensors": _Format(_write_safetensors, ("safetensors",), "safetensors"),
}


def _call_once(trained: TrainedModel) -> None:
    """Call the model, without which Keras does not export it."""
    inputs = _some_ids(trained, 2)
    trained.model(inputs[0] if len(inputs) == 1 else inputs)


def _some_ids(trained: TrainedModel, length: int) -> list[np.ndarray]:
    """Return inputs of two texts with this number of tokens, one of them padded."""
    count = len(trained.model.inputs)
    if trained.vocabulary is None:
        return [np.array(["word " * length, "word"], dtype=object)] * count
    random = np.random.default_rng(length)
    ids = random.integers(1, trained.vocabulary.size, (count, 2, length), dtype=np.int32)
    ids[:, 1, length // 2 + 1 :] = 0
    return [*ids]


@contextlib.contextmanager
def _in_one_line(trained: TrainedModel, format: str) -> Any:
    """Turn any error of another library into one line, and discard its other messages.

    Raises:
        SuiteError: Instead of the error.
    """
    try:
        with stderr_to(Path(os.devnull)), errors_only("tf2onnx"):
            yield
    except Exception as error:
        reason = without_breaks(error)
        raise SuiteError(
            f"format {format!r}: cannot export {trained.config.method}: {reason:.300}"
        ) from error
