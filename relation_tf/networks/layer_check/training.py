"""Checks that networks of one text and of a pair train with the layer."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from relation_tf.networks.classifiers import pair_classifier, sequence_classifier
from relation_tf.networks.layer_check.causes import fix_of
from relation_tf.networks.layer_check.definition import check
from relation_tf.networks.layer_check.subject import (
    BATCH,
    DROPOUT,
    KEPT,
    FaultError,
    NotApplicableError,
    Subject,
    array,
    described,
)
from relation_tf.networks.mixing import is_layer
from relation_tf.networks.precision import dtype_policy

_VOCABULARY = 12
_CLASSES = 2
_NETWORKS = {"network of one text": sequence_classifier, "pair network": pair_classifier}
_FIX = "run the layer in `keras.Sequential` with these shapes to find the operation."
_AFTER = ("construction", "output shape", "lengths")


@check("training", _FIX, after=_AFTER)
def _training(subject: Subject) -> str:
    _train(subject)
    return "one training step each of a network for single texts and of one for pairs."


@check(
    "training in mixed precision",
    _FIX,
    needed=("bfloat16",),
    after=(*_AFTER, "training"),
)
def _training_in_mixed_precision(subject: Subject) -> str:
    if is_layer(subject.mechanism):
        raise NotApplicableError("An instance keeps its dtype policy.")
    with dtype_policy("mixed_bfloat16"):
        _train(subject)
    return "one training step of both networks with mixed_bfloat16."


def _train(subject: Subject) -> None:
    """Take one training step of both networks.

    Raises:
        FaultError: If a network cannot be trained, or its loss or weights are not finite.
    """
    for name, build in _NETWORKS.items():
        try:
            weights = _one_step(build, subject, 2 if name.startswith("pair") else 1)
        # The layer may raise any exception.
        except Exception as error:
            raise FaultError(
                f"The {name} cannot be trained: {described(error)}", fix_of(error, _FIX)
            ) from error
        if not all(np.isfinite(each).all() for each in weights):
            raise FaultError(
                f"One training step of the {name} gives weights that are NaN or infinite.",
                "look for a square root or norm at zero, a logarithm or a division.",
            )


def _one_step(build: Any, subject: Subject, texts: int) -> list[np.ndarray]:
    """Return the weights of a network after one step, with padding in all texts."""
    keras.utils.set_random_seed(0)
    network = build(
        subject.mechanism,
        _VOCABULARY,
        _CLASSES,
        units=subject.units,
        embedding_dim=subject.width,
        dropout=DROPOUT,
        options=subject.options or None,
    )
    network.layers[-1].dtype_policy = "float32"  # as in suites
    rng = np.random.default_rng(0)
    # The texts of a pair have different lengths.
    ids = [
        np.where(KEPT, rng.integers(1, _VOCABULARY, KEPT.shape), 0)[:, : KEPT.shape[1] - i]
        for i in range(texts)
    ]
    network.compile("adam", "sparse_categorical_crossentropy", jit_compile=_compiles())
    network.train_on_batch(ids if texts > 1 else ids[0], np.arange(BATCH) % _CLASSES)
    return [array(weight) for weight in network.weights]


def _compiles() -> bool:
    """Return True on JAX, where a step without compilation is slow."""
    return keras.backend.backend() == "jax"


TRAINING_CHECKS = (_training, _training_in_mixed_precision)
