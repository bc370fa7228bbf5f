"""Requested devices of each run. Does not import Keras."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Distribution:
    """Devices that share each run.

    Attributes:
        strategy: `"mirrored"`, the devices of this machine.
        devices: Number of devices, by default all.
    """

    strategy: str
    devices: int | None = None
