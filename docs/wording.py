"""Check that texts use plain English: `python docs/wording.py [FILE ...]`.

Searches pages, docstrings, comments, messages, help texts and names of tests for words that
readers stumble over, and prints each with its file, line and a replacement.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("relation_tf", "glue_submit", "tests", "benchmarks", "docs", "examples", "results")
SEARCHED = (
    "*.md",
    "Makefile",
    "docs/**/*.md",
    "benchmarks/*.md",
    "results/**/README.md",
    "notebooks/*.ipynb",
    "examples/*.ipynb",
    *(
        f"{package}/**/*.{ending}"
        for package in PACKAGES
        for ending in ("py", "toml", "jinja", "js")
    ),
)

# These files quote the words on purpose, or contain them as data.
QUOTING = (
    "docs/wording.py",
    "tests/test_wording.py",
    "relation_tf/tasks/miniglue.toml",
    "tests/tasks/test_miniglue.py",
)

# A pattern of words, and what to write instead. Patterns match whole words in any case.
INSTEAD = {
    r"beside": "next to, compared with, in addition to",
    r"aught|nought|none but": "zero, only",
    r"(there|here|where)(of|in|by|from|upon)": "of it, in it, which",
    r"(of )?(one|some|any)(one)?'s own|(of|from) (your|my|their) own": "custom, your own X",
    r"told|tells? (\w+ ){0,4}apart": "given, reported, notified; the difference is significant",
    r"lets? (\w+ ){1,2}learn": "train",
    r"lies? at": "is",
    r"at hand": "available",
    r"anew|once more": "again",
    r"mend(s|ed|ing)?": "fix",
    r"in (the )?place of": "instead of",
    r"by (itself|themselves)": "separately, alone, automatically",
    r"go(es)? on|going on|gone on|went on": "continue, resume",
    r"no more than (it|they) (must|needs?)": "only what is needed",
    r"(what|all that) was asked|ask(s|ed|ing)? for": "request, need, require",
    r"(be|is|are|was|were|not) separated|(can|cannot|to|not|seeds) separate|separates": (
        "differ significantly; the difference is significant"
    ),
    r"for ever": "forever",
    r"reckon(s|ed|ing)?": "estimate, count",
    r"whoever|whomever|who ?so ?ever": "anyone who",
    r"gives? back|given back|hands? back": "return",
    r"hand(s|ed)? over|hands? on": "pass",
    r"are alike|is alike|all alike|alike": "the same, equally",
    r"upon": "on",
    r"wants? of|for want": "lack, without",
    r"to be had|be had": "available",
    r"such as are|such as is|as it were": "that are",
    r"in vain|lest|ere|amid": "(remove)",
    r"stands? for (itself|themselves)": "is taken literally",
    r"the instrument": "the tool",
    r"a reviewer would (accept|ask)": "(remove)",
    r"kept tokens?": "unmasked tokens",
}
# Docstrings begin with what a thing does or is.
OPENINGS = ["What", "Whether", "That", "Who", "Whose", "Whom", "How", "Of"]

_PATTERNS = [
    (re.compile(rf"\b(?:{words})\b".replace(" ", r"[\s#]+"), re.IGNORECASE), instead)
    for words, instead in INSTEAD.items()
]
_CODE = re.compile(r"```.*?```|``[^`]+``|`[^`\n]+`|\]\([^)\s]*\)", re.DOTALL)


class Finding(NamedTuple):
    """Words to replace, counted in lines from the start of their text."""

    line: int
    words: str
    instead: str


def check_text(text: str) -> Iterator[Finding]:
    """Find words of the list; code between backticks and targets of links are skipped."""
    prose = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    for pattern, instead in _PATTERNS:
        for match in pattern.finditer(prose):
            line = prose.count("\n", 0, match.start())
            yield Finding(line, " ".join(match[0].split()), instead)


def check_python(source: str, *, is_test: bool = False) -> Iterator[Finding]:
    """Check docstrings, comments, texts of at least two words and names of tests."""
    for node in ast.walk(ast.parse(source)):
        for docstring in _docstrings(node):
            opening = docstring.value.split(maxsplit=1)[0]
            if opening in OPENINGS:
                yield Finding(
                    docstring.lineno, opening, "a verb or a noun: Return ..., Mean of ..."
                )
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from _shift(check_text(node.value), node.lineno)
        elif is_test and isinstance(node, ast.FunctionDef):
            yield from _shift(check_text(node.name.replace("_", " ")), node.lineno)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from _shift(check_text(token.string), token.start[0])


def check_notebook(source: str) -> Iterator[Finding]:
    """Check the text of cells; lines are counted over all cells."""
    cells = json.loads(source)["cells"]
    yield from _shift(check_text("\n".join("".join(cell["source"]) for cell in cells)), 1)


def check_file(path: Path) -> list[Finding]:
    """Check a file as its ending says."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        found = check_python(source, is_test=path.name.startswith("test_"))
    elif path.suffix == ".ipynb":
        found = check_notebook(source)
    else:
        found = _shift(check_text(source), 1)
    return sorted(found)


def _docstrings(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield texts that stand alone: docstrings of modules, classes, functions and attributes."""
    body = getattr(node, "body", None)
    for statement in body if isinstance(body, list) else ():
        value = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value.strip():
            yield value


def _shift(found: Iterable[Finding], lines: int) -> Iterator[Finding]:
    return (finding._replace(line=finding.line + lines) for finding in found)


def main(arguments: list[str]) -> int:
    """Print the findings of the named files, or of all; return 1 if there are any."""
    paths = [Path(name).resolve() for name in arguments] or sorted(
        {path for pattern in SEARCHED for path in ROOT.glob(pattern)}
        - {ROOT / name for name in QUOTING}
    )
    count = 0
    for path in paths:
        for finding in check_file(path):
            count += 1
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{shown}:{finding.line}: {finding.words!r}: write {finding.instead}")
    if count:
        print(f"{count} places to reword")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
