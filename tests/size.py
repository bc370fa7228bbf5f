"""Print the size of the project: `make size`.

A code line has more than a comment or a docstring. A test function asserts prose if one of its
asserts compares a string of five or more words, unless the assert reads an error message: it names
a variable or attribute in `ERRORS`.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = (
    ("relation_tf", "glue_submit"),
    ("tests",),
    ("examples", "benchmarks"),
    ("results", "docs"),
)
WORDS = 5
ERRORS = {"caught", "err", "error", "errors", "fault", "faults", "message", "raised", "stderr"}
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(source: str) -> int:
    """Return the number of code lines of a module."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and _is_text(node.value):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def prose_tests(source: str) -> list[str]:
    """Return the names of the test functions of a module that assert prose."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and any(isinstance(each, ast.Assert) and _is_prose(each.test) for each in ast.walk(node))
    ]


def _is_prose(test: ast.expr) -> bool:
    names = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(test)}
    return names.isdisjoint(ERRORS) and any(len(text.split()) >= WORDS for text in _texts(test))


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the strings of an expression; an f-string is one, with a word for each value."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(part.value if _is_text(part) else "value" for part in node.values)
    elif _is_text(node):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def main() -> None:
    """Count and print."""
    for folders in PARTS:
        modules = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
        sources = [path.read_text(encoding="utf-8") for path in modules]
        lines = sum(map(code_lines, sources))
        print(f"{' and '.join(folders)}: {lines:,} code lines, {len(modules)} modules")
        if folders == ("tests",):
            prose = sum(len(prose_tests(source)) for source in sources)
            print(f"test functions that assert prose: {prose}")


if __name__ == "__main__":
    main()
