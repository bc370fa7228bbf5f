"""Checks of constructor arguments and shapes. Imports no Keras."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np


def positive_integer(name: str, value: Any) -> int:
    """Return `value`, or raise if it is not a positive integer."""
    return int(_allowed(_is_integer(value) and value > 0, name, value, "a positive integer"))


def positive_integer_or_none(name: str, value: Any) -> int | None:
    """Return `value`, or raise if it is neither None nor a positive integer."""
    return None if value is None else positive_integer(name, value)


def non_negative_integer(name: str, value: Any) -> int:
    """Return `value`, or raise if it is not zero or a positive integer."""
    return int(_allowed(_is_integer(value) and value >= 0, name, value, "a non-negative integer"))


def seed_or_none(name: str, value: Any) -> int | None:
    """Return `value`, or raise if it is neither None nor an integer that all backends accept."""
    if value is None:
        return None
    # `value in range(...)` searches linearly for integers of NumPy.
    is_seed = _is_integer(value) and 0 <= value < 2**31
    return int(_allowed(is_seed, name, value, "an integer from 0 to 2**31 - 1, or None"))


def number_of_heads(num_heads: Any, units: int) -> int:
    """Return `num_heads`, or raise if it is not a positive divisor of `units`."""
    num_heads = positive_integer("num_heads", num_heads)
    if units % num_heads:
        raise ValueError(
            f"`num_heads` must divide `units`. Received: units={units}, num_heads={num_heads}"
        )
    return num_heads


def true_or_false(name: str, value: Any) -> bool:
    """Return `value`, or raise if it is not a boolean."""
    return bool(_allowed(isinstance(value, (bool, np.bool_)), name, value, "True or False"))


def positive_number(name: str, value: Any) -> float:
    """Return `value`, or raise if it is not a positive number."""
    return _allowed(_is_number(value) and value > 0, name, value, "a positive number")


def non_negative_number(name: str, value: Any) -> float:
    """Return `value`, or raise if it is neither zero nor a positive number."""
    return _allowed(_is_number(value) and value >= 0, name, value, "a non-negative number")


def rate(name: str, value: Any) -> float:
    """Return `value`, or raise if it is not a number in [0, 1)."""
    return _allowed(_is_number(value) and 0 <= value < 1, name, value, "a number in [0, 1)")


def one_of(name: str, value: str, allowed: Iterable[str]) -> str:
    """Return `value`, or raise if it is not one of the allowed names."""
    allowed = [*allowed]
    return _allowed(value in allowed, name, value, f"one of {', '.join(map(repr, allowed))}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _allowed(is_allowed: bool, name: str, value: Any, allowed: str) -> Any:
    """Return `value`, or raise an error that says what is allowed."""
    if not is_allowed:
        raise ValueError(f"`{name}` must be {allowed}. Received: {name}={value!r:.80}")
    return value


def width_of(name: str, shape: tuple[int | None, ...]) -> int:
    """Return the width of `(batch, tokens, width)`, or raise for any other shape."""
    if len(shape) != 3 or shape[-1] is None:
        raise ValueError(
            f"`{name}` must have shape (batch, tokens, width) with a known width. "
            f"Received: {name}.shape={tuple(shape)}"
        )
    return shape[-1]


def check_width(name: str, shape: Any, width: int) -> None:
    """Raise a ValueError for shapes other than `(batch, tokens, width)`; None is any width."""
    if len(shape) == 3 and shape[-1] is None:
        return
    if width_of(name, shape) != width:
        raise ValueError(
            f"`{name}` must have the width {width} with which the layer was built. "
            f"Received: {name}.shape={tuple(shape)}"
        )


def check_equal_widths(query_width: int, value_width: int, reason: str) -> None:
    """Raise a ValueError if the widths of query and value differ."""
    if query_width != value_width:
        raise ValueError(
            f"{reason}: query and value must have the same width. "
            f"Received: query width {query_width}, value width {value_width}"
        )


def differ(size: Any, other: Any) -> bool:
    """Return True if two sizes are known and differ. Sizes of exported graphs have no hash."""
    return size is not None and other is not None and bool(size != other)
