"""How the devices that one run is shared among are asked for. Does not import Keras."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Distribution:
    """How devices share each run.

    Attributes:
        strategy: `"mirrored"` for the devices of this host, `"multi-worker"` for those of all hosts
            that `TF_CONFIG` names.
        devices: How many of this host's; by default all.
    """

    strategy: str
    devices: int | None = None

    @property
    def of_several_hosts(self) -> bool:
        """Whether other hosts train along."""
        return self.strategy == "multi-worker"
