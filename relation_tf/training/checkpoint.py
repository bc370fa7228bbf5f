"""Checkpoints of unfinished runs. Does not import Keras."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from relation_tf.files import replacing

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
