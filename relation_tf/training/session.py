"""The set-up of TensorFlow in a process: threads, devices, output, interrupts, memory.

Keras and TensorFlow are loaded when a session starts, not with this module.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from relation_tf.errors import SuiteError
from relation_tf.quiet import stderr_to
from relation_tf.training.distribution import Distribution

if TYPE_CHECKING:
    from relation_tf.training.replicas import Replicas

LOG = "tensorflow.log"


def start_tensorflow(
    log: Path,
    threads: int,
    distribution: Distribution | None = None,
    deterministic: bool = False,
) -> Replicas:
    """Load TensorFlow with fixed threads: equal seeds give equal bits on any number of cores.

    Args:
        log: The file for what it prints.
        threads: Of one operation.
        distribution: The devices that share each run, parted or met before their first use.
        deterministic: Whether its operations are to be deterministic, for as long as the process
            lasts.

    Returns:
        What trains a network.

    Raises:
        SuiteError: Where there are no such devices.
    """
    first = "relation_tf.training.task_trainer" not in sys.modules
    with stderr_to(log):
        replicas = _replicas(threads, distribution)
    if first:
        import relation_tf.training.task_trainer  # noqa: F401

        # Half a million objects stay as long as the process does: to look through them whenever a
        # network is thrown away takes a third of a second.
        gc.collect()
        gc.freeze()
    if deterministic:
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()
    return replicas


def _replicas(threads: int, distribution: Distribution | None) -> Replicas:
    import tensorflow as tf

    from relation_tf.training.replicas import local_count, make_replicas

    # In a notebook TensorFlow may have been started before, with other threads; the manifest says
    # with how many.
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(local_count(distribution))
    replicas = make_replicas(distribution)
    tf.config.list_logical_devices()
    return replicas


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """Let Ctrl-C end the process at once, where TensorFlow waits and Python cannot hear it."""
    before = signal.getsignal(signal.SIGINT)
    mine = threading.current_thread() is threading.main_thread()
    if not mine or before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def raise_if_lost(error: Exception) -> None:
    """Say in a line that another host has gone, where it is that.

    Raises:
        SuiteError: Where it is.
    """
    import tensorflow as tf

    if isinstance(error, tf.errors.UnavailableError):
        raise SuiteError(
            "another host has ended or cannot be reached; it says why. Finished runs are kept; the "
            "same command on every host goes on from there"
        ) from error


def forget_peaks() -> Literal["run", "process"]:
    """Begin the peaks of memory anew; `"process"` where the system keeps the process's own."""
    import tensorflow as tf

    if tf.config.list_logical_devices("GPU"):
        tf.config.experimental.reset_memory_stats("GPU:0")
    try:
        _CLEAR_REFS.write_text("5")
        _high_water_mark()
    except (OSError, ValueError):
        return "process"
    return "run"


def peaks() -> dict[str, int | None]:
    """The most memory since `_forget_peaks`, resident and of the first GPU, in MiB."""
    import tensorflow as tf

    try:
        resident = _high_water_mark()
    except (OSError, ValueError):
        unit = 1 if sys.platform == "darwin" else 1024
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    device = None
    if tf.config.list_logical_devices("GPU"):
        device = tf.config.experimental.get_memory_info("GPU:0")["peak"] // 2**20
    return {"peak_memory_mib": resident // 2**20, "peak_device_memory_mib": device}


def _high_water_mark() -> int:
    """The peak of this process's resident memory, in bytes.

    Raises:
        OSError, ValueError: Where the system does not say.
    """
    _, _, rest = _STATUS.read_text().partition("VmHWM:")
    return int(rest.partition("kB")[0]) * 1024


# Of Linux. What is written to the first begins the peak that the second names anew.
_CLEAR_REFS, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def op_determinism() -> bool:
    """Return True if TensorFlow's operations are deterministic in this process."""
    # TensorFlow has a public function to turn it on, and none to ask for it.
    from tensorflow.python.framework.config import is_op_determinism_enabled

    return is_op_determinism_enabled()
