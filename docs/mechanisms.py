"""Write docs/mechanisms.md from the docstrings of the layers: `python docs/mechanisms.py`."""

from __future__ import annotations

import inspect
import math
import re
from pathlib import Path
from typing import Any

import keras

from relation_tf.networks.mechanisms import MECHANISMS, load

PAGE = Path(__file__).with_suffix(".md")
UNITS = 64
TOKENS = 1024
_LAYERS = "relation_tf.layers:"
_HEAD = f"""# Mechanisms

The token-mixing layers by their names in suites. For equations, options, algorithms and precision,
call `help`, such as `help(relation_tf.layers.Relation)`, or read the API reference of the site.
[Other networks](how-to/networks.md).

- Time is linear in the number of tokens unless stated.
- State: bytes of the state of `step` for one text after {TOKENS:,} tokens, with {UNITS} units and
  default options in float32. A layer without a state has no causal form.
- In suites, `relation`, `attention`, `linear-attention` and `baseline` follow the program of Yamada
  et al.; `local-attention` has one global token.

Written by `python docs/mechanisms.py` from the docstrings.
"""


def mechanisms() -> dict[str, type]:
    """Return the layers of `relation_tf.layers` by the names of their mechanisms."""
    paths = {name: entry.factory for name, entry in MECHANISMS.items()}
    ours = {name: path for name, path in paths.items() if str(path).startswith(_LAYERS)}
    return {name: load(str(path)) for name, path in ours.items()}


def page() -> str:
    """Return the content of the page."""
    lines = [
        "| mechanism | layer | state |",
        "| --- | --- | ---: |",
    ]
    lines += [f"| {' | '.join(_row(name, layer))} |" for name, layer in mechanisms().items()]
    return "\n".join([_HEAD, *lines, ""])


def _row(name: str, layer: type) -> list[str]:
    doc = _doc(layer)
    return [
        f"`{name}`",
        f"`{layer.__name__}`. {doc.splitlines()[0]} {_time(doc)}{_paper(doc)}",
        _state(layer),
    ]


def _doc(layer: type) -> str:
    return inspect.cleandoc(layer.__doc__ or "")


def _time(doc: str) -> str:
    """Return a sentence about time or cost, empty if the time is linear."""
    text = " ".join(doc.partition("\nArgs:")[0].split())
    found = re.search(r"(?:Time(?: and memory)?|Cost) (?:is|are|grows?) [^.;:,]*", text)
    return f"{found[0]}. " if found and "linear" not in found[0] else ""


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


def _paper(doc: str) -> str:
    """Return authors and year of the first reference, linked if it has a number."""
    text = " ".join(doc.partition("\nReferences:")[2].split()).removeprefix("- ")
    reference = re.sub(r"^([^,]+), [^\d]+,[^\d]+ (?=\d{4},)", r"\1 et al. ", text.split(". - ")[0])
    found = re.search(r"^(.*? \d{4}), (?:\".*\", )?(arXiv|doi) ([\w./]*\w)", reference)
    if found is None:
        return reference.split(",")[0]
    place = "https://arxiv.org/abs" if found[2] == "arXiv" else "https://doi.org"
    return f"[{found[1]}]({place}/{found[3]})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
