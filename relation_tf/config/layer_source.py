"""Digests of the source of custom layers and callbacks: runs of an older version are not reused."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relation_tf.config.plugins import plugins_digest
from relation_tf.config.training import CallbackEntry
from relation_tf.errors import SuiteError, one_line
from relation_tf.networks.mechanisms import find_mechanism, load
from relation_tf.quiet import loading_quietly
from relation_tf.tasks.sources import digest_of_path

if TYPE_CHECKING:
    from relation_tf.config.run import RunConfig

_IMPORTS = ast.Import | ast.ImportFrom
_SCOPES = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def custom_digest(layers: Sequence[str], where: str) -> str | None:
    """Return the digest of the source of custom layers, or of a saved model.

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
    try:
        if kind == "mechanism" and (entry := find_mechanism(name)).input_type == "text":
            folder = Path(entry.options["path"])
            if not (folder / "saved_model.pb").is_file():
                raise ValueError(f"must be a folder with a saved_model.pb. Received: {folder}")
            return digest_of_path(folder).hex()[:16]
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
