"""Write docs/mechanisms.md from the docstrings of the layers: `python docs/mechanisms.py`."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from relation_tf.networks.mechanisms import MECHANISMS, load

PAGE = Path(__file__).with_suffix(".md")
UNITS = 64
TOKENS = 1024
_LAYERS = "relation_tf.layers:"
_HEAD = f"""# Mechanisms

The token-mixing layers by their names in suites. State: bytes of the state of `step` for one text
after {TOKENS:,} tokens, with numbers in float32; only layers with a causal form have one.
Parameters and state are those of the layers' default options with {UNITS} units and inputs of
width {UNITS}. In suites, `relation`, `attention`, `linear-attention` and `baseline` have the
defaults of the released code, `local-attention` one global token.
[Networks, sizes and multi-task training](how-to/networks.md) shows how to choose them;
`relation-tf check-layer NAME` checks a layer.

Written by `python docs/mechanisms.py` from the docstrings.
"""


def mechanisms() -> dict[str, type]:
    """Return the layers of `relation_tf.layers` by the names of their mechanisms."""
    paths = {name: entry.factory for name, entry in MECHANISMS.items()}
    ours = {name: path for name, path in paths.items() if str(path).startswith(_LAYERS)}
    return {name: load(str(path)) for name, path in ours.items()}


def page() -> str:
    """Return the content of the page."""
    layers = mechanisms()
    lines = [
        "| mechanism | idea | time | state | parameters | paper |",
        "| --- | --- | --- | ---: | ---: | --- |",
    ]
    lines += [f"| {' | '.join(_row(name, layer))} |" for name, layer in layers.items()]
    sections = [_section(name, layer) for name, layer in layers.items()]
    return "\n".join([_HEAD, *lines, "", *sections])


def _row(name: str, layer: type) -> list[str]:
    doc = _doc(layer)
    idea = doc.split("\n", 1)[0].rstrip(".").replace("|", "\\|")
    built = _built(layer)
    return [
        f"[`{name}`](#{name})",
        idea,
        _time(doc),
        _state(layer),
        f"{built.count_params():,}",
        ", ".join(_papers(doc)),
    ]


def _doc(layer: type) -> str:
    return inspect.cleandoc(layer.__doc__ or "")


def _time(doc: str) -> str:
    """Return the statement about time or cost."""
    text = " ".join(doc.partition("\nArgs:")[0].split())
    found = re.search(r"(?:Time(?: and memory)?|Cost) ((?:is|are|grows?) [^.;:]*)", text)
    return found[1].removeprefix("is ").removeprefix("are ") if found else ""


def _built(layer: type, **options: Any) -> Any:
    named = inspect.signature(layer).parameters
    made = layer(**{name: UNITS for name in ("units", "rank") if name in named}, **options)
    made.build((None, None, UNITS))
    return made


def _state(layer: type) -> str:
    if "causal" not in inspect.signature(layer).parameters:
        return "–"
    state = _built(layer, causal=True).initial_state(1, TOKENS)
    size = {"bool": 1, "int32": 4, "float32": 4}
    dtypes = [keras.backend.standardize_dtype(part.dtype) for part in state]
    return f"{sum(math.prod(p.shape) * size[d] for p, d in zip(state, dtypes, strict=True)):,}"


def _papers(doc: str) -> Iterator[str]:
    """Yield links to the papers in the references, and "preprint" for one without a number."""
    references = " ".join(doc.partition("\nReferences:")[2].split())
    for kind, number in re.findall(r"(arXiv|doi) ([\w./]*\w)", references):
        place = "https://arxiv.org/abs" if kind == "arXiv" else "https://doi.org"
        yield f"[{number}]({place}/{number})"
    if "preprint" in references:
        yield "preprint"


def _section(name: str, layer: type) -> str:
    doc = _doc(layer)
    body = re.split(r"\n(?:Args|Example):", doc)[0].partition("\n")[2].strip()
    title = doc.split("\n", 1)[0]
    references = inspect.cleandoc(doc.partition("\nReferences:")[2])
    return (
        f"## {name}\n\n`relation_tf.layers.{layer.__name__}`: {title}\n\n{body}\n\n{references}\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
