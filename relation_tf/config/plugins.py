"""Plugins: user modules that register mechanisms, tasks, metrics and other parts."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import importlib.machinery
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from relation_tf import registry
from relation_tf.errors import SuiteError, no_such_module, without_breaks
from relation_tf.quiet import loading_quietly

Plugin = Annotated[str, Field(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*$")]


def load_plugins(modules: Iterable[str], folder: str | Path | None = None) -> None:
    """Import modules that register parts.

    Modules are searched among installed packages, then in the current folder, then in `folder`, so
    that no file there replaces a package. A plugin with the name of a package is refused. Imported
    modules are not imported again. Output on stderr is discarded, because TensorFlow logs there
    when a module imports Keras.

    Args:
        modules: Names of modules, such as `"my_module"`, or one name.
        folder: Another folder to search.

    Raises:
        SuiteError: If a module cannot be found or raises an error.
    """
    modules = [modules] if isinstance(modules, str) else [*modules]
    if not modules:
        return
    places = [str(Path.cwd()), *([] if folder is None else [str(Path(folder).resolve())])]
    sys.path += [place for place in places if place not in sys.path]
    importlib.invalidate_caches()
    for module in modules:
        if module not in sys.modules:
            _import(module)
        _check_source(module, places)


def _import(module: str) -> None:
    try:
        with loading_quietly():
            importlib.import_module(module)
    except Exception as error:
        name = getattr(error, "name", None)
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{name}."):
            reason = no_such_module(module)
        else:
            reason = _line(error)
        raise SuiteError(f"plugin {module!r} cannot be imported: {reason}") from error


def _check_source(module: str, places: Sequence[str]) -> None:
    """Check that a module has a file, and that no file of this name is left unread."""
    if module == "__main__":  # a script or a notebook
        return
    if getattr(sys.modules[module], "__file__", None) is None:
        raise SuiteError(f"plugin {module!r}: is a folder without __init__.py, or built in")
    top = module.partition(".")[0]
    here = importlib.machinery.PathFinder.find_spec(top, [*places])
    used = getattr(sys.modules[top], "__file__", None)
    if here and here.origin and used and not Path(here.origin).samefile(used):
        raise SuiteError(
            f"plugin {module!r}: {here.origin} is not used, because {used} has the same name. "
            "Rename it"
        )


def shaping_plugins(modules: Iterable[str]) -> list[str]:
    """Return the plugins that can change the results of a run.

    Excludes plugins that register only executors, report sections and statistical procedures.

    Args:
        modules: Names of imported plugins.
    """
    registries = [kind for kind in vars(registry).values() if isinstance(kind, registry.Registry)]

    def register(name: str, shapes_runs: bool) -> bool:
        kinds = (kind for kind in registries if kind.shapes_runs is shapes_runs)
        origins = {origin for kind in kinds for origin in kind.origins()}
        return any(f"{origin}.".startswith(f"{name}.") for origin in origins)

    return [name for name in modules if register(name, True) or not register(name, False)]


def plugins_digest(modules: Sequence[str]) -> str | None:
    """Return a digest of the source of plugins, which is part of the identity of a run.

    The digest covers all Python files of a plugin, and of the modules in the same folder that it
    imports. It does not cover imports of installed packages.

    Args:
        modules: Names of imported modules.

    Returns:
        None if there are no modules.
    """
    digest = hashlib.sha256()
    for module in sorted(modules):
        for name, source in sorted(_sources(module).items()):
            digest.update(f"{module} {name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:16] if modules else None


def _sources(module: str) -> dict[str, bytes]:
    """Return the source files of a plugin by their relative paths."""
    path = Path(getattr(sys.modules[module], "__file__", None) or "built-in/module")
    folder = path.parents[module.count(".") + (path.name == "__init__.py")]
    installed = folder.name in ("site-packages", "dist-packages")
    sources: dict[str, bytes] = {}
    left = {path.stem if module == "__main__" else module.partition(".")[0]}
    while left:
        name = left.pop()
        for file in [folder / f"{name}.py", *(folder / name).rglob("*.py")]:
            key = file.relative_to(folder).as_posix()
            if file.is_file() and key not in sources:
                sources[key] = file.read_bytes()
                if not installed:
                    left |= _imports(sources[key])
    return sources


def _imports(source: bytes) -> set[str]:
    """Return the top-level modules that a source imports, without those of this distribution."""
    names = set()
    with contextlib.suppress(SyntaxError, ValueError):  # such as a template file
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    return {name.partition(".")[0] for name in names} - {"relation_tf", "glue_submit"}


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {without_breaks(error)}"
