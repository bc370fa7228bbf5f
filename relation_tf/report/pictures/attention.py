"""Figure of attention weights between target and source tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from relation_tf.report.pictures.drawing import Panel, Picture, draw_heat_map

_CELL = 0.2  # side in inches
_LETTER = 0.075  # width of a letter in inches
_MOST_TOKENS = 20  # target tokens named one by one in the alternative text
_LONGEST = 16  # letters; longer tokens are shortened


def attention_picture(
    weights: np.ndarray,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    title: str = "attention",
) -> Picture:
    """Return a heat map of attention weights; darker cells have larger weights.

    Args:
        weights: Weights from 0 to 1, shape `(target tokens, source tokens)`. Rows and columns
            beyond the named tokens (padding) are left out.
        source_tokens: Names of the columns.
        target_tokens: Names of the rows.
        title: Title, and name of the file.

    Returns:
        The picture, with `png()`, `svg()` and alternative text.

    Raises:
        ValueError: If there is no token, there are more tokens than weights, or a weight is not
            between 0 and 1.

    Example:
        >>> picture = attention_picture(np.array([[0.1, 0.9], [1.0, 0.0]]), "ab", "ba")
        >>> print(picture.panels[0].alt)
        attention: b attends most to b (2nd of 2, 90 %), a to a (1st of 2, 100 %).
    """
    weights = np.asarray(weights, dtype=float)
    rows, columns = len(target_tokens), len(source_tokens)
    if weights.ndim != 2 or not (0 < rows <= len(weights) and 0 < columns <= weights.shape[1]):
        raise ValueError(
            f"`weights` must have a row for each of {rows} target tokens and a column for each of "
            f"{columns} source tokens, at least one. Received: shape {weights.shape}"
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
        "Attention weights of each target token over the source tokens.",
        [Panel(title, alt, draw)],
        size=(left + max(_CELL * columns, 0.095 * len(title)) + 0.1, 0.3 + _CELL * rows + top),
        left=left,
        bottom=top,
    )


def _shown(token: str) -> str:
    """Return a visible, shortened token."""
    token = "␣" if token == " " else token
    return token if len(token) <= _LONGEST else f"{token[: _LONGEST - 1]}…"


def _words(title: str, weights: np.ndarray, sources: Sequence[str], targets: Sequence[str]) -> str:
    most = weights.argmax(axis=1)
    share = weights[np.arange(len(weights)), most]
    if len(targets) > _MOST_TOKENS:
        return (
            f"{title}: {len(targets)} target tokens over {len(sources)} source tokens; the largest "
            f"weight of a target token is {100 * share.mean():.0f} % on average."
        )
    parts = [
        f"{target} {'attends most ' * (not i)}to {sources[j]} "
        f"({_ordinal(j + 1)} of {len(sources)}, {100 * own:.0f} %)"
        for i, (target, j, own) in enumerate(
            zip(targets, most.tolist(), share.tolist(), strict=True)
        )
    ]
    return f"{title}: {', '.join(parts)}."


def _ordinal(number: int) -> str:
    teen = 11 <= number % 100 <= 13
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
