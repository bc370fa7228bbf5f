"""Check of a custom token-mixing layer before training."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from relation_tf.errors import UnknownNameError
from relation_tf.interrupts import check_interrupts, interrupts_delayed
from relation_tf.layers.arguments import one_of, positive_integer
from relation_tf.networks.layer_check.checks import CHECKS_IN_BLOCKS, LAYER_CHECKS
from relation_tf.networks.layer_check.definition import PRECISIONS, Check
from relation_tf.networks.layer_check.encoder_decoder import SEQUENCE_CHECKS, WholeNetwork
from relation_tf.networks.layer_check.report import LayerCheck, LayerReport
from relation_tf.networks.layer_check.subject import Subject, described
from relation_tf.networks.layer_check.training import TRAINING_CHECKS
from relation_tf.networks.mechanisms import innermost, load
from relation_tf.networks.mixing import entry_of, refuse_options
from relation_tf.networks.precision import dtype_policy
from relation_tf.quiet import errors_only
from relation_tf.registry import Mechanism

CHECKS: Sequence[Check] = (*LAYER_CHECKS, *TRAINING_CHECKS)


@interrupts_delayed()
def check_layer(
    layer_or_name: Any,
    units: int = 8,
    width: int = 6,
    options: Mapping[str, Any] | None = None,
    *,
    precision: str = "float32",
    required_only: bool = False,
) -> LayerReport:
    """Check that a token-mixing layer works in networks and suites.

    A registered encoder-decoder gets checks of its own: padding, later tokens, steps, training. A
    layer must map `(batch, tokens, width)` to `(batch, tokens, units)` or `(batch, units)`.
    Its constructor gets `units`; its call gets a `mask` if it takes one (`query_mask` and
    `value_mask` if it takes `value`). The checks call the layer on small random inputs and compare
    outputs. Weights that start as constants, such as biases, get other values, as after training;
    only the training steps start from the initial weights. Exceptions of the layer are reported,
    not raised. If an encoder around a layer fails, the fault of the layer is reported, if it has
    one. The random seeds of Python, NumPy and Keras are set.

    Args:
        layer_or_name: `"package.module:Name"`, a registered name, a Keras layer class, or an
            instance (a template, cloned by `from_config`).
        units: Width of the output, at least 1; ignored for an instance.
        width: Width of the input, at least 1.
        options: Further arguments of the layer.
        precision: `"float32"` or `"bfloat16"`, the key `precision` of the suite that uses the
            layer: a fault with the other precision is a warning.
        required_only: If True, run only the checks that must pass before a suite.

    Returns:
        A report with `.checks` and `.passed`; `str()` gives a table.

    Raises:
        ValueError: If the name cannot be imported or is not a layer, a size is not a positive
            integer, an option is unknown or has a value that the layer refuses, or options are
            given for an instance.

    Example:
        >>> from relation_tf.networks import check_layer
        >>> report = check_layer("relation")
        >>> report.passed
        True
        >>> report.checks[0].name
        'construction'
    """
    subject, checks = _subject(layer_or_name, units, width, dict(options or {}))
    one_of("precision", precision, PRECISIONS)
    outcomes: dict[str, LayerCheck] = {}
    # Warnings of Keras and TensorFlow refer to the networks created here, not to the layer.
    ignored = warnings.catch_warnings(action="ignore")
    with ignored, errors_only("tensorflow"), dtype_policy("float32"):
        _refuse_wrong_options(subject)
        for check in checks:
            check_interrupts()
            if precision in check.needed or not required_only:
                outcomes[check.name] = check.outcome(subject, outcomes, precision)
        shape = outcomes.get("output shape")
        if isinstance(subject, Subject) and shape is not None and shape.status == "failed":
            outcomes |= _faults_inside(subject, precision)
    return LayerReport(str(subject), tuple(outcomes.values()))


def _faults_inside(subject: Subject, precision: str) -> dict[str, LayerCheck]:
    """Check the layer inside a stack; return nothing if it has no fault or there is none."""
    if not isinstance(subject.mechanism, str):
        return {}
    name, options = innermost(subject.mechanism, subject.options)
    if name == subject.mechanism:
        return {}
    layer = Subject(name, _entry(name), subject.units, subject.units, dict(options), varied=True)
    _refuse_wrong_options(layer)
    outcomes: dict[str, LayerCheck] = {}
    for check in CHECKS_IN_BLOCKS:
        outcomes[check.name] = check.outcome(layer, outcomes, precision)
    return {} if all(each.status == "ok" for each in outcomes.values()) else outcomes


def _subject(
    layer_or_name: Any, units: int, width: int, options: dict[str, Any]
) -> tuple[Subject | WholeNetwork, Sequence[Check]]:
    """Return what is checked, and its checks."""
    entry = _entry(layer_or_name)
    positive_integer("units", units)
    positive_integer("width", width)
    refuse_options(layer_or_name, options)
    if entry.output_type == "sequence":
        return WholeNetwork(str(layer_or_name), entry, units, options, varied=True), SEQUENCE_CHECKS
    return Subject(layer_or_name, entry, units, width, options, varied=True), CHECKS


def _refuse_wrong_options(subject: Subject | WholeNetwork) -> None:
    """Raise an error if the layer refuses only the options: this is no fault of the layer."""
    try:
        subject.layer()
    except UnknownNameError:
        raise
    except ValueError:
        if _is_made(replace(subject, options={})):
            raise
    # The check of the construction reports other exceptions.
    except Exception:
        return


def _is_made(subject: Subject | WholeNetwork) -> bool:
    """Return True if the layer can be created."""
    try:
        subject.layer()
    except Exception:
        return False
    return True


def _entry(layer_or_name: Any) -> Mechanism:
    """Return the registry entry of the layer and import its class."""
    entry = entry_of(layer_or_name)
    if entry.input_type == "text":
        raise ValueError(f"the layer must read tokens, not text. Received: {layer_or_name}")
    if not isinstance(entry.factory, str):
        return entry
    try:
        factory = load(entry.factory)
    except ValueError:
        raise
    # Importing a user's module may raise any exception.
    except Exception as error:
        raise ValueError(
            f"cannot import mechanism {layer_or_name!r}: {described(error)}"
        ) from error
    if not callable(factory):
        raise ValueError(f"{layer_or_name!r} must be a Keras layer class. Received: {factory!r}")
    return entry
