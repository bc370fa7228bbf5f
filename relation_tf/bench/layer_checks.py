"""Checks of custom layers before the runs of a suite, in a worker; others are not checked."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from relation_tf.bench import workers
from relation_tf.bench.options import RunOptions
from relation_tf.bench.run_folder import RunFolder
from relation_tf.config.plugins import load_plugins
from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError
from relation_tf.networks.check.report import TOKEN_READ, Fault
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.quiet import stderr_to
from relation_tf.tasks.catalogue import find_task
from relation_tf.training.session import start_tensorflow


def check_layers(configs: Sequence[RunConfig], folder: RunFolder, options: RunOptions) -> list[str]:
    """Check the custom layers of runs, and record the failing ones in the folder.

    Args:
        configs: The pending runs.
        folder: The folder of the suite.
        options: Options of the run.

    Returns:
        A note for each method with a failing layer.

    Raises:
        SuiteError: If a layer fails and the options do not allow it, or an option of a layer is
            unknown.
    """
    found = find_faults(configs, options)
    failing = {name: faults for name, faults in found.items() if faults}
    if failing and not options.allow_failing_checks:
        name, faults = next(iter(failing.items()))
        raise SuiteError(f"method {name}: {refusal(faults)}")
    if found:
        words = {
            name: " ".join(f"{fault.check}: {fault.message}" for fault in faults)
            for name, faults in failing.items()
        }
        folder.record_failing_layers(found, words)
    return [
        f"method {name}: {sentence(faults)} It is trained and marked in reports."
        for name, faults in failing.items()
    ]


def find_faults(configs: Sequence[RunConfig], options: RunOptions) -> dict[str, Sequence[Fault]]:
    """Return the failed checks of each method with a custom layer.

    Args:
        configs: The pending runs.
        options: Options of the run.

    Raises:
        SuiteError: If an option of a layer is unknown.
    """
    methods = {
        config.method: config
        for config in configs
        if not config.has_built_in_layer and find_mechanism(config.mechanism).input_type == "tokens"
    }
    # Widths of one layer are checked once.
    layers = {_layer(config): config for config in reversed(methods.values())}
    checked = _check([*layers.values()], options) if layers else []
    faults = dict(zip(layers, checked, strict=True))
    read = {config.method for config in configs if not find_task(config.entry).generated}
    return {
        name: [
            fault for fault in faults[_layer(config)] if name in read or fault.check != TOKEN_READ
        ]
        for name, config in methods.items()
    }


def _layer(config: RunConfig) -> str:
    options = config.model_dump(mode="json", include={"options"})["options"]  # dates as text
    return json.dumps([config.mechanism, options, config.precision], sort_keys=True)


def sentence(found: Sequence[Fault]) -> str:
    """Return a sentence that names the first failed check."""
    layer, name, message = found[0]
    return f"{layer} fails the layer check {name!r}: {message}"


def refusal(found: Sequence[Fault]) -> str:
    """Return the failed check of a layer that is not trained, and what to do."""
    return (
        f"{sentence(found)} Fix the layer, or add --allow-failing-checks "
        "(allow_failing_checks=True) to train it"
    )


def _check(configs: Sequence[RunConfig], options: RunOptions) -> list[list[Fault]]:
    try:
        found: list[list[Fault]] = workers.call(_faults, configs, options, runs=configs)
        return found
    except workers.WorkerEndedError as error:
        message = f"{error}, while it checked the layer."
        return [[Fault(config.mixer, "process", message)] for config in configs]


def _faults(configs: Sequence[RunConfig], options: RunOptions) -> list[list[Fault]]:
    load_plugins({name for config in configs for name in config.plugins})
    log, threads = Path(os.devnull), configs[0].threads
    start_tensorflow(log, threads, options.distribution, options.deterministic)
    import keras

    from relation_tf.training.building import layer_faults

    try:
        with stderr_to(log):
            return [layer_faults(config) for config in configs]
    finally:
        keras.backend.clear_session()
