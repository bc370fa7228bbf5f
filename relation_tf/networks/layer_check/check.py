"""Check a custom token-mixing layer before a suite spends hours on it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from relation_tf.layers.arguments import positive_integer
from relation_tf.networks.layer_check.checks import CHECKS
from relation_tf.networks.layer_check.report import LayerCheck, LayerReport
from relation_tf.networks.layer_check.subject import Subject, dtype_policy, told
from relation_tf.networks.mechanisms import load
from relation_tf.networks.mixing import entry_of, refuse_options
from relation_tf.registry import Mechanism


def check_layer(
    layer_or_name: Any,
    units: int = 8,
    width: int = 6,
    options: Mapping[str, Any] | None = None,
) -> LayerReport:
    """Check a token-mixing layer as networks and suites use it.

    The layer takes `(batch, tokens, width)` and gives `(batch, tokens, units)` or `(batch, units)`.
    It is made with `units`, and is given a `mask` where its call takes one (`query_mask` and
    `value_mask` where it takes `value`). It is called on small random sentences, and its outputs
    are compared with one another; a layer that raises is reported, not raised. Random seeds of
    Python, NumPy and Keras are set on the way.

    Args:
        layer_or_name: `"package.module:Name"`, a name of `MECHANISMS`, a Keras layer class, or an
            instance (a template, cloned by `from_config`).
        units: Width that is asked of the layer, at least 1; an instance has its own.
        width: Width of its input, at least 1.
        options: Further arguments of the layer.

    Returns:
        A report: `.checks`, `.passed`, and a table as `str()`.

    Raises:
        ValueError: For a name that cannot be imported or is no layer, sizes that are no positive
            integers, or options for an instance.

    Example:
        >>> from relation_tf.networks import check_layer
        >>> report = check_layer("relation")
        >>> report.passed
        True
        >>> report.checks[0].name
        'made'
    """
    subject = Subject(
        layer_or_name,
        _entry(layer_or_name),
        positive_integer("units", units),
        positive_integer("width", width),
        dict(options or {}),
    )
    refuse_options(layer_or_name, options)
    outcomes: dict[str, LayerCheck] = {}
    # Keras's warnings speak of the networks that are made here, not of the layer.
    with warnings.catch_warnings(action="ignore"), dtype_policy("float32"):
        for check in CHECKS:
            outcomes[check.name] = check.outcome(subject, outcomes)
    return LayerReport(str(subject), tuple(outcomes.values()))


def _entry(layer_or_name: Any) -> Mechanism:
    """How to make the layer; what it names is imported."""
    entry = entry_of(layer_or_name)
    if entry.input_type == "text":
        raise ValueError(f"expected a layer that reads tokens, not text. Received: {layer_or_name}")
    if not isinstance(entry.factory, str):
        return entry
    try:
        factory = load(entry.factory)
    except ValueError:
        raise
    # A user's module may raise anything when it is imported.
    except Exception as error:
        raise ValueError(f"cannot import mechanism {layer_or_name!r}: {told(error)}") from error
    if not callable(factory):
        raise ValueError(
            f"expected {layer_or_name!r} to name a Keras layer class. Received: {factory!r}"
        )
    return entry
