r"""Words of a report: statements are data, and the templates in `templates/` put them into words.

Text has a small part of Markdown: `**bold**`, `*italic*`, backticks, `[text](target)`,
`^superscript^`, and `[@key,key]` for references. A backslash before a character takes its meaning
away. Jinja inserts values with these backslashes, so names cannot change the layout.

A template of blocks has paragraphs separated by blank lines. The first characters give their kind:
`### ` a heading, `- ` a list, `! ` and `!- ` a warning, `> ` a note; `+++ title` opens collapsed
blocks and `+++` closes them. `{{ place(x) }}` inserts tables, figures or blocks.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from numbers import Real
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from relation_tf import words

_SPECIAL = re.compile(r"([\\*`\[\]^])")
_PIECE = r"(?:\\.|[^\\])+?"
_INLINE = re.compile(
    rf"\\(?P<plain>.)|`(?P<code>(?:\\.|[^\\`])+)`|\*\*(?P<bold>{_PIECE})\*\*|\*(?P<italic>{_PIECE})\*"
    rf"|\[(?P<link>{_PIECE})\]\((?P<target>[^)]+)\)|\^(?P<superscript>{_PIECE})\^"
    r"|\[@(?P<cite>[\w,]+)\]"
)


_MOST_AUTHORS = 3

# Blank lines, kinds of blocks and inserted blocks of a template; values do not make them.
_BREAK, _KIND, _PLACED, _SPACE = "\x01", "\x02", "\x03", "\x04"
_NUMBER = re.compile("\x05(.*?)\x05")  # after the words of a number


class _Marks(Extension):
    """Mark the blank lines of a template, and the characters that give the kind of a block."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Return the source with marks."""
        source = re.sub(r"(?m)^(###|[>!-]|!-|\+\+\+)(?=\s)", rf"{_KIND}\1", source)
        return re.sub(r"\n(?:[ \t]*\n)+", f"\n{_BREAK}\n", source)


@dataclass(frozen=True)
class Statement:
    """A statement of a report, as data.

    Attributes:
        kind: Its kind: a macro of `templates/statements.jinja`.
        values: The arguments of the macro.
        family: The family of methods that it is about; empty if there is only one.
    """

    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)
    family: str = ""

    def __str__(self) -> str:
        return plain(self.text)

    @property
    def text(self) -> str:
        """The statement in words, with markup."""
        macro: Callable[..., str] = getattr(_statements(), self.kind)
        start = f"{in_markup(words.capital(self.family))}: " if self.family else ""
        return start + _in_a_line(macro(**self.values))

    def of(self, family: str) -> Statement:
        """Return the statement about a family."""
        return replace(self, family=family)

    def record(self) -> dict[str, Any]:
        """Return kind, values and words for JSON; numbers that are not finite are None."""
        family = {"family": self.family} if self.family else {}
        record = {"kind": self.kind, **family, **self.values, "text": str(self)}
        numbers = json.dumps(record, default=lambda number: number.item())  # of NumPy
        plain_record: dict[str, Any] = json.loads(numbers, parse_constant=lambda _: None)
        return plain_record


def state(kind: str, /, **values: Any) -> Statement:
    """Return a statement.

    Example:
        >>> str(state("note", text="One run failed."))
        'One run failed.'
    """
    return Statement(kind, values)


def inline(
    text: str,
    escape: Callable[[str], str],
    patterns: Mapping[str, str],
    escape_code: Callable[[str], str] | None = None,
) -> str:
    r"""Render text with markup.

    Args:
        text: The text.
        escape: Function that escapes plain text.
        patterns: Format by kind of markup, with its text `{0}` and the target of a link `{1}`;
            other kinds are shown as plain text.
        escape_code: Function that escapes code, if it is another one.

    Example:
        >>> inline(r"**a\*b** of `x`", str.upper, {"bold": "<{0}>"})
        '<A*B> OF X'
    """
    shown, end = [], 0
    for match in _INLINE.finditer(text):
        shown.append(_escape(text[end : match.start()], escape))
        kind = str(match.lastgroup if match["link"] is None else "link")
        content = re.sub(r"\\(.)", r"\1", match[kind])
        pattern = patterns.get(kind, "{0}")
        if kind == "cite":
            content = content if "cite" in patterns else _authors(content)
        escaped = (escape_code or escape)(content) if kind == "code" else escape(content)
        shown.append(pattern.format(escaped, match["target"]))
        end = match.end()
    return "".join([*shown, _escape(text[end:], escape)])


def _authors(keys: str) -> str:
    """Return references in words, such as "(Steel 1960, Dwass 1960)"."""
    entries = [references()[key] for key in keys.split(",")]
    named = [re.findall(r"(?:author = \{|and )([^,}]+),", entry) for entry in entries]
    years = [key[-4:] for key in keys.split(",")]
    named = [who if len(who) <= _MOST_AUTHORS else [f"{who[0]} et al."] for who in named]
    names = (f"{words.listed(who)} {year}" for who, year in zip(named, years, strict=True))
    return f"({', '.join(names)})"


@cache
def references() -> dict[str, str]:
    """Return the entries of the bibliography, BibTeX, by key."""
    file = resources.files("relation_tf.report") / "templates" / "references.bib"
    entries = file.read_text("utf-8").splitlines()
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in entries}


def _escape(text: str, escape: Callable[[str], str]) -> str:
    """Escape a part of a text, but keep the spaces around it."""
    escaped = escape(text.strip())
    return (
        f"{' ' * text[:1].isspace()}{escaped}{' ' * text[-1:].isspace()}" if escaped else text[:1]
    )


def plain(text: str) -> str:
    """Return text without markup other than the backticks of code."""
    return inline(text, str, {"code": "`{0}`"})


class _OfNumbers(str):
    """Words of numbers, with them."""

    numbers: Sequence[float] = ()


def _keeping_numbers(function: Callable[..., str], of: int | None = None) -> Callable[..., str]:
    """Return a function whose words keep its numbers, or its first ones: others are digits."""

    def shown(*args: Any) -> str:
        words = _OfNumbers(function(*args))
        words.numbers = [number for value in args[:of] for number in _numbers_of(value)]
        return words

    return shown


def _numbers_of(value: Any) -> Sequence[float]:
    if isinstance(value, _OfNumbers):
        return value.numbers
    return [float(value)] if isinstance(value, Real) and not isinstance(value, bool) else []


def _inserted(value: Any) -> Markup:
    """Return a value as text with its numbers, which `chunks` takes out."""
    numbers = "".join(f"\x05{number!r}\x05" for number in _numbers_of(value))
    return escape_text(value) + Markup(numbers)


def escape_text(value: Any) -> Markup:
    """Escape the markup of a value; keep that of text with `Markup`."""
    if isinstance(value, Markup):
        return value
    text = re.sub(r"[^\S ]|[\x00-\x05]", " ", str(value))
    return Markup(_SPECIAL.sub(r"\\\1", text).replace(" ", _SPACE))


def in_markup(text: str) -> str:
    """Return plain text as text with markup."""
    return escape_text(text).replace(_SPACE, " ")


def render(template: str, **values: Any) -> str:
    """Return the text of a template, with markup.

    Args:
        template: Name of a file in `templates/`.
        **values: Its variables.
    """
    text = environment().get_template(template).render(**values)
    return _in_a_line(text.replace(_BREAK, " "))


def templates(**settings: Any) -> Environment:
    """Return an environment of the files in `templates/`.

    Args:
        **settings: Other arguments of Jinja's environment.
    """
    return Environment(
        loader=PackageLoader("relation_tf", "report/templates"),
        undefined=StrictUndefined,
        autoescape=True,
        lstrip_blocks=True,
        **settings,
    )


@cache
def environment() -> Environment:
    """Return the environment of text with markup, with the functions of `relation_tf.words`."""
    result = templates(extensions=[_Marks], finalize=_inserted)
    result.filters |= {
        "listed": lambda names: Markup(words.listed([*map(escape_text, names)])),
        "capital": lambda text: Markup(words.capital(escape_text(text).strip())),
        "marked": _marked,
        "cited": lambda keys: Markup(f"[@{','.join(keys)}]"),
    }
    of_numbers: Mapping[str, Callable[..., str]] = {
        "number": words.number,
        "signed": words.signed,
        "limit": words.limit,
        "two_digits": words.two_digits,
        "pvalue": words.format_pvalue,
        "pvalue_only": words.pvalue_only,
        "level": words.format_level,
        "at_least": words.at_least,
        "alpha": lambda alpha: words.format_level(alpha).removeprefix("p < "),
    }
    result.filters |= {name: _keeping_numbers(x, 1) for name, x in of_numbers.items()}
    result.filters["format"] = _keeping_numbers(lambda text, *values: text % values)
    result.globals |= {
        name: _keeping_numbers(getattr(words, name)) for name in ("count", "first_of")
    }
    return result


def _in_a_line(text: str) -> str:
    """Return rendered text on one line, without the spaces that lines of a template leave."""
    line = " ".join(_NUMBER.sub("", text).split())
    line = re.sub(rf" (?=[,;.:](?:[\s{_SPACE}]|$)|\))", "", line)
    return re.sub(rf"(?<= ){_SPACE}+|{_SPACE}+(?= )", "", line).replace(_SPACE, " ").strip()


def _marked(text: str) -> Markup:
    """Return a message whose commands are in backticks, as text with markup."""
    pieces = [*enumerate(re.split(r"(?<![^\s(])`([^`\n]+)`(?![^\s).,:;])", text))]
    return Markup("".join(f"`{escape_text(x)}`" if i % 2 else escape_text(x) for i, x in pieces))


@cache
def _statements() -> Any:
    return environment().get_template("statements.jinja").module


def chunks(template: str, **values: Any) -> Iterator[tuple[str, Any, list[float]]]:
    """Yield kind, content and numbers of each block of a template, see above.

    Args:
        template: Name of a file in `templates/`, or the text of a template.
        **values: Its variables.
    """
    placed: list[Any] = []

    def place(*objects: Any) -> Markup:
        placed.extend(objects)
        numbers = range(len(placed) - len(objects), len(placed))
        return Markup("".join(f"{_BREAK}{_PLACED}{number}{_BREAK}" for number in numbers))

    env = environment()
    source = (
        env.get_template(template) if template.endswith(".jinja") else env.from_string(template)
    )
    for chunk in source.render(**values, place=place).split(_BREAK):
        numbers = [float(x) for x in _NUMBER.findall(chunk)]
        text = _NUMBER.sub("", chunk).strip()
        if text.startswith(_PLACED):
            yield "placed", placed[int(text[1:])], []
        elif text.startswith((f"{_KIND}- ", f"{_KIND}!- ")):
            items = re.split(rf"{_KIND}!?- ", text)[1:]
            yield text[1:].partition(" ")[0], [_in_a_line(item) for item in items], numbers
        elif _KIND in text[1:]:
            raise ValueError(f"a block of a template must begin after a blank line: {text!r:.80}")
        elif text.startswith(_KIND):
            kind, _, rest = _in_a_line(text[1:]).partition(" ")
            yield kind, rest, numbers
        elif text:
            yield "", _in_a_line(text), numbers


_GREEK = {x: unicodedata.name(x).split()[-1].lower() for x in "αβγδεζηθικλμνξπρστυφχψω"}
_GREEK["λ"] = "lambda"  # Unicode says lamda
_LATEX = {
    **{x: rf"$\{name}$" for x, name in _GREEK.items()},
    **{x.upper(): rf"$\{_GREEK[x].title()}$" for x in "γδθλξπσφψω"},
    **{x: f"\\{x}" for x in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "`": r"\textasciigrave{}",
    "-": "-{}",  # before another one: no dash
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "–": "--",
    "▲": r"$\uparrow$",
    "▼": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "†": r"\dag{}",
    "∞": r"$\infty$",
    "²": "$^2$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
}  # fmt: skip
_ESCAPED = re.compile(rf"[{re.escape(''.join({*_LATEX} - {'-'}))}]|-(?=-)")


def escape_latex(value: Any) -> str:
    r"""Escape text for LaTeX, on one line.

    Example:
        >>> print(escape_latex("50 % of a_b"))
        50 \% of a\_b
    """
    text = " ".join(str(value).split())
    return _ESCAPED.sub(lambda match: _LATEX[match[0]], text)
