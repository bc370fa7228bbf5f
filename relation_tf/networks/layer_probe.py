"""Measurement of what a token-mixing layer passes between tokens, at its initial weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from relation_tf.errors import join_names
from relation_tf.layers.arguments import positive_integer
from relation_tf.networks.layer_check.subject import Subject
from relation_tf.networks.mixing import entry_of, refuse_options
from relation_tf.networks.precision import dtype_policy
from relation_tf.quiet import errors_only

TOKENS = 32
_TEXTS = 4
_STEP = 0.03  # of finite differences, for tokens of size 1
_NOTICED = 1e-4  # smallest share of the largest influence
_MIXED = 1e-2  # smallest share of a token's influence on itself
_SAME = 1e-3  # largest relative difference of equal outputs
_SAME_EFFECT = 1e-2  # the same of small changes, which have rounding errors
_RANK = 1e-3  # smallest singular value relative to the largest
_LONG_REACH = TOKENS // 4
_FEW = 3  # offsets that are named
_EVEN = 0.2  # smallest influence in a window relative to the median
_NEARLY = 0.9  # share of the values of a vector
_FADED = 0.05  # influence of the most distant tokens relative to the nearest


@dataclass(frozen=True)
class LayerProbe:
    """Properties of a layer that limit what a network around it can learn.

    Attributes:
        units: Width of the tokens.
        influence: Mean change of a token's output if another token is replaced, by the offset of
            the other token, relative to the change if the token itself is replaced.
        ordered: If False, the outputs do not depend on the order of the other tokens.
        selective: If False, each other token has the same effect, whatever the text contains.
        fixed: If True, the effect of a token depends on its place, but not on the text.
        passed: Number of values that pass from one half of a text of `TOKENS` tokens to the other:
            the largest rank of the derivative in several texts, in both directions; at most
            `TOKENS // 2 * units`.
        padding: Largest relative change of the outputs if the content of the padding changes.
    """

    units: int
    influence: Mapping[int, float]
    ordered: bool
    selective: bool
    fixed: bool
    passed: int
    padding: float

    @property
    def noticed(self) -> list[int]:
        """Offsets of the tokens that change an output."""
        floor = _NOTICED * max(self.influence.values())
        return [offset for offset, value in self.influence.items() if offset and value > floor]

    @property
    def mixes(self) -> bool:
        """If False, other tokens have hardly any influence."""
        return max(value for offset, value in self.influence.items() if offset) > _MIXED

    @property
    def reach(self) -> int:
        """Largest distance of a token that changes an output."""
        return max(map(abs, self.noticed), default=0)

    @property
    def half_life(self) -> float | None:
        """Number of tokens in which the influence halves; None if it does not fade."""
        distances = np.arange(1, self.reach + 1)
        if len(distances) <= _LONG_REACH:
            return None
        strength = np.array([self._at(int(distance)) for distance in distances])
        third = len(strength) // 3
        if strength[-third:].max() > _FADED * strength[:third].max():
            return None
        slope = np.polyfit(distances, np.log2(np.maximum(strength, 1e-12)), 1)[0]
        return float(-1 / slope) if slope < 0 else None

    @property
    def _few_places(self) -> bool:
        """If True, a few tokens with others between them change an output."""
        offsets = self.noticed
        return 1 < len(offsets) <= _FEW and max(offsets) - min(offsets) > _FEW

    @property
    def _ends(self) -> bool:
        """If True, near and distant tokens change an output about equally, up to a distance."""
        strength = [self._at(distance) for distance in range(1, self.reach + 1)]
        return self.reach < TOKENS - 4 and min(strength) > _EVEN * float(np.median(strength))

    def _at(self, distance: int) -> float:
        """Return the influence at a distance, on the side where it is larger."""
        return max(self.influence.get(distance, 0.0), self.influence.get(-distance, 0.0))

    @cached_property
    def weaknesses(self) -> dict[str, str]:
        """A sentence for each property that limits the layer, by its name."""
        return dict(self._weaknesses())

    def _weaknesses(self) -> Iterator[tuple[str, str]]:
        if not self.mixes:
            yield "no mixing", "Other tokens have hardly any influence."
            return
        offsets = self.noticed
        if len(offsets) == 1:
            (offset,) = offsets
            where = "after" if offset > 0 else "before"
            away = "directly" if abs(offset) == 1 else f"{abs(offset)} places"
            yield "shift", f"A token receives only the token {away} {where} it."
        elif self._few_places:
            places = join_names([_place(offset) for offset in offsets], " and ")
            yield "places", f"A token receives only the tokens {places}."
        elif self.reach <= _LONG_REACH or self._ends:
            yield (
                "window",
                f"A token receives only tokens at most {self.reach} away: "
                f"a window of {max(*offsets, 0) - min(*offsets, 0) + 1}.",
            )
        one_side = len(offsets) > 1 and not min(offsets) < 0 < max(offsets)
        if one_side and not self._few_places:
            side = "earlier" if offsets[0] < 0 else "later"
            yield side, f"A token receives only {side} tokens."
        if (half_life := self.half_life) is not None and not self._few_places:
            yield (
                "fading",
                f"The influence of a token fades: it halves about every {half_life:.1f} tokens.",
            )
        if not self.ordered:
            yield "order", "The order of the other tokens has no effect (without positions)."
        if not self.selective:
            yield "mean", "Each other token has the same effect in every text: a mean."
        elif self.fixed and self.reach > _LONG_REACH and not self._few_places:
            yield "fixed", "The effect of a token depends on its place, but not on the text."
        if self.reach > _LONG_REACH and self.passed <= self.units:
            vector = " (one vector)" if self.passed > _NEARLY * self.units else ""
            passing = "1 value passes" if self.passed == 1 else f"{self.passed} values{vector} pass"
            yield "bottleneck", f"Only {passing} from one half of a text to the other."
        if self.padding > _SAME:
            yield "padding", f"Padding changes the outputs, by up to {100 * self.padding:.2g} %."

    def __str__(self) -> str:
        return "\n".join(self.weaknesses.values()) or "No limits were found."


def probe_layer(
    layer_or_name: Any, units: int = 8, options: Mapping[str, Any] | None = None
) -> LayerProbe:
    """Measure what a token-mixing layer passes between the tokens of random texts.

    The layer has its initial weights, so training can change the result. The method:

    - replace each token in turn, and measure the change of every output;
    - shuffle the tokens before and after a token, and exchange both sides;
    - add the same vector to each token in turn, in different texts;
    - compute the derivative of the outputs of one half of the text with respect to the other half,
      and its rank; the larger one of both directions counts;
    - change the content of the padding.

    Args:
        layer_or_name: As in `check_layer`. It must return a vector for each token.
        units: Width of the tokens, at least 1.
        options: Further arguments of the layer.

    Raises:
        ValueError: As `check_layer`, and if the layer does not return a finite vector for each
            token.

    Example:
        >>> from relation_tf.networks import probe_layer
        >>> probe_layer("relation").passed
        8
        >>> print(probe_layer("local-attention", options={"window": 3, "global_tokens": 0}))
        A token receives only tokens at most 2 away: a window of 5.

    References:
        The rank measures the size of the state as Arora et al. 2024, "Simple linear attention
        language models balance the recall-throughput tradeoff" (arXiv 2402.18668), define it.
    """
    refuse_options(layer_or_name, dict(options or {}))
    positive_integer("units", units)
    entry = entry_of(layer_or_name)
    subject = Subject(layer_or_name, entry, units, units, dict(options or {}))
    ignored = warnings.catch_warnings(action="ignore")
    with ignored, errors_only("tensorflow"), dtype_policy("float32"):
        return _Probe(subject).result()


class _Probe:
    """The measurements of one layer."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.random = np.random.default_rng(0)
        self.x = self._draw(_TEXTS, TOKENS)

    def result(self) -> LayerProbe:
        output = self._mix(self.x)
        found = "" if np.isfinite(output).all() else "NaN or infinity"
        if output.shape != (_TEXTS, TOKENS, self.subject.units):
            found = f"shape {output.shape}"
        if found:
            raise ValueError(
                "the layer must return a finite vector of `units` values for each token. "
                f"Received: {self.subject}, which returns {found}"
            )
        effects = self._effects(output)
        return LayerProbe(
            self.subject.units, self._influence(output), self._ordered(output),
            selective=not _same(effects, effects.mean(axis=(0, 1)), _SAME_EFFECT),
            fixed=_same(effects, effects.mean(axis=0), _SAME_EFFECT),
            passed=self._passed(), padding=self._padding(),
        )  # fmt: skip

    def _draw(self, *shape: int) -> np.ndarray:
        return self.random.normal(size=(*shape, self.subject.width)).astype("float32")

    def _mix(self, x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        return self.subject.mixed(x, np.ones(x.shape[:2], bool) if mask is None else mask)

    def _each_token(self, x: np.ndarray) -> np.ndarray:
        """Return a copy of a text for each token, `(TOKENS, TOKENS, width)`."""
        return np.repeat(x[None], TOKENS, axis=0)

    def _influence(self, output: np.ndarray) -> dict[int, float]:
        places = np.arange(TOKENS)
        changes = []
        for x, before in zip(self.x, output, strict=True):
            replaced = self._each_token(x)
            replaced[places, places] = self._draw(TOKENS)
            changes.append(np.linalg.norm(self._mix(replaced) - before, axis=-1))
        mean = np.mean(changes, axis=0)  # (replaced token, changed output)
        own = float(np.mean(np.diagonal(mean))) or 1.0
        offsets = range(-TOKENS + 2, TOKENS - 1)
        # diagonal(k) has column - row = k: the replaced token is k places before the output.
        return {offset: float(np.mean(np.diagonal(mean, -offset)) / own) for offset in offsets}

    def _ordered(self, output: np.ndarray) -> bool:
        centre = TOKENS // 2
        order = np.arange(TOKENS)
        self.random.shuffle(order[:centre])
        self.random.shuffle(order[centre + 1 :])
        changed = [self.x[:, order]]
        earlier, later = (self.x.copy() for _ in range(2))
        earlier[:, :centre], later[:, centre + 1 :] = -self.x[:, :centre], -self.x[:, centre + 1 :]
        if not any(self._keeps_centre(x, output) for x in (earlier, later)):
            mirrored = self.x[:, ::-1].copy()  # exchanges the tokens of both sides
            mirrored[:, centre] = self.x[:, centre]
            mirrored[:, TOKENS - 1 - centre] = self.x[:, TOKENS - 1 - centre]
            changed.append(mirrored)
        return not all(self._keeps_centre(x, output) for x in changed)

    def _keeps_centre(self, x: np.ndarray, output: np.ndarray) -> bool:
        """Return True if a changed text gives the same output at its central token."""
        centre = TOKENS // 2
        return _same(self._mix(x)[:, centre], output[:, centre])

    def _effects(self, output: np.ndarray) -> np.ndarray:
        """Return the change of the central output by a vector added to each other token.

        Returns:
            Array `(texts, tokens, units)`.
        """
        places = np.arange(TOKENS)
        centre = TOKENS // 2
        added = self._draw()
        effects = []
        for x, before in zip(self.x, output, strict=True):
            changed = self._each_token(x)
            changed[places, places] += added
            effects.append(np.delete(self._mix(changed)[:, centre] - before[centre], centre, 0))
        return np.stack(effects)

    def _passed(self) -> int:
        half, width = TOKENS // 2, self.subject.width
        steps = np.zeros((half * width, TOKENS, width), np.float32)
        rows = np.arange(len(steps))
        steps[rows, rows // width, rows % width] = _STEP
        ranks = []
        for moved, half_of_outputs in ((steps, np.s_[half:]), (steps[:, ::-1], np.s_[:half])):
            ranks += [
                _rank((self._mix(x + moved) - self._mix(x - moved))[:, half_of_outputs])
                for x in self.x
            ]
        return max(ranks)

    def _padding(self) -> float:
        kept = np.broadcast_to(np.arange(TOKENS) < TOKENS // 2, (_TEXTS, TOKENS))
        other = np.where(kept[..., None], self.x, self._draw(_TEXTS, TOKENS))
        one, two = (self._mix(x, kept)[kept] for x in (self.x, other))
        return float(np.abs(one - two).max() / (np.abs(one).max() or 1.0))


def _rank(change: np.ndarray) -> int:
    values = np.linalg.svd(change.reshape(len(change), -1), compute_uv=False)
    return int(np.sum(values > _RANK * values[0])) if values[0] > 0 else 0


def _place(offset: int) -> str:
    distance = f"{abs(offset)} places" if abs(offset) > 1 else "directly"
    return f"{distance} {'after' if offset > 0 else 'before'} it"


def _same(one: np.ndarray, other: np.ndarray, tolerance: float = _SAME) -> bool:
    return bool(np.abs(one - other).max() <= tolerance * (np.abs(other).max() or 1.0))
