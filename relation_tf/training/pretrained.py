"""The folder of pre-training, and encoders that networks start from. Does not import Keras.

    DIR/pretraining.json                   settings
    DIR/vocabulary.json                    WordPiece vocabulary of the training text
    DIR/scores.csv, report.json            perplexity, for `relation-tf compare`
    DIR/speeds.csv                         tokens per second
    DIR/runs/<method>/seed-<s>/
        config.json  manifest.json  history.csv  weights.npz  result.json

A run is done when its result.json exists; this file is written last.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from relation_tf.config.run import RunConfig, vocabulary_of
from relation_tf.errors import SuiteError, join_names, reason_of
from relation_tf.files import expand_home, read_json
from relation_tf.tasks.sources import digest_of_file
from relation_tf.tasks.vocabulary import Vocabulary
from relation_tf.training.pretraining_settings import SETTINGS, WEIGHTS

_EMBEDDING, _BIAS, _PROJECTION = "embedding", "bias", "projection"
_OF_A_RUN = {"method", "mechanism", "seed", "perplexity", "tokens_per_second"}
_OF_SETTINGS = {"embedding_dim", "units", "num_layers", "norm", "dropout", "objective"}
_ENCODER = "encoder_{}"


@dataclass(frozen=True)
class PretrainedEncoder:
    """An encoder that was pre-trained on plain text.

    Attributes:
        folder: Folder of the run.
        vocabulary: The vocabulary.
        mechanism: The token-mixing mechanism.
        seed: Seed of the run.
        settings: Settings of the run; `text` is a digest of the text.
        embedding: Embedding matrix, `(vocabulary.size, embedding_dim)`.
        weights: Weights of the encoder, in the order of the layer.
        bias: Bias of the logits, `(vocabulary.size,)`.
        projection: Matrix from the encoder's width to the embedding's, if these differ.
    """

    folder: Path
    vocabulary: Vocabulary
    mechanism: str
    seed: int
    settings: Mapping[str, Any]
    embedding: np.ndarray
    weights: tuple[np.ndarray, ...]
    bias: np.ndarray
    projection: np.ndarray | None = None

    @property
    def network(self) -> dict[str, Any]:
        """Arguments of `sequence_classifier` and similar functions for a network for `fill`.

        Contains the arguments that `fill` needs, and `dropout`, which can be changed. Other options
        of the encoder must keep their defaults.
        """
        settings = self.settings
        return {
            "mechanism": "encoder",
            "vocabulary_size": self.vocabulary.size,
            "embedding_dim": settings["embedding_dim"],
            "units": settings["units"],
            "options": {
                "mechanism": self.mechanism,
                "num_layers": settings["num_layers"],
                "norm": settings["norm"],
                "dropout": settings["dropout"],
                "causal": settings["objective"] == "causal",
            },
        }


def load_pretrained(folder: str | Path, method: str, seed: int | None = None) -> PretrainedEncoder:
    """Read an encoder from the output of `relation-tf pretrain`.

    Args:
        folder: The folder `--out` of the command.
        method: The mechanism, or the name of its runs.
        seed: Seed of the run, by default the first finished one. If a mechanism has only one run,
            it is used for any seed.

    Raises:
        SuiteError, DataError: If there is no such run, or it is broken; the message lists the
            available runs.

    Example:
        >>> load_pretrained("nowhere", "relation")
        Traceback (most recent call last):
            ...
        relation_tf.errors.SuiteError: nowhere: must be a folder written by \
`relation-tf pretrain`, with pretraining.json
    """
    folder = _folder(folder)
    result = _find_run(folder, method, seed)
    run = run_folder(folder, result["method"], result["seed"])
    arrays, weights = _read_weights(run / WEIGHTS)
    embedding = arrays[_EMBEDDING]
    vocabulary = Vocabulary.read(vocabulary_of(folder))
    settings = _read(run / "config.json", _OF_SETTINGS)
    expected = vocabulary.size, settings["embedding_dim"]
    if embedding.shape != expected:
        raise SuiteError(
            f"{run / WEIGHTS}: must have an embedding of shape {expected}, as "
            f"{vocabulary_of(folder).name} and config.json say. Received: shape {embedding.shape}"
        )
    mechanism, seed = str(result["mechanism"]), int(result["seed"])
    return PretrainedEncoder(
        run, vocabulary, mechanism, seed, settings, embedding, weights,
        arrays[_BIAS], arrays.get(_PROJECTION),
    )  # fmt: skip


def pretrained_digest(
    folder: str | Path, method: str | None = None, seed: int | None = None
) -> str:
    """Return the SHA-256 of an encoder and its vocabulary.

    Args:
        folder: See `load_pretrained`.
        method: The mechanism; None for the digest of the vocabulary only.
        seed: Seed of the run.

    Raises:
        SuiteError: See `load_pretrained`.
    """
    folder = _folder(folder)
    paths = [vocabulary_of(folder)]
    if method is not None:
        result = _find_run(folder, method, seed)
        paths.append(run_folder(folder, result["method"], result["seed"]) / WEIGHTS)
    digest = hashlib.sha256()
    for path in paths:
        try:
            digest.update(digest_of_file(path))
        except OSError as error:
            raise SuiteError(f"{path}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def encoder_digest(config: RunConfig) -> str | None:
    """Return the digest of a run's pre-trained encoder, or only of its vocabulary.

    Returns:
        None for a run without one.

    Raises:
        SuiteError: If there is no such encoder.
    """
    if config.pretrained is None:
        return None
    vocabulary = pretrained_digest(config.pretrained)
    if config.encoder_weights == "random":
        return vocabulary
    try:
        return pretrained_digest(config.pretrained, config.block_mechanism, config.seed_of("init"))
    except SuiteError as error:
        raise SuiteError(
            f"{error}; {config.method} needs it unless encoder_weights = 'random'"
        ) from error


def _folder(path: str | Path) -> Path:
    """Expand and check the path of a pre-training folder."""
    folder = expand_home(path)
    try:
        if (folder / SETTINGS).is_file():
            return folder
    except OSError as error:
        raise SuiteError(f"{path!s:.160}: cannot be read: {reason_of(error)}") from error
    raise SuiteError(
        f"{folder}: must be a folder written by `relation-tf pretrain`, with {SETTINGS}"
    )


def _find_run(folder: Path, method: str, seed: int | None) -> dict[str, Any]:
    """Return the result of a finished run."""
    done = finished_runs(folder)
    runs = [run for run in done if method in (run["method"], run["mechanism"])]
    for run in runs:
        if seed in (None, run["seed"]) or len(runs) == 1:
            return run
    wanted = method if seed is None else f"{method} with seed {seed}"
    finished = join_names([f"{run['method']} with seed {run['seed']}" for run in done])
    raise SuiteError(f"{folder}: has no finished run of {wanted}, only of {finished or 'none'}")


def fill(model: Any, pretrained: PretrainedEncoder, layer: str = "mechanism") -> None:
    """Set the weights of a network to those of a pre-trained encoder.

    Args:
        model: A network around `"encoder"`, of `relation_tf.networks`, such as
            `sequence_classifier(num_classes=2, **pretrained.network)`.
        pretrained: The encoder. Layers after the encoder keep their weights.
        layer: Name of the encoder layer in the network.

    Raises:
        SuiteError: If the shapes of the network differ; the message names both shapes.
    """
    for name, values in (("embedding", (pretrained.embedding,)), (layer, pretrained.weights)):
        try:
            target = model.get_layer(name)
        except ValueError as error:
            raise SuiteError(
                f"{pretrained.folder}: the network must have a layer {name!r}. "
                f"Received: {join_names([part.name for part in model.layers])}"
            ) from error
        if name == "mechanism":
            _check_same_arguments(target, pretrained)
        required = [tuple(weight.shape) for weight in target.weights]
        shapes = [value.shape for value in values]
        if required != shapes:
            expected, received = next((a, b) for a, b in zip_longest(required, shapes) if a != b)
            raise SuiteError(
                f"{pretrained.folder}: layer {name!r} has a weight of shape {received} where the "
                f"network has {expected}; it fills a network made with "
                f"{', '.join(f'{key}={value!r}' for key, value in pretrained.network.items())}"
            )
        target.set_weights(list(values))


def _check_same_arguments(layer: Any, pretrained: PretrainedEncoder) -> None:
    """Check that an encoder with the same shapes also has the same arguments.

    Raises:
        SuiteError: Names the first argument that differs, and both values.
    """
    from relation_tf.networks import encoder

    units = pretrained.settings["units"]
    learned = encoder(units=units, **pretrained.network["options"]).get_config()
    config = layer.get_config()
    free = {"name", "dtype", "dropout", "seed", "trainable"}
    for key in sorted(learned.keys() - free):
        if config.get(key) != learned[key]:
            raise SuiteError(
                f"{pretrained.folder}: its encoder was made with {key} = {learned[key]!r}, the "
                f"network's has {config.get(key)!r}"
            )


def run_folder(folder: Path, method: str, seed: int) -> Path:
    """Return the folder of a run."""
    return folder / "runs" / method / f"seed-{seed}"


def finished_runs(folder: Path) -> list[dict[str, Any]]:
    """Return the results of all finished runs, in order of method and seed.

    Raises:
        SuiteError: If a result is broken.
    """
    paths = sorted(folder.glob("runs/*/seed-*/result.json"))
    values = [_read(path, _OF_A_RUN) for path in paths]
    return sorted(values, key=lambda run: (run["method"], run["seed"]))


def _read(path: Path, needed: set[str]) -> dict[str, Any]:
    """Read a JSON file that must have some keys."""
    values = read_json(path)
    if missing := needed - values.keys():
        raise SuiteError(f"{path}: expected a key {min(missing)!r}, found none")
    return values


def write_weights(
    path: Path,
    embedding: np.ndarray,
    weights: list[np.ndarray],
    bias: np.ndarray,
    projection: np.ndarray | None = None,
) -> None:
    """Write the weights for `load_pretrained`; the arguments are attributes of the encoder."""
    arrays = {_ENCODER.format(i): array for i, array in enumerate(weights)}
    arrays |= {_EMBEDDING: embedding, _BIAS: bias}
    if projection is not None:
        arrays[_PROJECTION] = projection
    np.savez(path, allow_pickle=False, **arrays)


def _read_weights(path: Path) -> tuple[dict[str, np.ndarray], tuple[np.ndarray, ...]]:
    """Return the named arrays, and the weights of the encoder."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            named = {_EMBEDDING, _BIAS, *({_PROJECTION} & {*file.files})}
            names = [_ENCODER.format(i) for i in range(len({*file.files} - named))]
            return {name: file[name] for name in named}, tuple(file[name] for name in names)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        reason = reason_of(error)
        raise SuiteError(f"{path}: expected the weights of an encoder: {reason}") from error
