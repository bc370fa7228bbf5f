"""Report of a layer check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
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


def fix_first(name: str) -> str:
    """Return the message of a check that needs another one."""
    return f"Fix {name!r} first."


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
        passed: a suite can run it, 1 warning
    """

    layer: str
    checks: tuple[LayerCheck, ...]

    @property
    def passed(self) -> bool:
        """True if no check failed: a suite can run the layer. There may be warnings."""
        return self._count("failed") == 0

    def _count(self, status: Status) -> int:
        return sum(check.status == status for check in self.checks)

    @property
    def _rows(self) -> Iterator[LayerCheck]:
        """The checks, with one row for all checks that wait for the same fault."""
        waiting = [fix_first(check.name) for check in self.checks]
        count = Counter(check.message for check in self.checks if check.message in waiting)
        for check in self.checks:
            number = count.get(check.message, 1)
            if number == 1:
                yield check
            elif number > 1:
                yield replace(check, name=f"{number} checks")
                count[check.message] = 0

    def __str__(self) -> str:
        rows = [*self._rows]
        width = max(len(row.name) for row in rows)
        lines = [f"{row.status:14}  {row.name:{width}}  {row.message}" for row in rows]
        failed, warned = self._count("failed"), self._count("warning")
        verdict = "passed: a suite can run it"
        if failed:
            checks, them = ("1 check", "it") if failed == 1 else (f"{failed} checks", "them")
            verdict = f"{checks} failed (fix {them} before you use the layer in a suite)"
        if warned:
            verdict += f", {warned} warning{'s' if warned > 1 else ''}"
        return "\n".join([self.layer, *lines, verdict])
