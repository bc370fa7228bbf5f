"""The state of a run that is not done, from which it goes on. Free of Keras."""

from __future__ import annotations

import json
import os
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

STATE = "state.npz"


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
        self._written = -every

    def due(self) -> bool:
        """Whether it is time for another state."""
        return time.monotonic() - self._written >= self._every

    def write(self, state: State) -> None:
        """Write a state, whole or not at all."""
        about = {
            "made_by": self._made_by,
            "history": state.history,
            "seconds": state.seconds,
            "rule": state.rule,
            "resumed": state.resumed,
            "kept": state.kept is not None,
        }
        arrays: dict[str, Any] = {"about": np.frombuffer(json.dumps(about).encode(), np.uint8)}
        arrays |= {f"variable_{i}": array for i, array in enumerate(state.variables)}
        arrays |= {f"kept_{i}": array for i, array in enumerate(state.kept or [])}
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        self._written = time.monotonic()

    def read(self) -> State | None:
        """The last state; None where there is none, or one that others have made or damaged."""
        try:
            with self._path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                about = json.loads(file["about"].tobytes())
                if about["made_by"] != self._made_by:
                    return None
                return State(
                    about["history"],
                    about["seconds"],
                    about["rule"],
                    _series(file, "variable"),
                    _series(file, "kept") if about["kept"] else None,
                    about["resumed"],
                )
        except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile):
            return None

    def remove(self) -> None:
        """Forget the state, once the run is done."""
        self._path.unlink(missing_ok=True)


def _series(file: Mapping[str, np.ndarray], name: str) -> list[np.ndarray]:
    count = sum(key.startswith(f"{name}_") for key in file)
    return [file[f"{name}_{i}"] for i in range(count)]
