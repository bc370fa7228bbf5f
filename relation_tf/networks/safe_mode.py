"""Keras's safe mode, for layers with configurations that name code outside the file."""

from __future__ import annotations


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
            "pass safe_mode=False to keras.saving.load_model."
        )
