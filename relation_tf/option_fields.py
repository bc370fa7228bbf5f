"""Options as fields of a dataclass: declared once, with the help text of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, fields
from typing import Any

from relation_tf.errors import SuiteError


def option(
    default: Any,
    text: str,
    metavar: str | None = None,
    *,
    flag: str | None = None,
    shown: str | None = None,
    choices: Sequence[str] = (),
    least: float | None = None,
) -> Any:
    """Declare an option as a field of a dataclass.

    Args:
        default: Its default.
        text: Help text of one line.
        metavar: Form of its value, such as `"DIR"` or `"N"`.
        flag: Its name on the command line, by default that of the field.
        shown: Description of a default that depends on something else.
        choices: Allowed values.
        least: Lowest allowed value.
    """
    metadata = {"help": text, "metavar": metavar, "flag": flag, "shown": shown}
    return field(default=default, metadata={**metadata, "choices": choices, "least": least})


def check_fields(options: Any) -> None:
    """Check the values of a dataclass of options; None is allowed.

    Raises:
        SuiteError: For the first value that is none of the choices, or too low.
    """
    for each in fields(options):
        value, choices, least = (
            getattr(options, each.name), each.metadata.get("choices"), each.metadata.get("least")
        )  # fmt: skip
        if value is None:
            continue
        if choices and value not in choices:
            raise SuiteError(f"{each.name}: must be {' or '.join(choices)}. Received: {value}")
        if least is not None and not value >= least:
            raise SuiteError(f"{each.name}: must be {least:g} or more. Received: {value}")
