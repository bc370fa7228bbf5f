"""Log-probabilities of texts under a pre-trained causal encoder, in batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from relation_tf.interrupts import interrupts_delayed
from relation_tf.tasks.batches import bucket
from relation_tf.training.generation import make_language_model
from relation_tf.training.pretrained import PretrainedEncoder
from relation_tf.training.session import start_tensorflow


class Window(NamedTuple):
    """Part of a text that the model reads at once.

    Attributes:
        begin: First token that the model reads.
        first: First token that is scored.
        end: End of the window; tokens from `first` to `end - 1` are scored.
    """

    begin: int
    first: int
    end: int


def windows(count: int, start: int, length: int) -> Iterator[Window]:
    """Yield windows that score each token from `start` on exactly once.

    All windows of a text that is longer than one window are full; those after the first overlap by
    at least one token, which is read and not scored. Without the token before the text, these are
    the windows of `lm_eval.utils.get_rolling_token_windows`.

    Args:
        count: Number of tokens of the text.
        start: Number of tokens that are read only.
        length: Number of tokens of a window, 2 or more.

    Example:
        >>> [tuple(window) for window in windows(9, 0, 4)]
        [(0, 0, 4), (3, 4, 7), (5, 7, 9)]
        >>> [tuple(window) for window in windows(9, 8, 4)]
        [(5, 8, 9)]
    """
    while start < count:
        end = min(count, max(start + length - 1, length))
        yield Window(max(0, end - length), start, end)
        start = end


@dataclass(frozen=True)
class Score:
    """Score of a text.

    Attributes:
        log_probability: Sum of the log-probabilities of the scored tokens, in nats.
        greedy: True if each scored token is the most probable one.
    """

    log_probability: float
    greedy: bool


class Scorer:
    """Scores texts and predicts next tokens; texts may be longer than the model's `length`.

    The first token of a text has no context. Its logits are the bias of the output layer, which
    are the model's logits if the output of the encoder is 0.

    Args:
        pretrained: The encoder.
        batch_size: Windows per batch. Results do not depend on it, except for rounding.

    Raises:
        SuiteError: If the encoder is not causal or cannot be used.
    """

    def __init__(self, pretrained: PretrainedEncoder, batch_size: int = 32) -> None:
        start_tensorflow(Path(os.devnull), pretrained.settings["threads"])
        with interrupts_delayed():
            self.model = make_language_model(pretrained)
            self._bias = np.asarray(self.model.bias.numpy(), np.float64)
        self.length: int = pretrained.settings["length"]
        self.batch_size = batch_size
        self._traced: dict[tuple[str, int], Callable[..., Any]] = {}

    def score(
        self,
        texts: Sequence[tuple[Sequence[int], int]],
        progress: Callable[[range], Iterable[int]] = iter,
    ) -> list[Score]:
        """Score texts.

        Args:
            texts: The ids of each text, and the number of ids at its start that are context.
            progress: Iterates over the batches, such as `tqdm.tqdm`.

        Returns:
            The scores, in the same order. A text without a scored token has the score 0 and is
            greedy.
        """
        totals, greedy = np.zeros(len(texts)), np.ones(len(texts), bool)
        parts = []
        for row, (ids, start) in enumerate(texts):
            if start == 0 and len(ids):
                totals[row] = self._bias[ids[0]] - np.logaddexp.reduce(self._bias)
                greedy[row] = self._bias.argmax() == ids[0]
            parts += [(row, each) for each in windows(len(ids), start, self.length)]
        parts = [(row, each) for row, each in parts if each.end - each.begin > 1]
        parts.sort(key=lambda part: part[1].begin - part[1].end)  # similar lengths share a batch
        for i in progress(range(0, len(parts), self.batch_size)):
            batch = parts[i : i + self.batch_size]
            read = [texts[row][0][each.begin : each.end] for row, each in batch]
            inputs = self._padded([ids[:-1] for ids in read])
            targets = self._padded([ids[1:] for ids in read])
            losses, hits = self._run("losses", inputs, targets)
            for j, (row, (begin, first, end)) in enumerate(batch):
                scored = slice(max(first - begin, 1) - 1, end - begin - 1)
                totals[row] -= losses[j, scored].sum(dtype=np.float64)
                greedy[row] &= hits[j, scored].all()
        return [Score(float(total), bool(all_hit))
                for total, all_hit in zip(totals, greedy, strict=True)]  # fmt: skip

    def next_logits(self, texts: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the logits of the token after each text, `(texts, vocabulary_size)`.

        The model reads at most the last `length - 1` ids, as in training.
        """
        read = [ids[-(self.length - 1) :] for ids in texts]
        last = np.array([[max(0, len(ids) - 1)] for ids in read], np.int32)
        (logits,) = self._run("logits", self._padded(read), last)
        empty = np.array([not len(ids) for ids in read])
        return np.where(empty[:, None], self._bias, logits[:, 0])

    def _padded(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        """Return rows as one array of a bucket's width, padded with 0 at the end."""
        width = min(bucket(max(map(len, rows))), self.length - 1)
        padded = np.zeros((len(rows), width), np.int32)
        for row, ids in zip(padded, rows, strict=True):
            row[: len(ids)] = ids
        return padded

    def _run(self, name: str, inputs: np.ndarray, other: np.ndarray) -> list[np.ndarray]:
        """Run a compiled function; it is compiled once per width."""
        with interrupts_delayed():
            key = name, inputs.shape[1]
            if key not in self._traced:
                self._traced[key] = self._trace(getattr(self, f"_{name}"), inputs, other)
            return [np.asarray(each) for each in self._traced[key](inputs, other)]

    def _trace(self, function: Callable[..., Any], *arrays: np.ndarray) -> Callable[..., Any]:
        import tensorflow as tf

        from relation_tf.training.trainer import trace

        specs = [tf.TensorSpec((None, array.shape[1]), tf.int32) for array in arrays]
        compiled: Callable[..., Any] = trace(function, *specs)
        return lambda *values: compiled(*map(tf.constant, values))

    def _losses(self, ids: Any, targets: Any) -> tuple[Any, Any]:
        from keras import ops

        from relation_tf.networks.language_model import word_losses

        logits = self.model(ids, training=False)
        return word_losses(logits, targets), ops.equal(ops.argmax(logits, axis=-1), targets)

    def _logits(self, ids: Any, at: Any) -> tuple[Any]:
        return (self.model(ids, at, training=False),)
