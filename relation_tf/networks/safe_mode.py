"""Keras's safe mode, for layers with configurations that name code outside the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def refuse_in_safe_mode(what: str) -> None:
    """Raise an error if Keras loads a file in safe mode (the default).

    Args:
        what: Code or model required by the file.

    Raises:
        ValueError: If Keras is in safe mode.
    """
    # Keras has no public API for this. If the import fails, loading fails too, which is safe.
    from keras.src.saving.serialization_lib import in_safe_mode

    if in_safe_mode():
        raise ValueError(
            f"the file requires {what}, which can run any code. If you trust it, "
            "pass safe_mode=False (on the command line, --unsafe)."
        )


def refuse_imports(config: Mapping[str, Any]) -> None:
    """Raise an error in safe mode if a mechanism in a configuration is `"package.module:Name"`.

    Args:
        config: Arguments of a layer, with the options of its mechanism and of those inside it.

    Raises:
        ValueError: If Keras is in safe mode and such a mechanism is found.
    """
    for name in _mechanism_names(config):
        if ":" in name:
            refuse_in_safe_mode(f"mechanism={name!r}")


def _mechanism_names(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Return the names of mechanisms in arguments and in the options inside them."""
    for key, value in arguments.items():
        if isinstance(value, Mapping):
            yield from _mechanism_names(value)
        elif key.endswith("mechanism") and isinstance(value, str):
            yield value
