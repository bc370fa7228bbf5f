"""The picture of attention: which source token each target token looked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from relation_tf.report.pictures.drawing import Panel, Picture, draw_heat_map

_CELL = 0.2  # side in inches
_LETTER = 0.075  # width of a letter in inches
_MOST_TOKENS = 20  # of a target whose words are told one by one
_LONGEST = 16  # letters of a token that are drawn


def attention_picture(
    weights: np.ndarray,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    title: str = "attention",
) -> Picture:
    """How much each target token looked at each source token, the deeper a cell the more.

    Args:
        weights: From 0 to 1, `(target tokens, source tokens)`; rows and columns after the tokens
            that are named, those of padding, are left out.
        source_tokens: Names of the columns.
        target_tokens: Names of the rows.
        title: What stands above, and names the file.

    Returns:
        The picture: `png()`, `svg()`, and its `alt` in words.

    Raises:
        ValueError: Where there is no token, or more tokens than weights, or a weight is not from 0
            to 1.

    Example:
        >>> picture = attention_picture(np.array([[0.1, 0.9], [1.0, 0.0]]), "ab", "ba")
        >>> print(picture.panels[0].alt)
        attention: b looked most at b (2nd of 2, 90 %), a at a (1st of 2, 100 %).
    """
    weights = np.asarray(weights, dtype=float)
    rows, columns = len(target_tokens), len(source_tokens)
    if weights.ndim != 2 or not (0 < rows <= len(weights) and 0 < columns <= weights.shape[1]):
        raise ValueError(
            f"`weights` must have a row for each of {rows} target tokens and a column for each of "
            f"{columns} source tokens, one at least. Received: shape {weights.shape}"
        )
    weights = weights[:rows, :columns]
    if not ((weights >= 0) & (weights <= 1 + 1e-3)).all():
        raise ValueError(
            f"`weights` must be from 0 to 1. Received: {weights.min():g} to {weights.max():g}"
        )
    sources, targets = ([_shown(token) for token in own] for own in (source_tokens, target_tokens))
    left, top = (0.3 + _LETTER * max(map(len, own)) for own in (targets, sources))
    alt = _words(title, weights, sources, targets)

    def draw(ax: Axes) -> None:
        upright = max(map(len, sources)) > 1
        draw_heat_map(ax, weights, targets, sources, _CELL, upright, opacity=(0.1, 1))
        ax.set(xlabel="source", ylabel="target")

    return Picture(
        title,
        "How much each target token looked at each source token.",
        [Panel(title, alt, draw)],
        size=(left + max(_CELL * columns, 0.095 * len(title)) + 0.1, 0.3 + _CELL * rows + top),
        left=left,
        bottom=top,
    )


def _shown(token: str) -> str:
    """A token that can be seen."""
    token = "␣" if token == " " else token
    return token if len(token) <= _LONGEST else f"{token[: _LONGEST - 1]}…"


def _words(title: str, weights: np.ndarray, sources: Sequence[str], targets: Sequence[str]) -> str:
    most = weights.argmax(axis=1)
    share = weights[np.arange(len(weights)), most]
    if len(targets) > _MOST_TOKENS:
        return (
            f"{title}: {len(targets)} target tokens over {len(sources)} source tokens; the largest "
            f"weight of a token is {100 * share.mean():.0f} % in the mean."
        )
    parts = [
        f"{target} {'looked most ' * (not i)}at {sources[j]} "
        f"({_ordinal(j + 1)} of {len(sources)}, {100 * own:.0f} %)"
        for i, (target, j, own) in enumerate(
            zip(targets, most.tolist(), share.tolist(), strict=True)
        )
    ]
    return f"{title}: {', '.join(parts)}."


def _ordinal(number: int) -> str:
    teen = 11 <= number % 100 <= 13
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
