"""Copies of one network, on a device each, that train together: each has its share of a batch."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import tensorflow as tf

from relation_tf.errors import SuiteError
from relation_tf.training.distribution import Distribution

_SUM = tf.distribute.ReduceOp.SUM
_OF_A_REPLICA = 2**32  # between the seeds of two replicas; Keras's own are smaller

Step = Callable[..., Any]


class Replicas:
    """The replicas that a strategy of TensorFlow's keeps alike; without one a single network.

    Args:
        strategy: The strategy; None for one network on one device.
    """

    def __init__(self, strategy: tf.distribute.Strategy | None = None) -> None:
        self._strategy = strategy

    @property
    def count(self) -> int:
        """How many there are, on all hosts."""
        return 1 if self._strategy is None else self._strategy.num_replicas_in_sync

    def scope(self) -> AbstractContextManager[Any]:
        """In it variables are made, of which every replica has its own."""
        return (self._strategy or tf.distribute.get_strategy()).scope()

    def sum_over_replicas(self, step: Step) -> Step:
        """A step over the rows of a batch, shared out by rows.

        Args:
            step: From `(ids, labels, share)` to tensors; `share` is that of its rows in the batch,
                and 0 where there are fewer rows than replicas: such a replica is given a row, since
                a mean of none is no number, that must count for nothing.

        Returns:
            A step from `(ids, labels)` of the whole batch to the sums of those tensors.
        """
        if self._strategy is None:
            return lambda ids, labels: step(ids, labels, 1.0)

        def of_replica(ids: tuple[Any, ...], labels: Any) -> Any:
            rows = tf.shape(labels)[0]
            own, count = self._rows(rows)
            share = tf.cast(count, tf.float32) / tf.cast(rows, tf.float32)
            return _reduced(step(tuple(column[own] for column in ids), labels[own], share))

        return self._everywhere(of_replica)

    def gather_rows(self, step: Step) -> Step:
        """A step over rows, shared out, whose outputs `(rows, width)` are put together again.

        Args:
            step: From ids to outputs.
        """
        if self._strategy is None:
            return step

        def of_replica(ids: tuple[Any, ...]) -> Any:
            rows = tf.shape(ids[0])[0]
            own, count = self._rows(rows)
            outputs = step(tuple(column[own] for column in ids))[:count]
            # Zeros change no sum, and hosts without a GPU cannot gather.
            return _reduced(tf.pad(outputs, [[own.start, rows - own.start - count], [0, 0]]))

        return self._everywhere(of_replica)

    def split_seeds(self, seeds: Sequence[Any]) -> Callable[[], None]:
        """What lets replicas draw different numbers from the same states of seed generators.

        Args:
            seeds: The states, Keras variables of two numbers each.

        Returns:
            What is to be called whenever all replicas were given the same states. The first replica
            keeps them.
        """
        strategy = self._strategy
        if strategy is None:
            return lambda: None

        def of_replica() -> None:
            for state in seeds:
                own = tf.stack([_OF_A_REPLICA * tf.cast(_number(), tf.int64), 0])
                state.assign(state.value + own)

        return tf.function(
            lambda: strategy.run(of_replica), autograph=False
        ).get_concrete_function()

    def broadcast_from_chief(self, *numbers: float) -> Sequence[float]:
        """The numbers of the chief, on every host: what is decided by them is decided alike."""
        several = isinstance(self._strategy, tf.distribute.MultiWorkerMirroredStrategy)
        return self.gather_from_hosts(numbers)[0].tolist() if several else numbers

    def gather_from_hosts(self, numbers: Sequence[float]) -> np.ndarray:
        """The numbers of every replica's host, `(replicas, numbers)`, on every host."""
        return self._exchange(tf.constant(numbers, tf.float64)).numpy()

    @functools.cached_property
    def _exchange(self) -> Step:
        def of_replica(numbers: Any) -> Any:
            place = [[_number(), self.count - 1 - _number()], [0, 0]]
            return _reduced(tf.pad(numbers[None], place))

        return tf.function(
            self._everywhere(of_replica), [tf.TensorSpec((None,), tf.float64)], autograph=False
        )

    def _everywhere(self, of_replica: Step) -> Step:
        """Let all replicas do it; what they give is the same, and this host's first has it too."""
        strategy = self._strategy
        assert strategy is not None
        return lambda *arguments: strategy.experimental_local_results(
            strategy.run(of_replica, arguments)
        )[0]

    def _rows(self, rows: Any) -> tuple[slice, Any]:
        """Return the slice of this replica's rows, and their number; one row is read for none."""
        start, stop = (number * rows // self.count for number in (_number(), _number() + 1))
        return slice(start, tf.maximum(stop, start + 1)), stop - start


def _number() -> Any:
    """Which replica this is, from 0, within what all of them do."""
    return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int32)


def _reduced(values: Any) -> Any:
    """Each tensor's sum over the replicas."""
    context = tf.distribute.get_replica_context()
    return tf.nest.map_structure(lambda value: context.all_reduce(_SUM, value), values)


@functools.cache
def make_replicas(distribution: Distribution | None) -> Replicas:
    """The replicas of this process, made once, before anything else is asked of TensorFlow.

    Raises:
        SuiteError: Where the devices are not there, or the other hosts cannot be met.
    """
    if distribution is None:
        return Replicas()
    if distribution.strategy == "mirrored":
        return Replicas(tf.distribute.MirroredStrategy(_local_devices(distribution.devices)))
    try:
        return Replicas(tf.distribute.MultiWorkerMirroredStrategy())
    except (RuntimeError, tf.errors.OpError) as error:
        reason = " ".join(str(error).split())
        raise SuiteError(f"TF_CONFIG: the hosts did not meet: {reason:.200}") from error


def local_count(distribution: Distribution | None) -> int:
    """How many replicas this host is to have."""
    if distribution is None:
        return 1
    return distribution.devices or max(1, len(tf.config.list_physical_devices("GPU")))


def _local_devices(count: int | None) -> list[str]:
    """The first GPUs of this host; where it has none, as many parts of its CPU.

    Raises:
        SuiteError: Where there are fewer, or TensorFlow has begun to use the CPU in one piece.
    """
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    if kind == "CPU" and count is not None:
        with contextlib.suppress(RuntimeError):  # begun already: as it was parted then
            parts = [tf.config.LogicalDeviceConfiguration()] * count
            tf.config.set_logical_device_configuration(
                tf.config.list_physical_devices("CPU")[0], parts
            )
    names = [device.name for device in tf.config.list_logical_devices(kind)]
    if count is not None and count > len(names):
        late = "; a CPU is parted before TensorFlow is first used" if kind == "CPU" else ""
        raise SuiteError(
            f"devices: expected at most {len(names)}, the {kind}s of this process{late}. "
            f"Received: {count}"
        )
    return names[:count]
