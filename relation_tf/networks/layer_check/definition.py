"""Definition of a check, and comparisons of outputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relation_tf.networks.layer_check.causes import fix_of
from relation_tf.networks.layer_check.report import LayerCheck, Status, fix_first
from relation_tf.networks.layer_check.subject import (
    KEPT,
    FaultError,
    NotApplicableError,
    described,
)

# Relative to the largest entry: in TensorFloat-32, matrix products depend on the shape.
TOLERANCE = 1e-3
PRECISIONS = ("float32", "bfloat16")
# Before checks that compare outputs: random outputs would look like another fault.
COMPARED = ("construction", "output shape", "inference")


@dataclass(frozen=True)
class Check:
    """Check of a layer.

    Attributes:
        name: Name of the check.
        run: Function that runs the check.
        fix: Advice if the layer raises an exception.
        needed: Precisions with which a fault is a failure; with others it is a warning.
        after: Checks that must be ok before this check runs.
    """

    name: str
    run: Callable[[Any], str]
    fix: str
    needed: Collection[str] = PRECISIONS
    after: Sequence[str] = ("construction", "output shape")

    def outcome(
        self, subject: Any, earlier: Mapping[str, LayerCheck], precision: str
    ) -> LayerCheck:
        """Run the check, unless a check that it requires is not ok."""
        for name in self.after:
            before = earlier[name]
            if before.status == "not applicable":
                return LayerCheck(self.name, "not applicable", before.message)
            if before.status != "ok":
                return LayerCheck(self.name, "not applicable", fix_first(name))
        bad: Status = "failed" if precision in self.needed else "warning"
        try:
            return LayerCheck(self.name, "ok", self.run(subject))
        except NotApplicableError as reason:
            return LayerCheck(self.name, "not applicable", str(reason))
        except FaultError as fault:
            return LayerCheck(self.name, bad, f"{fault}{self._hint(subject)}")
        # The layer may raise any exception.
        except Exception as error:
            found = f"The layer raises {described(error)}"
            return LayerCheck(self.name, bad, f"{found} To fix: {fix_of(error, self.fix)}")

    def _hint(self, subject: Any) -> str:
        """Return a sentence if the layer has no fault with its initial weights."""
        try:
            self.run(replace(subject, varied=False))
        except Exception:
            return ""
        return " It appears only when training changes weights that start constant, such as biases."


def check(name: str, fix: str, **declaration: Any) -> Callable[[Callable[[Any], str]], Check]:
    """Return a decorator that makes a check of a function."""
    return lambda run: Check(name, run, fix, **declaration)


def expect_same(
    actual: np.ndarray,
    expected: np.ndarray,
    fault: str,
    fix: str,
    tolerance: float = TOLERANCE,
) -> None:
    """Raise a fault if two outputs differ by more than the tolerance."""
    changed = difference_of(actual, expected)
    if changed > tolerance:
        raise FaultError(f"{fault}: {apart(changed)}.", fix)


def expect_finite(x: np.ndarray, what: str, fix: str) -> None:
    """Raise a fault if an entry is NaN or infinite."""
    if not np.isfinite(x).all():
        count = f"{np.count_nonzero(~np.isfinite(x))} of {x.size} values"
        raise FaultError(f"{what} are NaN or infinite ({count}).", fix)


def kept_of(output: np.ndarray) -> np.ndarray:
    """Return the outputs at unmasked tokens, or all outputs of a vector layer."""
    return output[KEPT] if output.ndim == 3 else output


def difference_of(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference relative to the largest entry; infinite if undefined."""
    finite = np.isfinite(actual).all() and np.isfinite(expected).all()
    if not finite or actual.shape != expected.shape:
        return float("inf")
    scale = np.abs(expected).max(initial=0.0)
    return float(np.abs(actual - expected).max(initial=0.0) / (scale or 1.0))


def apart(share: float) -> str:
    """Describe a difference."""
    finite = np.isfinite(share)
    return f"a difference of {percent(share)}" if finite else "NaN, infinity or another shape"


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{float(f'{100 * share:.2g}'):g} %" if share < 10 else "over 1,000 %"
