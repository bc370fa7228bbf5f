"""Exceptions of layers in words, and how to fix them."""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path

_LONGEST = 300  # Maximum number of characters of an exception.
_PACKAGE = Path(__file__).parents[2]

# Parts of a message of Python, Keras, TensorFlow or JAX, or of the line that raised it.
_FIXES = {
    "assert_is_compatible_with": (
        "concatenate the inputs of keras.ops.scan and split them in the step: on TensorFlow, scan "
        "fails with two or more inputs of unknown length."
    ),
    r"`bool`.*associative_scan": "use cumsum or scan of keras.ops instead of associative_scan.",
    r"(Type|Tensor)' object cannot be int": "use scan or cumsum, not a Python loop.",
    r"numpy array|NumPy call|TracerArray": "use keras.ops instead of NumPy.",
    r"`bool`|TracerBool": "use ops.where instead of Python's `if` on values of tensors.",
    r"out of scope|UnexpectedTracer": "keep tensors in untrained weights, not in attributes.",
    r"item assignment": "use ops.where or ops.concatenate: tensors cannot be changed in place.",
    r"XlaDynamicUpdateSlice": "use keras.ops.scan: slice_update has no gradient on TensorFlow.",
    r"fully-defined": "the shapes of weights must not contain the number of rows or tokens.",
    r"new elements of state|was never built": "create and build weights and layers in build.",
    r"bool tensor|dtype bool|of bool is not": "cast the boolean mask: ops.cast(mask, x.dtype).",
}


def described(error: BaseException) -> str:
    """Return an exception as one sentence with its place, without Keras's traceback text."""
    wrapped = re.search(r"\x1b\[1m(.*?)\x1b\[0m", str(error), re.DOTALL)
    text = wrapped[1] if wrapped else str(error)
    text = re.split(r"(?:Error|Exception) encountered: ?", text)[-1]
    text = re.sub(r"\{\{function_node .*?\}\} ?| ?\[Op:\w+\].*", "", text)  # of TensorFlow
    text = re.sub(r" You can attempt the following .*", "", text, flags=re.DOTALL)  # of AutoGraph
    text = " ".join(text.split())
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    frame = _own_frame(error)
    place = f" at {Path(frame.filename).name}:{frame.lineno}, in {frame.name}" if frame else ""
    return f"{type(error).__name__}{place}: {short.rstrip('.')}."


def fix_of(error: BaseException, otherwise: str) -> str:
    """Return how to fix the likely cause of an exception, or else the general advice."""
    frame = _own_frame(error)
    text = f"{described(error)} {frame.line if frame else ''}"
    return next((fix for cause, fix in _FIXES.items() if re.search(cause, text)), otherwise)


def _own_frame(error: BaseException) -> traceback.FrameSummary | None:
    """Return the last frame outside of this and installed packages; notebook cells count."""
    installed = ("<frozen", *sysconfig.get_paths().values())
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = frame.filename
        if not Path(file).is_relative_to(_PACKAGE) and not file.startswith(installed):
            return frame
    return None
