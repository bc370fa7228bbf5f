"""Plugins: user modules that register mechanisms, tasks, metrics and other parts. Free of Keras."""

from __future__ import annotations

import functools
import hashlib
import importlib
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from relation_tf.errors import SuiteError
from relation_tf.quiet import loading_quietly
from relation_tf.registry import (
    EXECUTORS,
    MECHANISMS,
    METRICS,
    OPTIMIZERS,
    PROCEDURES,
    SCHEDULES,
    SECTIONS,
    SOURCES,
    STOPPING_RULES,
    TASKS,
    TRACKERS,
    Registry,
)

ENTRY_POINTS = "relation_tf.plugins"
"""The entry-point group of installed packages that register parts."""

Plugin = Annotated[str, Field(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*$")]


def load_plugins(modules: Iterable[str], folder: str | Path | None = None) -> None:
    """Import modules that register parts, and the entry points of installed packages.

    A module is looked for in the current folder, then in `folder`, then among installed packages.
    One that has been imported is not imported again. What is written to stderr meanwhile is
    discarded: TensorFlow prints there when a module imports Keras.

    Args:
        modules: Names of modules, such as `"my_module"`.
        folder: A further folder to look in.

    Raises:
        SuiteError: If a module cannot be found or raises an error.
    """
    _load_entry_points()
    modules = [*modules]
    if not modules:
        return
    places = [str(Path.cwd()), *([] if folder is None else [str(Path(folder).resolve())])]
    sys.path[:0] = [place for place in places if place not in sys.path]
    importlib.invalidate_caches()
    for module in modules:
        if module in sys.modules:
            continue
        try:
            with loading_quietly():
                importlib.import_module(module)
        except Exception as error:
            name = getattr(error, "name", None)
            if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{name}."):
                where = " and ".join(places)
                reason = f"no such module in {where} or among installed packages"
            else:
                reason = _line(error)
            raise SuiteError(f"plugin {module!r} cannot be imported: {reason}") from error


def shaping_plugins(modules: Iterable[str]) -> list[str]:
    """Return the plugins that can change what a run computes.

    Left out are those that register nothing but trackers, executors, report sections and
    statistical procedures.

    Args:
        modules: Names of modules that `load_plugins` has imported.
    """
    others = (TRACKERS, EXECUTORS, SECTIONS, PROCEDURES)
    kinds = (MECHANISMS, METRICS, OPTIMIZERS, SCHEDULES, SOURCES, STOPPING_RULES, TASKS)

    def register(name: str, registries: Sequence[Registry[Any]]) -> bool:
        origins = {origin for registry in registries for origin in registry.origins()}
        return any(f"{origin}.".startswith(f"{name}.") for origin in origins)

    return [name for name in modules if register(name, kinds) or not register(name, others)]


def plugins_digest(modules: Sequence[str]) -> str | None:
    """Return a digest of the source of plugins, which is part of what identifies a run.

    Of a package, all its Python files count; of what a module imports from elsewhere, only the
    import.

    Args:
        modules: Names of modules that `load_plugins` has imported.

    Returns:
        None where there are none, or a module has no source file.
    """
    digest = hashlib.sha256()
    for module in sorted(modules):
        file = getattr(sys.modules.get(module), "__file__", None)
        if file is None or not file.endswith(".py"):
            return None
        path = Path(file)
        package = path.name == "__init__.py"
        for source in sorted(path.parent.rglob("*.py")) if package else [path]:
            name = source.relative_to(path.parent).as_posix()
            content = source.read_bytes()
            digest.update(f"{module} {name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16] if modules else None


@functools.cache
def _load_entry_points() -> None:
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        try:
            with loading_quietly():
                entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist else "an installed package"
            raise SuiteError(
                f"plugin {entry.value!r} of {package} cannot be imported: {_line(error)}"
            ) from error


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
