"""Checks of a whole encoder-decoder, such as one that a plugin registers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import numpy as np

from relation_tf.networks.encoder_decoder import sequence_loss
from relation_tf.networks.layer_check.definition import check, expect_finite, expect_same
from relation_tf.networks.layer_check.subject import DROPOUT, FaultError, array, vary_constants
from relation_tf.networks.mechanisms import make_layer
from relation_tf.registry import Mechanism

# A full row and a padded row; sources and targets have different lengths.
_SOURCES = np.array([[3, 4, 5, 6, 8], [7, 3, 4, 0, 0]])
_TARGETS = np.array([[1, 5, 3, 6], [1, 4, 0, 0]])
_KEPT = _TARGETS != 0
_VOCABULARIES = 9, 7  # of sources and targets
_METHODS = ("initial_state", "step")
_FIX = "use keras.ops on tensors of shape (batch, tokens)."


@dataclass(frozen=True)
class WholeNetwork:
    """The checked encoder-decoder.

    Attributes:
        mechanism: Its registered name.
        entry: Its registry entry.
        units: Width of the network.
        options: Further arguments.
    """

    mechanism: str
    entry: Mechanism
    units: int
    options: dict[str, Any]
    varied: bool = False  # As in `Subject`.

    def __str__(self) -> str:
        settings = {"units": self.units, **self.options}
        arguments = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        return f"{self.mechanism} with {arguments} ({keras.backend.backend()})"

    def layer(self) -> Any:
        """Return a new network from the same seed."""
        keras.utils.set_random_seed(0)
        source, target = _VOCABULARIES
        vocabularies = {"source_vocabulary": source, "target_vocabulary": target}
        options = {**vocabularies, "dropout": DROPOUT, **self.options}
        return make_layer(self.entry, self.units, DROPOUT, options)

    @cached_property
    def network(self) -> Any:
        """The network with its weights."""
        network = self.layer()
        network.build()
        if self.varied:
            vary_constants(network)
        return network

    def logits(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the logits of the token after each target token, in inference mode."""
        return array(self.network([sources, targets], training=False))


@check("construction", "see `EncoderDecoder`.", after=())
def _construction(subject: WholeNetwork) -> str:
    network = subject.network
    missing = [name for name in _METHODS if not callable(getattr(network, name, None))]
    if missing:
        raise FaultError(
            f"The network has no {' and no '.join(missing)}.",
            "use a subclass of relation_tf.networks.encoder_decoder.EncoderDecoder.",
        )
    return f"{network.count_params():,} parameters."


@check("output shape", _FIX, after=("construction",))
def _output_shape(subject: WholeNetwork) -> str:
    logits = subject.logits(_SOURCES, _TARGETS)
    wanted = (*_TARGETS.shape, _VOCABULARIES[1])
    if logits.shape != wanted:
        raise FaultError(
            f"The logits have shape {logits.shape} instead of {wanted}.",
            "return logits of shape (batch, target_tokens, target_vocabulary).",
        )
    expect_finite(logits[_KEPT], "Logits", "look for a division by zero.")
    return f"{logits.shape}."


@check("padding", _FIX)
def _padding(subject: WholeNetwork) -> str:
    padded = subject.logits(*(np.pad(ids, ((0, 0), (0, 2))) for ids in (_SOURCES, _TARGETS)))
    expect_same(
        padded[:, : _TARGETS.shape[1]][_KEPT],
        subject.logits(_SOURCES, _TARGETS)[_KEPT],
        "Padding changes the logits",
        "mask the tokens with id 0.",
    )
    return "padding does not change the logits."


@check("later tokens", _FIX)
def _later_tokens(subject: WholeNetwork) -> str:
    changed = _TARGETS.copy()
    changed[0, -1] = 2
    expect_same(
        subject.logits(_SOURCES, changed)[0, :-1],
        subject.logits(_SOURCES, _TARGETS)[0, :-1],
        "Logits depend on later target tokens, which they predict",
        "use a causal decoder.",
    )
    return "logits do not depend on later target tokens."


@check("steps", "see `EncoderDecoder.step`.")
def _steps(subject: WholeNetwork) -> str:
    state = subject.network.initial_state(_SOURCES, _TARGETS.shape[1])
    steps = []
    for place in range(_TARGETS.shape[1]):
        logits, state, _ = subject.network.step(_TARGETS[:, place : place + 1], state)
        steps.append(array(logits))
    expect_same(
        np.concatenate(steps, axis=1)[_KEPT],
        subject.logits(_SOURCES, _TARGETS)[_KEPT],
        "Logits of steps differ from those of a call with all tokens",
        "compute the same in `step` as in `call`: scores use steps, training uses `call`.",
    )
    return "steps give the logits of a call with all tokens."


@check("training", _FIX)
def _training(subject: WholeNetwork) -> str:
    network = subject.layer()
    network.build()
    network.compile("adam", sequence_loss, jit_compile=False)
    network.train_on_batch([_SOURCES, _TARGETS[:, :-1]], _TARGETS[:, 1:])
    weights = np.concatenate([array(weight).ravel() for weight in network.weights])
    fix = "look for a square root or norm at zero, a logarithm or a division."
    expect_finite(weights, "Weights after one training step", fix)
    return "one training step."


SEQUENCE_CHECKS = (_construction, _output_shape, _padding, _later_tokens, _steps, _training)
