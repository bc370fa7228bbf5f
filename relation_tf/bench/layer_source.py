"""Digest of a custom layer's source, so that runs of an older version are not reused."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from typing import Any

from relation_tf.networks.mechanisms import load
from relation_tf.quiet import loading_quietly


def layer_digest(layer: str) -> str | None:
    """Import a layer, and give a digest of its source and of what it names in its module.

    Functions and constants that it uses are in it where they stand in the same module; of what
    stands in another, only the import is.

    Args:
        layer: `"package.module:Name"`.

    Returns:
        None where there is no source to tell it by: it was written at a prompt, or compiled.

    Raises:
        ValueError: Where there is no such module or name. What the module raises goes through.
    """
    with loading_quietly():
        loaded = load(layer)
    source = _source_of(loaded, *layer.split(":"))
    return None if source is None else hashlib.sha256(source.encode()).hexdigest()[:16]


def _source_of(loaded: Any, module: str, name: str) -> str | None:
    if inspect.isclass(loaded) or inspect.isfunction(loaded):
        module, name = loaded.__module__, loaded.__qualname__
    try:
        whole = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):  # a notebook is no module with a source, but its cells have one
        whole = ""
    if found := _with_what_it_names(whole, name.split(".")[0]):
        return found
    try:
        return inspect.getsource(loaded)
    except (OSError, TypeError):
        return None


def _with_what_it_names(source: str, name: str) -> str:
    """The statements of a module that define a name and, in turn, what those name; in order."""
    left, wanted, reached = ast.parse(source).body, {name}, []
    while found := [statement for statement in left if wanted & _defined(statement)]:
        left = [statement for statement in left if statement not in found]
        reached += found
        wanted |= {
            node.id
            for statement in found
            for node in ast.walk(statement)
            if isinstance(node, ast.Name)
        }
    lines = source.split("\n")  # as the parser counts them: a page break ends none
    spans = sorted((_first_line(statement), statement.end_lineno) for statement in reached)
    return "\n".join(line for first, last in spans for line in lines[first - 1 : last])


def _defined(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module gives a value."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.split(".")[0] for alias in statement.names}
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _first_line(statement: ast.stmt) -> int:
    """With its decorators."""
    return min(node.lineno for node in [statement, *getattr(statement, "decorator_list", [])])
