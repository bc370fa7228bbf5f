"""Checks of the tokens that outputs depend on, and of the token that networks read."""

from __future__ import annotations

import numpy as np

from relation_tf.networks.encoder_stack import declares_causal
from relation_tf.networks.layer_check.definition import (
    COMPARED,
    TOLERANCE,
    check,
    difference_of,
    expect_same,
)
from relation_tf.networks.layer_check.report import TOKEN_READ
from relation_tf.networks.layer_check.subject import (
    EVERYTHING,
    KEPT,
    TOKENS,
    FaultError,
    NotApplicableError,
    Subject,
)
from relation_tf.networks.mechanisms import accepts

_UNCHANGED = 1e-6  # Rounding, such as that of a Fourier transform over all tokens.


@check("read-out", "`call` must accept x[:, :1] and value=x.", after=COMPARED)
def _read_out(subject: Subject) -> str:
    if not accepts(subject.mixer, "value"):
        raise NotApplicableError(
            "`call` has no argument `value`, so networks compute all tokens, not only the first."
        )
    whole = any(getattr(subject.mixer, each, False) for each in ("reads_later_queries", "causal"))
    if subject.entry.head != "first" or whole:
        raise NotApplicableError("Networks read all tokens of this layer.")
    first, all_tokens = subject.read(subject.x, KEPT), subject.mixed(subject.x, KEPT)
    expected = all_tokens[:, :1] if all_tokens.ndim == 3 else all_tokens
    if first.shape != expected.shape:
        raise FaultError(
            f"layer(x[:, :1], value=x) has shape {first.shape} instead of {expected.shape}: "
            "networks cannot read the first token.",
            "return one output for each token of the first argument.",
        )
    what = "layer(x[:, :1], value=x) differs from the first token of layer(x)"
    fix = "use `value` as the tokens to mix, or rename this argument."
    expect_same(first, expected, what, fix)
    return "layer(x[:, :1], value=x) equals the first token of layer(x)."


@check("mixing", "accept any tokens.", after=COMPARED)
def _mixing(subject: Subject) -> str:
    _expect_mixing(subject)
    return "outputs depend on other tokens."


def _expect_mixing(subject: Subject) -> None:
    """Raise an exception if outputs do not depend on other tokens, or are no tokens."""
    place = TOKENS // 2
    other = subject.x.copy()
    other[:, place] = subject.x[::-1, place]
    changed, expected = (subject.mixed(x, EVERYTHING) for x in (other, subject.x))
    if expected.ndim != 3:
        raise NotApplicableError("The output is one vector per text, not per token.")
    changed, expected = (np.delete(output, place, axis=1) for output in (changed, expected))
    if difference_of(changed, expected) <= TOLERANCE:
        raise NotApplicableError("Each output depends only on its own token: tokens are not mixed.")


@check(TOKEN_READ, "accept any tokens.", after=COMPARED)
def _token_read(subject: Subject) -> str:
    _expect_mixing(subject)
    if subject.entry.head != "first":
        raise NotApplicableError("Networks read all tokens of this layer.")
    causal = declares_causal(subject.mixer)
    place, name = (TOKENS - 1, "last") if causal else (0, "first")
    other = subject.x[::-1].copy()
    other[:, place] = subject.x[:, place]
    changed, output = (subject.mixed(x, EVERYTHING)[:, place] for x in (other, subject.x))
    if difference_of(changed, output) <= _UNCHANGED:
        fix = "set `self.causal = True` in __init__: networks then read the last token."
        if causal:
            fix = "remove `causal`: networks then read the first token."
        raise FaultError(
            f"Networks read the output of the {name} token, which depends on no other token, so "
            "they cannot learn from the text.",
            f"if each token sees only {'later' if causal else 'earlier'} tokens, {fix} Otherwise "
            "return (batch, units), such as the mean over unmasked tokens.",
        )
    return f"the output that networks read, of the {name} token, depends on other tokens."


@check("causality", "a causal layer must accept any tokens.", after=COMPARED)
def _causal(subject: Subject) -> str:
    if not declares_causal(subject.mixer):
        raise NotApplicableError("The layer is not `causal`.")
    seen = TOKENS // 2
    other = np.concatenate([subject.x[:, :seen], subject.x[::-1, seen:]], axis=1)
    changed, expected = (subject.mixed(x, EVERYTHING) for x in (other, subject.x))
    if expected.ndim != 3:
        raise NotApplicableError("The output is one vector per text, not per token.")
    what = "Outputs depend on later tokens although causal=True"
    fix = "compute output i from x[:, : i + 1] only, or set causal=False."
    expect_same(changed[:, :seen], expected[:, :seen], what, fix)
    return "outputs do not depend on later tokens."


READING_CHECKS = (_read_out, _mixing, _token_read, _causal)
