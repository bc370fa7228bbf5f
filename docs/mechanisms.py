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

The token-mixing layers by their names in suites, with the equations and papers. Time: against the
number of tokens. State: bytes of the state of `step` for one text after {TOKENS:,} tokens in
float32; a layer without a state has no causal form. State and parameters: default options,
{UNITS} units, inputs of width {UNITS}. In suites, `relation`, `attention`, `linear-attention` and
`baseline` follow the authors' code and `local-attention` has one global token.

Options, algorithms, causal forms and numerical precision: API reference of the site, or such as
`help(relation_tf.layers.Relation)`. [Other networks](how-to/networks.md).

Written by `python docs/mechanisms.py` from the docstrings.
"""
# Paragraphs that describe the implementation, not the equations.
_IMPLEMENTATION = re.compile(r"All algorithms|Both algorithms|With `causal=True`|The layer has no")
_NO_EQUATION = re.compile(r"Time|Cost|With `(?:causal|normalization)")
_FORMULA = re.compile(r"`[^`]*(?:[=([]| - )[^`]*`")


def mechanisms() -> dict[str, type]:
    """Return the layers of `relation_tf.layers` by the names of their mechanisms."""
    paths = {name: entry.factory for name, entry in MECHANISMS.items()}
    ours = {name: path for name, path in paths.items() if str(path).startswith(_LAYERS)}
    return {name: load(str(path)) for name, path in ours.items()}


def page() -> str:
    """Return the content of the page."""
    layers = mechanisms()
    lines = [
        "| mechanism | idea | time | state | parameters |",
        "| --- | --- | --- | ---: | ---: |",
    ]
    lines += [f"| {' | '.join(_row(name, layer))} |" for name, layer in layers.items()]
    sections = [_section(name, layer) for name, layer in layers.items()]
    return "\n".join([_HEAD, *lines, "", *sections])


def _row(name: str, layer: type) -> list[str]:
    doc = _doc(layer)
    idea = re.sub(r": `.*", "", doc.split("\n", 1)[0].rstrip("."))
    built = _built(layer)
    return [f"[`{name}`](#{name})", idea, _time(doc), _state(layer), f"{built.count_params():,}"]


def _doc(layer: type) -> str:
    return inspect.cleandoc(layer.__doc__ or "")


def _time(doc: str) -> str:
    """Return the statement about time or cost."""
    text = " ".join(doc.partition("\nArgs:")[0].split())
    found = re.search(r"(?:Time(?: and memory)?|Cost) ((?:is|are|grows?) [^.;:,]*)", text)
    time = found[1].removeprefix("is ").removeprefix("are ") if found else ""
    return time.replace("linear in the number of tokens", "linear")


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


def _section(name: str, layer: type) -> str:
    doc = _doc(layer)
    title, _, text = re.split(r"\n(?:Args|Example):", doc)[0].partition("\n")
    parts = [*_parts(text.strip().split("\n\n"))]
    while not _FORMULA.search(parts[-1]):
        parts.pop()
    if _FORMULA.search(title):
        parts.insert(0, title)
    return "\n\n".join([f"## {name}", f"`{layer.__name__}`. {_papers(doc)}", *parts]) + "\n"


def _parts(paragraphs: list[str]) -> Iterator[str]:
    """Yield sentences with formulas, and the lists that they introduce."""
    introduced = True
    for paragraph in paragraphs:
        if _IMPLEMENTATION.match(paragraph):
            return
        start = re.search(r"^(?:- |1\. )", paragraph, re.MULTILINE)
        prose = paragraph[: start.start()] if start else paragraph
        sentences = re.split(r"(?<=\.)\s+(?=[A-Z`])", prose.strip()) if prose.strip() else []
        for sentence in sentences:
            introduced = "`" in sentence
            if introduced and not _NO_EQUATION.match(sentence):
                yield " ".join(sentence.split())
        if start and introduced:
            yield paragraph[start.start() :].rstrip()


def _papers(doc: str) -> str:
    """Return authors and year, linked, and the place in the paper, of each reference."""
    text = " ".join(doc.partition("\nReferences:")[2].split()).removeprefix("- ")
    return "; ".join(_paper(each.removesuffix(".")) for each in text.split(". - ")) + "."


def _paper(reference: str) -> str:
    reference = re.sub(r"^([^,]+), [^\d]+,[^\d]+ (?=\d{4},)", r"\1 et al. ", reference)
    found = re.search(r"^(.*? \d{4}), (?:\".*\", )?(arXiv|doi) ([\w./]*\w)(.*)$", reference)
    if found is None:
        return reference
    place = "https://arxiv.org/abs" if found[2] == "arXiv" else "https://doi.org"
    return f"[{found[1]}]({place}/{found[3]}){found[4]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
