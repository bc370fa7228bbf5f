"""Options of a suite: time of an epoch with and without them, in the training loop of suites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.lengths import imdb_lengths
from benchmarks.measured import Measured
from benchmarks.timing import in_turn, ratio, spread
from relation_tf.config.run import RunConfig
from relation_tf.tasks.catalogue import find_source
from relation_tf.tasks.encoding import EncodedSplit, EncodedTask
from relation_tf.tasks.rows import Ragged
from relation_tf.tasks.vocabulary import Vocabulary
from relation_tf.training.task_trainer import TaskTrainer

_REVIEWS = 2560
_VOCABULARY = 68_688


def option(mechanism: str, settings: dict[str, Any], compute: str = "readout") -> Measured:
    """Compare the time of an epoch with and without some settings, 64 units."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    task = _task()
    sides = {
        "what": _epoch(task, mechanism, {"compute": compute, **settings}),
        "against": _epoch(task, mechanism, {"compute": compute}),
    }
    taken = in_turn(sides, rounds=9, seconds=60)
    return Measured(
        ratio(taken["against"], taken["what"]),
        {name: spread(seconds) for name, seconds in taken.items()},
        note=f"an epoch of {_REVIEWS} texts with IMDb lengths, {_VOCABULARY:,} words, one thread "
        "as in every suite; includes the optimizer step and the preparation of batches",
    )


def _epoch(task: EncodedTask, mechanism: str, settings: dict[str, Any]) -> Callable[[], object]:
    config = RunConfig(
        task=task.task.name, method=mechanism, mechanism=mechanism, units=64, seed=1, **settings
    )
    trainer = TaskTrainer(config, task)
    return lambda: trainer.train_epoch(config.seed, epoch=1)


def _task() -> EncodedTask:
    """Return random words with a Zipf distribution and the vocabulary size of IMDb."""
    generator = np.random.default_rng(0)
    lengths = generator.permutation(imdb_lengths(_REVIEWS))
    frequencies = 1 / np.arange(1, _VOCABULARY - 1)
    ids = generator.choice(_VOCABULARY - 2, lengths.sum(), p=frequencies / frequencies.sum()) + 2
    rows = Ragged(ids.astype(np.int32), np.concatenate([[0], lengths.cumsum()]))
    labels = generator.integers(0, 2, _REVIEWS)
    train = EncodedSplit((rows,), labels, np.arange(_REVIEWS))
    # Any task with one sentence works.
    source = find_source("SST-2", "miniglue")
    words = Vocabulary.train([" ".join(f"w{i}" for i in range(_VOCABULARY - 2))])
    return EncodedTask(source.task, words, {"train": train}, "train", "", source)
