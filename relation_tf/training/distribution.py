"""How the devices that one run is shared among are asked for. Free of Keras."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from relation_tf.errors import SuiteError

StrategyName = Literal["mirrored", "multi-worker"]


@dataclass(frozen=True)
class Distribution:
    """How devices share each run.

    Attributes:
        strategy: `"mirrored"` for the devices of this host, `"multi-worker"` for those of all hosts
            that `TF_CONFIG` names.
        devices: How many of this host's; by default all.
    """

    strategy: StrategyName
    devices: int | None = None

    @property
    def of_several_hosts(self) -> bool:
        """Whether other hosts train along."""
        return self.strategy == "multi-worker"


def make_distribution(strategy: str | None, devices: int | None) -> Distribution | None:
    """What the options say; None where each run has one device.

    Raises:
        SuiteError: For a strategy that is not known, and for devices that it cannot have.

    Example:
        >>> make_distribution("mirrored", 2)
        Distribution(strategy='mirrored', devices=2)
    """
    if strategy not in (None, "mirrored", "multi-worker"):
        raise SuiteError(f"strategy: expected mirrored or multi-worker. Received: {strategy}")
    if devices is not None and strategy != "mirrored":
        raise SuiteError(
            f"devices: expected --strategy mirrored beside it. Received: {devices} with "
            f"--strategy {strategy or '(none)'}"
        )
    if devices is not None and devices < 1:
        raise SuiteError(f"devices: expected 1 or more. Received: {devices}")
    return None if strategy is None else Distribution(cast("StrategyName", strategy), devices)
