"""Checks of custom layers before the runs of a suite; built-in layers are not checked.

The faults of a layer are cached by the digest of its source. A worker process checks the layers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from relation_tf import __version__
from relation_tf.bench import workers
from relation_tf.bench.options import RunOptions
from relation_tf.bench.provenance import version_of
from relation_tf.bench.run_folder import RunFolder
from relation_tf.config.plugins import load_plugins, plugins_digest
from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError
from relation_tf.files import read_json, write_json
from relation_tf.networks.check.report import TOKEN_READ, Fault
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.quiet import stderr_to
from relation_tf.tasks.cache import cache_folder
from relation_tf.tasks.catalogue import find_task
from relation_tf.training.session import start_tensorflow

_UNTRAINABLE = ("construction", "output shape", "training", "training in mixed precision")
_ENDED = "process"  # the check that a layer fails if it ends the process
_IDENTITY = (
    "mechanism", "options", "units", "embedding_dim", "size", "sized_by", "precision",
    "mechanism_digest", "plugins_digest",
)  # fmt: skip


def check_layers(
    configs: Sequence[RunConfig],
    folder: RunFolder,
    options: RunOptions,
    names: Mapping[str, str] | None = None,
) -> list[str]:
    """Check the custom layers of runs, and record the failing ones in the folder.

    Args:
        configs: The pending runs.
        folder: The folder of the suite.
        options: Options of the run.
        names: Names of methods in messages, if they differ from those of the runs.

    Returns:
        A note for each method with a failing layer.

    Raises:
        SuiteError: If a layer fails and the options do not allow it, or an option of a layer is
            unknown.
    """
    found = find_faults(configs, options)
    failing = {name: faults for name, faults in found.items() if faults}
    shown = {(names or {}).get(name, name): faults for name, faults in failing.items()}
    if shown and not options.allow_failing_checks:
        name, faults = next(iter(shown.items()))
        raise SuiteError(f"method {name}: {refusal(faults)}")
    if found:
        words = {
            name: " ".join(f"{fault.check}: {fault.message}" for fault in faults)
            for name, faults in failing.items()
        }
        folder.record_failing_layers(found, words)
    return [
        f"method {name}: {sentence(faults)} It is trained and marked in reports."
        for name, faults in shown.items()
    ]


def find_faults(configs: Sequence[RunConfig], options: RunOptions) -> dict[str, Sequence[Fault]]:
    """Return the failed checks of each method with a custom layer.

    Args:
        configs: The pending runs.
        options: Options of the run.

    Raises:
        SuiteError: If an option of a layer is unknown.
    """
    methods = {config.method: config for config in configs if _is_checked(config)}
    # Widths of one layer are checked once.
    layers = {_layer(config): config for config in reversed(methods.values())}
    files = {layer: _cache_file(each, options.deterministic) for layer, each in layers.items()}
    faults = {layer: known for layer, file in files.items() if (known := _cached(file)) is not None}
    new = [layer for layer in layers if layer not in faults]
    if new:
        checked = _check([layers[layer] for layer in new], options)
        for layer, found in zip(new, checked, strict=True):
            faults[layer] = found
            # The end of a process can have another reason, such as too little memory.
            if (file := files[layer]) and all(fault.check != _ENDED for fault in found):
                with contextlib.suppress(OSError):  # such as a full disk
                    write_json(file, {"faults": found})
    read = {config.method for config in configs if not find_task(config.entry).generated}
    return {
        name: [each for each in faults[_layer(config)] if name in read or each.check != TOKEN_READ]
        for name, config in methods.items()
    }


def _is_checked(config: RunConfig) -> bool:
    return not config.has_built_in_layer and find_mechanism(config.mechanism).input_type == "tokens"


def _layer(config: RunConfig) -> str:
    options = config.model_dump(mode="json", include={"options"})["options"]  # dates as text
    return json.dumps([config.mechanism, options, config.precision], sort_keys=True)


def sentence(found: Sequence[Fault]) -> str:
    """Return a sentence that names the first failed check."""
    layer, name, message = found[0]
    return f"{layer} fails the layer check {name!r}: {message}"


def is_untrainable(found: Sequence[Fault]) -> bool:
    """Return True if a network with the layer cannot be trained at all."""
    return any(fault.check in _UNTRAINABLE for fault in found)


def refusal(found: Sequence[Fault]) -> str:
    """Return the failed check of a layer that is not trained, and what to do."""
    advice = "Fix the layer, or add --allow-failing-checks (allow_failing_checks=True) to train it"
    if is_untrainable(found):
        advice = "Fix the layer: a network with it cannot be trained"
    return f"{sentence(found)} {advice}"


def _cache_file(config: RunConfig, deterministic: bool) -> Path | None:
    """Return the file of the cached faults; None if the source of the layer is unknown."""
    if config.mechanism_digest is None and config.plugins_digest is None:
        return None
    identity: dict[str, Any] = config.model_dump(mode="json", include={*_IDENTITY})
    # Unlike the digest of a layer, also covers modules that its module imports.
    identity["sources"] = plugins_digest([each.partition(":")[0] for each in config.custom_layers])
    identity["deterministic"] = deterministic
    identity["versions"] = [__version__, *map(version_of, ("keras", "tensorflow"))]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return cache_folder() / f"layer-faults-{digest[:24]}.json"


def _cached(file: Path | None) -> list[Fault] | None:
    try:
        return None if file is None else [Fault(*each) for each in read_json(file)["faults"]]
    except (OSError, SuiteError, KeyError, TypeError):  # no cache, or a broken one
        return None


def _check(configs: Sequence[RunConfig], options: RunOptions) -> list[list[Fault]]:
    try:
        found: list[list[Fault]] = workers.call(_faults, configs, options, runs=configs)
        return found
    except workers.WorkerEndedError as error:
        message = f"{error}, while it checked the layer."
        return [[Fault(config.mixer, _ENDED, message)] for config in configs]


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


def refused_methods(
    pending: Sequence[RunConfig], options: RunOptions, names: Mapping[str, str]
) -> Iterator[str]:
    """Yield the methods that `run_suite` refuses because their layer fails its checks.

    Raises:
        SuiteError: If a layer cannot be trained, so its time cannot be measured.
    """
    for variant, found in find_faults(pending, options).items():
        name = names.get(variant, variant)
        if found and is_untrainable(found):
            raise SuiteError(f"method {name}: {refusal(found)}")
        if found:
            yield f"`run` refuses method {name}: {refusal(found)}"
