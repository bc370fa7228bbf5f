"""The public API as text, and its differences: `python tests/public_api.py` at a release.

Writes `tests/public_api.txt`, one line per function, class, method, command and file format.
`tests/test_public_api.py` compares it with the code; see `docs/api-stability.md`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[1]
SNAPSHOT = Path(__file__).with_suffix(".txt")
CHANGELOG = ROOT / "CHANGELOG.md"
OURS = ("relation_tf", "glue_submit")
OF_LAYERS = {"call", "initial_state", "step"}
"""The methods of Keras layers; the others are Keras's, or for our subclasses."""


def public_names() -> Iterator[tuple[str, str]]:
    """Yield the modules and names that `docs/api-stability.md` calls public."""
    for stub in sorted((ROOT / "relation_tf").glob("*/__init__.pyi")):
        module = f"relation_tf.{stub.parent.name}"
        yield from ((module, name) for name in importlib.import_module(module).__all__)
    yield from (("glue_submit", name) for name in importlib.import_module("glue_submit").__all__)
    for module in ("relation_tf.errors", "relation_tf.optimizers", "relation_tf.registry"):
        for name, value in vars(importlib.import_module(module)).items():
            is_helper = module == "relation_tf.errors" and not inspect.isclass(value)
            own = getattr(value, "__module__", "") == module and not name.startswith("_")
            if own and not is_helper and not isinstance(value, TypeVar):
                yield module, name
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    for module, names in re.findall(r"^from (relation_tf\.\w+\.\w+) import (.+)$", page, re.M):
        yield from ((module, name) for name in names.split(", "))


def snapshot() -> dict[str, str]:
    """Return the parameters of each public function, class, method, command and format."""
    made: dict[str, str] = {}
    for module, name in public_names():
        made |= _described(f"{module}.{name}", getattr(importlib.import_module(module), name))
    return dict(sorted((made | dict(_commands()) | dict(_formats())).items()))


def read_snapshot(text: str) -> dict[str, str]:
    """Return the lines of a snapshot as `snapshot` does."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: rest for name, _, rest in (line.partition("(") for line in lines)}


def _described(path: str, value: Any) -> dict[str, str]:
    if not inspect.isclass(value):
        return {path: _parameters(value) if callable(value) else ""}
    made = {path: _constructor(value)}
    owners = [each for each in value.__mro__ if each.__module__.startswith(OURS)]
    for name, member in [item for owner in reversed(owners) for item in vars(owner).items()]:
        if isinstance(member, property | cached_property):
            made[f"{path}.{name}"] = ""
        elif callable(getattr(value, name)) and not inspect.isclass(member):
            made[f"{path}.{name}"] = _parameters(getattr(value, name))
    is_layer = any(each.__module__.startswith("keras") for each in value.__mro__)
    return {
        name: parameters
        for name, parameters in made.items()
        if name == path or _is_public(name.rpartition(".")[2], is_layer)
    }


def _is_public(member: str, is_layer: bool) -> bool:
    return member in OF_LAYERS if is_layer else not member.startswith("_")


def _constructor(cls: type) -> str:
    if fields := getattr(cls, "model_fields", None):  # of pydantic: the keys of suites
        keys = [n if f.is_required() else f"{n}={_value(f.default)}" for n, f in fields.items()]
        required_first = sorted(keys, key=lambda key: "=" in key)
        return f"*, {', '.join(required_first)})"
    if issubclass(cls, tuple):
        return f"{', '.join(cls._fields)})"
    return _parameters(cls.__init__) if "__init__" in _own(cls) else ")"


def _own(cls: type) -> set[str]:
    return {name for each in cls.__mro__ if each.__module__.startswith(OURS) for name in vars(each)}


def _parameters(function: Any) -> str:
    empty = inspect.Parameter.empty
    shown = [
        each.replace(
            annotation=empty,
            default=empty if each.default is empty else _Shown(_value(each.default)),
        )
        for each in inspect.signature(function).parameters.values()
        if each.name != "self"
    ]
    return str(inspect.Signature(shown))[1:]


class _Shown(str):
    """A default value, shown as it is."""

    __repr__ = str.__str__


def _value(default: Any) -> str:
    """Return a default as a Python literal; `...` if it is not one, or differs by machine."""
    if isinstance(default, Path):
        default = str(default)
    try:
        return repr(default) if ast.literal_eval(repr(default)) == default else "..."
    except (SyntaxError, ValueError):
        return "..."


def _commands() -> Iterator[tuple[str, str]]:
    from typer.main import get_command

    from glue_submit.cli import app as glue_submit
    from relation_tf.cli.commands import app as relation_tf

    for program, app in (("relation-tf", relation_tf), ("glue-submit", glue_submit)):
        for name, command in get_command(app).commands.items():
            arguments = [p.name for p in command.params if p.param_type_name == "argument"]
            options = [
                f"{max(p.opts, key=len)[2:].replace('-', '_')}={_value(p.default)}"
                for p in command.params
                if p.param_type_name == "option"
            ]
            shown = [*arguments, "*", *options] if options else arguments
            yield f"{program} {name}", f"{', '.join(shown)})"


def _formats() -> Iterator[tuple[str, str]]:
    from relation_tf.bench.results import _Manifest, _Result
    from relation_tf.config.method import Sweep

    yield "suite [sweep]", _constructor(Sweep)
    yield "run folder result.json", _constructor(_Result)
    yield "run folder manifest.json", _constructor(_Manifest)


def unexplained(before: Mapping[str, str], now: Mapping[str, str], changelog: str) -> list[str]:
    """Return a line for each change of the API that no entry of "Unreleased" names.

    An entry must contain the last part of the name, for a method also its class.
    """
    lines = []
    for name in sorted(before.keys() | now.keys()):
        owner = name.rpartition(".")[0]
        if before.get(name) == now.get(name):
            continue
        if owner in before.keys() ^ now.keys():
            continue  # a member of a class that is named
        change = "new" if name not in before else "changed" if name in now else "removed"
        last = name.rpartition(" " if " " in name else ".")[2]
        words = {last.replace("-", "_")}
        if owner in before.keys() | now.keys():  # a method of a class
            words.add(owner.rpartition(".")[2])
        if not any(_names(entry, words) for entry in entries(changelog)):
            lines.append(f"{name} is {change}: no entry names {', '.join(sorted(words))}")
    return lines


def entries(changelog: str) -> list[str]:
    """Return the entries of the section "Unreleased"."""
    (section,) = re.findall(r"^## Unreleased\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    return re.findall(r"^- .*?(?=^- |^#|\Z)", section, re.M | re.S)


def _names(entry: str, words: set[str]) -> bool:
    """Return True if an entry has all words; an option can be written with dashes."""
    text = re.sub(r"(?<=\w)-(?=\w)", "_", entry)
    return all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in words)


def main() -> None:
    """Write the snapshot of this version."""
    from relation_tf import __version__

    lines = [f"{name}({rest}" if rest else name for name, rest in snapshot().items()]
    head = f"# Public API of version {__version__}, written by `python tests/public_api.py`."
    SNAPSHOT.write_text("\n".join([head, *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
