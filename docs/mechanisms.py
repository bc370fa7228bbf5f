"""Write docs/mechanisms.md from the docstrings of the layers: `python docs/mechanisms.py`."""

from __future__ import annotations

import inspect
import math
import re
from pathlib import Path

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

In brackets: the layer and, if it has a causal form, the bytes of its state for one text after
{TOKENS:,} tokens with {UNITS} units. Time is linear in the number of tokens unless stated. In
suites, `relation`, `attention`, `linear-attention` and `baseline` follow the program of Yamada et
al., and `local-attention` has one global token.

Written by `python docs/mechanisms.py` from the docstrings.
"""


def mechanisms() -> dict[str, type]:
    """Return the layers of `relation_tf.layers` by the names of their mechanisms."""
    paths = {name: entry.factory for name, entry in MECHANISMS.items()}
    ours = {name: path for name, path in paths.items() if str(path).startswith(_LAYERS)}
    return {name: load(str(path)) for name, path in ours.items()}


def page() -> str:
    """Return the content of the page."""
    return "\n".join([_HEAD, *(_item(name, layer) for name, layer in mechanisms().items()), ""])


def _item(name: str, layer: type) -> str:
    doc = _doc(layer)
    start = f"- **`{name}`** (`{layer.__name__}`{_state(layer)}): {doc.splitlines()[0]}"
    return f"{start} {_time(doc)}{_paper(doc)}."


def _doc(layer: type) -> str:
    return inspect.cleandoc(layer.__doc__ or "")


def _time(doc: str) -> str:
    """Return a sentence about time or cost, empty if the time is linear."""
    text = " ".join(doc.partition("\nArgs:")[0].split())
    found = re.search(r"(?:Time(?: and memory)?|Cost) (?:is|are|grows?) [^.;:,]*", text)
    return f"{found[0]}. " if found and "linear" not in found[0] else ""


def _state(layer: type) -> str:
    """Return the size of the state of a causal layer."""
    named = inspect.signature(layer).parameters
    if "causal" not in named:
        return ""
    made = layer(**{name: UNITS for name in ("units", "rank") if name in named}, causal=True)
    made.build((None, None, UNITS))
    size = {"bool": 1, "int32": 4, "float32": 4}
    parts = made.initial_state(1, TOKENS)
    dtypes = [keras.backend.standardize_dtype(part.dtype) for part in parts]
    return f", {sum(math.prod(p.shape) * size[d] for p, d in zip(parts, dtypes, strict=True)):,}"


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
