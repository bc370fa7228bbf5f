"""The benchmark network on texts with the lengths of IMDb reviews."""

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
_VOCABULARY = 68_688  # number of words in the IMDb training reviews
_FEW = 16  # rows of the other side: with all rows, each matrix of attention needs 6 GB


def relation(compute: str) -> Measured:
    """Compare Relation with batches by length and with every token of fully padded rows."""
    return _against_original("relation", direct.Relation(_UNITS, variant="released_code"), compute)


def attention(compute: str) -> Measured:
    """Compare Attention with batches by length and with every token of fully padded rows."""
    original = Attention(_UNITS, variant="released_code", algorithm="direct")
    return _against_original("attention", original, compute)


def _against_original(mechanism: str, original: Any, compute: str) -> Measured:
    """Compare on every fourth batch of an epoch, from the shortest to the longest."""
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
        f"was multiplied by {_BATCH // _FEW}",
    )


def _ids(lengths: np.ndarray) -> Any:
    """Return ids of texts with these lengths, padded with 0 to the longest."""
    longest = int(lengths.max())
    ids = np.random.default_rng(0).integers(2, _VOCABULARY, (len(lengths), longest), np.int32)
    return tf.constant(np.where(np.arange(longest) < lengths[:, None], ids, 0))


def _gradients(mechanism: Any, compute: str) -> Callable[[Any], None]:
    """Return a forward and backward step, compiled once for all shapes."""
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
