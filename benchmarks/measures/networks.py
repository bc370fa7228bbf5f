"""The benchmark network on texts as long as IMDb's reviews."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import direct
from benchmarks.lengths import LONGEST, imdb_lengths
from benchmarks.measured import Measured
from benchmarks.timing import in_turn, ratio, spread
from relation_tf.layers import Attention
from relation_tf.networks import sequence_classifier

_BATCH = 256
_UNITS = 256
_VOCABULARY = 68_688  # the words of IMDb's training reviews
_FEW = 16  # rows of the other side: for all, attention would hold 6 GB for each of its matrices


def relation(compute: str) -> Measured:
    """Relation by length against every token of rows padded to the longest."""
    return _against_original("relation", direct.Relation(_UNITS, variant="released_code"), compute)


def attention(compute: str) -> Measured:
    """The same of Attention."""
    original = Attention(_UNITS, variant="released_code", algorithm="direct")
    return _against_original("attention", original, compute)


def _against_original(mechanism: str, original: Any, compute: str) -> Measured:
    """Of the whole batches of an epoch every fourth is taken, from the shortest to the longest."""
    step = _gradients(mechanism, compute)
    lengths = imdb_lengths()
    starts = range(0, len(lengths) - _BATCH + 1, _BATCH)[1::4]
    batches = [_ids(lengths[start : start + _BATCH]) for start in starts]

    def epoch() -> None:
        for batch in batches:
            step(batch)

    slow = _gradients(original, "all")
    spaced = lengths[np.linspace(0, len(lengths) - 1, _FEW).astype(int)]
    padded = _ids(spaced)
    assert padded.shape == (_FEW, LONGEST)
    taken = in_turn({"what": epoch, "against": lambda: slow(padded)}, rounds=9, seconds=60)
    fast = [seconds / len(batches) for seconds in taken["what"]]
    full = [seconds * _BATCH / _FEW for seconds in taken["against"]]
    return Measured(
        ratio(full, fast),
        {"what": spread(fast), "against": spread(full)},
        note=f"a step of {_BATCH} rows; the other side was timed on {_FEW} rows, and its time "
        f"counted {_BATCH // _FEW} times",
    )


def _ids(lengths: np.ndarray) -> Any:
    """Ids of texts of such lengths, padded with 0 to the longest."""
    longest = int(lengths.max())
    ids = np.random.default_rng(0).integers(2, _VOCABULARY, (len(lengths), longest), np.int32)
    return tf.constant(np.where(np.arange(longest) < lengths[:, None], ids, 0))


def _gradients(mechanism: Any, compute: str) -> Callable[[Any], None]:
    """Forward and backward, compiled once for any shape."""
    model = sequence_classifier(mechanism, _VOCABULARY, 2, units=_UNITS, compute=compute)
    variables = [variable.value for variable in model.trainable_variables]

    @tf.function(input_signature=[tf.TensorSpec((None, None), tf.int32)])
    def step(ids: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(tf.math.log(model(ids, training=True)[:, 0]))
        return tape.gradient(loss, variables)

    def run(ids: Any) -> None:
        step(ids)
        tf.test.experimental.sync_devices()

    return run
