"""Likely causes of exceptions of layers, and how to fix them."""

from __future__ import annotations

import re

from relation_tf.networks.layer_check.subject import described, own_frame

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
    r"new elements of state": "create weights and layers in __init__ or build.",
    r"has no attribute": "set attributes in __init__ or build, and use keras.ops for tensors.",
    r"forgot to call `super": "call super().__init__(**kwargs) first in __init__.",
    r"bool tensor|dtype bool|of bool is not": "cast the boolean mask: ops.cast(mask, x.dtype).",
    r"missing a required argument": "give the arguments of `call` after the first a default.",
    r"was never built": "build child layers in build, such as self.dense.build(input_shape).",
    r"Cannot serialize": "return only numbers, texts, lists and dictionaries in get_config().",
    r"keyword argument '(name|dtype)'": "accept **kwargs and call super().__init__(**kwargs).",
    r"argument 'units'|__init__\(\) missing": "name the width `units`; give the rest defaults.",
}


def fix_of(error: BaseException, otherwise: str) -> str:
    """Return how to fix the likely cause of an exception, or else the general advice."""
    frame = own_frame(error)
    text = f"{described(error)} {frame.line if frame else ''}"
    return next((fix for cause, fix in _FIXES.items() if re.search(cause, text)), otherwise)
