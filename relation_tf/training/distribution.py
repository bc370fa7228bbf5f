"""Requested devices of each run. Does not import Keras."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Distribution:
    """Devices that share each run.

    Attributes:
        strategy: `"mirrored"` for the devices of this host, `"multi-worker"` for the devices of all
            hosts in `TF_CONFIG`.
        devices: Number of devices of this host, by default all.
    """

    strategy: str
    devices: int | None = None

    @property
    def of_several_hosts(self) -> bool:
        """If True, other hosts take part in the training."""
        return self.strategy == "multi-worker"
