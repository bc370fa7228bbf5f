"""Data-parallel replicas: one copy of the network per device, each with a share of the batch."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from relation_tf.errors import OptionError
from relation_tf.training.session import Distribution

_SUM = tf.distribute.ReduceOp.SUM
_OF_A_REPLICA = 2**32  # between the seeds of two replicas; Keras's own are smaller

Step = Callable[..., Any]


class Replicas:
    """Replicas of a TensorFlow strategy, with equal weights; without a strategy one network.

    Args:
        strategy: The strategy; None for one network on one device.
    """

    def __init__(self, strategy: tf.distribute.Strategy | None = None) -> None:
        self._strategy = strategy

    @property
    def count(self) -> int:
        """Number of replicas."""
        return 1 if self._strategy is None else self._strategy.num_replicas_in_sync

    def scope(self) -> AbstractContextManager[Any]:
        """Return a context in which variables get a copy per replica."""
        return (self._strategy or tf.distribute.get_strategy()).scope()

    def sum_over_replicas(self, step: Step) -> Step:
        """Distribute the rows of a batch over the replicas and sum the results.

        Args:
            step: Function of `(ids, labels, share)` that returns tensors; `share` is the share of
                its rows in the batch. If there are fewer rows than replicas, surplus replicas get
                one row with share 0, because the mean of no rows is undefined.

        Returns:
            A function of `(ids, labels)` of the whole batch that returns the sums of the tensors.
        """
        if self._strategy is None:
            return lambda ids, labels: step(ids, labels, 1.0)

        def of_replica(ids: tuple[Any, ...], labels: Any) -> Any:
            rows = tf.shape(labels)[0]
            mine, count = self._rows(rows)
            share = tf.cast(count, tf.float32) / tf.cast(rows, tf.float32)
            return _reduced(step(tuple(column[mine] for column in ids), labels[mine], share))

        return self._everywhere(of_replica)

    def gather_rows(self, step: Step) -> Step:
        """Distribute rows over the replicas and join the outputs `(rows, width)`.

        Args:
            step: Function of ids that returns outputs.
        """
        if self._strategy is None:
            return step

        def of_replica(ids: tuple[Any, ...]) -> Any:
            rows = tf.shape(ids[0])[0]
            mine, count = self._rows(rows)
            outputs = step(tuple(column[mine] for column in ids))[:count]
            # A sum of zero-padded outputs, because devices other than GPUs cannot gather.
            return _reduced(tf.pad(outputs, [[mine.start, rows - mine.start - count], [0, 0]]))

        return self._everywhere(of_replica)

    def split_seeds(self, seeds: Sequence[Any]) -> Callable[[], None]:
        """Return a function that makes the random states of replicas different.

        Args:
            seeds: States of Keras seed generators, two numbers each.

        Returns:
            Function to call after all replicas were set to the same states. The first replica keeps
            its states.
        """
        strategy = self._strategy
        if strategy is None:
            return lambda: None

        def of_replica() -> None:
            for state in seeds:
                offset = tf.stack([_OF_A_REPLICA * tf.cast(_number(), tf.int64), 0])
                state.assign(state.value + offset)

        return tf.function(
            lambda: strategy.run(of_replica), autograph=False
        ).get_concrete_function()

    def _everywhere(self, of_replica: Step) -> Step:
        """Run a function on all replicas and return the result of the first one."""
        strategy = self._strategy
        assert strategy is not None
        return lambda *arguments: strategy.experimental_local_results(
            strategy.run(of_replica, arguments)
        )[0]

    def _rows(self, rows: Any) -> tuple[slice, Any]:
        """Return the slice of this replica's rows (at least one row), and their number."""
        start, stop = (number * rows // self.count for number in (_number(), _number() + 1))
        return slice(start, tf.maximum(stop, start + 1)), stop - start


def _number() -> Any:
    """Return the index of the current replica."""
    return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int32)


def _reduced(values: Any) -> Any:
    """Sum each tensor over the replicas."""
    context = tf.distribute.get_replica_context()
    return tf.nest.map_structure(lambda value: context.all_reduce(_SUM, value), values)


@functools.cache
def make_replicas(distribution: Distribution | None) -> Replicas:
    """Make the replicas of this process once, before TensorFlow uses its devices.

    Raises:
        OptionError: If the devices are missing.
    """
    if distribution is None:
        return Replicas()
    return Replicas(tf.distribute.MirroredStrategy(_local_devices(distribution.devices)))


def local_count(distribution: Distribution | None) -> int:
    """Return the number of replicas."""
    if distribution is None:
        return 1
    return distribution.devices or max(1, len(tf.config.list_physical_devices("GPU")))


def _local_devices(count: int | None) -> list[str]:
    """Return the first GPUs; without a GPU, logical devices of the CPU.

    Raises:
        SuiteError: If there are fewer devices, or TensorFlow already uses the CPU as one device.
    """
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    if kind == "CPU" and count is not None:
        with contextlib.suppress(RuntimeError):  # TensorFlow has started: keep its devices
            parts = [tf.config.LogicalDeviceConfiguration()] * count
            tf.config.set_logical_device_configuration(
                tf.config.list_physical_devices("CPU")[0], parts
            )
    names = [device.name for device in tf.config.list_logical_devices(kind)]
    if count is not None and count > len(names):
        late = "; a CPU is divided before TensorFlow is first used" if kind == "CPU" else ""
        raise OptionError(
            "devices",
            f"must be at most {len(names)}, the {kind}s of this process{late}. Received: {count}",
        )
    return names[:count]
