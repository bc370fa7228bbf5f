"""The report of a layer check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "failed", "warning", "not applicable"]


@dataclass(frozen=True)
class LayerCheck:
    """The outcome of one check.

    Attributes:
        name: What was checked.
        status: `"ok"`; `"failed"`, which a suite must not run with; `"warning"`, which it can; or
            `"not applicable"`.
        message: What was expected, what came and how to mend it; or why it does not apply.
    """

    name: str
    status: Status
    message: str


@dataclass(frozen=True)
class LayerReport:
    """What `check_layer` found.

    Attributes:
        layer: What was checked, and how it was made.
        checks: The checks in their order.

    Example:
        >>> checks = (LayerCheck("padding", "warning", "Expected one thing, got another."),)
        >>> print(LayerReport("my_layer:Mine", checks))
        my_layer:Mine
        warning         padding  Expected one thing, got another.
        passed: a suite can run it; 1 warning
    """

    layer: str
    checks: tuple[LayerCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether a suite can run the layer: nothing failed; there may be warnings."""
        return self._count("failed") == 0

    def _count(self, status: Status) -> int:
        return sum(check.status == status for check in self.checks)

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        lines = [f"{check.status:14}  {check.name:{width}}  {check.message}"
                 for check in self.checks]  # fmt: skip
        failed, warned = self._count("failed"), self._count("warning")
        verdict = "passed: a suite can run it"
        if failed:
            verdict = f"failed: {failed} to mend before a suite"
        if warned:
            verdict += f"; {warned} warning{'s' if warned > 1 else ''}"
        return "\n".join([self.layer, *lines, verdict])
