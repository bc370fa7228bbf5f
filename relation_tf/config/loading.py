"""Suites from files, names and Python. Free of Keras."""

from __future__ import annotations

import contextlib
import difflib
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import (
    ValidationError,
)

from relation_tf.config.faults import fault_line, shortened
from relation_tf.config.run import RunConfig
from relation_tf.config.suite import Suite
from relation_tf.errors import SuiteError

_FAULTS_SHOWN = 10


def list_suites() -> list[str]:
    """The names of the suites that come with the package."""
    files = resources.files("relation_tf.suites").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load_suite(suite: str | Path | Suite, settings: Mapping[str, Any] | None = None) -> Suite:
    """Find a suite by its name or file, or take one that is made.

    Args:
        suite: A name of `list_suites()`, a TOML file, or a `Suite`.
        settings: Keys to set over what the suite says.

    Raises:
        SuiteError: For a suite that is not there or not right.

    Example:
        >>> load_suite("demo").name
        'demo'
    """
    if isinstance(suite, Suite):
        values = suite.model_dump()
        _set(values, settings or {})
        return make_suite("suite", values)
    if suite in list_suites():
        path = resources.files("relation_tf.suites") / f"{suite}.toml"
        where, text = f"suite {suite}", path.read_text(encoding="utf-8")
    elif str(suite).endswith(".toml"):
        where = str(suite)
        try:
            text = Path(suite).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SuiteError(f"{suite}: cannot be read: {reason}") from error
    else:
        near = difflib.get_close_matches(str(suite), list_suites(), n=1)
        known = ", ".join(list_suites())
        raise SuiteError(
            f"unknown suite {str(suite)!r}: expected one of {known}, or a TOML file"
            + (f". Did you mean {near[0]!r}?" if near else "")
        )
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SuiteError(f"{where}: not TOML: {shortened(str(error))}") from error
    _set(values, settings or {})
    if where == str(suite):
        with contextlib.suppress(OSError, ValueError):  # of names that no file can have
            beside = Path(where).parent / str(values.get("published"))
            if beside.is_file():
                values["published"] = str(beside)
    return make_suite(where, values)


def _set(values: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Set keys over what a suite says, for its single tasks too: what is asked last holds."""
    values |= settings
    overrides = values.get("overrides")
    if "overrides" not in settings and isinstance(overrides, dict):
        values["overrides"] = {
            task: {key: value for key, value in own.items() if key not in settings}
            if isinstance(own, dict)
            else own
            for task, own in overrides.items()
        }


def make_suite(where: str, values: Mapping[str, Any]) -> Suite:
    """Check values and make the suite.

    Raises:
        SuiteError: One line for each fault: the key, the value, what is allowed.
    """
    try:
        return Suite.model_validate(dict(values))
    except ValidationError as error:
        faults = [*dict.fromkeys(shortened(fault_line(fault)) for fault in error.errors())]
        more = len(faults) - _FAULTS_SHOWN
        shown = faults[:_FAULTS_SHOWN] + ([f"and {more:,} more faults"] if more > 0 else [])
        raise SuiteError("\n".join(f"{where}: {fault}" for fault in shown)) from error


def select(
    suite: Suite,
    tasks: str | Iterable[str] | None = None,
    methods: str | Iterable[str] | None = None,
    seeds: int | Iterable[int] | None = None,
) -> list[RunConfig]:
    """The runs of some tasks, methods and seeds.

    Raises:
        SuiteError: For a name or seed that the suite does not have.
    """
    runs = suite.runs()
    for key, chosen in (("task", tasks), ("method", methods), ("seed", seeds)):
        if chosen is None:
            continue
        there = list(dict.fromkeys(getattr(run, key) for run in runs))
        wanted = [chosen] if isinstance(chosen, str | int) else list(chosen)
        for value in wanted:
            if value not in there:
                expected = ", ".join(map(str, there))
                by_lower = {str(each).lower(): each for each in there}
                near = difflib.get_close_matches(str(value).lower(), by_lower, n=1)
                more = f". Did you mean {by_lower[near[0]]!r}?" if near else ""
                if key == "seed":
                    more = "; --set seeds=N asks for N"
                raise SuiteError(
                    f"suite {suite.name}: unknown {key} {value!r}: expected one of {expected}{more}"
                )
        runs = [run for run in runs if getattr(run, key) in wanted]
    return runs
