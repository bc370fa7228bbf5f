"""Suites from files, names and Python. Does not import Keras."""

from __future__ import annotations

import contextlib
import re
import sys
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from pydantic import ValidationError

from relation_tf.config.method import Method
from relation_tf.config.run import RunConfig, without_former_keys
from relation_tf.config.suite import SUITES, Suite
from relation_tf.config.user_code import load_plugins
from relation_tf.errors import (
    OptionError,
    SuiteError,
    UnknownNameError,
    did_you_mean,
    in_one_line,
    join_names,
    reason_of,
)
from relation_tf.files import expand_home, read_bytes
from relation_tf.settings import faults_of, shortened

_FAULTS_SHOWN = 10
_LARGEST = 2**24  # bytes of a suite


def list_suites() -> list[str]:
    """Return the names of the suites of this package."""
    files = SUITES.iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load_suite(
    suite: str | Path | Suite,
    settings: Mapping[str, Any] | None = None,
    plugins: Sequence[str] = (),
    *,
    import_plugins: bool = True,
) -> Suite:
    """Load a suite by its name or from a file, or change keys of a `Suite`.

    The plugins of the suite are imported first: only load a suite that you trust.

    Args:
        suite: A name of `list_suites()`, a TOML file, or a `Suite`.
        settings: Keys to replace, also in the overrides of single tasks. If `method` is replaced,
            a reference or control that is not among the new methods no longer applies, nor does
            its margin.
        plugins: Modules to import in addition to the suite's own.
        import_plugins: If False, import only `plugins`, and refuse a suite with others: a plugin
            can run any code.

    Raises:
        UnknownNameError: If there is no suite of this name.
        SuiteError: If the suite cannot be read or has faults, or a plugin cannot be imported.

    Example:
        >>> load_suite("demo").name
        'demo'
    """
    folder = None
    if isinstance(suite, Suite):
        where, values = "suite", suite.model_dump()
    elif suite in list_suites():
        file = SUITES / f"{suite}.toml"
        where, values = f"suite {suite}", tomllib.loads(file.read_text(encoding="utf-8"))
    elif str(suite).endswith(".toml"):
        path = expand_home(suite)
        where, values, folder = str(suite), without_former_keys(_read(path)), path.parent
    else:
        files = [str(file) for file in Path(suite).parent.glob("*.toml")]
        known = [*list_suites(), *files]
        raise UnknownNameError(
            "suite", str(suite), known, "a file must end in .toml", "relation-tf suites"
        )
    _replace(values, settings or {})
    listed = values.get("plugins", [])
    if plugins and _are_names(listed):
        values["plugins"] = [*dict.fromkeys([*listed, *plugins])]
    if folder is not None:
        with contextlib.suppress(OSError, ValueError):  # invalid file names
            published = folder / str(values.get("published"))
            if published.is_file():
                values["published"] = str(published)
    if not import_plugins and _are_names(listed):
        load_plugins(plugins, folder)
        if others := [name for name in listed if name not in sys.modules]:
            options = " ".join(f"--plugin {name}" for name in others)
            raise SuiteError(
                f"{where}: its plugin {join_names(others)} is not imported, because it can run any "
                f"code. If you trust it, add {options}"
            )
    if settings and "method" in settings:
        drop_other_methods(where, values, settings, folder)
    return make_suite(where, values, folder)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = read_bytes(path, _LARGEST).decode()
    except (OSError, ValueError) as error:
        others = {file.name for file in path.parent.glob("*.toml")} - {path.name}
        hint = did_you_mean(path.name, others)
        reason = reason_of(error) + (hint and f".{hint}")
        raise SuiteError(f"{path}: cannot be read: {reason}") from error
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SuiteError(_toml_fault(path, error)) from error


def _toml_fault(path: Path, error: Exception) -> str:
    """Describe a fault of TOML, with its line and column if they are known."""
    place = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error), re.DOTALL)
    if place is None:
        return f"{path}: invalid TOML: {shortened(str(error))}"
    return f"{path}:{place[2]}:{place[3]}: invalid TOML: {shortened(place[1])}"


def _replace(values: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Replace keys of a suite and remove them from its overrides, its sweep and tuned settings.

    Overrides and tuned settings of tasks that are replaced are removed.
    """
    values |= settings
    tasks = settings.get("tasks")
    with contextlib.suppress(AttributeError, KeyError, TypeError):  # `Suite` names wrong types
        if "overrides" not in settings and "overrides" in values:
            values["overrides"] = {
                task: _without(override, settings)
                for task, override in values["overrides"].items()
                if tasks is None or task in tasks
            }
        if "sweep" not in settings and (sweep := values.get("sweep")):
            kept = _without(sweep, settings.keys() - {"seeds"})
            if kept != sweep:
                values["sweep"] = kept if kept.keys() - {"seeds"} else None
        values["tuned"] = [
            {**choice, "settings": _without(choice["settings"], settings)}
            for choice in values.get("tuned", [])
            if tasks is None or "tuned" in settings or choice["task"] in tasks
        ]


def _without(table: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}


def drop_other_methods(
    where: str, values: dict[str, Any], given: Collection[str], folder: Path | None = None
) -> None:
    """Remove what names methods that are not among the new ones of a suite.

    These are tuned settings, the reference and the control. Without both, the margin does not apply
    either. With families, both are names of mechanisms and stay.

    Args:
        where: Name or file of the suite, for messages.
        values: Keys of the suite, changed in place.
        given: Keys that were given with the methods; they stay.
        folder: As for `make_suite`.

    Raises:
        SuiteError: If a plugin cannot be imported.
    """
    _load_plugins(where, values, folder)
    # `Suite` names wrong values.
    with contextlib.suppress(AttributeError, KeyError, TypeError, ValidationError):
        in_names = "units" not in (values.get("sweep") or {})
        methods = [Method.model_validate(method) for method in values["method"]]
        names = [each.name for method in methods for each in method.expand(units_in_name=in_names)]
        if "tuned" not in given:
            values["tuned"] = [
                table for table in values.get("tuned", []) if table["method"] in names
            ]
        judges = [key for key in ("reference", "control") if values.get(key) is not None]
        if values.get("families") or not judges:
            return
        values |= {key: None for key in judges if key not in given and values[key] not in names}
        if not any(values[key] for key in judges) and "margin" not in given:
            overrides = values.get("overrides", {}).items()
            values["overrides"] = {task: {**table, "margin": None} for task, table in overrides}
            values["margin"] = None


def make_suite(where: str, values: Mapping[str, Any], folder: Path | None = None) -> Suite:
    """Import the plugins of a suite, check its values and return it.

    Args:
        where: Name or file of the suite, for messages.
        values: Keys of the suite.
        folder: Folder to search for plugins, in addition to the current one.

    Raises:
        SuiteError: One line per fault with the key, the value and the allowed values.
    """
    _load_plugins(where, values, folder)
    try:
        return Suite.model_validate(dict(values))
    except ValidationError as error:
        faults = faults_of(error, Suite)
        more = len(faults) - _FAULTS_SHOWN
        shown = faults[:_FAULTS_SHOWN]
        if more > 0:
            shown.append(f"and {more:,} more fault{'s' * (more > 1)}")
        raise SuiteError("\n".join(f"{where}: {fault}" for fault in shown)) from error


def _load_plugins(where: str, values: Mapping[str, Any], folder: Path | None) -> None:
    plugins = values.get("plugins")
    try:
        load_plugins(plugins if _are_names(plugins) else [], folder)  # `Suite` checks the list
    except SuiteError as error:
        raise SuiteError(f"{where}: {error}") from error


def _are_names(plugins: Any) -> TypeGuard[list[str]]:
    return isinstance(plugins, list) and all(isinstance(name, str) for name in plugins)


def select(
    suite: Suite,
    tasks: str | Iterable[str] | None = None,
    methods: str | Iterable[str] | None = None,
    seeds: int | Iterable[int] | None = None,
) -> list[RunConfig]:
    """Return the runs of some tasks, methods and seeds.

    Args:
        suite: The suite.
        tasks: Names of tasks, by default all.
        methods: Names of methods or mechanisms, see `Suite.find_methods`; by default all.
        seeds: Seeds, by default all.

    Raises:
        SuiteError: If the suite does not have the name or seed.
    """
    runs = suite.runs()
    if methods is not None:
        with in_one_line(f"suite {suite.name}"):
            methods = suite.find_methods(methods)
    for key, chosen in (("task", tasks), ("method", methods), ("seed", seeds)):
        if chosen is None:
            continue
        there = list(dict.fromkeys(getattr(run, key) for run in runs))
        wanted = [chosen] if isinstance(chosen, str | int) else list(chosen)
        if not wanted:
            raise OptionError(
                f"{key}s", f"must have one or more of {join_names([*map(str, there)])}"
            )
        for value in wanted:
            if value not in there:
                hint = "" if key == "seed" else did_you_mean(value, there)
                more = "; change them with --set seeds=N" if key == "seed" else ""
                raise SuiteError(
                    f"suite {suite.name}: unknown {key} {value!r}.{hint} Must be one of "
                    f"{', '.join(map(str, there))}{more}"
                )
        runs = [run for run in runs if getattr(run, key) in wanted]
    return runs
