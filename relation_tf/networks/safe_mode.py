"""Keras's safe mode, for layers whose configuration names code outside the file."""

from __future__ import annotations


def refuse_in_safe_mode(what: str) -> None:
    """Refuse to go on while Keras loads a file in safe mode, which is its default.

    Args:
        what: What the file asks for.

    Raises:
        ValueError: In safe mode.
    """
    # Keras has no public way to ask; without this one, loading fails here and not silently.
    from keras.src.saving.serialization_lib import in_safe_mode

    if in_safe_mode():
        raise ValueError(
            f"the file asks for {what}, which can run any code: if you trust it, "
            "pass safe_mode=False to keras.saving.load_model"
        )
