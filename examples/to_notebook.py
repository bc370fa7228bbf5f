"""Convert a script in the tutobook format of keras.io to a notebook without outputs.

`python examples/to_notebook.py examples/replace_attention.py` writes `replace_attention.ipynb` next
to the script. Commands of shell blocks become the first cells, so that they install what the other
cells import.
"""

import json
import re
import sys
from pathlib import Path

_BLOCK = re.compile(r'^"""(shell)?\n(.*?)^"""\n', re.MULTILINE | re.DOTALL)
_METADATA = {
    "colab": {"provenance": [], "toc_visible": True},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def to_notebook(script: str) -> dict:
    """Return the notebook of a script, in the format nbformat 4.5.

    The script consists of a header of lines `Field: value`, blocks of Markdown between lines of
    three double quotes, shell blocks that begin with `\"\"\"shell`, and code.
    """
    header, *blocks = _blocks(script)
    fields = dict(line.split(": ", 1) for line in header[1].splitlines())
    title = fields.pop("Title")
    about = "<br>\n".join(f"**{field}:** {value}" for field, value in fields.items())
    commands = [("code", re.sub("^", "%", text, flags=re.M)) for k, text in blocks if k == "shell"]
    rest = [(kind, text) for kind, text in blocks if kind != "shell"]
    cells = [*commands, ("markdown", f"# {title}\n\n{about}"), *rest]
    return {
        "cells": [_cell(number, *cell) for number, cell in enumerate(cells)],
        "metadata": _METADATA,
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _blocks(script: str) -> list[tuple[str, str]]:
    """Return the kind (`"markdown"`, `"shell"` or `"code"`) and the text of each block."""
    found, end = [], 0
    for block in _BLOCK.finditer(script):
        found += [("code", script[end : block.start()]), (block[1] or "markdown", block[2])]
        end = block.end()
    found.append(("code", script[end:]))
    return [(kind, text.strip()) for kind, text in found if text.strip()]


def _cell(number: int, kind: str, text: str) -> dict:
    cell = {"cell_type": kind, "id": f"{number:02}", "metadata": {}}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return {**cell, "source": text.splitlines(keepends=True)}


def write(path: Path) -> None:
    """Write the notebook of a script next to it."""
    notebook = to_notebook(path.read_text(encoding="utf-8"))
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    path.with_suffix(".ipynb").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
