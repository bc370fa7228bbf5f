"""Directions of metrics by the words of their names."""

from __future__ import annotations

import re
import tomllib
from importlib import resources

from relation_tf.registry import METRICS

_TABLE = tomllib.loads(
    (resources.files("relation_tf.stats") / "metric_names.toml").read_text("utf-8")
)
_LOWER, _TOPICS, _TASKS, _HIGHER, _UNITS, _LESS, _NEGATIVE, _BETWEEN, _EITHER = (
    re.compile(f"(?:{'|'.join(words.split())})s?")
    for words in _TABLE.values()
    if isinstance(words, str)
)
_KNOWN = (_LOWER, _TOPICS, _TASKS, _HIGHER, _UNITS, _LESS, _EITHER)
_SAID = re.compile(
    r"(↓|(?:lower|smaller)[\W_](?:is[\W_])?better)|↑|(?:higher|larger)[\W_](?:is[\W_])?better", re.I
)
_OF = re.compile(r" (?:of|at|on|for|in|to|until|with|under|per|by|from|vs|after|over|without) ")


def read_name(name: str) -> tuple[bool | None, str]:
    """Return True if higher is better for a metric, and the word that says so.

    Args:
        name: Name of a metric, or of a task with the name of a metric.

    Returns:
        None if the name has no known metric, with its word if lower is better in some uses, as in
        `size`, or else an empty word.

    Example:
        >>> [read_name(name)[0] for name in ("WikiText perplexity", "1 - WER", "error F1", "MR")]
        [False, True, True, None]
    """
    if known := METRICS.get(name):
        return known.higher_is_better, name
    if sign := _SAID.search(name):
        return not sign[1], sign[0]
    text = _split(name)
    readings = [_read(part.split()) for part in _OF.split(text)]
    units = [word for word in re.findall(r"(?<!\d )\b[^\W\d]+", text) if _UNITS.fullmatch(word)]
    metrics = [reading for reading in readings if reading[1]] + [(False, word) for word in units]
    either = [word for word in text.split() if _EITHER.fullmatch(word)]
    return metrics[0] if metrics else (None, "".join(either[:1]))


def _split(name: str) -> str:
    """Return the words of a name in lower case, with one word for each phrase."""
    for sign, word in _TABLE["signs"].items():
        name = re.sub(sign, word, name)
    words, parts = [], r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\dA-Za-z]+"
    for part in re.findall(r"[^\W_]+", name):
        known = any(pattern.fullmatch(part.lower()) for pattern in _KNOWN)
        words += [part] if known else re.findall(parts, part)
    text = " ".join(words).lower()
    for phrase, word in _TABLE["phrases"].items():
        text = re.sub(rf"\b(?:{phrase})\b", word, text)
    return text


def _read(words: list[str]) -> tuple[bool | None, str]:
    """Return the direction of the last metric, as in error detection F1, and its word."""
    higher, metric, negative = None, "", ""
    for word in words:
        if _NEGATIVE.fullmatch(word):
            negative = word
        elif _LOWER.fullmatch(word) or _TOPICS.fullmatch(word):
            higher, metric, negative = bool(negative), word, ""
        elif _HIGHER.fullmatch(word):  # "negative F1" is that of a class
            higher, metric, negative = negative != "complement", word, ""
        elif _LESS.fullmatch(word) and metric:
            higher = not higher
        elif _TASKS.fullmatch(word) and _TOPICS.fullmatch(metric):
            higher, metric = None, ""
        elif not _BETWEEN.fullmatch(word):
            negative = ""
    return higher, metric
