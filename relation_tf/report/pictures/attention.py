"""The picture of attention: which source token each target token looked at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from relation_tf.report.pictures.drawing import Panel, Picture

_SHADE = "#0072b2"
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
    return Picture(
        title,
        "How much each target token looked at each source token.",
        [Panel(title, alt, partial(_draw, weights, sources, targets))],
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


def _draw(weights: np.ndarray, sources: Sequence[str], targets: Sequence[str], ax: Axes) -> None:
    rows, columns = weights.shape
    tenths = np.where(weights < 0.01, 0, np.ceil(10 * weights.clip(max=1) - 1e-6))
    ax.set(xlim=(0, columns), ylim=(rows, 0), xlabel="source", ylabel="target")
    ax.set_aspect("equal", anchor="NW")
    ax.spines[:].set_visible(True)
    for tenth in np.unique(tenths[tenths > 0]):
        # One path for all cells of a shade takes far less room in a page than a shape each.
        y, x = np.nonzero(tenths == tenth)
        ends = np.column_stack((x, x + 1, np.full(len(x), np.nan)))
        ax.plot(ends.ravel(), np.repeat(y + 0.5, 3), color=_SHADE, alpha=tenth / 10,
                linewidth=72 * _CELL, solid_capstyle="butt")  # fmt: skip
    upright = max(map(len, sources)) > 1
    ax.set_xticks(np.arange(columns) + 0.5, sources, fontsize=8, rotation=90 if upright else 0)
    ax.set_yticks(np.arange(rows) + 0.5, targets, fontsize=8)
    ax.tick_params(length=0)
