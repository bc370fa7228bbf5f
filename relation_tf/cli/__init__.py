"""The command `relation-tf`. Commands import their dependencies late, so that `--help` is fast."""

import atexit
import contextlib
import gc
import signal
import sys

from relation_tf.system import Terminated, interrupts_delayed, interrupts_kept

__all__ = ["main"]


def main() -> None:
    """Run the command; exit with code 130 after Ctrl-C, 143 after SIGTERM."""
    try:
        with interrupts_kept():
            with interrupts_delayed():
                from relation_tf.cli import commands
            commands.run_app()
    except Terminated:
        sys.exit(_ended("Terminated.", signal.SIGTERM))
    except KeyboardInterrupt:
        sys.exit(_ended("Interrupted.", signal.SIGINT))
    finally:
        # The result is known: signals while Python ends must not change the exit code.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
        atexit.register(signal.signal, signal.SIGTERM, signal.SIG_IGN)
        # Python would search TensorFlow's half a million objects for garbage, for seconds.
        atexit.register(gc.freeze)


def _ended(line: str, number: signal.Signals) -> int:
    """Print how the command ended; return its exit code."""
    _say(line)
    return 128 + number


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # a closed terminal or pipe
        print(line, file=sys.stderr)
