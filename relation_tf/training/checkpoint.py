"""The state of a run that is not done, from which it goes on. Does not import Keras."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

STATE = "state.npz"

_SHARE = 20  # Writing takes no more than a twentieth of the time.


@dataclass(frozen=True)
class State:
    """A run after an epoch.

    Attributes:
        history: A row an epoch.
        seconds: Spent so far.
        rule: The numbers of the stopping rule.
        variables: Of the network and the optimizer, random states and counters among them.
        kept: The weights that the stopping rule holds back, if it does.
        resumed: The epochs after which the run was taken up again.
    """

    history: list[dict[str, float]]
    seconds: float
    rule: Mapping[str, Any]
    variables: list[np.ndarray]
    kept: list[np.ndarray] | None = None
    resumed: list[int] = field(default_factory=list)


class Checkpoint:
    """A file that holds the last state of a run, or that of some seconds ago.

    Args:
        path: The file.
        made_by: What the state goes on with alone, such as the versions of packages: with others
            the run would not end as it began.
        every: Seconds between two states; a run whose epochs take milliseconds would write more
            than it trains.
    """

    def __init__(self, path: Path, made_by: Mapping[str, Any], every: float = 2.0) -> None:
        self._path = path
        self._made_by = json.loads(json.dumps(made_by))
        self._every = every
        self._cost = 0.0
        self._written = time.monotonic()

    def due(self) -> bool:
        """Whether it is time for another state; one that takes long to write is written seldom."""
        pause = max(self._every, _SHARE * self._cost) if self._every else 0.0
        return time.monotonic() - self._written >= pause

    def write(self, state: State) -> None:
        """Write a state, whole or not at all."""
        began = time.monotonic()
        about = vars(state) | {
            "made_by": self._made_by,
            "variables": len(state.variables),
            "kept": state.kept is not None,
        }
        text = np.frombuffer(json.dumps(about).encode(), np.uint8)
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            with temporary.open("wb") as file:
                arrays = [text, *state.variables, *(state.kept or [])]
                np.savez(file, *arrays, allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        finally:
            temporary.unlink(missing_ok=True)
        self._written = time.monotonic()
        self._cost = self._written - began

    def read(self) -> State | None:
        """The last state; None where there is none, or one that others have made or damaged."""
        try:
            with self._path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = iter(file.values())
                about = json.loads(next(arrays).tobytes())
                if about.pop("made_by") != self._made_by:
                    return None
                about["variables"] = [*itertools.islice(arrays, about["variables"])]
                about["kept"] = [*arrays] if about["kept"] else None
                return State(**about)
        except Exception:
            # Whatever is wrong with it: without a state the run begins anew.
            return None
