"""Contents of a manifest: versions, commit, machine, data and command."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relation_tf import __version__
from relation_tf.config.run import RunConfig
from relation_tf.training.session import Distribution

if TYPE_CHECKING:
    from relation_tf.bench.run_folder import AnyRun
    from relation_tf.training.trainer import SuiteTrainer

PACKAGES = ("tensorflow", "keras", "numpy", "scipy", "scikit-learn", "tokenizers", "pandas")
"""Other packages that results may depend on."""


def manifest(
    started: str, resumed: Sequence[int], distribution: Distribution | None
) -> dict[str, Any]:
    """Return the entries that the manifests of all finished runs have."""
    return {
        "started": started,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "resumed_after": [*resumed],
        "command": command(),
        **software(),
        **machine(distribution),
    }


def inputs_of(trainer: SuiteTrainer, config: RunConfig) -> dict[str, Any]:
    """Return the manifest entries of a suite's run: data and initial weights."""
    task, vectors = trainer.task, trainer.vectors
    glove = {"found": str(vectors), "digest": config.glove_digest}
    encoder = {"folder": config.pretrained, "digest": config.pretrained_digest}
    return {
        "xla": trainer.xla,
        "seed": config.seed,
        "data": {
            "source": task.source.kind,
            "layout": task.source.layout.name,
            "digest": task.digest,
            "digests": dict(task.digests),
            "rows": {name: len(split) for name, split in task.splits.items()},
            "vocabulary": task.vocabulary.size if task.vocabulary else None,
            "validation": task.validation,
            "notes": list(task.notes),
        },
        "glove": None if vectors is None else glove,
        "pretrained": None if config.encoder_weights == "random" else encoder,
    }


def software() -> dict[str, Any]:
    """Return versions and commit, for a manifest."""
    return {
        "python": platform.python_version(),
        "versions": {
            "relation_tf": __version__,
            **{name: version_of(name) for name in PACKAGES},
        },
        "commit": commit(),
    }


@functools.cache
def version_of(package: str) -> str:
    """Return the version of a package, or of the one that installs its module.

    The module `tensorflow` is also in tensorflow-cpu and tf-nightly.

    Example:
        >>> version_of("keras").split(".")[0]
        '3'
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return metadata.version(metadata.packages_distributions()[package][0])


def machine(distribution: Distribution | None) -> dict[str, Any]:
    """Return devices, threads and flags, for a manifest."""
    import tensorflow as tf

    from relation_tf.training.replicas import make_replicas
    from relation_tf.training.session import op_determinism

    return {
        "platform": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "devices": [device.device_type for device in tf.config.list_physical_devices()],
        "backend": "tensorflow",
        "threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
        "op_determinism": op_determinism(),
        "strategy": distribution.strategy if distribution else None,
        "replicas": make_replicas(distribution).count,
    }


def conditions_of(run: AnyRun, distribution: Distribution | None) -> dict[str, Any]:
    """Return the facts that must be unchanged when an interrupted run resumes."""
    here = machine(distribution)
    del here["platform"], here["cores"]  # a newer kernel or more cores change no result
    here["libc"] = [*platform.libc_ver()]
    return {"config": run.model_dump(mode="json"), **here, **software()}


def command() -> str:
    """Return the command line; of full paths of this machine, only the last part."""
    program = Path(sys.argv[0])
    if program.name == "ipykernel_launcher.py":
        return "a notebook"  # its arguments are paths of this machine
    is_ours = program.parts[-3:] == ("relation_tf", "cli", "__main__.py")
    name = "relation-tf" if is_ours else program.name
    return shlex.join([name, *map(_without_folder, sys.argv[1:])])


def _without_folder(argument: str) -> str:
    """Return an argument, `--option=PATH` or `PATH`, with only the last part of a full path."""
    option, equals, value = argument.rpartition("=")
    path = Path(value)
    return f"{option}{equals}{path.name}" if path.is_absolute() else argument


@functools.cache
def commit(file: Path = Path(__file__)) -> str | None:
    """Return the commit of the checkout that tracks a file of this package, if there is one.

    An installed package inside another checkout is not tracked by it.
    """
    try:
        _git(file.parent, "ls-files", "--error-unmatch", file.name)
        return _git(file.parent, "describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    answer = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True
    )
    return answer.stdout.strip()


@functools.cache
def processor() -> str:
    """Return the name of this machine's processor."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace")
        if name := re.search(r"^model name\s*:(.*)", lines, re.MULTILINE):
            return name[1].strip()
    return platform.processor()
