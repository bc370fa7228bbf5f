"""Options of a run that are not part of a suite: data folders and processes.

`RunOptions` is the only place that declares them. The command line, `run_suite`, `plan_suite` and
the workers take names, types, defaults and help texts from it. Does not import Keras.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from relation_tf.errors import did_you_mean
from relation_tf.files import expand_home
from relation_tf.settings import Function, accepts, check_fields, option


@dataclass(frozen=True)
class RunOptions:
    """Options of a call of `run_suite` or `relation-tf run`.

    The `metadata` of a field contains its help text, metavar and allowed values.

    Raises:
        SuiteError: For a value that is not allowed.

    Example:
        >>> RunOptions(jobs=0)
        Traceback (most recent call last):
            ...
        relation_tf.errors.OptionError: jobs: must be 1 or more. Received: 0
    """

    data: Path | None = option(None, "Folder with the task files, such as glue_data.", "DIR")
    tfds_folder: Path | None = option(
        None,
        "Folder with prepared TFDS datasets.",
        "DIR",
        flag="--tfds",
        shown="TFDS's default folder, ~/tensorflow_datasets",
    )
    glove: Path | None = option(None, "Text file of word vectors for embeddings = 'glove'.", "FILE")
    jobs: int | None = option(None, "Number of parallel runs.", "N", shown="1", least=1)
    allow_failing_checks: bool = option(
        False, "Train custom layers that fail `check-layer`; reports mark them."
    )
    deterministic: bool = option(
        False, "Use deterministic operations, for identical results on a GPU. Turns XLA off."
    )
    plugins: tuple[str, ...] = option(
        (), "Module that registers custom parts. Repeatable.", "MODULE", flag="--plugin"
    )
    quiet: bool = option(False, "Print nothing.")

    def __post_init__(self) -> None:
        for name in ("data", "tfds_folder", "glove"):
            if getattr(self, name) is not None:
                self._set(name, expand_home(getattr(self, name)))
        plugins = self.plugins or ()
        self._set("plugins", (plugins,) if isinstance(plugins, str) else tuple(plugins))
        check_fields(self)

    def say(self, line: str) -> None:
        """Print a line for the user, unless the options are quiet."""
        from rich.console import Console

        Console(quiet=self.quiet, highlight=False, soft_wrap=True).print(line)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


ALL = tuple(option.name for option in fields(RunOptions))
"""Names of all options."""

OF_PLANS = ("data", "tfds_folder", "glove", "jobs", "plugins", "quiet")
"""Options that `plan_suite` accepts."""


def accepts_options(names: Collection[str] = ALL) -> Callable[[Function], Function]:
    """Add options to the signature of a function with `**options`."""
    return accepts(RunOptions, names)


def make_options(values: Mapping[str, Any], names: Collection[str] = ALL) -> RunOptions:
    """Make `RunOptions` from keyword arguments.

    Args:
        values: Values by name.
        names: Allowed names.

    Raises:
        TypeError: For an unknown name.
        SuiteError: As `RunOptions`.
    """
    for name in values:
        if name not in names:
            raise TypeError(f"unknown option {name!r}.{did_you_mean(name, names)}")
    return RunOptions(**values)
