"""Base classes of trainers and timers, and checkpoints of unfinished runs."""

from __future__ import annotations

import itertools
import json
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from relation_tf import networks
from relation_tf.config.run import RunConfig
from relation_tf.files import replacing
from relation_tf.tasks.encoding import EncodedTask
from relation_tf.tasks.glove import Vectors
from relation_tf.training.stopping import Stop

_SHARE = 20  # writing takes at most 1/20 of the time


@dataclass(frozen=True)
class State:
    """State of a run after an epoch.

    Attributes:
        history: One row per epoch.
        seconds: Training time so far.
        rule: State of the stopping rule.
        variables: Variables of the network and the optimizer, including random states and counters.
        kept: Weights that the stopping rule keeps, if any.
        resumed: Epochs after which the run was resumed.
    """

    history: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    rule: Mapping[str, Any] = field(default_factory=dict)
    variables: list[np.ndarray] = field(default_factory=list)
    kept: list[np.ndarray] | None = None
    resumed: list[int] = field(default_factory=list)


class Checkpoint:
    """File with a recent state of a run.

    Args:
        path: The file.
        conditions: Facts that must be unchanged to resume, such as package versions; otherwise the
            results would differ from those of an uninterrupted run.
        every: Minimum seconds between two states.
    """

    def __init__(self, path: Path, conditions: Mapping[str, Any], every: float = 2.0) -> None:
        self._path = path
        self._conditions = json.loads(json.dumps(conditions))
        self._every = every
        self._cost = 0.0
        self._written = time.monotonic()

    def due(self) -> bool:
        """Return True if a new state is due; states that take long to write are written rarely."""
        pause = max(self._every, _SHARE * self._cost) if self._every else 0.0
        return time.monotonic() - self._written >= pause

    def write(self, state: State) -> None:
        """Write a state atomically."""
        began = time.monotonic()
        about = vars(state) | {
            "conditions": self._conditions,
            "variables": len(state.variables),
            "kept": state.kept is not None,
        }
        text = np.frombuffer(json.dumps(about).encode(), np.uint8)
        arrays = (*state.variables, *(state.kept or []))
        with replacing(self._path) as file:
            np.savez(file, text, *arrays, allow_pickle=False)
        self._written = time.monotonic()
        self._cost = self._written - began

    def read(self) -> State | None:
        """Return the last state; None if it is missing, broken or from a different setup."""
        try:
            with self._path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = iter(file.values())
                about = json.loads(next(arrays).tobytes())
                if about.pop("conditions") != self._conditions:
                    return None
                about["variables"] = [*itertools.islice(arrays, about["variables"])]
                about["kept"] = [*arrays] if about["kept"] else None
                return State(**about)
        except Exception:
            # For any error in the file, the run starts again.
            return None


_SEED_STATE = "seed_generator_state"  # name of the variable in Keras's seed generators

ProgressCallback = Callable[[int, Mapping[str, float]], None]
"""Called with the number of an epoch or step, from 1, and its history row, if any."""


@dataclass(frozen=True)
class TrainingResult:
    """The result of a run.

    Attributes:
        history: One row per epoch, evaluation or timed pass.
        seconds: Seconds without compilation: `training` (including `input`, the preparation of
            batches), `evaluation` and `total`.
        stop: End of the run; None for a fixed number of steps.
        predictions: Outputs by (split, name) for dev and test splits, in the order of the rows:
            probabilities `(rows, classes)`, scores `(rows,)` in [0, 1], or ids `(rows, tokens)`.
        metrics: The metrics of each scored name.
        padding: Share of padding in the training batches.
        resumed: Epochs or steps after which the run was resumed.
        facts: Other entries for `result.json`.
    """

    history: list[dict[str, float]]
    seconds: Mapping[str, float]
    stop: Stop | None = None
    predictions: Mapping[tuple[str, str], np.ndarray] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    padding: float = 0.0
    resumed: Sequence[int] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


class Trainer(ABC):
    """Network and compiled steps, reused for all seeds.

    Compiling the steps takes about a second, longer than a small run. Therefore, `reset` builds a
    new network only for the initial weights of a seed and copies them to this network.

    Args:
        model: The network.
        optimizer: The optimizer; None if nothing is trained.

    Attributes:
        compile_seconds: Seconds for building and compiling.
    """

    compile_seconds: float = 0.0

    def __init__(self, model: keras.Model, optimizer: Any = None) -> None:
        self.model = model
        self.optimizer = optimizer
        if optimizer is not None:
            optimizer.build(model.trainable_variables)
        self._new_optimizer = _copies(self._variables()[len(model.variables) :])

    @abstractmethod
    def run(
        self,
        seed: int,
        on_progress: ProgressCallback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> TrainingResult:
        """Run from the initial weights of a seed.

        Args:
            seed: The seed.
            on_progress: Called after each epoch or step.
            checkpoint: Checkpoint of the run. If it exists, the run resumes from it, with identical
                results.
        """

    @abstractmethod
    def _build(self, seed: int) -> keras.Model:
        """Build a network with the initial weights of a seed."""

    def reset(self, seed: int, dropout_seed: int | None = None) -> None:
        """Set the weights and random states of a new network.

        Args:
            seed: Seed of the weights.
            dropout_seed: Seed of the random states of dropout; None for those that the network has
                after its weights are drawn.
        """
        values = [*self._build(seed).variables]
        if dropout_seed is not None:
            states = np.random.default_rng(dropout_seed)
            values = [
                # Keras's generators start with their seed and 0.
                np.array([states.integers(2**31), 0]) if value.name == _SEED_STATE else value
                for value in values
            ]
        self.restore_state([*values, *self._new_optimizer])

    def resume(self, checkpoint: Checkpoint | None) -> State | None:
        """Restore and return the state of an interrupted run; None if there is no matching one."""
        state = None if checkpoint is None else checkpoint.read()
        if (
            state is None
            or not _match(self._variables(), state.variables)
            or not _match(self.model.variables, state.kept)
        ):
            return None
        self.restore_state(state.variables)
        return state

    def weights(self) -> list[np.ndarray]:
        """Return copies of the network's variables."""
        return _copies(self.model.variables)

    def restore(self, weights: Sequence[Any]) -> None:
        """Restore weights returned by `weights`."""
        self._assign(self.model.variables, weights)

    def state(self) -> list[np.ndarray]:
        """Return copies of all variables, including the optimizer's."""
        return _copies(self._variables())

    def restore_state(self, state: Sequence[Any]) -> None:
        """Restore a state returned by `state`."""
        self._assign(self._variables(), state)

    def _variables(self) -> list[Any]:
        more = [] if self.optimizer is None else self.optimizer.variables
        return [*self.model.variables, *more]

    def _assign(self, variables: Sequence[Any], values: Sequence[Any]) -> None:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


class Estimate(NamedTuple):
    """Estimated cost of a run.

    Attributes:
        epoch: Seconds per epoch, including evaluation.
        once: Seconds for initial weights and final predictions.
    """

    epoch: float
    once: float


class SuiteTrainer(Trainer):
    """A trainer of a suite's runs.

    Attributes:
        config: The first run of the group.
        task: The task.
        vectors: Word vectors for the embedding.
        match: Width for the required number of parameters.
        xla: If True, XLA compiles the training step.
        tokens: Tokens per epoch without padding; None if the network reads strings, or epochs have
            different rows.
        warn: Called with one line for each failure of a callback.
    """

    config: RunConfig
    task: EncodedTask
    vectors: Vectors | None = None
    match: networks.Match | None = None
    xla: bool = False
    tokens: int | None = None
    warn: Callable[[str], None] = staticmethod(warnings.warn)

    @classmethod
    @abstractmethod
    def try_build(cls, config: RunConfig) -> None:
        """Build a small network of a run's method.

        Raises:
            SuiteError: If it cannot be built; the message names the method, the argument and its
                value.
        """

    @abstractmethod
    def estimate(self) -> Estimate:
        """Measure some steps, and what each run does once."""


class Clock:
    """Clock that can be set back.

    Args:
        spent: Seconds at the start.
    """

    def __init__(self, spent: float = 0.0) -> None:
        self.set_to(spent)

    def seconds(self) -> float:
        """Return the seconds so far."""
        return time.perf_counter() - self._start

    def set_to(self, seconds: float) -> None:
        """Set the seconds so far."""
        self._start = time.perf_counter() - seconds


def trace(function: Callable[..., Any], *signature: Any, jit_compile: bool = False) -> Any:
    """Compile a function of tensors once for a signature."""
    compiled = tf.function(function, autograph=False, jit_compile=jit_compile)
    return compiled.get_concrete_function(*signature)


def train_step(
    model: keras.Model, optimizer: Any, compute: Callable[[], tuple[Any, Any]]
) -> tuple[Any, Any]:
    """Take one optimizer step.

    Args:
        model: The network.
        optimizer: The optimizer.
        compute: Returns the loss (without the losses of the network) and another value.

    Returns:
        The loss, and the other value of `compute`.
    """
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        loss, more = compute()
        if model.losses:
            loss = loss + tf.add_n([tf.cast(value, loss.dtype) for value in model.losses])
    gradients = tape.gradient(loss, [variable.value for variable in variables])
    optimizer.apply(gradients, variables)
    return loss, more


def _copies(variables: Sequence[Any]) -> list[np.ndarray]:
    # The backend may return the memory of the variable.
    return [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]


def _match(variables: Sequence[Any], values: Sequence[np.ndarray] | None) -> bool:
    """Return True if the values can be assigned or are None."""
    if values is None:
        return True
    wanted = [(tuple(variable.shape), variable.dtype) for variable in variables]
    return wanted == [(value.shape, value.dtype.name) for value in values]
