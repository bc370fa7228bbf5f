r"""Reader of Yelp Full and of its small sample.

The texts are JSON strings (a line break is `\n`, `é` is `\u00e9`) with quotes doubled for CSV
(`\""`); the reader decodes these escapes. The sample is two JSON objects of
`{"ori": text, "label": "0" to "4"}`.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

from relation_tf.errors import DataError
from relation_tf.tasks.readers import collect_rows
from relation_tf.tasks.tables import parse_object, readable
from relation_tf.tasks.task import Task, TextSplit

_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9A-Fa-f]{4})')


def sample_rows(task: Task, path: Path, skipped: list[str] | None) -> TextSplit:
    """Read a file of the sample; `index` is the number of the entry from 0."""

    def fields(_: int, entry: tuple[str, Any]) -> tuple[str, str]:
        match entry[1]:
            case {"ori": str(text), "label": str(label)} if label in labels:
                return labels[label], unescape(text)
        raise DataError(
            f'{path}: entry {entry[0]!r:.40}: expected {{"ori": text, "label": "0" to "4"}}, '
            f"found {entry[1]!r:.76}"
        )

    labels = {str(i): label for i, label in enumerate(task.labels or ())}
    with readable(path):
        entries = parse_object(path, path.read_bytes())
    return collect_rows(task, path, enumerate(entries.items(), 1), fields, skipped)


def unescape(text: str) -> str:
    r"""Decode the escapes of JSON strings and doubled quotes.

    Example:
        >>> unescape(r'the \""best\"" caf\u00e9')
        'the "best" café'
    """
    text = text.replace('\\""', '\\"')
    text = _ESCAPE.sub(lambda escape: _decoded(escape[0]), text)
    if not text.isascii():  # combine surrogate pairs; lone surrogates are not valid text
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


@functools.cache
def _decoded(escape: str) -> str:
    return str(json.loads(f'"{escape}"'))
