"""Tab completion of suites and tasks; no plugin is imported."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from relation_tf.registry import TASKS


def complete_suite(incomplete: str) -> list[str]:
    """Return the suites and TOML files that begin with a text."""
    from relation_tf.config import list_suites

    return _beginning([*list_suites(), *map(str, Path().glob("*.toml"))], incomplete)


def complete_task(incomplete: str) -> list[str]:
    """Return the registered tasks that begin with a text, or continue a list with commas."""
    before, comma, last = incomplete.rpartition(",")
    left = [name for name in TASKS if name not in before.split(",")]
    return [f"{before}{comma}{name}" for name in _beginning(left, last)]


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.lower().startswith(incomplete.lower())]
