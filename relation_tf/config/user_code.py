"""User modules: plugins, custom layers and callbacks, and digests of their source.

Runs of an older version of a layer, callback or plugin are not reused.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.machinery
import inspect
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from relation_tf import registry
from relation_tf.errors import SuiteError, no_such_module, one_line, without_breaks
from relation_tf.terminal import loading_quietly

if TYPE_CHECKING:
    from relation_tf.config.run import CallbackEntry, RunConfig

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

    Excludes plugins that register only report sections and statistical procedures.

    Args:
        modules: Names of imported plugins.
    """
    registries = [kind for kind in vars(registry).values() if isinstance(kind, registry.Registry)]

    def register(name: str, shapes_runs: bool) -> bool:
        kinds = (kind for kind in registries if kind.shapes_runs is shapes_runs)
        origins = {origin for kind in kinds for origin in kind.of_user().values()}
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
    with suppress(SyntaxError, ValueError):  # such as a template file
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    return {name.partition(".")[0] for name in names} - {"relation_tf", "glue_submit"}


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {without_breaks(error)}"


_IMPORTS = ast.Import | ast.ImportFrom
_SCOPES = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def custom_digest(layers: Sequence[str], where: str) -> str | None:
    """Return the digest of the source of custom layers.

    Args:
        layers: The layers of a method, see `relation_tf.networks.mechanisms.custom_layers`.
        where: Place of the names of the layers, for messages.

    Returns:
        None without layers, or if one has no source.

    Raises:
        SuiteError: If a layer cannot be imported.
    """
    return _joined([_digest_of(layer, where) for layer in layers])


def check_unchanged(config: RunConfig, where: str) -> None:
    """Check that the layers of a run, and the plugins that shape them, are unchanged.

    Args:
        config: The run, whose plugins are imported.
        where: Start of the messages.

    Raises:
        SuiteError: If a layer or plugin has changed, or cannot be imported.
    """
    if custom_digest(config.custom_layers, f"method {config.method}") != config.mechanism_digest:
        raise SuiteError(
            f"{where}: its layer has changed since the run. Restore the layer, or train the run "
            "again"
        )
    if config.has_built_in_layer:
        return
    if config.plugins_digest not in (None, plugins_digest(config.plugins)):
        raise SuiteError(
            f"{where}: its plugins have changed since the run. Restore the plugins, or train the "
            "run again"
        )


def _joined(digests: Sequence[str | None]) -> str | None:
    if not digests or None in digests:
        return None
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256(" ".join(map(str, digests)).encode()).hexdigest()[:16]


def _digest_of(name: str, where: str, kind: str = "mechanism") -> str | None:
    from relation_tf.networks.mechanisms import find_mechanism

    try:
        if kind == "mechanism":
            find_mechanism(name)  # names an unknown one
        return layer_digest(name, kind)
    except ValueError as error:
        raise SuiteError(f"{where}: {error}") from error
    except Exception as error:
        raise SuiteError(f"{where}: cannot import {name}: {one_line(error)}") from error


def callbacks_digest(callbacks: Sequence[CallbackEntry]) -> str | None:
    """Import the callbacks of a suite and return a digest of their source.

    Args:
        callbacks: The callbacks.

    Returns:
        None without callbacks, or if one has no source.

    Raises:
        SuiteError: If a callback cannot be imported.
    """
    names = [entry.callback for entry in callbacks]
    return _joined([_digest_of(name, "key 'callbacks'", "callback") for name in names])


def layer_digest(layer: str, kind: str = "mechanism") -> str | None:
    """Import a layer or a callback and return a digest of its source.

    The digest includes functions and constants of the same module that the layer uses. It does not
    include the source of imported modules.

    Args:
        layer: `"package.module:Name"`.
        kind: Kind of the object, for messages.

    Returns:
        None if there is no source: the layer was defined at a prompt, or is compiled.

    Raises:
        ValueError: If there is no such module or name. Errors of the module are not caught.
    """
    from relation_tf.networks.mechanisms import load  # comparisons load plugins, but no layers

    with loading_quietly():
        loaded = load(layer, kind)
    source = _source_of(loaded, *layer.split(":"))
    return None if source is None else hashlib.sha256(source.encode()).hexdigest()[:16]


def _source_of(loaded: Any, module: str, name: str) -> str | None:
    if inspect.isclass(loaded) or inspect.isfunction(loaded):
        module, name = loaded.__module__, loaded.__qualname__
    with suppress(OSError, TypeError):  # in a notebook, only cells have a source
        source = inspect.getsource(sys.modules[module])
        if statements := _with_what_it_names(source, name.split(".")[0]):
            return statements
    with suppress(OSError, TypeError):
        return inspect.getsource(loaded)
    return None


def _with_what_it_names(source: str, name: str) -> str:
    """Return the statements that define or change a name and, recursively, the names they use."""
    body = ast.parse(source).body
    imports = (part for top in body for part in _executed(top) if isinstance(part, _IMPORTS))
    imported = {name for part in imports for name in _defined(part)}
    defined = {statement: _defined(statement, imported) for statement in body}
    wanted, reached = {name}, list[ast.stmt]()
    while statements := [
        other for other in defined if other not in reached and wanted & defined[other]
    ]:
        reached += statements
        nodes = (node for statement in statements for node in ast.walk(statement))
        wanted |= {node.id for node in nodes if isinstance(node, ast.Name)}
    lines = source.split("\n")  # unlike `splitlines`, which also splits at page breaks
    spans = sorted((_first_line(statement), statement.end_lineno) for statement in reached)
    return "\n".join(line for first, last in spans for line in lines[first - 1 : last])


def _defined(statement: ast.AST, imported: Collection[str] = ()) -> set[str]:
    """Return the names that a statement defines or changes, such as `A` of `A["x"] = 1`.

    A call of a method, `A.update(x=1)`, may change its object, but not an imported module.
    """
    names = set[str]()
    for node in _executed(statement):
        if isinstance(node, _SCOPES):
            names.add(node.name)
        elif isinstance(node, _IMPORTS):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            names |= set() if isinstance(node.ctx, ast.Load) else _root(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            names |= set() if isinstance(called, ast.Name) else _root(called) - {*imported}
    return names


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, without the bodies of its functions and classes."""
    yield node
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _executed(child)


def _root(node: ast.AST) -> set[str]:
    """Return the name at the beginning of an expression such as `A.b["c"]`, if there is one."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _first_line(statement: ast.stmt) -> int:
    """Return the first line of a statement, including its decorators."""
    return min(node.lineno for node in [statement, *getattr(statement, "decorator_list", [])])
