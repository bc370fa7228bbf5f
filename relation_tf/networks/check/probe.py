"""Measurement of what a token-mixing layer passes between tokens, at its initial weights."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from relation_tf.layers.arguments import positive_integer
from relation_tf.networks.check.checks import Subject
from relation_tf.networks.mixing import entry_of, refuse_options
from relation_tf.networks.precision import dtype_policy
from relation_tf.quiet import errors_only

TOKENS = 32
_PLACES = np.arange(TOKENS)
_TEXTS = 4
_EQUAL_TEXTS = 16  # of equal tokens: a choice of the largest sees a changed token in half of them
_LARGE = 10  # size of a token that wins such a choice
_STEP = 0.03  # of finite differences, for tokens of size 1
_HARD_STEP = 1.0  # of layers with rounding or a hard choice, which no small step changes
_SEEN = 1e-5  # smallest share of the largest change in a text
_IRREGULAR = 0.05  # share of the pairs of tokens
_NOTICED = 1e-4  # smallest share of the largest influence
_MIXED = 1e-2  # smallest share of a token's influence on itself
_SAME = 1e-3  # largest relative difference of equal outputs
_SAME_EFFECT = 1e-2  # the same of small changes, which have rounding errors
_RANK = 1e-3  # smallest singular value relative to the largest
_LONG_REACH = TOKENS // 4
_EVEN = 0.2  # smallest influence in a window relative to the median
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
        pairs: A token and another output that it changes, for each such pair of positions.
    """

    units: int
    influence: Mapping[int, float]
    ordered: bool
    selective: bool
    fixed: bool
    passed: int
    pairs: frozenset[tuple[int, int]]

    @property
    def noticed(self) -> list[int]:
        """Offsets of the tokens that change an output."""
        floor = _NOTICED * max(self.influence.values())
        return [offset for offset, value in self.influence.items() if offset and value > floor]

    @property
    def mixes(self) -> bool:
        """If False, other tokens have hardly any influence."""
        return math.hypot(*(each for offset, each in self.influence.items() if offset)) > _MIXED

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
    def _irregular(self) -> bool:
        """If True, the distances of the tokens that change an output differ between outputs."""
        possible = sum(TOKENS - abs(offset) for offset in self.noticed)
        return possible - len(self.pairs) > _IRREGULAR * possible

    @property
    def _ends(self) -> bool:
        """If True, near and distant tokens change an output about equally, up to a distance."""
        strength = [self._at(distance) for distance in range(1, self.reach + 1)]
        return self.reach < TOKENS - 4 and min(strength) > _EVEN * float(np.median(strength))

    def _at(self, distance: int) -> float:
        """Return the influence at a distance, on the side where it is larger."""
        return max(self.influence.get(distance, 0.0), self.influence.get(-distance, 0.0))

    @property
    def weaknesses(self) -> dict[str, str]:
        """A sentence for each property that limits the layer, by its name."""
        if not self.mixes:
            return {"no mixing": "Other tokens have hardly any influence."}
        weak = {}
        offsets = self.noticed
        before, after = min(*offsets, 0), max(*offsets, 0)
        if self._irregular:
            weak["pairs"] = "Which tokens an output depends on, depends on its position."
        elif self.reach <= _LONG_REACH or self._ends:
            window = f"a window of {after - before + 1}"
            weak["window"] = f"A token receives only tokens at most {self.reach} away: {window}."
        if before * after == 0:
            side = "earlier" if before else "later"
            weak[side] = f"A token receives only {side} tokens."
        half_life = None if self._irregular else self.half_life
        if half_life is not None:
            halves = f"it halves about every {half_life:.1f} tokens"
            weak["fading"] = f"The influence of a token fades: {halves}."
        if not self.ordered:
            weak["order"] = "The order of the other tokens has no effect (without positions)."
        if not self.selective:
            weak["mean"] = "Each other token has the same effect in every text: a mean."
        elif self.fixed and self.reach > _LONG_REACH:
            weak["fixed"] = "The effect of a token depends on its place, but not on the text."
        if self.reach > _LONG_REACH and self.passed <= self.units:
            passed = f"At most {self.passed} values pass" if self.passed else "Nothing passes"
            weak["bottleneck"] = f"{passed} from one half of a text to the other."
        return weak

    def __str__(self) -> str:
        return "\n".join(self.weaknesses.values()) or "No limits were found."


def probe_layer(
    layer_or_name: Any, units: int = 8, options: Mapping[str, Any] | None = None
) -> LayerProbe:
    """Measure what a token-mixing layer passes between the tokens of random texts.

    The layer has its initial weights, so training can change the result. The texts have 32 tokens:
    limits of longer texts are not found. The method:

    - replace each token in turn, in random texts and in texts of equal tokens, and measure the
      change of every output;
    - shuffle the tokens before and after each token, and exchange both sides;
    - add the same vector to each token in turn, in different texts;
    - compute the finite differences of the outputs of one half of the text with respect to the
      other half, and their rank; the larger one of both directions counts.

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
        output = self.subject.mixed(self.x, np.ones(self.x.shape[:2], bool))
        found = "" if np.isfinite(output).all() else "NaN or infinity"
        if output.shape != (_TEXTS, TOKENS, self.subject.units):
            found = f"shape {output.shape}"
        if found:
            raise ValueError(
                "the layer must return a finite vector of `units` values for each token. "
                f"Received: {self.subject}, which returns {found}"
            )
        changes = self._changes(self.x)
        equal = np.repeat(self._draw(_EQUAL_TEXTS, 1), TOKENS, axis=1)
        seen = _seen(np.concatenate([changes, self._changes(equal, _LARGE)]))
        effects = self._effects(output)
        return LayerProbe(
            self.subject.units,
            _influence(changes),
            self._ordered(output, seen),
            selective=not _same(effects, effects.mean(axis=(0, 1)), _SAME_EFFECT),
            fixed=_same(effects, effects.mean(axis=0), _SAME_EFFECT),
            passed=self._passed(_STEP) or self._passed(_HARD_STEP),
            pairs=frozenset((i, j) for i, j in np.argwhere(seen).tolist()),
        )

    def _draw(self, *shape: int) -> np.ndarray:
        return self.random.normal(size=(*shape, self.subject.width)).astype("float32")

    def _mix(self, x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Return the outputs of texts, which may have more than one batch axis."""
        texts = x.reshape(-1, *x.shape[-2:])
        mask = np.ones(texts.shape[:2], bool) if mask is None else mask
        return self.subject.mixed(texts, mask).reshape(*x.shape[:-1], -1)

    def _each_changed(self, texts: np.ndarray, change: Callable[[Any], Any]) -> np.ndarray:
        """Return the outputs of texts with one changed token, `(texts, token, output, units)`."""
        copies = np.repeat(texts[:, None], TOKENS, axis=1)
        copies[:, _PLACES, _PLACES] = change(copies[:, _PLACES, _PLACES])
        return self._mix(copies)

    def _changes(self, texts: np.ndarray, size: float = 1.0) -> np.ndarray:
        """Return the change of each output if a token is replaced, `(texts, token, output)`."""
        replaced = self._each_changed(texts, lambda x: size * self._draw(*x.shape[:2]))
        return np.linalg.norm(replaced - self._mix(texts)[:, None], axis=-1)

    def _ordered(self, output: np.ndarray, seen: np.ndarray) -> bool:
        shuffled, mirrored = (np.tile(_PLACES, (TOKENS, 1)) for _ in range(2))
        for place in _PLACES:
            self.random.shuffle(shuffled[place, :place])
            self.random.shuffle(shuffled[place, place + 1 :])
            if seen[:place, place].any() and seen[place + 1 :, place].any():
                near = min(place, TOKENS - 1 - place)
                both = slice(place - near, place + near + 1)  # exchanges the tokens of both sides
                mirrored[place, both] = mirrored[place, both][::-1]
        return not all(
            _same(self._mix(self.x[:, orders])[:, _PLACES, _PLACES], output)
            for orders in (shuffled, mirrored)
        )

    def _effects(self, output: np.ndarray) -> np.ndarray:
        """Return the change of each output by a vector added to each other token.

        Returns:
            Array `(texts, pairs of tokens, units)`.
        """
        added = self._draw()
        changes = self._each_changed(self.x, lambda x: x + added) - output[:, None]
        return changes[:, ~np.eye(TOKENS, dtype=bool)]

    def _passed(self, step: float) -> int:
        width, first, second = self.subject.width, slice(TOKENS // 2), slice(TOKENS // 2, None)
        ranks = [0]
        for size in (1, _LARGE):  # Large tokens have all maxima of the text.
            for moved, other in ((first, second), (second, first)):
                x, steps = self.x.copy(), np.zeros((TOKENS // 2 * width, TOKENS, width), np.float32)
                x[:, moved] *= size
                steps[:, moved] = step * np.eye(len(steps)).reshape(-1, TOKENS // 2, width)
                ranks += [
                    _rank((self._mix(each + steps) - self._mix(each - steps))[:, other])
                    for each in x
                ]
            if max(ranks) > self.subject.units:
                break
        return max(ranks)


def _influence(changes: np.ndarray) -> dict[int, float]:
    mean = np.mean(changes, axis=0)  # (replaced token, changed output)
    own = float(np.mean(np.diagonal(mean))) or 1.0
    offsets = range(-TOKENS + 2, TOKENS - 1)
    # diagonal(k) has column - row = k: the replaced token is k places before the output.
    return {offset: float(np.mean(np.diagonal(mean, -offset)) / own) for offset in offsets}


def _seen(changes: np.ndarray) -> np.ndarray:
    """Return True for each token and other output that it changes in some text."""
    largest = changes.max(axis=(1, 2), keepdims=True)
    return np.any(changes > _SEEN * largest, axis=0) & ~np.eye(TOKENS, dtype=bool)


def _rank(change: np.ndarray) -> int:
    values = np.linalg.svd(change.reshape(len(change), -1), compute_uv=False)
    return int(np.sum(values > _RANK * values[0])) if values[0] > 0 else 0


def _same(one: np.ndarray, other: np.ndarray, tolerance: float = _SAME) -> bool:
    return bool(np.abs(one - other).max() <= tolerance * (np.abs(other).max() or 1.0))
