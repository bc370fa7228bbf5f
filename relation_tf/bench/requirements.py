"""Requirements of requested runs: packages, executor and devices. Does not import Keras."""

from __future__ import annotations

from collections.abc import Sequence

from relation_tf.bench.options import RunOptions
from relation_tf.config import RunConfig, Suite
from relation_tf.errors import OptionError, SuiteError
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.metrics import check_installed

_CLIPS = {"clipnorm", "clipvalue", "global_clipnorm"}  # arguments of Keras's optimizers


def check_requirements(suite: Suite, chosen: Sequence[RunConfig], options: RunOptions) -> None:
    """Check that the installed packages and the options allow the requested runs.

    Args:
        suite: The suite.
        chosen: The requested runs.
        options: Options of the call.

    Raises:
        MissingPackageError: If a metric needs a package that is not installed.
        OptionError, SuiteError: If an option excludes a key of the suite.
    """
    check_installed({metric for config in chosen for metric in find_task(config.entry).metrics})
    if options.executor != "local" and suite.pretrained is not None:
        raise OptionError(
            "executor",
            "must be local for a suite with a pre-trained encoder: its folder is not "
            f"sent to other machines. Received: {options.executor}, with pretrained = "
            f"{suite.pretrained!r}",
        )
    if options.strategy is None:
        return
    timed = next((run.task for run in chosen if find_task(run.entry).timed), None)
    if timed is not None:
        raise OptionError(
            "strategy",
            f"cannot be used for {timed}, which is timed on one device. "
            f"Received: {options.strategy}",
        )
    if any(_CLIPS & config.optimizer_options.keys() for config in chosen):
        raise SuiteError(
            f"key 'optimizer_options': must not clip gradients with --strategy {options.strategy}: "
            "each device would clip its own part"
        )
    for config in chosen:
        if config.sharing == "adversarial" or config.transfers:
            raise SuiteError(
                f"key 'sharing': must not be {config.sharing!r} with --strategy "
                f"{options.strategy}: its penalties are those of a whole batch, and each device "
                "has a part of it"
            )
    if any(config.xla for config in chosen):
        raise SuiteError(
            f"key 'xla': must be false with --strategy {options.strategy}: XLA compiles the step "
            "of one device. Received: true"
        )
