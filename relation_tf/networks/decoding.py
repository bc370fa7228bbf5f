"""Decoding with an encoder-decoder: greedy decoding and beam search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from relation_tf.layers.arguments import positive_integer
from relation_tf.networks.decoders import DecoderState, EncoderDecoder


@dataclass(frozen=True)
class Decoded:
    """Decoded target sequences.

    Attributes:
        ids: Token ids without the start token, up to and including the end token: `int32`,
            `(batch, longest)`, padded with 0. A sequence without an end token was truncated at
            `max_length`.
        scores: Sum of the log probabilities of these tokens, `(batch,)`.
        normalized: `scores / ((5 + tokens) / 6) ** length_penalty`, `(batch,)`.
        attention: Attention weights over source tokens, `(batch, longest, source_tokens)`, zero
            for padding; None after beam search.
    """

    ids: np.ndarray
    scores: np.ndarray
    normalized: np.ndarray
    attention: np.ndarray | None = None


def greedy_decode(
    model: EncoderDecoder,
    source_ids: Any,
    start: int,
    end: int,
    max_length: int,
    length_penalty: float = 0.6,
) -> Decoded:
    """Decode greedily: select the most probable token at each step.

    If several tokens are equally probable, the smallest id is selected. Padding and `start` are
    never selected.

    Args:
        model: The encoder-decoder.
        source_ids: Integers `(batch, source_tokens)`, 0 for padding.
        start: Id of the start token of targets.
        end: Id of the end token of targets.
        max_length: Maximum number of decoded tokens, including the end token.
        length_penalty: As in `beam_search`.

    Returns:
        Ids, scores and attention weights.

    Raises:
        ValueError: If `start` or `end` is not a target id, or `max_length` is below 1.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import greedy_decode, recurrent_encoder_decoder
        >>> model = recurrent_encoder_decoder(9, 7, units=8)
        >>> greedy_decode(model, np.array([[3, 4]]), start=1, end=2, max_length=5).scores.shape
        (1,)
    """
    _check(model, start, end, max_length)
    state = model.initial_state(source_ids, max_length)
    last = np.full(len(source_ids), start)
    scores = np.zeros(len(last))
    ids, attention = [], []
    for _ in range(max_length):
        log_p, state, weights = _step(model, last, state, start)
        last = np.where(_finished(last, end), 0, log_p.argmax(axis=1))
        scores += np.where(last == 0, 0.0, log_p[np.arange(len(last)), last])
        ids.append(last)
        attention.append(np.where(last[:, None] == 0, 0.0, ops.convert_to_numpy(weights)[:, 0]))
        if _finished(last, end).all():
            break
    return _decoded(np.stack(ids, axis=1), scores, length_penalty, np.stack(attention, axis=1))


def beam_search(
    model: EncoderDecoder,
    source_ids: Any,
    start: int,
    end: int,
    max_length: int,
    beam_width: int = 4,
    length_penalty: float = 0.6,
) -> Decoded:
    """Decode by beam search.

    At each step all hypotheses are extended by all tokens, and the `beam_width` most probable
    hypotheses are kept. A finished hypothesis is not extended and competes with the others. The
    final selection maximizes the sum of log probabilities divided by
    `((5 + tokens) / 6) ** length_penalty`. With `beam_width=1` the ids equal `greedy_decode`.

    Args:
        model: The encoder-decoder.
        source_ids: Integers `(batch, source_tokens)`, 0 for padding.
        start: Id of the start token of targets.
        end: Id of the end token of targets.
        max_length: Maximum number of decoded tokens, including the end token.
        beam_width: Number of hypotheses per sequence.
        length_penalty: Exponent of the length normalization: 0 selects the most probable sequence,
            larger values favor longer sequences.

    Returns:
        Ids and scores of the best hypotheses.

    Raises:
        ValueError: If `start` or `end` is not a target id, or a width or length is below 1.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import beam_search, recurrent_encoder_decoder
        >>> model = recurrent_encoder_decoder(9, 7, units=8)
        >>> beam_search(model, np.array([[3, 4]]), start=1, end=2, max_length=5).scores.shape
        (1,)

    References:
        Wu et al. 2016, "Google's Neural Machine Translation System", section 7.
    """
    _check(model, start, end, max_length)
    positive_integer("beam_width", beam_width)
    batch = len(source_ids)
    first_row = np.arange(batch)[:, None] * beam_width
    state = model.initial_state(source_ids, max_length)
    rows = np.repeat(np.arange(batch), beam_width)
    state = state._replace(source=_take(state.source, rows), target=_take(state.target, rows))
    last = np.full((batch, beam_width), start)
    # All beams of a sequence start equal: only the first may be extended.
    scores = np.where(np.arange(beam_width) == 0, 0.0, np.full((batch, 1), -np.inf))
    tokens, parents = [], []
    for _ in range(max_length):
        log_p, state, _ = _step(model, last.ravel(), state, start)
        log_p = log_p.reshape(batch, beam_width, -1)
        # Finished hypotheses are extended by padding with log probability 0.
        stay = np.where(np.arange(log_p.shape[-1]) == 0, 0.0, -np.inf)
        log_p = np.where(_finished(last, end)[..., None], stay, log_p)
        totals = (scores[..., None] + log_p).reshape(batch, -1)
        best = np.argsort(-totals, axis=1, kind="stable")[:, :beam_width]
        scores = np.take_along_axis(totals, best, axis=1)
        parent, last = np.divmod(best, log_p.shape[-1])
        tokens.append(last)
        parents.append(parent)
        if (_finished(last, end) | np.isneginf(scores)).all():
            break
        state = state._replace(target=_take(state.target, (first_row + parent).ravel()))
    # Follow the beams of the last step back to the first.
    beam = np.broadcast_to(np.arange(beam_width), (batch, beam_width))
    steps = []
    for last, parent in zip(reversed(tokens), reversed(parents), strict=True):
        steps.append(np.take_along_axis(last, beam, axis=1))
        beam = np.take_along_axis(parent, beam, axis=1)
    ids = np.stack(steps[::-1], axis=-1)
    normalized = _normalized(ids, scores, length_penalty)
    row, beam = np.arange(batch), normalized.argmax(axis=1)
    return _decoded(ids[row, beam], scores[row, beam], length_penalty)


def exact_match(targets: np.ndarray, ids: np.ndarray) -> float:
    """Compute the share of rows with equal tokens.

    Args:
        targets: Integers `(batch, tokens)`, 0 for padding.
        ids: Integers `(batch, tokens)` of any length, such as `Decoded.ids`.

    Returns:
        A number from 0 to 1.

    Example:
        >>> exact_match(np.array([[5, 2, 0], [5, 6, 2]]), np.array([[5, 2], [5, 2]]))
        0.5
    """
    width = max(targets.shape[1], ids.shape[1])
    expected, decoded = (np.pad(x, ((0, 0), (0, width - x.shape[1]))) for x in (targets, ids))
    return float((expected == decoded).all(axis=1).mean())


def _check(model: EncoderDecoder, start: int, end: int, max_length: int) -> None:
    positive_integer("max_length", max_length)
    for name, token in (("start", start), ("end", end)):
        if not 0 < token < model.target_vocabulary:
            raise ValueError(
                f"`{name}` must be an id from 1 to {model.target_vocabulary - 1}. "
                f"Received: {name}={token!r}"
            )
    if start == end:
        raise ValueError(f"`start` and `end` must differ. Received: start={start!r}, end={end!r}")


def _step(
    model: EncoderDecoder, last: np.ndarray, state: DecoderState, start: int
) -> tuple[np.ndarray, DecoderState, Any]:
    """Return log probabilities `(rows, target_vocabulary)`, the next state and the weights."""
    logits, state, weights = model.step(last[:, None].astype("int32"), state)
    # On PyTorch each state would keep all earlier states in memory for an unused gradient.
    state = keras.tree.map_structure(ops.stop_gradient, state)
    log_p = ops.convert_to_numpy(ops.log_softmax(logits[:, 0], axis=-1)).astype("float64")
    log_p[:, [0, start]] = -np.inf
    return log_p, state, weights


def _finished(last: np.ndarray, end: int) -> np.ndarray:
    return (last == end) | (last == 0)


def _take(tensors: Any, rows: np.ndarray) -> Any:
    """Select rows of all tensors; scalars stay unchanged."""
    return keras.tree.map_structure(
        lambda x: ops.take(x, rows, axis=0) if len(x.shape) else x, tensors
    )


def _normalized(ids: np.ndarray, scores: np.ndarray, length_penalty: float) -> np.ndarray:
    length = np.count_nonzero(ids, axis=-1)
    normalized: np.ndarray = scores / ((5 + length) / 6) ** length_penalty
    return normalized


def _decoded(
    ids: np.ndarray,
    scores: np.ndarray,
    length_penalty: float,
    attention: np.ndarray | None = None,
) -> Decoded:
    longest = np.count_nonzero(ids, axis=1).max(initial=1)
    return Decoded(
        ids[:, :longest].astype(np.int32), scores, _normalized(ids, scores, length_penalty),
        None if attention is None else attention[:, :longest],
    )  # fmt: skip
