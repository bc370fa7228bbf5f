"""Report of a layer check. Imports no Keras."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

TOKEN_READ = "token read"  # Concerns only networks that read one token.

Status = Literal["ok", "failed", "warning", "not applicable"]


@dataclass(frozen=True)
class LayerCheck:
    """Result of one check.

    Attributes:
        name: Name of the check.
        status: `"ok"`; `"failed"`, must be fixed before a suite; `"warning"`, a suite can run; or
            `"not applicable"`.
        message: The problem and its fix, the result of the check, or why it does not apply.
    """

    name: str
    status: Status
    message: str


class Fault(NamedTuple):
    """A failed check of a layer.

    Attributes:
        layer: Name of the layer.
        check: Name of the check.
        message: The problem and its fix.
    """

    layer: str
    check: str
    message: str


@dataclass(frozen=True)
class LayerReport:
    """Report of `check_layer`.

    Attributes:
        layer: Description of the layer and its arguments.
        checks: Results of the checks, in order.

    Example:
        >>> checks = (LayerCheck("saving", "warning", "A saved model cannot be loaded."),)
        >>> print(LayerReport("my_layer:Mine", checks))
        my_layer:Mine
        warning         saving  A saved model cannot be loaded.
        passed: a suite can run it, warnings: 1
    """

    layer: str
    checks: tuple[LayerCheck, ...]

    @property
    def passed(self) -> bool:
        """True if no check failed: a suite can run the layer. There may be warnings."""
        return self._count("failed") == 0

    def _count(self, status: Status) -> int:
        return sum(check.status == status for check in self.checks)

    def __str__(self) -> str:
        rows = []
        # Checks that wait for the same fault share a row.
        for (status, message), same in groupby(self.checks, lambda c: (c.status, c.message)):
            names = [check.name for check in same]
            rows.append((status, " … ".join(dict.fromkeys([names[0], names[-1]])), message))
        width = max(len(name) for _, name, _ in rows)
        verdict = "passed: a suite can run it"
        if failed := self._count("failed"):
            verdict = f"failed: {failed} (fix before you use the layer in a suite)"
        if warnings := self._count("warning"):
            verdict += f", warnings: {warnings}"
        lines = [f"{status:14}  {name:{width}}  {message}" for status, name, message in rows]
        return "\n".join([self.layer, *lines, verdict])
