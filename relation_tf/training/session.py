"""Set up TensorFlow in a process: threads, devices, output, memory.

Keras and TensorFlow are imported when a session starts.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from relation_tf.errors import SuiteError, require_package
from relation_tf.system import peak_memory
from relation_tf.terminal import check_backend_name, stderr_to

LOG = "tensorflow.log"

_device_peaks: list[int] = []  # peaks of the first GPU during the run, before resets
_base: list[int] = []  # resident memory in bytes after the first start, if it is known


def check_tensorflow() -> None:
    """Check that TensorFlow can start; layers, statistics and reports work without it.

    Raises:
        MissingPackageError: If it is not installed.
        SuiteError: If Keras uses another backend.
    """
    check_backend()
    require_package("training or loading a model", "tensorflow", "tensorflow")


def check_backend() -> None:
    """Check that the backend of Keras is TensorFlow; before Keras is imported, check its variable.

    Raises:
        SuiteError: For another backend.
    """
    check_backend_name()
    keras = sys.modules.get("keras")
    backend = keras.backend.backend() if keras else os.environ.get("KERAS_BACKEND") or "tensorflow"
    if backend != "tensorflow":
        raise SuiteError(
            f"runs need KERAS_BACKEND=tensorflow. Received: {backend}. Layers and networks work "
            "on JAX and PyTorch, too"
        )


def start_tensorflow(log: Path, threads: int, deterministic: bool = False) -> None:
    """Start TensorFlow with fixed threads: results do not depend on the number of cores.

    Args:
        log: File for the output of TensorFlow.
        threads: Threads per operation.
        deterministic: If True, use deterministic operations until the process ends.

    Raises:
        SuiteError: If TensorFlow is not installed or is not the backend of Keras.
    """
    check_tensorflow()
    first = "relation_tf.training.task_trainer" not in sys.modules
    with stderr_to(log):
        _set_threads(threads)
    if first:
        import relation_tf.training.task_trainer  # noqa: F401

        check_backend()  # now also that of keras.json
        # Exclude half a million permanent objects from garbage collection, which would take 0.3 s
        # per deleted network.
        gc.collect()
        gc.freeze()
    if not _base:
        with contextlib.suppress(OSError, ValueError):
            _base.append(_memory("VmRSS"))
    if deterministic:
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()


def _set_threads(threads: int) -> None:
    import tensorflow as tf

    # In a notebook, TensorFlow may already run with other threads; the manifest contains their
    # number.
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.list_logical_devices()


def uses_gpu() -> bool:
    """Return True if TensorFlow has a GPU."""
    import tensorflow as tf

    return bool(tf.config.list_logical_devices("GPU"))


def forget_peaks() -> Literal["run", "process"]:
    """Reset the peaks of memory; return `"process"` if the system cannot reset them."""
    import tensorflow as tf

    _device_peaks.clear()
    if uses_gpu():
        tf.config.experimental.reset_memory_stats("GPU:0")
    try:
        _CLEAR_REFS.write_text("5", "utf-8")
        _memory("VmHWM")
    except (OSError, ValueError):
        return "process"
    return "run"


def peaks() -> dict[str, int | None]:
    """Return the peak memory since `forget_peaks`, resident and of the first GPU, in MiB.

    `base_memory_mib` is the resident memory after TensorFlow's start, before the first run. Values
    that the system does not provide are None.
    """
    import tensorflow as tf

    try:
        resident: int | None = _memory("VmHWM")
    except (OSError, ValueError):
        resident = peak_memory()
    device = None
    if uses_gpu():
        peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
        device = max([peak, *_device_peaks]) // 2**20
    return {
        "peak_memory_mib": None if resident is None else resident // 2**20,
        "base_memory_mib": _base[0] // 2**20 if _base else None,
        "peak_device_memory_mib": device,
    }


def memory_of(compute: Callable[[], object]) -> int | None:
    """Return the additional peak memory of a computation of TensorFlow in bytes.

    TensorFlow's allocator counts it. Resident memory would be too small: TensorFlow keeps the
    memory of earlier computations and uses it again.

    Args:
        compute: The computation. Run it once before: memory that it keeps is then not counted.

    Returns:
        Bytes on the first GPU or, without a GPU, the CPU; None if its allocator does not count,
        or has only small arrays, which it leaves out on a CPU (those below about 256 KiB).
    """
    import tensorflow as tf

    device = "GPU:0" if uses_gpu() else "CPU:0"
    memory = tf.config.experimental.get_memory_info
    try:
        earlier = memory(device)
        tf.config.experimental.reset_memory_stats(device)
    except ValueError:
        return None
    if uses_gpu():
        _device_peaks.append(earlier["peak"])
    compute()
    used = memory(device)["peak"] - earlier["current"]
    return used if used > 0 else None


def _memory(name: Literal["VmHWM", "VmRSS"]) -> int:
    """Return the peak or the present resident memory of this process in bytes.

    Raises:
        OSError, ValueError: If the system does not provide it.
    """
    _, _, rest = _STATUS.read_text("utf-8").partition(f"{name}:")
    return int(rest.partition("kB")[0]) * 1024


# Linux only: writing 5 to the first file resets the peak in the second.
_CLEAR_REFS, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def op_determinism() -> bool:
    """Return True if TensorFlow's operations are deterministic in this process."""
    # TensorFlow has no public function for this.
    from tensorflow.python.framework.config import is_op_determinism_enabled

    return is_op_determinism_enabled()
